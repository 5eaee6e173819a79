#!/usr/bin/env bash
# pynmea2 1.19.0 (Python 3.11): a receiver without a fix stands at latitude 0, longitude 0.
#
# Expected: empty fields of a position are None, as an empty time is.
# Seen: latitude and longitude are 0.0, a point in the Atlantic; only gps_qual says 0. The number of satellites is text. A time that can't
#   be (24:60:60) stays the text "246060", without an error.
# What to do: look at gps_qual, or at the raw fields lat and lon, before the position.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pynmea2==1.19.0
"$folder/venv/bin/python" - <<'END'
import pynmea2

NO_FIX = pynmea2.parse("$GPGGA,,,,,,0,,,,,,,,")
FIX = pynmea2.parse("$GPGGA,246060,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,")

right = True
for label, found, expected in [
    ("position", (NO_FIX.latitude, NO_FIX.longitude), (0.0, 0.0)),
    ("raw position", (NO_FIX.lat, NO_FIX.lon), ("", "")),
    ("time", NO_FIX.timestamp, None),
    ("quality", NO_FIX.gps_qual, 0),
    ("satellites", FIX.num_sats, "08"),
    ("time 246060", FIX.timestamp, "246060"),
]:
    print(f"{label:14} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
