#!/usr/bin/env bash
# croniter 7.0.0 (Python 3.11)
# Expected: a range whose ends are equal, such as 10-10 for the month or WED-WED for the weekday, is that one value.
# Seen: it is taken for a range that wraps, and so for every value. `0 9 1 10-10 *` fires on the first of each month.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install croniter==7.0.0
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime

from croniter import croniter

for text in ("0 9 1 10-10 *", "0 9 * * WED-WED", "0 9 1 10 *"):
    times = croniter(text, datetime(2026, 1, 1, 10))
    print(text, "|", *(times.get_next(datetime).strftime("%a-%d-%b") for _ in range(3)))
PYTHON
)
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
0 9 1 10-10 * | Sun-01-Feb Sun-01-Mar Wed-01-Apr
0 9 * * WED-WED | Fri-02-Jan Sat-03-Jan Sun-04-Jan
0 9 1 10 * | Thu-01-Oct Fri-01-Oct Sun-01-Oct
SEEN
