#!/usr/bin/env bash
# humanfriendly 10.0 (Python 3.11): a year has 364 days, and "1Ki" is 1000 bytes.
#
# Expected: a year is 365 days or a little more; "Ki", as Kubernetes writes it, is 1024 as "KiB" is; what format_size writes is read back
#   as the same size.
# Seen: parse_timespan("1 year") is 52 weeks, so 365 days are shown as "1 year and 1 day". "KiB" is 1024, "Ki" is 1000. 999,999 bytes are
#   shown as "1000 KB".
# What to do: write days instead of years, and add the B to sizes that come from Kubernetes.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install humanfriendly==10.0
"$folder/venv/bin/python" - <<'END'
from humanfriendly import format_size, format_timespan, parse_size, parse_timespan

right = True
for label, found, expected in [
    ("1 year in days", parse_timespan("1 year") / 86400, 364.0),
    ("365 days", format_timespan(365 * 86400), "1 year and 1 day"),
    ("1KiB", parse_size("1KiB"), 1024),
    ("1Ki", parse_size("1Ki"), 1000),
    ("1Gi", parse_size("1Gi"), 1_000_000_000),
    ("999999 bytes", format_size(999_999), "1000 KB"),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
