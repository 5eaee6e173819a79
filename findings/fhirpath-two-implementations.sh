#!/usr/bin/env bash
# FHIRPath: fhirpath 5.2.2 (npm, Node.js 20) and fhirpathpy 2.2.4 (PyPI, Python 3.11) evaluate one expression to two values.
#
# Expected: fhirpathpy is a port of the other, with its tests. The specification: numbers with a dot are decimals, so that 0.1 + 0.2 is 0.3;
#   a kilogram equals a thousand grams; `toString` of 1.0 keeps its digit.
# Seen: 0.1 + 0.2 is 0.30000000000000004 in JavaScript. -5 mod 3 is 1 in Python, -2 in JavaScript. A kilogram isn't a thousand grams in
#   Python, "1.0" is "1" there, and `round()` without digits is an error.
# What to do: round with digits, and bring quantities to one unit before comparing.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install fhirpathpy==2.2.4
npm install --silent --no-fund --no-audit fhirpath@5.2.2 >/dev/null
cat >expressions <<'END'
0.1 + 0.2
-5 mod 3
1 'kg' = 1000 'g'
1.0.toString()
2.5.round()
5 div 2
END
cat >look.py <<'END'
from fhirpathpy import evaluate

for line in open("expressions"):
    try:
        print("python", line.strip(), *evaluate({}, line.strip()))
    except Exception as problem:
        print("python", line.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const { evaluate } = require("fhirpath");
for (const line of require("fs").readFileSync("expressions", "utf8").trim().split("\n")) console.log("node", line, ...evaluate({}, line));
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
python 0.1 + 0.2 0.3
python -5 mod 3 1
python 1 'kg' = 1000 'g' False
python 1.0.toString() 1
python 2.5.round() Exception
python 5 div 2 2
node 0.1 + 0.2 0.30000000000000004
node -5 mod 3 -2
node 1 'kg' = 1000 'g' true
node 1.0.toString() 1.0
node 2.5.round() 3
node 5 div 2 2
SEEN
