#!/usr/bin/env bash
# properties-reader 3.0.1 (npm, Node.js 20), javaproperties 0.8.2 (PyPI, Python 3.11): a file of Java properties has other keys in Node.js.
#
# Expected: the documentation of java.util.Properties.load: a colon or a space ends a key as "=" does, "!" begins a comment, a backslash at
#   the end joins two lines, `\u00e9` and `\t` are signs, and the space after a value belongs to it.
# Seen: properties-reader knows "=" alone: `b : 2` is the key "b : 2", a comment is a key, the second line of a value is one too, and
#   escapes stay. `get` makes the number 7 of "007". javaproperties is right in all.
# What to do: write `key=value` lines without escapes, or use dot-properties in Node.js.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install javaproperties==0.8.2
npm install --silent --no-fund --no-audit properties-reader@3.0.1 >/dev/null
printf '%s\n' 'b : 2' 'c 3' '! note' 'd=x\' '    y' 'e=\u00e9' 'n=007' 'k=end ' >file.properties
cat >look.cjs <<'END'
const { propertiesReader } = require("properties-reader");
const found = propertiesReader({ sourceFile: "file.properties" });
console.log(JSON.stringify(found.getAllProperties()), found.get("n"));
END
{
    venv/bin/python -c 'import javaproperties, json; print(json.dumps(javaproperties.load(open("file.properties"))))'
    node look.cjs
} | tee seen
diff seen - <<'SEEN'
{"b": "2", "c": "3", "d": "xy", "e": "\u00e9", "n": "007", "k": "end "}
{"b : 2":"","c 3":"","! note":"","d":"x\\","y":"","e":"\\u00e9","n":"007","k":"end"} 7
SEEN
