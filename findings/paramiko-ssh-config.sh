#!/usr/bin/env bash
# paramiko 5.1.0 (Python 3.11): a host of an included file isn't known, and a condition that it can't read is true.
#
# Expected: SSHConfig answers what ssh_config(5) says, or refuses what it doesn't support: an Include is read, a Match with a criterion
#   that doesn't hold is left out, and "#" after a value begins a comment.
# Seen: Include is an option like others, and its file is never read, without a warning. `Match tagged x`, `Match localnetwork …` and
#   `Match version …` apply to all hosts, whatever follows. `Port 22 # note` is the port "22 # note".
# What to do: ask `ssh -G HOST` for the options, and read its answer.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install paramiko==5.1.0
printf 'Host web\n  HostName 192.0.2.1\n  Port 2200\n' >more
venv/bin/python - <<'END'
from pathlib import Path

from paramiko import SSHConfig

right = True
for text, expected in [
    (Path("more").read_text(), {"hostname": "192.0.2.1", "port": "2200"}),
    (f"Include {Path('more').resolve()}\n", {"hostname": "web"}),
    ("Match tagged x\n  Port 2201\n", {"hostname": "web", "port": "2201"}),
    ("Match localnetwork 192.0.2.0/24\n  Port 2202\n", {"hostname": "web", "port": "2202"}),
    ("Match version never\n  Port 2203\n", {"hostname": "web", "port": "2203"}),
    ("Match host db\n  Port 2204\n", {"hostname": "web"}),
    ("Host web\n  Port 22 # note\n", {"hostname": "web", "port": "22 # note"}),
]:
    found = {name: value for name, value in SSHConfig.from_text(text).lookup("web").items() if name in ("hostname", "port")}
    print(f"{text.splitlines()[0].split('/')[0]:22} {found}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
