#!/usr/bin/env bash
# astral 3.2 (PyPI, Python 3.11) and suncalc 2.0.2 (npm, Node.js 20): the sunset of a day may be that of another.
#
# Expected: both give sunrise and sunset of the day that was asked for, in this order.
# Seen: for Honolulu and 1 June, astral without a time zone gives a sunset that is ten hours before the sunrise: the one of the evening
#   before. With the time zone it is right. suncalc gives the day before for 00:00 UTC and the next one for 11:00 UTC of the same date.
# What to do: always pass the zone of the place to astral, and noon of the place to suncalc.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit suncalc@2.0.2 >/dev/null
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install astral==3.2 tzdata==2026.1
cat >look.py <<'END'
import datetime
import zoneinfo

from astral import Observer
from astral.sun import sun

for zone in (None, zoneinfo.ZoneInfo("Pacific/Honolulu")):
    options = {} if zone is None else {"tzinfo": zone}
    found = sun(Observer(21.3, -157.86), datetime.date(2026, 6, 1), **options)
    print("astral", zone, *(found[name].strftime("%d %H:%M") for name in ("sunrise", "sunset")))
END
cat >look.mjs <<'END'
import { createRequire } from "node:module";
const { getTimes } = createRequire(import.meta.url)("suncalc");
for (const hour of ["00", "11"]) {
  const { sunrise, sunset } = getTimes(new Date(`2026-06-01T${hour}:00:00Z`), 21.3, -157.86);
  console.log("suncalc", hour, sunrise.toJSON().slice(5, 16), sunset.toJSON().slice(5, 16));
}
END
{ venv/bin/python look.py; node look.mjs; } | tee seen
diff seen - <<'SEEN'
astral None 01 15:49 01 05:09
astral Pacific/Honolulu 01 05:49 01 19:09
suncalc 00 05-31T15:49 06-01T05:09
suncalc 11 06-01T15:48 06-02T05:09
SEEN
