#!/usr/bin/env bash
# ciscoconfparse2 0.9.18 (Python 3.11): lines of a banner are found as configuration.
#
# Expected: the text of `banner motd` up to its end character belongs to the banner.
# Seen: a banner that quotes "interface Gi1" and " shutdown" gives an interface with a child, like the real ones.
# What to do: cut banners out before parsing.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install ciscoconfparse2==0.9.18
"$folder/venv/bin/python" - <<'END'
from ciscoconfparse2 import CiscoConfParse

CONFIG = CiscoConfParse(["banner motd ^C", "interface Gi1", " shutdown", "^C", "interface Gi2", " no shutdown"], syntax="ios")

right = True
for label, found, expected in [
    ("interfaces", [(one.text, [child.text for child in one.children]) for one in CONFIG.find_objects("interface")], [("interface Gi1", [" shutdown"]), ("interface Gi2", [" no shutdown"])]),
]:
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
