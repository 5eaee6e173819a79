#!/usr/bin/env bash
# asyncua 2.1.0 (Python 3.11): the first value of a list decides the type of all.
#
# Expected: [1, 2.5] is a list of doubles, and [True, 2] is refused.
# Seen: [True, 2] is sent as two truths, so that the 2 is lost. [1, 2.5] is an Int64 that fails when it is packed, [1.5, 2] works. Node
#   IDs out of range (i=-1, ns=70000) are read from text, and fail only when they are sent.
# What to do: name the VariantType of each write.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install asyncua==2.1.0
"$folder/venv/bin/python" - <<'END'
from asyncua import ua
from asyncua.common.utils import Buffer
from asyncua.ua.ua_binary import nodeid_to_binary, variant_from_binary, variant_to_binary


def sent(value):
    try:
        return variant_from_binary(Buffer(variant_to_binary(ua.Variant(value)))).Value
    except ua.UaError:
        return "UaError"


def node(text):
    read = ua.NodeId.from_string(text)
    try:
        return nodeid_to_binary(read).hex()
    except Exception as problem:
        return type(problem).__name__

right = True
for label, found, expected in [
    ("[True, 2]", sent([True, 2]), [True, True]),
    ("[1, 2.5]", sent([1, 2.5]), "UaError"),
    ("[1.5, 2]", sent([1.5, 2]), [1.5, 2.0]),
    ("i=-1", node("i=-1"), "error"),
    ("ns=70000;i=1", node("ns=70000;i=1"), "error"),
]:
    print(f"{label:14} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
