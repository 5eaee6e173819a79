#!/usr/bin/env bash
# Liquid: python-liquid 2.3.6 (PyPI, Python 3.11) and liquidjs 10.30.1 (npm, Node.js 20) calculate and cut differently.
#
# Expected: divided_by with a whole number is whole, as Liquid's documentation says; sums of decimals are decimals.
# Seen: 7 divided by 2 is 3 in Python and 3.5 in JavaScript; 2.5 is rounded to 2 and to 3; 0.1 plus 0.2 is 0.3 in Python alone;
#   truncate of one character to one is "..." in Python.
# What to do: calculate before rendering.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install python-liquid==2.3.6
npm install --silent --no-fund --no-audit liquidjs@10.30.1 >/dev/null
cat >templates <<'END'
{{ 7 | divided_by: 2 }}
{{ 2.5 | round }}
{{ 0.1 | plus: 0.2 }}
{{ 'x' | truncate: 1 }}
END
cat >look.py <<'END'
from liquid import render

for line in open("templates"):
    print("python", line.strip(), render(line.strip()))
END
cat >look.cjs <<'END'
const { Liquid } = require("liquidjs");
for (const line of require("fs").readFileSync("templates", "utf8").trim().split("\n"))
  console.log("node", line, new Liquid().parseAndRenderSync(line));
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
python {{ 7 | divided_by: 2 }} 3
python {{ 2.5 | round }} 2
python {{ 0.1 | plus: 0.2 }} 0.3
python {{ 'x' | truncate: 1 }} ...
node {{ 7 | divided_by: 2 }} 3.5
node {{ 2.5 | round }} 3
node {{ 0.1 | plus: 0.2 }} 0.30000000000000004
node {{ 'x' | truncate: 1 }} x
SEEN
