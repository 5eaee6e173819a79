#!/usr/bin/env bash
# KCL, kcl_lib 0.13.2 (Python 3.11): numbers with a unit lose their type or their value.
#
# Expected: `1Ki` is the whole number 1024 in YAML and JSON, as int(1Ki) is, and units.to_Mi gives a quantity that is as large as its
#   argument, or refuses one that isn't a multiple.
# Seen: `1Ki` is written as the float 1024.0, which a field for whole numbers refuses. units.to_Mi(1) is "0Mi", and to_Ki(1536) is "1Ki":
#   the rest is dropped silently, so that a limit of memory can become 0.
# What to do: write int(1Ki), and divide without a rest before units.to_*.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install kcl_lib==0.13.2
cat >"$folder/units.k" <<'END'
import units
a = 1Ki
b = int(1Ki)
c = units.to_Mi(1)
d = units.to_Ki(1536)
e = units.to_Mi(3 * 1024 * 1024)
END
"$folder/venv/bin/python" - "$folder/units.k" <<'END'
import sys
from importlib.metadata import version

from kcl_lib import api

print("kcl_lib", version("kcl_lib"))
found = api.API().exec_program(api.ExecProgramArgs(k_filename_list=[sys.argv[1]])).json_result
print(found)
raise SystemExit(0 if found == '{"a": 1024.0, "b": 1024, "c": "0Mi", "d": "1Ki", "e": "3Mi"}' else "The behaviour has changed.")
END
