#!/usr/bin/env bash
# APScheduler 3.11.3 (Python 3.11)
# Expected: `from_crontab` reads an expression as crontab(5) does: weekday 1 is Monday, 7 is Sunday, and a day of month beside a
# weekday is an alternative.
# Seen: weekdays are counted from 0 for Monday, so 1 is Tuesday; 7 is refused; and both days must match.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install APScheduler==3.11.3 tzdata==2026.1
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime, timedelta, timezone

from apscheduler.triggers.cron import CronTrigger

for text in ("0 9 * * 1", "0 9 * * MON", "0 9 13 * FRI", "0 9 * * 7"):
    try:
        trigger = CronTrigger.from_crontab(text, timezone=timezone.utc)
    except ValueError as error:
        print(text, "|", type(error).__name__)
        continue
    at, found = datetime(2026, 1, 1, 10, tzinfo=timezone.utc), []
    for _ in range(3):
        at = trigger.get_next_fire_time(None, at)
        found.append(at.strftime("%a-%d-%b"))
        at += timedelta(seconds=1)
    print(text, "|", *found)
PYTHON
)
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
0 9 * * 1 | Tue-06-Jan Tue-13-Jan Tue-20-Jan
0 9 * * MON | Mon-05-Jan Mon-12-Jan Mon-19-Jan
0 9 13 * FRI | Fri-13-Feb Fri-13-Mar Fri-13-Nov
0 9 * * 7 | ValueError
SEEN
