#!/usr/bin/env bash
# timestring 7.0.0, human-interval 2.0.1 (npm, Node.js 20): signs and remainders of a duration are dropped, and "a day" is 0.
#
# Expected: what isn't understood is refused.
# Seen: timestring reads "-1h" as one hour, and "5 minutes 3" as five minutes. human-interval reads "a day" as 0 and "1d 2h" as NaN,
#   though "two hours" is right.
# What to do: write the duration back as text, and compare it with what was given.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit timestring@7.0.0 human-interval@2.0.1 >/dev/null
TZ=UTC node --input-type=commonjs - <<'END'
const timestring = require("timestring");
const interval = require("human-interval");
let right = true;
for (const [label, look, expected] of [
  ["timestring -1h", () => timestring("-1h"), 3600],
  ["timestring 5 minutes 3", () => timestring("5 minutes 3"), 300],
  ["human-interval two hours", () => interval("two hours"), 7200000],
  ["human-interval a day", () => interval("a day"), 0],
  ["human-interval 1d 2h", () => String(interval("1d 2h")), "NaN"],
]) {
  const found = JSON.stringify(look()) ?? "undefined";
  console.log(label.padEnd(26), found);
  right = right && found === JSON.stringify(expected);
}
if (!right) {
  console.error("The behaviour has changed.");
  process.exit(1);
}
END
