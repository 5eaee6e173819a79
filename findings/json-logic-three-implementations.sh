#!/usr/bin/env bash
# JsonLogic: json-logic-js 2.0.5 (npm, Node.js 20), json-logic-qubit 0.9.1 and panzi-json-logic 1.0.1 (PyPI, Python 3.11) decide the
#   same rule differently.
#
# Expected: rules are data that a browser and a server share, so the three agree.
# Seen: a missing value is less than 1 in two of them and not in the third. -7 % 3 is -1 in JavaScript and 2 in Python. An empty text
#   equals 0 in JavaScript alone; {"+": [null, 1]} is NaN, an error and 1. The default of a variable that is null is used by one.
# What to do: compare with {"missing": …} first, and keep tests that run in each.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit json-logic-js@2.0.5 >/dev/null
python3 -m venv qubit
qubit/bin/pip -q --disable-pip-version-check install json-logic-qubit==0.9.1 six==1.17.0
python3 -m venv panzi
panzi/bin/pip -q --disable-pip-version-check install panzi-json-logic==1.0.1
cat >rules <<'END'
{"<": [{"var": "gone"}, 1]}
{"%": [-7, 3]}
{"==": ["", 0]}
{"+": [null, 1]}
{"var": ["none", "default"]}
END
cat >look.py <<'END'
from json import dumps, loads

from json_logic import jsonLogic

for line in open("rules"):
    try:
        print(line.strip(), dumps(jsonLogic(loads(line), {"none": None})))
    except Exception as problem:
        print(line.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const logic = require("json-logic-js");
for (const line of require("fs").readFileSync("rules", "utf8").trim().split("\n"))
  console.log(line, String(logic.apply(JSON.parse(line), { none: null })));
END
{ echo json-logic-js; node look.cjs; echo qubit; qubit/bin/python look.py; echo panzi; panzi/bin/python look.py; } >seen
cat seen
diff seen - <<'SEEN'
json-logic-js
{"<": [{"var": "gone"}, 1]} true
{"%": [-7, 3]} -1
{"==": ["", 0]} true
{"+": [null, 1]} NaN
{"var": ["none", "default"]} null
qubit
{"<": [{"var": "gone"}, 1]} false
{"%": [-7, 3]} 2
{"==": ["", 0]} false
{"+": [null, 1]} TypeError
{"var": ["none", "default"]} null
panzi
{"<": [{"var": "gone"}, 1]} true
{"%": [-7, 3]} 2
{"==": ["", 0]} false
{"+": [null, 1]} 1
{"var": ["none", "default"]} "default"
SEEN
