#!/usr/bin/env bash
# iptools 0.7.0, ipcalc 1.99.0 (Python 3.11): "10.1" is two addresses in one library.
#
# Expected: a short address is refused, or read in one way; the first host of a network is an address.
# Seen: iptools reads the address "10.1" as 10.0.0.1, as inet_aton(3) does, and the network "10.1/16" from 10.1.0.0; it says of both forms
#   that they are valid. ipcalc gives the first host of a /31 as the text "10.0.0.0/31".
# What to do: accept four parts only, and use ipaddress of the standard library.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install iptools==0.7.0 ipcalc==1.99.0 six==1.17.0
"$folder/venv/bin/python" - <<'END'
import ipcalc
from iptools.ipv4 import cidr2block, ip2long, long2ip, validate_cidr, validate_ip

right = True
for label, found, expected in [
    ("address 10.1", long2ip(ip2long("10.1")), "10.0.0.1"),
    ("network 10.1/16", cidr2block("10.1/16"), ("10.1.0.0", "10.1.255.255")),
    ("valid", (validate_ip("10.1"), validate_cidr("10.1/16")), (True, True)),
    ("first of /30, /31", [str(ipcalc.Network(f"10.0.0.0/{size}").host_first()) for size in (30, 31)], ["10.0.0.1", "10.0.0.0/31"]),
]:
    print(f"{label:18} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
