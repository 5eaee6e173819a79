#!/usr/bin/env bash
# kdl-py 1.2.0 (Python 3.11): whole numbers become floats, and hexadecimal ones don't.
#
# Expected: `port 8080` is the whole number 8080 and is written back as it was read.
# Seen: it is 8080.0 and written so; 9007199254740993 becomes 9007199254740992.0, and even with the type (i64) it is one too small. The
#   same number in hexadecimal is exact.
# What to do: pass IDs and large numbers as text.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install kdl-py==1.2.0
"$folder/venv/bin/python" - <<'END'
import kdl


def first(text):
    return kdl.parse(text).nodes[0].args[0]

right = True
for label, found, expected in [
    ("port 8080", str(kdl.parse("port 8080")).strip(), "port 8080.0"),
    ("type of 8080", type(first("port 8080")).__name__, "float"),
    ("9007199254740993", first("id 9007199254740993"), 9007199254740992.0),
    ("(i64)9007199254740993", first("id (i64)9007199254740993"), 9007199254740992),
    ("0x20000000000001", first("id 0x20000000000001"), 9007199254740993),
]:
    print(f"{label:24} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
