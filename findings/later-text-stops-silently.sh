#!/usr/bin/env bash
# @breejs/later 4.2.0 (npm, Node.js 20): a sentence that it can't read to its end is a schedule that is always due.
#
# Expected: parse.text throws, or gives no schedule, when a word isn't known.
# Seen: "at 5 pm" and "every weekday at 9" are due at once, again and again; only a property `error` holds the position where it stopped.
#   "every 90 minutes" runs at minute 0 of each hour.
# What to do: look at `error` (-1 is right) before the schedule is used.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit @breejs/later@4.2.0 >/dev/null
TZ=UTC node --input-type=commonjs - <<'END'
const later = require("@breejs/later");
later.date.UTC();
const since = new Date("2026-01-01T10:00:00Z");
const read = (text) => {
  const schedule = later.parse.text(text);
  return [schedule.error, ...later.schedule(schedule).next(3, since).map((at) => at.toISOString().slice(11, 19))];
};
let right = true;
for (const [label, look, expected] of [
  ["at 5:00 pm", () => read("at 5:00 pm"), [-1, "17:00:00", "17:00:00", "17:00:00"]],
  ["at 5 pm", () => read("at 5 pm"), [3, "10:00:00", "10:00:00", "10:00:00"]],
  ["every 90 minutes", () => read("every 90 minutes"), [-1, "10:00:00", "11:00:00", "12:00:00"]],
]) {
  const found = JSON.stringify(look()) ?? "undefined";
  console.log(label.padEnd(18), found);
  right = right && found === JSON.stringify(expected);
}
if (!right) {
  console.error("The behaviour has changed.");
  process.exit(1);
}
END
