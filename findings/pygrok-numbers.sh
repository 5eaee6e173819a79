#!/usr/bin/env bash
# pygrok 1.0.0 (PyPI, Python 3.11): a number that its own pattern matches is cut off, or ends the program.
#
# Expected: `%{NUMBER:size:int}` gives a whole number or no match. Of two parts with the same name, both are there or an error says so.
# Seen: "42.5" raises ValueError from `match`. "1e3" as a float is 1.0 and "1,000" is 1, because a pattern may match a part of the line:
#   with `$` alone, "1,000" is 0. The second of two parts with one name replaces the first.
# What to do: put `^` and `$` around each pattern, use `float` for all numbers, and give each part a name of its own.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install pygrok==1.0.0 setuptools==80.9.0
cat >look.py <<'END'
import warnings

warnings.simplefilter("ignore")
from pygrok import Grok

for pattern, line in [
    ("%{NUMBER:size:int}", "42"),
    ("%{NUMBER:size:int}", "42.5"),
    ("%{NUMBER:size:float}", "1e3"),
    ("%{NUMBER:size:int}", "1,000"),
    ("%{NUMBER:size:int}$", "1,000"),
    ("^%{NUMBER:size:int}$", "1,000"),
    ("%{IP:host} %{IP:host}", "10.0.0.1 10.0.0.2"),
]:
    try:
        print(pattern, line, Grok(pattern).match(line))
    except ValueError as problem:
        print(pattern, line, type(problem).__name__)
END
venv/bin/python look.py | tee seen
diff seen - <<'SEEN'
%{NUMBER:size:int} 42 {'size': 42}
%{NUMBER:size:int} 42.5 ValueError
%{NUMBER:size:float} 1e3 {'size': 1.0}
%{NUMBER:size:int} 1,000 {'size': 1}
%{NUMBER:size:int}$ 1,000 {'size': 0}
^%{NUMBER:size:int}$ 1,000 None
%{IP:host} %{IP:host} 10.0.0.1 10.0.0.2 {'host': '10.0.0.2'}
SEEN
