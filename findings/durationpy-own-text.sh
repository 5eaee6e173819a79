#!/usr/bin/env bash
# durationpy 0.11 (Python 3.11), which the Python client of Kubernetes uses: it can't read some of the durations that it writes.
#
# Expected: durations are written as Go writes them, so that Go and durationpy itself read them back: an hour and a microsecond is
#   "1h0m0.000001s", or with the parts that this package joins, "1h1us".
# Seen: below a millisecond, and with whole seconds, minutes or hours before it, the rest is written with an exponent: "1h1e-06s".
#   `from_str` refuses that text (unknown unit "e"). Without the larger part it is "1us", which is read.
# What to do: round to milliseconds before writing.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install durationpy==0.11
"$folder/venv/bin/python" - <<'END'
from datetime import timedelta
from importlib.metadata import version

import durationpy

print("durationpy", version("durationpy"))


def read(text: str) -> object:
    try:
        return durationpy.from_str(text)
    except durationpy.DurationError as error:
        return f"refused: {error}"


right = True
for given, text in [
    (timedelta(microseconds=1), "1us"),
    (timedelta(hours=1, milliseconds=1), "1h0.001s"),
    (timedelta(hours=1, microseconds=1), "1h1e-06s"),
]:
    written = durationpy.to_str(given)
    back = read(written)
    print(f"{str(given):16} is written as {written!r}, which is read as {back}")
    right = right and written == text and (back == given) == ("e" not in text)
raise SystemExit(0 if right else "The behaviour has changed.")
END
