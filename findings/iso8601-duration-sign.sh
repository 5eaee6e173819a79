#!/usr/bin/env bash
# iso8601-duration 2.1.4 (npm, Node.js 20): the sign of a duration and a fraction of a day get lost.
#
# Expected: "-P1D" is a day back, or refused; P1Y1.5D has a day and a half beside its year.
# Seen: "-P1D" is a day ahead (the pattern isn't anchored). P1Y1.5D is a year of 31,536,000 seconds: the day and a half are gone, while
#   PT1.5H is exact.
# What to do: refuse texts that don't begin with P, and use hours for parts of days.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit iso8601-duration@2.1.4 >/dev/null
TZ=UTC node --input-type=commonjs - <<'END'
const { parse, end, toSeconds } = require("iso8601-duration");
const since = new Date("2026-01-01T00:00:00Z");
let right = true;
for (const [label, look, expected] of [
  ["end of P1D", () => end(parse("P1D"), since).toISOString().slice(0, 16), "2026-01-02T00:00"],
  ["end of -P1D", () => end(parse("-P1D"), since).toISOString().slice(0, 16), "2026-01-02T00:00"],
  ["seconds of P1Y1.5D", () => toSeconds(parse("P1Y1.5D"), since), 31536000],
  ["seconds of PT1.5H", () => toSeconds(parse("PT1.5H"), since), 5400],
]) {
  const found = JSON.stringify(look()) ?? "undefined";
  console.log(label.padEnd(20), found);
  right = right && found === JSON.stringify(expected);
}
if (!right) {
  console.error("The behaviour has changed.");
  process.exit(1);
}
END
