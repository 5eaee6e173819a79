#!/usr/bin/env bash
# recurrent 0.4.1 (Python 3.11): "for 3 days" becomes the third of January, and noon gets lost.
#
# Expected: an end ("for 3 days"), an exception ("except sunday") and a named time ("at noon") are in the rule, or the sentence isn't
#   read.
# Seen: "every day at 9 for 3 days" is a daily rule with BYYEARDAY=3, so it runs once a year, on the third of January. "every day at noon"
#   and "at midnight" have no hour. "daily except sunday" leaves out one Sunday, the next.
# What to do: show the next times of the rule before it is saved, and ask for the hour as digits.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install recurrent==0.4.1 python-dateutil==2.9.0.post0
"$folder/venv/bin/python" - <<'END'
from datetime import datetime

from dateutil.rrule import rrulestr
from recurrent import RecurringEvent

NOW = datetime(2026, 1, 1, 10)


def rule(text):
    return RecurringEvent(now_date=NOW).parse(text)

right = True
for label, found, expected in [
    ("every day at 9 for 3 days", rule("every day at 9 for 3 days"), "RRULE:BYYEARDAY=3;BYHOUR=9;BYMINUTE=0;INTERVAL=1;FREQ=DAILY"),
    ("its next times", [at.date().isoformat() for at in rrulestr(rule("every day at 9 for 3 days"), dtstart=NOW)[:2]], ["2026-01-03", "2027-01-03"]),
    ("every day at noon", rule("every day at noon"), "RRULE:INTERVAL=1;FREQ=DAILY"),
    ("every day at 12:00", rule("every day at 12:00"), "RRULE:BYHOUR=12;BYMINUTE=0;INTERVAL=1;FREQ=DAILY"),
    ("daily except sunday", rule("daily except sunday"), "RRULE:INTERVAL=1;FREQ=DAILY\nEXDATE:20260104T100000"),
]:
    print(f"{label:28} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
