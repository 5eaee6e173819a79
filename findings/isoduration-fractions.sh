#!/usr/bin/env bash
# isoduration 20.11.0 (Python 3.11): half an hour becomes an hour when it is added to a time.
#
# Expected: ISO 8601 lets the smallest part of a duration have a fraction, so that PT0.5H and PT30M end at the same moment. The package
#   reads both, and the parts of its result are exact decimals.
# Seen: each part is rounded to a whole one when a duration is added, a half away from zero: half an hour is an hour, four tenths of one
#   are nothing, half a year is a year, and a second and a half are two seconds.
# What to do: write durations in whole parts (PT30M, P6M), and add parts of a second as timedelta.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install isoduration==20.11.0
"$folder/venv/bin/python" - <<'END'
from datetime import datetime

from isoduration import parse_duration

START = datetime(2026, 1, 1)
right = True
for text, expected in [
    ("PT30M", "2026-01-01 00:30:00"),
    ("PT0.5H", "2026-01-01 01:00:00"),
    ("PT0.4H", "2026-01-01 00:00:00"),
    ("PT1.5M", "2026-01-01 00:02:00"),
    ("PT1.5S", "2026-01-01 00:00:02"),
    ("P0.5D", "2026-01-02 00:00:00"),
    ("P0.5Y", "2027-01-01 00:00:00"),
    ("P0.4Y", "2026-01-01 00:00:00"),
]:
    duration = parse_duration(text)
    found = str(START + duration)
    print(f"{text:8} is read as {duration}, and ends at {found}")
    right = right and found == expected and str(duration) == text
raise SystemExit(0 if right else "The behaviour has changed.")
END
