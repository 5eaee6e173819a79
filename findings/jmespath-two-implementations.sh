#!/usr/bin/env bash
# JMESPath: jmespath 1.1.0 (PyPI, Python 3.11) and jmespath 0.16.0 (npm, Node.js 20) answer the same expression differently.
#
# Expected: both pass the suite of the specification, so a filter over mixed types and the conversions of numbers agree.
# Seen: the comparison of a number with a text raises TypeError in Python, which no handler of JMESPathError catches, and is null in
#   JavaScript. In Python 1 is contained in a list with true. to_number reads "1_0" in Python only, "0x1" and "" in JavaScript only.
# What to do: convert with to_number on both sides of a comparison, and give it plain digits.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install jmespath==1.1.0
npm install --silent --no-fund --no-audit jmespath@0.16.0 >/dev/null
cat >look.py <<'END'
from json import dumps

import jmespath

for text in open("expressions"):
    try:
        print("python", text.strip(), dumps(jmespath.search(text.strip(), {"a": [{"v": 1}, {"v": "2"}]})))
    except Exception as problem:
        print("python", text.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const jmespath = require("jmespath");
for (const text of require("fs").readFileSync("expressions", "utf8").trim().split("\n"))
  console.log("node", text, JSON.stringify(jmespath.search({ a: [{ v: 1 }, { v: "2" }] }, text)));
END
cat >expressions <<'END'
a[?v>'1'].v
contains([`1`], `true`)
to_number('1_0')
to_number('0x1')
to_number('')
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
python a[?v>'1'].v TypeError
python contains([`1`], `true`) true
python to_number('1_0') 10
python to_number('0x1') null
python to_number('') null
node a[?v>'1'].v ["2"]
node contains([`1`], `true`) false
node to_number('1_0') null
node to_number('0x1') 1
node to_number('') 0
SEEN
