#!/usr/bin/env bash
# netutils 1.19.2 (Python 3.11): ranges of interfaces are lost, or aren't read as they are written.
#
# Expected: interface_range_expansion reads what interface_range_compress writes; a range with its ends exchanged is refused, or counts
#   down; bits_to_name keeps a speed, or says that it rounds.
# Seen: the list of "Gi[3-1]" is empty, without an error, so that a change for it changes no interface. "Gi1/0/1-3", as compress writes
#   it, comes back as one interface of that name: only ranges in brackets are expanded. bits_to_name(1500000) is "2Mbps".
# What to do: put brackets round each range, refuse an empty list, and format speeds yourself.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install netutils==1.19.2
"$folder/venv/bin/python" - <<'END'
from importlib.metadata import version

from netutils.bandwidth import bits_to_name, name_to_bits
from netutils.interface import interface_range_compress, interface_range_expansion

print("netutils", version("netutils"))
right = True
for call, found, expected in [
    ("expansion Gi[1-3]", interface_range_expansion("Gi[1-3]"), ["Gi1", "Gi2", "Gi3"]),
    ("expansion Gi[3-1]", interface_range_expansion("Gi[3-1]"), []),
    ("compress", written := interface_range_compress(["Gi1/0/1", "Gi1/0/2", "Gi1/0/3"]), ["Gi1/0/1-3"]),
    ("expansion of that", interface_range_expansion(written[0]), ["Gi1/0/1-3"]),
    ("bits_to_name(1500000)", bits_to_name(1_500_000), "2Mbps"),
    ("name_to_bits 1.5Mbps", name_to_bits("1.5Mbps"), 1_500_000),
]:
    print(f"{call:22} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
