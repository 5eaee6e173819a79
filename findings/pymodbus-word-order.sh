#!/usr/bin/env bash
# pymodbus 3.16.1 (Python 3.11): an unknown order of words is the big one.
#
# Expected: word_order="Little", as settings often have it, is little, or an error.
# Seen: each text but "little" is big, so 1 is written as 65536 for a device with the other order. A negative number of an unsigned type,
#   by contrast, raises struct.error.
# What to do: take the order from an enumeration of your own.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pymodbus==3.16.1
"$folder/venv/bin/python" - <<'END'
from pymodbus.client import ModbusTcpClient as Client


def words(order):
    return Client.convert_to_registers(1, Client.DATATYPE.INT32, word_order=order)

right = True
for label, found, expected in [
    ("big", words("big"), [0, 1]),
    ("little", words("little"), [1, 0]),
    ("Little", words("Little"), [0, 1]),
    ("swapped", words("swapped"), [0, 1]),
]:
    print(f"{label:10} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
