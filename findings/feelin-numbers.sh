#!/usr/bin/env bash
# feelin 8.2.0 (npm, Node.js 20): FEEL with floats, and remove() at 0 makes the list longer.
#
# Expected: numbers of FEEL are decimals of 34 digits, and decimal() rounds halves to even, as DMN says; remove() at a position that isn't
#   there is null, or the same list.
# Seen: 0.1 + 0.2 = 0.3 is false, and 9007199254740993 loses one. decimal(2.345, 2) is 2.35. string(1e21) is "1". remove([1, 2], 0) is
#   [1, 1, 2].
# What to do: run the tests of a decision table with the engine that decides in production.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit feelin@8.2.0 >/dev/null
cat >look.mjs <<'END'
import { evaluate } from "feelin";
for (const text of ["0.1 + 0.2 = 0.3", "9007199254740993", "decimal(2.345, 2)", "string(1e21)", "remove([1, 2], 0)"])
  console.log(text, "|", JSON.stringify(evaluate(text, {}).value));
END
node look.mjs >seen
cat seen
diff seen - <<'SEEN'
0.1 + 0.2 = 0.3 | false
9007199254740993 | 9007199254740992
decimal(2.345, 2) | 2.35
string(1e21) | "1"
remove([1, 2], 0) | [1,1,2]
SEEN
