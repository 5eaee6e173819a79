#!/usr/bin/env bash
# syslog-rfc5424-parser 0.3.2 (Python 3.11): a value that isn't there is None in some fields and "-" in others.
#
# Expected: the nil value of RFC 5424 is None for each field; a priority above 191 isn't a message; a time with nine digits of a second is
#   refused with a reason.
# Seen: the nil host, application and time are "-", so that a host seems to be named "-"; process and message ID are None. Priority 192 is
#   an emergency of the facility "unknown". A parameter that is given twice, which the RFC allows, keeps its last value.
# What to do: read "-" as nothing in the three fields, and take repeated parameters from the raw line.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install syslog-rfc5424-parser==0.3.2
"$folder/venv/bin/python" - <<'END'
from syslog_rfc5424_parser import SyslogMessage


def read(text):
    return SyslogMessage.parse(text).as_dict()


NIL = read("<34>1 - - - - - -")
HIGH = read("<192>1 - - - - - - x")

right = True
for label, found, expected in [
    ("host", NIL["hostname"], "-"),
    ("application", NIL["appname"], "-"),
    ("time", str(NIL["timestamp"]), "-"),
    ("process", NIL["procid"], None),
    ("message ID", NIL["msgid"], None),
    ("priority 192", (HIGH["severity"], HIGH["facility"]), ("emerg", "unknown")),
    ("ip twice", read('<34>1 - - - - - [a ip="192.0.2.1" ip="192.0.2.2"] x')["sd"], {"a": {"ip": "192.0.2.2"}}),
]:
    print(f"{label:14} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
