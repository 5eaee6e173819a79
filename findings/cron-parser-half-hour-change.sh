#!/usr/bin/env bash
# cron-parser 5.10.6 (npm, Node.js 20 or newer)
# Expected: an hourly expression in Australia/Lord_Howe goes on through the night in April on which the clock is set back by half an hour.
# Seen: on that night it throws, though the expression has a time in each hour. croner 11.0.1 goes on. The full hour 02:00, which comes
# half an hour later than an hour after 01:00, is where it stops.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit cron-parser@5.10.6 croner@11.0.1 >/dev/null
seen=$(node --input-type=module - <<'NODE'
import { createRequire } from "node:module";
const take = createRequire(process.cwd() + "/");
const { CronExpressionParser } = take("cron-parser");
const { Cron } = take("croner");
const since = new Date("2026-04-04T13:30:00Z"); // 00:30 on Sunday
const zone = "Australia/Lord_Howe";
console.log("croner", new Cron("0 * * * *", { timezone: zone }).nextRuns(4, since).map((at) => at.toISOString().slice(11, 16)).join(" "));
const times = CronExpressionParser.parse("0 * * * *", { currentDate: since, tz: zone });
const found = [];
try {
  for (let number = 0; number < 4; number++) found.push(times.next().toDate().toISOString().slice(11, 16));
} catch (error) {
  found.push(error.constructor.name);
}
console.log("cron-parser", found.join(" "));
NODE
)
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
croner 14:00 15:30 16:30 17:30
cron-parser 14:00 Error
SEEN
