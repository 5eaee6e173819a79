#!/usr/bin/env bash
# JEXL: jexl 2.3.0 (npm, Node.js 20) and pyjexl 0.3.0 (PyPI, Python 3.11) answer the same expression differently.
#
# Expected: pyjexl implements the language of jexl for targeting rules that a server and a client share, so that both answer alike.
# Seen: a remainder has the sign of the first number in one, of the second in the other. An empty list is true in one. Equal objects are
#   equal in one. A number equals its text in one. `list[-1]` is nothing in one, the last item in the other. A path through something that
#   isn't there is undefined in one and raises AttributeError, no error of the package, in the other.
# What to do: compare texts with texts, ask for `.length > 0`, and run the rules' tests in both.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit jexl@2.3.0 >/dev/null
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pyjexl==0.3.0
cat >expressions <<'END'
7 % -3
list[-1]
[] ? 'yes' : 'no'
{a: 1} == {a: 1}
1 == '1'
'5' + 3
object.b.c
END
cat >look.py <<'END'
from json import dumps

from pyjexl import JEXL

for line in open("expressions"):
    try:
        print("pyjexl", line.strip(), dumps(JEXL().evaluate(line.strip(), {"list": [1, 2], "object": {}})))
    except Exception as problem:
        print("pyjexl", line.strip(), type(problem).__name__)
END
cat >look.cjs <<'END'
const jexl = require("jexl");
for (const line of require("fs").readFileSync("expressions", "utf8").trim().split("\n"))
  console.log("jexl", line, JSON.stringify(jexl.evalSync(line, { list: [1, 2], object: {} })));
END
{ node look.cjs; venv/bin/python look.py; } >seen
cat seen
diff seen - <<'SEEN'
jexl 7 % -3 1
jexl list[-1] undefined
jexl [] ? 'yes' : 'no' "yes"
jexl {a: 1} == {a: 1} false
jexl 1 == '1' true
jexl '5' + 3 "53"
jexl object.b.c undefined
pyjexl 7 % -3 -2
pyjexl list[-1] 2
pyjexl [] ? 'yes' : 'no' "no"
pyjexl {a: 1} == {a: 1} true
pyjexl 1 == '1' false
pyjexl '5' + 3 TypeError
pyjexl object.b.c AttributeError
SEEN
