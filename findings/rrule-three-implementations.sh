#!/usr/bin/env bash
# RRULE: rrule 2.8.1, ical.js 2.2.1 (npm, Node.js 20) and python-dateutil 2.9.0.post0 (PyPI, Python 3.11) find other times of one rule.
#
# Expected: RFC 5545, section 3.3.10, says for each part whether it limits or expands, so that the three agree where the start is one of
#   the times. BYSETPOS chooses among the times of a whole week.
# Seen: rrule counts minutes wrongly with BYHOUR: 90 minutes after 09:00 is 12:30 there, and the next day begins at 12:00. ical.js ignores
#   BYSETPOS of weeks and BYWEEKNO, and takes the 20th Monday of a year for each Monday. The two others leave out a start that is the second
#   time of its week: they count from the start.
# What to do: compare the first times of a rule in two of them before it is kept.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install python-dateutil==2.9.0.post0
npm install --silent --no-fund --no-audit rrule@2.8.1 ical.js@2.2.1 >/dev/null
cat >rules <<'END'
2026-01-31 FREQ=MONTHLY;BYMONTHDAY=31
2026-01-31 FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,12
2026-02-04 FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2
2026-12-28 FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO
2026-05-18 FREQ=YEARLY;BYDAY=20MO
END
cat >look.py <<'END'
from dateutil.rrule import rrulestr

for line in open("rules"):
    day, rule = line.split()
    times = rrulestr(f"DTSTART:{day.replace('-', '')}T090000Z\nRRULE:{rule};COUNT=4")
    print("dateutil", rule, *(time.strftime("%Y-%m-%dT%H:%M") for time in times))
END
cat >look.mjs <<'END'
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import ICAL from "ical.js";
const { rrulestr } = createRequire(import.meta.url)("rrule");
for (const line of readFileSync("rules", "utf8").trim().split("\n")) {
  const [day, rule] = line.split(" ");
  const times = rrulestr(`DTSTART:${day.replaceAll("-", "")}T090000Z\nRRULE:${rule};COUNT=4`).all();
  console.log("rrule", rule, ...times.map((time) => time.toISOString().slice(0, 16)));
  const next = ICAL.Recur.fromString(`${rule};COUNT=4`).iterator(ICAL.Time.fromString(`${day}T09:00:00Z`));
  console.log("ical.js", rule, ...Array.from({ length: 4 }, () => next.next().toString().slice(0, 16)));
}
END
{ venv/bin/python look.py; node look.mjs; } | sort -k2,2 -s >seen
cat seen
diff seen - <<'SEEN'
dateutil FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,12 2026-01-31T09:00 2026-01-31T12:00 2026-02-01T09:00 2026-02-01T12:00
rrule FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,12 2026-01-31T09:00 2026-01-31T12:30 2026-02-01T12:00 2026-02-02T09:30
ical.js FREQ=MINUTELY;INTERVAL=90;BYHOUR=9,12 2026-01-31T09:00 2026-01-31T12:00 2026-02-01T09:00 2026-02-01T12:00
dateutil FREQ=MONTHLY;BYMONTHDAY=31 2026-01-31T09:00 2026-03-31T09:00 2026-05-31T09:00 2026-07-31T09:00
rrule FREQ=MONTHLY;BYMONTHDAY=31 2026-01-31T09:00 2026-03-31T09:00 2026-05-31T09:00 2026-07-31T09:00
ical.js FREQ=MONTHLY;BYMONTHDAY=31 2026-01-31T09:00 2026-03-31T09:00 2026-05-31T09:00 2026-07-31T09:00
dateutil FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2 2026-02-06T09:00 2026-02-11T09:00 2026-02-18T09:00 2026-02-25T09:00
rrule FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2 2026-02-06T09:00 2026-02-11T09:00 2026-02-18T09:00 2026-02-25T09:00
ical.js FREQ=WEEKLY;BYDAY=MO,WE,FR;BYSETPOS=2 2026-02-04T09:00 2026-02-06T09:00 2026-02-09T09:00 2026-02-11T09:00
dateutil FREQ=YEARLY;BYDAY=20MO 2026-05-18T09:00 2027-05-17T09:00 2028-05-15T09:00 2029-05-14T09:00
rrule FREQ=YEARLY;BYDAY=20MO 2026-05-18T09:00 2027-05-17T09:00 2028-05-15T09:00 2029-05-14T09:00
ical.js FREQ=YEARLY;BYDAY=20MO 2026-05-18T09:00 2026-05-25T09:00 2026-06-01T09:00 2026-06-08T09:00
dateutil FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO 2026-12-28T09:00 2032-12-27T09:00 2037-12-28T09:00 2043-12-28T09:00
rrule FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO 2026-12-28T09:00 2032-12-27T09:00 2037-12-28T09:00 2043-12-28T09:00
ical.js FREQ=YEARLY;BYWEEKNO=53;BYDAY=MO 2027-01-04T09:00 2027-01-11T09:00 2027-01-18T09:00 2027-01-25T09:00
SEEN
