#!/usr/bin/env bash
# netaddr 1.3.0 (Python 3.11): a hardware address that lost its zeros is read as a decimal number.
#
# Expected: EUI("1122334455") is refused, or is 00:11:22:33:44:55, as 12 hexadecimal digits are.
# Seen: it is the decimal number 1122334455, 00-00-42-E5-76-F7: another device. Spreadsheets and YAML drop the zeros that make the
#   difference.
# What to do: count the digits before, and store addresses with separators.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install netaddr==1.3.0
"$folder/venv/bin/python" - <<'END'
from netaddr import EUI

right = True
for label, found, expected in [
    ("001122334455", str(EUI("001122334455")), "00-11-22-33-44-55"),
    ("1122334455", str(EUI("1122334455")), "00-00-42-E5-76-F7"),
    ("0:11:22:33:44:55", str(EUI("0:11:22:33:44:55")), "00-11-22-33-44-55"),
]:
    print(f"{label:18} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
