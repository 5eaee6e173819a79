#!/usr/bin/env bash
# intelhex 2.3.0 (Python 3.11): a file that was cut off is read as a whole one.
#
# Expected: a file without its end record is refused, or said to be incomplete; addresses of data records wrap at 64 KiB, as Intel's
#   format says of a record that crosses it.
# Seen: it is read without a word. What follows an end record is ignored. A record that crosses 64 KiB goes on at 0x10000.
# What to do: look for the last line `:00000001FF` before a device is programmed.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install intelhex==2.3.0
"$folder/venv/bin/python" - <<'END'
from io import StringIO

from intelhex import IntelHex


def read(text):
    return IntelHex(StringIO(text)).todict()

right = True
for label, found, expected in [
    ("whole", read(":020000000102FB\n:0200020003 04".replace(" ", "") + "F5\n:00000001FF\n"), {0: 1, 1: 2, 2: 3, 3: 4}),
    ("cut off", read(":020000000102FB\n"), {0: 1, 1: 2}),
    ("after the end", read(":00000001FF\n:020000000102FB\n"), {}),
    ("over 64 KiB", read(":02FFFF000102FD\n:00000001FF\n"), {65535: 1, 65536: 2}),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
