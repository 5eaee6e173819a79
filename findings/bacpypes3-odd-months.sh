#!/usr/bin/env bash
# bacpypes3 0.0.110 (Python 3.11): a thirteenth month is each odd month.
#
# Expected: the date 2026-13-1 is refused.
# Seen: it is the first of each odd month of 2026, a pattern of BACnet, without a weekday; 24:00:00 is a time. "1/2/2026" is refused as
#   ambiguous, and "31/1/2026" isn't.
# What to do: read dates of people with datetime, and hand over the parts.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install bacpypes3==0.0.110
"$folder/venv/bin/python" - <<'END'
from bacpypes3.primitivedata import Date, Time


def date(text):
    try:
        return str(Date(text))
    except ValueError as problem:
        return str(problem)

right = True
for label, found, expected in [
    ("2026-13-1", date("2026-13-1"), "2026-odd-1 *"),
    ("31/1/2026", date("31/1/2026"), "2026-1-31 sat"),
    ("1/2/2026", date("1/2/2026"), "ambiguous"),
    ("24:00:00", str(Time("24:00:00")), "24:00:00.00"),
]:
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
