#!/usr/bin/env bash
# cloud-init 22.4.2 (Debian 12, 22.4.2-1+deb12u4): `permissions: 644` of write_files, without quotes, makes a file of mode 1204.
#
# Expected: 644 means what it means in quotes and for chmod, or is refused.
# Seen: in quotes, 644 is read in base 8. Without, it is a number of YAML, in base 10, and is taken for the bits of the mode themselves:
#   1204 in base 8, so that its owner can't read the file, and others can. 0644 without quotes is right by accident: YAML 1.1 reads it in
#   base 8. A text such as "u=rw" is taken for the default, 0644. A boot only logs a warning of the schema for the number.
# What to do: quote it, and check user data with `cloud-init schema` before it is used.
# Exits with 1 if that changes. Nothing of this machine is configured: one function of the package is called.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q cloud-init=22.4.2-1+deb12u4 >/dev/null 2>&1
dpkg-deb -x cloud-init*.deb root
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install PyYAML==6.0.3 configobj==5.0.9 requests==2.32.5 jsonpatch==1.33 jinja2==3.1.6
PYTHONPATH=root/usr/lib/python3/dist-packages venv/bin/python - <<'END'
import logging

import yaml
from cloudinit.config.cc_write_files import DEFAULT_PERMS, decode_perms
from cloudinit.version import version_string

logging.disable()
print("cloud-init", version_string())
right = True
for text, mode in [('"0644"', 0o644), ('"644"', 0o644), ("0644", 0o644), ("644", 0o1204), ('"u=rw"', 0o644)]:
    seen = decode_perms(yaml.safe_load(f"permissions: {text}")["permissions"], DEFAULT_PERMS)
    print(f"permissions: {text:7} is mode {seen:04o}")
    right = right and seen == mode
raise SystemExit(0 if right else "The behaviour has changed.")
END
