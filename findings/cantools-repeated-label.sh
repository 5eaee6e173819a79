#!/usr/bin/env bash
# cantools 45.1.0 (Python 3.11): a label that a DBC file gives to two values is sent as the last of them, and isn't equal to its number.
#
# Expected: encoding a label of two values is refused; a decoded value is equal to its number, as the constants of an IntEnum are.
# Seen: with 1 and 2 both named "on", what was received as 1 is sent as 2. The decoded value is equal to "on" and not to 1. 1.05 V at a
#   factor of 0.1 is sent as 1.0 V.
# What to do: decode with decode_choices=False where numbers matter, and look for repeated labels when a file is loaded.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install cantools==45.1.0
"$folder/venv/bin/python" - <<'END'
from cantools.database import load_string

BUS = load_string(
    'VERSION ""\nBU_: A\nBO_ 100 M: 2 A\n SG_ S : 0|8@1+ (1,0) [0|0] "" A\n SG_ V : 8|8@1+ (0.1,0) [0|20] "V" A\n\n'
    'VAL_ 100 S 1 "on" 0 "off" 2 "on" ;\n',
    "dbc",
)
RECEIVED = BUS.decode_message(100, b"\x01\x00")

right = True
for label, found, expected in [
    ("received 1", str(RECEIVED["S"]), "on"),
    ("equal to its label, its number", (RECEIVED["S"] == "on", RECEIVED["S"] == 1), (True, False)),
    ("sent again", BUS.encode_message("M", {"S": "on", "V": 0})[0], 2),
    ("1.05 V", BUS.encode_message("M", {"S": 0, "V": 1.05})[1], 10),
]:
    print(f"{label:30} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
