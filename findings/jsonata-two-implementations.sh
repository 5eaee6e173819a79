#!/usr/bin/env bash
# jsonata 2.2.2 (npm, Node.js 20) and jsonata-python 0.7.1 (Python 3.11): the same expression gives other values.
#
# Expected: the Python version calculates and writes numbers as the reference does; what is a number for one is one for the other.
# Seen: 1.5 % 1 is 0 in Python (0.5 in the reference). A whole number of 18 digits is written with an exponent, and so loses digits.
#   $formatNumber rounds 2.5 to 3 (to 2, the even one), and -1.5 to -1 (to -2). $number takes "1_000" and " 1", which the reference refuses.
# What to do: evaluate expressions with one of the two everywhere, and keep long numbers as text.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install jsonata-python==0.7.1
npm install --silent --no-fund --no-audit jsonata@2.2.2 >/dev/null
cat >expressions.json <<'END'
["1.5 % 1", "5.5 % 2", "123456789012345678 & ''", "$formatNumber(2.5, '0')", "$formatNumber(-1.5, '0')", "$round(2.5)",
 "$number('1_000')", "$number(' 1')", "$number('1e3')"]
END
cat >evaluate.js <<'END'
const jsonata = require("jsonata");
(async () => {
  for (const text of require("./expressions.json")) {
    let found;
    try { found = JSON.stringify(await jsonata(text).evaluate({})); } catch (error) { found = "refused"; }
    console.log(`${text} = ${found}`);
  }
})();
END
cat >evaluate.py <<'END'
import json

from jsonata import Jsonata

for text in json.load(open("expressions.json")):
    try:
        found = json.dumps(Jsonata(text).evaluate({}))
    except Exception:
        found = "refused"
    print(f"{text} = {found}")
END
node evaluate.js >js.txt
venv/bin/python evaluate.py >python.txt
cat js.txt
diff js.txt python.txt >difference.txt || true
sed -n 's/^>/Python:/p' difference.txt
diff python.txt - <<'SEEN'
1.5 % 1 = 0
5.5 % 2 = 1
123456789012345678 & '' = "1.23456789012346e+17"
$formatNumber(2.5, '0') = "3"
$formatNumber(-1.5, '0') = "-1"
$round(2.5) = 2
$number('1_000') = 1000
$number(' 1') = 1
$number('1e3') = 1000
SEEN
diff js.txt - <<'SEEN'
1.5 % 1 = 0.5
5.5 % 2 = 1.5
123456789012345678 & '' = "123456789012345680"
$formatNumber(2.5, '0') = "2"
$formatNumber(-1.5, '0') = "-2"
$round(2.5) = 2
$number('1_000') = refused
$number(' 1') = refused
$number('1e3') = 1000
SEEN
