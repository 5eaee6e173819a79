#!/usr/bin/env bash
# cron-converter 2.0.2, crontab 1.0.5 (Python 3.11): a step after a start is dropped, and days are joined with "and".
#
# Expected: "5/15" is every quarter of an hour from minute 5, or refused; a day of the month beside a weekday means either of them, as in
#   crontab(5).
# Seen: cron-converter reads "5/15" as minute 5 alone, and month "1/3" as January alone. `0 9 1 * MON` runs in both libraries only when
#   the first of a month is a Monday: June 2026, then February 2027.
# What to do: compare to_string() with what was given, and write two schedules for "the first, and each Monday".
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install cron-converter==2.0.2 crontab==1.0.5
"$folder/venv/bin/python" - <<'END'
from datetime import datetime, timedelta

from cron_converter import Cron
from crontab import CronTab

NOW = datetime(2026, 1, 1, 10)


def converter(text):
    schedule = Cron(text).schedule(NOW)
    return [schedule.next().strftime("%Y-%m-%d") for _ in range(2)]

right = True
for label, found, expected in [
    ("5/15 * * * *", Cron("5/15 * * * *").to_string(), "5 * * * *"),
    ("0 0 1 1/3 *", converter("0 0 1 1/3 *"), ["2027-01-01", "2028-01-01"]),
    ("0 9 1 * MON", converter("0 9 1 * MON"), ["2026-06-01", "2027-02-01"]),
    ("0 9 1 * MON of crontab", (NOW + timedelta(seconds=CronTab("0 9 1 * MON").next(NOW, default_utc=True))).strftime("%Y-%m-%d"), "2026-06-01"),
]:
    print(f"{label:26} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
