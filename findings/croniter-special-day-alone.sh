#!/usr/bin/env bash
# croniter 7.0.0 (Python 3.11)
# Expected: a day of month and a weekday that are both given are alternatives, as in crontab(5); so it is for `1 * MON`.
# Seen: beside the nth weekday (`MON#1`), the day of month has no effect; beside the nearest weekday (`15W`), the weekday has none.
# Neither is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" --quiet install croniter==7.0.0
seen=$("$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime

from croniter import croniter

for text in ("0 9 1 * MON", "0 9 1 * MON#1", "0 9 15W * MON"):
    times = croniter(text, datetime(2026, 1, 1, 10))
    print(text, "|", *(times.get_next(datetime).strftime("%a-%d-%b") for _ in range(3)))
PYTHON
)
echo "$seen"
diff <(echo "$seen") - <<'SEEN'
0 9 1 * MON | Mon-05-Jan Mon-12-Jan Mon-19-Jan
0 9 1 * MON#1 | Mon-05-Jan Mon-02-Feb Mon-02-Mar
0 9 15W * MON | Thu-15-Jan Mon-16-Feb Mon-16-Mar
SEEN
