#!/usr/bin/env bash
# cel-js 0.8.2 (npm, Node.js 20): divisions have fractions, and escapes stay.
#
# Expected: as in the specification of CEL: 7/2 is 3, as both are whole numbers, a whole number that is too large is an error, and
#   '\\u00e9' is one letter.
# Seen: 7/2 is 3.5. 9223372036854775807+1 is a number that JavaScript rounds. Escapes in a text stay as they were written. `true || 1/0 >
#   0` is an error, where the specification has true.
# What to do: keep rules for it free of divisions and escapes, and run their tests in the other implementation too.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit cel-js@0.8.2 >/dev/null
cat >look.mjs <<'END'
import { evaluate } from "cel-js";
for (const expression of ["7/2", "10/4*2", "9223372036854775807+1", "size('\\u00e9')", "'a\\nb'", "true || 1/0 > 0"])
  try {
    console.log(expression, JSON.stringify(evaluate(expression)));
  } catch (problem) {
    console.log(expression, problem.message);
  }
END
node look.mjs | tee seen
diff seen - <<'SEEN'
7/2 3.5
10/4*2 5
9223372036854775807+1 9223372036854776000
size('\u00e9') 6
'a\nb' "a\\nb"
true || 1/0 > 0 Division by zero
SEEN
