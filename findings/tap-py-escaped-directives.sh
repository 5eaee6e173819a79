#!/usr/bin/env bash
# tap.py 3.2.1 (Python 3.11): a name with an escaped number sign is a skipped test.
#
# Expected: `ok 1 a \\# skip` is a test named "a # skip", as TAP 14 says, and a name may hold "#12" after a space and backslash.
# Seen: the backslash ends the name, and the rest is a directive: this test counts as skipped. `issue \\#12` loses its number. `a#skip`,
#   without a space, is skipped too.
# What to do: keep number signs out of names before they are written as TAP.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install tap.py==3.2.1
"$folder/venv/bin/python" - <<'END'
from tap.parser import Parser


def read(line):
    [result] = Parser().parse_text(line)
    return result.description, result.skip

right = True
for label, found, expected in [
    ("escaped", read("ok 1 a \\# skip"), ("a \\", True)),
    ("escaped number", read("ok 1 issue \\#12"), ("issue \\", False)),
    ("without space", read("ok 1 a#skip"), ("a", True)),
    ("plain", read("ok 1 a"), ("a", False)),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
