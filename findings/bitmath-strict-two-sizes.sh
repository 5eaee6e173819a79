#!/usr/bin/env bash
# bitmath 2.1.1 (Python 3.11): the same text is another size when strict is off.
#
# Expected: strict=False accepts more texts, and changes none that strict=True accepts.
# Seen: "1kB" is 1000 bytes when strict and 1024 otherwise; "1Mb" is a megabit of 125,000 bytes when strict and 1,048,576 bytes otherwise.
# What to do: name the system (NIST or SI) in each call, and never relax a reader that has stored sizes already.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install bitmath==2.1.1
"$folder/venv/bin/python" - <<'END'
from bitmath import parse_string

right = True
for label, found, expected in [
    ("1kB strict", parse_string("1kB").bytes, 1000),
    ("1kB", parse_string("1kB", strict=False).bytes, 1024),
    ("1Mb strict", parse_string("1Mb").bytes, 125_000),
    ("1Mb", parse_string("1Mb", strict=False).bytes, 1_048_576),
    ("1MB strict", parse_string("1MB").bytes, 1_000_000),
    ("1MB", parse_string("1MB", strict=False).bytes, 1_048_576),
]:
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
