#!/usr/bin/env bash
# workalendar 17.0.0 and holidays 0.86 (PyPI, Python 3.11) count working days differently.
#
# Expected: both name the same working day for the same question, and a time of day stays.
# Seen: no working day after a Saturday is the Saturday in one, the Monday in the other. From Friday to Monday are one and two. A date with
#   a time comes back without the time in workalendar unless `keep_datetime` asks for it.
# What to do: add a day and go back one, and count both ends yourself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install workalendar==17.0.0 holidays==0.86
cat >look.py <<'END'
import datetime

import holidays
from workalendar.europe import UnitedKingdom

one, other = UnitedKingdom(), holidays.country_holidays("GB")
friday, saturday, monday = (datetime.date(2026, 11, day) for day in (27, 28, 30))
for days in (0, 1, -1):
    print(days, "from Saturday:", one.add_working_days(saturday, days), other.get_nth_working_day(saturday, days))
print("Friday to Monday:", one.get_working_days_delta(friday, monday), other.get_working_days_count(friday, monday))
print(repr(one.add_working_days(datetime.datetime(2026, 11, 27, 9, 30), 1)))
END
venv/bin/python look.py | tee seen
diff seen - <<'SEEN'
0 from Saturday: 2026-11-28 2026-11-30
1 from Saturday: 2026-11-30 2026-11-30
-1 from Saturday: 2026-11-27 2026-11-27
Friday to Monday: 1 2
datetime.date(2026, 11, 30)
SEEN
