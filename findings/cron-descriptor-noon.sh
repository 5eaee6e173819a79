#!/usr/bin/env bash
# cron-descriptor 2.2.1 (Python 3.11): it describes times that no schedule has.
#
# Expected: a description is of the times at which cron runs it, and an hour or minute out of range is refused.
# Seen: hour 24 is described as 12:00 PM, which is noon, and minute 60 as "60 minutes past the hour". A step of 90 minutes is "Every 90
#   minutes", though it runs at minute 0 of each hour.
# What to do: check the expression with the library that runs it, and show its next times beside the words.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install cron-descriptor==2.2.1 cronsim==2.8
"$folder/venv/bin/python" - <<'END'
from datetime import datetime

from cron_descriptor import get_description
from cronsim import CronSim


def times(text):
    runs = CronSim(text, datetime(2026, 1, 1, 10))
    return [next(runs).strftime("%H:%M") for _ in range(3)]

right = True
for label, found, expected in [
    ("0 24 * * *", get_description("0 24 * * *"), "At 12:00 PM"),
    ("60 * * * *", get_description("60 * * * *"), "At 60 minutes past the hour"),
    ("*/90 * * * *", get_description("*/90 * * * *"), "Every 90 minutes"),
    ("times of */90 * * * *", times("*/90 * * * *"), ["11:00", "12:00", "13:00"]),
]:
    print(f"{label:24} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
