#!/usr/bin/env bash
# sshconf 0.2.7 (Python 3.11): it finds other settings of a host than ssh does.
#
# Expected: `Host a b` is two hosts; of two entries for a host, the first value counts, as in ssh_config(5); `Host=a` is a form of `Host
#   a`.
# Seen: "a b" is one host, and host("a") has nothing. Two entries give a port of ['1', '2']. `Host=a`, and what stands before the first
#   Host, are left out without an error.
# What to do: read with `ssh -G`, and use this library for writing only.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install sshconf==0.2.7
"$folder/venv/bin/python" - <<'END'
from pathlib import Path
from tempfile import TemporaryDirectory

from sshconf import read_ssh_config_file


def read(text, host="a"):
    with TemporaryDirectory() as folder:
        (path := Path(folder, "config")).write_text(text)
        config = read_ssh_config_file(str(path))
        return list(config.hosts()), config.host(host)

right = True
for label, found, expected in [
    ("Host a b", read("Host a b\n Port 1\n"), (["a b"], {})),
    ("two entries", read("Host a\n Port 1\nHost a\n Port 2\n"), (["a", "a"], {"port": ["1", "2"]})),
    ("Host=a", read("Host=a\n Port 1\n"), ([], {})),
    ("before Host", read("Port 5\nHost a\n User x\n"), (["a"], {"user": "x"})),
]:
    print(f"{label:14} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
