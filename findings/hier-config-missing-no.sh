#!/usr/bin/env bash
# hier_config 3.7.1 (Python 3.11): a line "no …" that the wanted configuration leaves out is turned into its opposite.
#
# Expected: a wanted configuration that says nothing of `no shutdown` leaves the interface up, or says that it can't know.
# Seen: for IOS, the remediation of an interface with `no shutdown`, wanted without that line, is `shutdown`: it takes the interface down.
#   A missing `no ip http server` starts the server.
# What to do: write each "no" line of the running configuration into the wanted one, or leave such lines out of both.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install hier-config==3.7.1
"$folder/venv/bin/python" - <<'END'
from hier_config import Platform, WorkflowRemediation, get_hconfig


def remediate(running, wanted):
    workflow = WorkflowRemediation(get_hconfig(Platform.CISCO_IOS, running), get_hconfig(Platform.CISCO_IOS, wanted))
    return [line.cisco_style_text() for line in workflow.remediation_config.all_children_sorted()]

right = True
for label, found, expected in [
    ("interface", remediate("interface Vlan10\n no shutdown\n", "interface Vlan10\n"), ["interface Vlan10", "  shutdown"]),
    ("server", remediate("no ip http server\n", "hostname a\n")[0], "ip http server"),
]:
    print(f"{label:12} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
