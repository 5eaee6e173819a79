#!/usr/bin/env bash
# structured-headers 2.1.0, structured-field-values 2.0.4 (npm, Node.js 20): a decimal is written as "1.", which no parser reads.
#
# Expected: RFC 9651, section 4.1.5: a decimal is rounded to three digits after the dot, to the even one of two that are equally near, and
#   one that is whole then is written with ".0".
# Seen: structured-headers writes 1.0004 as "1." and refuses to read that. It rounds 0.0005 up, where the other rounds to the even 0.0.
#   Both read the decimal 1.0 as a number of JavaScript, and write it as the integer 1, which is another type.
# What to do: round to three digits before, and write whole decimals as text.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit structured-headers@2.1.0 structured-field-values@2.0.4 >/dev/null
cat >look.cjs <<'END'
const one = require("structured-headers");
const other = require("structured-field-values");
const read = (text) => {
  try {
    return one.parseItem(text)[0];
  } catch (problem) {
    return problem.constructor.name;
  }
};
for (const value of [1.25, 1.0004, 0.0002, 0.0005]) {
  const text = one.serializeItem([value, new Map()]);
  console.log(value, text, "read back:", read(text), "other:", other.encodeItem(value));
}
console.log("1.0", one.serializeItem(one.parseItem("1.0")), other.encodeItem(other.decodeItem("1.0")));
END
node look.cjs | tee seen
diff seen - <<'SEEN'
1.25 1.25 read back: 1.25 other: 1.25
1.0004 1. read back: ParseError other: 1.0
0.0002 0. read back: ParseError other: 0.0
0.0005 0.001 read back: 0.001 other: 0.0
1.0 1 1
SEEN
