#!/usr/bin/env bash
# SystemdUnitParser 0.4 (Python 3.11): a line that goes on keeps its backslash, and a command that was taken away is still there.
#
# Expected: systemd.syntax(7): a backslash at the end of a line, with the line break, is a space; an empty assignment empties the list, as a
#   drop-in does before it sets its own ExecStart; comments between such lines are left out.
# Seen: the value is "a \", a line break and "b". The list is ('/bin/a', '', '/bin/b'), three items. A comment inside of a value that
#   goes on raises ParsingError.
# What to do: ask `systemctl show`, or join the lines first and drop what is before the last empty item.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install SystemdUnitParser==0.4
"$folder/venv/bin/python" - <<'END'
from SystemdUnitParser import SystemdUnitParser


def read(text):
    unit = SystemdUnitParser()
    try:
        unit.read_string("[Service]\n" + text)
    except Exception as problem:
        return type(problem).__name__
    return unit["Service"]["ExecStart"]


right = True
for label, text, expected in [
    ("continued", "ExecStart=/bin/a \\\n  --b\n", "/bin/a \\\n--b"),
    ("emptied", "ExecStart=/bin/a\nExecStart=\nExecStart=/bin/b\n", ("/bin/a", "", "/bin/b")),
    ("comment", "ExecStart=/bin/a \\\n# note\n  --b\n", "ParsingError"),
    ("plain", "ExecStart=/bin/a --b\n", "/bin/a --b"),
]:
    found = read(text)
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
