#!/usr/bin/env bash
# JSON-e 4.8.4 of PyPI (Python 3.11) and of npm (Node.js 20): one template renders differently.
#
# Expected: both have one version and one specification, so the same template gives the same document.
# Seen: 1 == true is true in Python alone. number("") is 0 in JavaScript and an error in Python, number("1_0") is 10 in Python and null
#   in JavaScript. str(1.0) and $json write 1.0 in Python and 1 in JavaScript, so that digests of the text differ.
# What to do: render with one of them, compare numbers with numbers, and check digits before number().
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install json-e==4.8.4
npm install --silent --no-fund --no-audit json-e@4.8.4 >/dev/null
cat >templates <<'END'
{"$eval": "1 == true"}
{"$eval": "number('')"}
{"$eval": "number('1_0')"}
{"$eval": "str(1.0)"}
{"$json": 1.0}
END
cat >look.py <<'END'
from json import dumps, loads

from jsone import render

for line in open("templates"):
    try:
        print("python", line.strip(), dumps(render(loads(line), {})))
    except Exception as problem:
        print("python", line.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const render = require("json-e");
for (const line of require("fs").readFileSync("templates", "utf8").trim().split("\n"))
  console.log("node", line, JSON.stringify(render(JSON.parse(line), {})));
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
python {"$eval": "1 == true"} true
python {"$eval": "number('')"} ValueError
python {"$eval": "number('1_0')"} 10.0
python {"$eval": "str(1.0)"} "1.0"
python {"$json": 1.0} "1.0"
node {"$eval": "1 == true"} false
node {"$eval": "number('')"} 0
node {"$eval": "number('1_0')"} null
node {"$eval": "str(1.0)"} "1"
node {"$json": 1.0} "1"
SEEN
