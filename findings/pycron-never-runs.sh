#!/usr/bin/env bash
# pycron 3.3.0 (Python 3.11): two usual forms of a crontab never match, without an error.
#
# Expected: is_now reads 7 as Sunday and a step after a start ("5/15"), or refuses them.
# Seen: `0 9 * * 7` is false on each day of a week, `5-7` leaves Sunday out, `5/15` matches no minute of an hour. Only has_been and is_now
#   exist, so that nobody sees that the next time never comes.
# What to do: write 0 for Sunday, list the minutes, and check each expression over a year when it is saved.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pycron==3.3.0
"$folder/venv/bin/python" - <<'END'
from datetime import datetime

from pycron import is_now

# The fourth of January 2026 is a Sunday.
WEEK = [datetime(2026, 1, day, 9) for day in range(4, 11)]
HOUR = [datetime(2026, 1, 4, 9, minute) for minute in range(60)]


def days(text):
    return [day.strftime("%a") for day in WEEK if is_now(text, day)]

right = True
for label, found, expected in [
    ("0 9 * * 0", days("0 9 * * 0"), ["Sun"]),
    ("0 9 * * 7", days("0 9 * * 7"), []),
    ("0 9 * * 5-7", days("0 9 * * 5-7"), ["Fri", "Sat"]),
    ("5/15 * * * *", [at.minute for at in HOUR if is_now("5/15 * * * *", at)], []),
    ("5-59/15 * * * *", [at.minute for at in HOUR if is_now("5-59/15 * * * *", at)], [5, 20, 35, 50]),
]:
    print(f"{label:18} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
