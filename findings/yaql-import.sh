#!/usr/bin/env bash
# yaql 3.2.0 (Python 3.11): whether it can be imported depends on what was imported before.
#
# Expected: `import yaql` works by itself.
# Seen: in a fresh interpreter it raises AttributeError (module 'collections' has no attribute 'abc'), after `import typing` it works. So
#   a sorted list of imports, or a plugin that is loaded earlier, decides. Besides, 7/2 is 3, as in Python 2, and -7/2 is -4.
# What to do: import collections.abc first; write 7.0/2.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install yaql==3.2.0
run() { "$folder/venv/bin/python" -I -c "$1" 2>&1 | tail -1; }
evaluate='print(*(yaql.factory.YaqlFactory().create()(text).evaluate(data=None) for text in ("7/2", "-7/2", "7.0/2")))'
first=$(run "import yaql; $evaluate") || true
second=$(run "import typing, yaql; $evaluate")
printf '%s\n' "$first" "$second"
[ "$first" = "AttributeError: module 'collections' has no attribute 'abc'" ]
[ "$second" = '3 -4 3.5' ]
