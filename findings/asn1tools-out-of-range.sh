#!/usr/bin/env bash
# asn1tools 0.169.0 (Python 3.11): a number out of range is encoded as another one.
#
# Expected: an INTEGER (0..10) of 20 is refused by encode.
# Seen: PER keeps the lowest bits, and the other side reads 4; DER sends 20. A member that the type doesn't have is left out. Only
#   check_constraints=True looks at the range, and it is off by default.
# What to do: switch check_constraints on for encode and decode.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install asn1tools==0.169.0
"$folder/venv/bin/python" - <<'END'
from asn1tools import compile_string

TEXT = "A DEFINITIONS AUTOMATIC TAGS ::= BEGIN X ::= SEQUENCE { a INTEGER (0..10) } END"
PER, DER = compile_string(TEXT, "uper"), compile_string(TEXT, "der")


def checked(value):
    try:
        return PER.encode("X", value, check_constraints=True)
    except Exception as problem:
        return type(problem).__name__

right = True
for label, found, expected in [
    ("20 in PER", PER.decode("X", PER.encode("X", {"a": 20})), {"a": 4}),
    ("20 in DER", DER.decode("X", DER.encode("X", {"a": 20})), {"a": 20}),
    ("unknown member", DER.decode("X", DER.encode("X", {"a": 1, "b": 2})), {"a": 1}),
    ("20, checked", checked({"a": 20}), "ConstraintsError"),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
