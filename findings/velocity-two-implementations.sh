#!/usr/bin/env bash
# Velocity: velocityjs 2.1.7 (npm, Node.js 20) and airspeed 0.7.1 (PyPI, Python 3.11) render one template differently.
#
# Expected: both answer as the guide of Velocity 2 says: an empty collection and an empty text are false, two integers are divided to an
#   integer, a remainder has the sign of the first number, and texts have the methods of Java.
# Seen: an empty list is true in velocityjs, and 7 / 2 is 3.5. -7 % 3 is 2 in airspeed, `toUpperCase()` isn't known there and stays in the
#   text without an error. `$text.equals(…)` is false in both for equal texts, and 0 equals "0" in one. A map is written in two ways.
# What to do: ask for `.size() > 0`, compare with `==`, and test templates on the gateway itself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install airspeed==0.7.1
npm install --silent --no-fund --no-audit velocityjs@2.1.7 >/dev/null
cat >templates <<'END'
#if($list)yes#{else}no#end
#set($x = 7 / 2)$x
#set($x = -7 % 3)$x
#if($zero == '0')yes#{else}no#end
#if($text.equals("ab"))yes#{else}no#end
$text.toUpperCase()
$map
END
cat >look.py <<'END'
from airspeed import Template

for line in open("templates"):
    values = {"list": [], "zero": 0, "text": "ab", "map": {"a": 1}}
    print("airspeed", line.strip(), "|", Template(line.strip()).merge(values))
END
cat >look.cjs <<'END'
const { render } = require("velocityjs");
for (const line of require("fs").readFileSync("templates", "utf8").trim().split("\n"))
  console.log("velocityjs", line, "|", render(line, { list: [], zero: 0, text: "ab", map: { a: 1 } }));
END
{ venv/bin/python look.py; node look.cjs; } >seen
cat seen
diff seen - <<'SEEN'
airspeed #if($list)yes#{else}no#end | no
airspeed #set($x = 7 / 2)$x | 3
airspeed #set($x = -7 % 3)$x | 2
airspeed #if($zero == '0')yes#{else}no#end | no
airspeed #if($text.equals("ab"))yes#{else}no#end | no
airspeed $text.toUpperCase() | $text.toUpperCase()
airspeed $map | {'a': 1}
velocityjs #if($list)yes#{else}no#end | yes
velocityjs #set($x = 7 / 2)$x | 3.5
velocityjs #set($x = -7 % 3)$x | -1
velocityjs #if($zero == '0')yes#{else}no#end | yes
velocityjs #if($text.equals("ab"))yes#{else}no#end | no
velocityjs $text.toUpperCase() | AB
velocityjs $map | {a=1}
SEEN
