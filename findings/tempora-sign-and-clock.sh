#!/usr/bin/env bash
# tempora 5.13.0, pytimeparse 1.1.10 (Python 3.11): one text of a duration has two lengths.
#
# Expected: both libraries read "1:30" as the same length, and "-1h" is either negative or refused.
# Seen: "1:30" is an hour and a half for tempora and a minute and a half for pytimeparse. tempora drops the sign ("-1h" is one hour), the
#   last part of a clock with four parts, and reads a number without unit as seconds ("1h30" is one hour and 30 seconds).
# What to do: accept ISO 8601, or units only, from people; refuse signs and colons before either library sees them.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install tempora==5.13.0 pytimeparse==1.1.10
"$folder/venv/bin/python" - <<'END'
from pytimeparse import parse
from tempora import parse_timedelta


def tempora(text):
    return parse_timedelta(text).total_seconds()

right = True
for label, found, expected in [
    ("pytimeparse 1:30", parse("1:30"), 90),
    ("tempora 1:30", tempora("1:30"), 5400.0),
    ("pytimeparse -1h", parse("-1h"), -3600),
    ("tempora -1h", tempora("-1h"), 3600.0),
    ("tempora 1h30", tempora("1h30"), 3630.0),
    ("pytimeparse 1h30", parse("1h30"), None),
    ("pytimeparse 01:02:03:04", parse("01:02:03:04"), 93784),
    ("tempora 01:02:03:04", tempora("01:02:03:04"), 3723.0),
]:
    print(f"{label:34} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
