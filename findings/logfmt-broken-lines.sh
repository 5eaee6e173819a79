#!/usr/bin/env bash
# logfmt 1.4.0 (npm, Node.js 20): a value with a line break is written over two lines, and "x=y" is read as "xy".
#
# Expected: what stringify writes, parse reads, one record a line.
# Seen: the line break is written as it is, without quotes, so that one record becomes two. `\\n` in quotes is read as the letter n. A
#   second equals sign in a value without quotes is dropped: a query "q=a" loses it.
# What to do: replace line breaks before, and quote each value.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit logfmt@1.4.0 >/dev/null
TZ=UTC node --input-type=commonjs - <<'END'
const logfmt = require("logfmt");
let right = true;
for (const [label, look, expected] of [
  ["written", () => logfmt.stringify({ text: "a\nb" }), "text=a\nb"],
  ["escape read", () => logfmt.parse('text="a\\nb"'), { text: "anb" }],
  ["x=y read", () => logfmt.parse("query=q=a"), { query: "qa" }],
  ["x=y written", () => logfmt.stringify({ query: "q=a" }), 'query="q=a"'],
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
