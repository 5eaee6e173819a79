// Reads lines {"text", "zone", "since", "until"} and writes for each what croner and cron-parser answer: seconds since
// the epoch, or null where the library refuses the expression.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";

const frontend = createRequire(new URL("../../frontend/package.json", import.meta.url));
const { Cron } = frontend("croner");
const { CronExpressionParser } = frontend("cron-parser");

function croner({ text, zone, since, until }) {
  const job = new Cron(text, { timezone: zone });
  const found = [];
  for (let at = job.nextRun(new Date(since * 1000)); at && at / 1000 <= until; at = job.nextRun(at)) {
    found.push(at / 1000);
  }
  return found;
}

function cronParser({ text, zone, since, until }) {
  const times = CronExpressionParser.parse(text, { currentDate: new Date(since * 1000), tz: zone });
  const found = [];
  for (let at = times.next().getTime() / 1000; at <= until; at = times.next().getTime() / 1000) {
    found.push(at);
  }
  return found;
}

function asked(library, question) {
  try {
    return library(question);
  } catch {
    return null;
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  console.log(JSON.stringify({ croner: asked(croner, question), "cron-parser": asked(cronParser, question) }));
}
