#!/usr/bin/env bash
# ttp 0.10.1 (PyPI, Python 3.11): the type of a result depends on how often the device has the thing.
#
# Expected: a group of a template is a list of what was found: none, one or more.
# Seen: one interface is an object, two are a list of objects, and of none the group is missing. A value that `to_int` can't read stays a
#   text.
# What to do: give the group the path `interfaces*`, which is always a list, and check the types of values.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install ttp==0.10.1
cat >look.py <<'END'
from json import dumps

from ttp import ttp

TEMPLATE = """
<group name="{path}">
interface {{{{ name }}}}
 mtu {{{{ mtu | to_int }}}}
</group>
"""
ONE = "interface eth0\n mtu 1500\n"
TWO = ONE + "interface eth1\n mtu jumbo\n"
for path in ("interfaces", "interfaces*"):
    for text in ("hostname leaf\n", ONE, TWO):
        parser = ttp(data=text, template=TEMPLATE.format(path=path), log_level="CRITICAL")
        parser.parse()
        print(path, dumps(parser.result()[0][0], sort_keys=True))
END
venv/bin/python look.py 2>/dev/null | tee seen
diff seen - <<'SEEN'
interfaces {}
interfaces {"interfaces": {"mtu": 1500, "name": "eth0"}}
interfaces {"interfaces": [{"mtu": 1500, "name": "eth0"}, {"mtu": "jumbo", "name": "eth1"}]}
interfaces* {}
interfaces* {"interfaces": [{"mtu": 1500, "name": "eth0"}]}
interfaces* {"interfaces": [{"mtu": 1500, "name": "eth0"}, {"mtu": "jumbo", "name": "eth1"}]}
SEEN
