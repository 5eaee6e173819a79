#!/usr/bin/env bash
# cfn-flip 1.3.0 (PyPI, Python 3.11) and js-yaml 5.5.0 (npm, Node.js 20): texts of a template become numbers on the way.
#
# Expected: a template that goes from JSON to YAML has the same values for any reader of YAML, and numbers of YAML that look like times
#   stay texts.
# Seen: the text "1e3" is written without quotes, unlike others, and js-yaml reads 1000. In the other direction 22:30 is 1350, 0123 is 83
#   and 1_000 is 1000, but the account 012345678901 stays a text, because it has an eight.
# What to do: quote all scalars in templates, and compare the JSON of both ends.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit js-yaml@5.5.0 >/dev/null
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install cfn-flip==1.3.0
cat >look.py <<'END'
from cfn_flip import to_json, to_yaml

print(to_yaml('{"A": "1e3", "B": "0123", "C": "on"}'), file=open("template.yaml", "w"))
print(to_json("A: 22:30\nB: 0123\nC: 1_000\nD: 012345678901\nE: on\n"))
END
cat >look.mjs <<'END'
import { readFileSync } from "node:fs";
import { load } from "js-yaml";
console.log(JSON.stringify(load(readFileSync("template.yaml", "utf8"))));
END
{ venv/bin/python look.py; cat template.yaml; node look.mjs; } | grep . | tee seen
diff seen - <<'SEEN'
{
    "A": 1350,
    "B": 83,
    "C": 1000,
    "D": "012345678901",
    "E": true
}
A: 1e3
B: '0123'
C: 'on'
{"A":1000,"B":"0123","C":"on"}
SEEN
