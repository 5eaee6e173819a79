#!/usr/bin/env bash
# pycef 1.11 (Python 3.11): values of CEF keep their escapes, a field takes the place of another, and one bar empties the header.
#
# Expected: the format's guide: in the header a bar is written as `\|`, in a value an equals sign as `\=` and a line break as `\n`; these
#   are read as the signs that they stand for. A custom label (cs1Label=src) doesn't touch the field with that name.
# Seen: `\=` and `\n` stay as they are. A `\|` in the name empties it: severity is missing, and "m|5|msg" is a field. With a label
#   that is the name of another field, the custom value replaces it: the source address is "v".
# What to do: split the header at bars without a backslash first, and read the labels from the line.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pycef==1.11
"$folder/venv/bin/python" - <<'END'
from pycef import parse

right = True
for label, line, expected in [
    ("equals", r"CEF:0|V|P|1|2|n|5|msg=a\=b", {"Name": "n", "Severity": "5", "msg": r"a\=b"}),
    ("line break", r"CEF:0|V|P|1|2|n|5|msg=a\nb", {"Name": "n", "Severity": "5", "msg": r"a\nb"}),
    ("bar", r"CEF:0|V|P|1|2|n \| m|5|msg=a", {"Name": "", "m|5|msg": "a"}),
    ("label", "CEF:0|V|P|1|2|n|5|cs1Label=src cs1=v src=192.0.2.1", {"Name": "n", "Severity": "5", "src": "v"}),
    ("plain", "CEF:0|V|P|1|2|n|5|src=192.0.2.1 msg=a b", {"Name": "n", "Severity": "5", "src": "192.0.2.1", "msg": "a b"}),
]:
    found = {name: value for name, value in parse(line).items() if not name.startswith("Device") and name != "CEFVersion"}
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
