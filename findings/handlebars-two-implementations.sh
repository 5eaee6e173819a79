#!/usr/bin/env bash
# Handlebars: handlebars 4.7.10 (npm, Node.js 20) and pybars3 0.9.7 (PyPI, Python 3.11) render the same template differently.
#
# Expected: pybars3 ports Handlebars with its tests, so that both decide a condition alike. The guide says that `#if` treats false,
#   undefined, null, "", 0 and an empty list as false.
# Seen: an empty object is true in one and false in the other. A section of 0 is rendered by one; `#with` of an empty list by the other.
#   `includeZero` of `#if` raises TypeError. A list is written "1,2" in one, "[1, 2]" in the other, and 1.0 as "1" and "1.0".
# What to do: give conditions as booleans, and lists through `#each`.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit handlebars@4.7.10 >/dev/null
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pybars3==0.9.7
echo '{"zero": 0, "none": [], "empty": {}, "list": [1, 2], "one": 1.0}' >values.json
cat >templates <<'END'
{{#if none}}yes{{else}}no{{/if}}
{{#if empty}}yes{{else}}no{{/if}}
{{#zero}}yes{{/zero}}{{^zero}}no{{/zero}}
{{#with none}}yes{{else}}no{{/with}}
{{#if zero includeZero=true}}yes{{else}}no{{/if}}
{{list}}
{{one}}
END
cat >look.py <<'END'
from json import load

from pybars import Compiler

for line in open("templates"):
    try:
        print("pybars3", line.strip(), Compiler().compile(line.strip())(load(open("values.json"))))
    except TypeError as problem:
        print("pybars3", line.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const handlebars = require("handlebars");
const read = (name) => require("fs").readFileSync(name, "utf8").trim();
for (const line of read("templates").split("\n"))
  console.log("handlebars", line, handlebars.compile(line)(JSON.parse(read("values.json"))));
END
{ node look.cjs; venv/bin/python look.py; } >seen
cat seen
diff seen - <<'SEEN'
handlebars {{#if none}}yes{{else}}no{{/if}} no
handlebars {{#if empty}}yes{{else}}no{{/if}} yes
handlebars {{#zero}}yes{{/zero}}{{^zero}}no{{/zero}} yes
handlebars {{#with none}}yes{{else}}no{{/with}} no
handlebars {{#if zero includeZero=true}}yes{{else}}no{{/if}} yes
handlebars {{list}} 1,2
handlebars {{one}} 1
pybars3 {{#if none}}yes{{else}}no{{/if}} no
pybars3 {{#if empty}}yes{{else}}no{{/if}} no
pybars3 {{#zero}}yes{{/zero}}{{^zero}}no{{/zero}} no
pybars3 {{#with none}}yes{{else}}no{{/with}} yes
pybars3 {{#if zero includeZero=true}}yes{{else}}no{{/if}} TypeError
pybars3 {{list}} [1, 2]
pybars3 {{one}} 1.0
SEEN
