#!/usr/bin/env bash
# @breejs/later 4.2.0 (npm, Node.js 20): values of a crontab that are out of range become others.
#
# Expected: weekday 7 is Sunday; hour 24 and the range 22-2 are refused, or cross midnight; the 31st of February never comes.
# Seen: weekday 7 is Saturday, so `5-7` is Friday and Saturday. Hour 24 is 23. The 31st of February comes at midnight on the first of
#   March 2525. A day of the month beside a weekday means both, not either.
# What to do: refuse what cron-validator refuses first, and write SUN.
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
const next = (text, count) => later.schedule(later.parse.cron(text)).next(count, since);
const days = (text) => next(text, 3).map((at) => at.toUTCString().slice(0, 11));
let right = true;
for (const [label, look, expected] of [
  ["0 9 * * 0", () => days("0 9 * * 0"), ["Sun, 04 Jan", "Sun, 11 Jan", "Sun, 18 Jan"]],
  ["0 9 * * 7", () => days("0 9 * * 7"), ["Sat, 03 Jan", "Sat, 10 Jan", "Sat, 17 Jan"]],
  ["0 24 * * *", () => next("0 24 * * *", 1).toISOString(), "2026-01-01T23:00:00.000Z"],
  ["0 9 31 2 *", () => next("0 9 31 2 *", 1).toISOString(), "2525-03-01T00:00:00.000Z"],
  ["0 9 1 * MON", () => days("0 9 1 * MON"), ["Mon, 01 Jun", "Mon, 01 Feb", "Mon, 01 Mar"]],
]) {
  const found = JSON.stringify(look()) ?? "undefined";
  console.log(label.padEnd(14), found);
  right = right && found === JSON.stringify(expected);
}
if (!right) {
  console.error("The behaviour has changed.");
  process.exit(1);
}
END
