#!/usr/bin/env bash
# tosca-parser 2.15.0 (Python 3.11): numbers of a TOSCA template are cut, or refused.
#
# Expected: an integer property refuses 1.5; a float property takes 1 and "1e3", as YAML writes them; a time without a wanted unit is in
#   seconds, as a size is in bytes.
# Seen: 1.5 is the integer 1, without a word, though "1.0" is refused. A float property refuses 1, "1" and "1e3". "1 d" is 86,400,000,
#   since times are in milliseconds.
# What to do: write floats with a point, check whole numbers before, and name the unit: get_num_from_scalar_unit("s").
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install tosca-parser==2.15.0
"$folder/venv/bin/python" - <<'END'
from importlib.metadata import version

from toscaparser.elements.scalarunit import ScalarUnit_Size, ScalarUnit_Time
from toscaparser.utils.validateutils import validate_float, validate_integer

print("tosca-parser", version("tosca-parser"))
right = True
for name, function, given, expected in [
    ("integer", validate_integer, 1.5, 1),
    ("integer", validate_integer, "1.0", "refused"),
    ("float", validate_float, 1.5, 1.5),
    ("float", validate_float, 1, "refused"),
    ("float", validate_float, "1e3", "refused"),
    ("time", lambda text: ScalarUnit_Time(text).get_num_from_scalar_unit(), "1 d", 86_400_000),
    ("time in s", lambda text: ScalarUnit_Time(text).get_num_from_scalar_unit("s"), "1 d", 86_400),
    ("size", lambda text: ScalarUnit_Size(text).get_num_from_scalar_unit(), "1 kB", 1000),
]:
    try:
        found = function(given)
    except ValueError:
        found = "refused"
    print(f"{name:10} {given!r:8} {found}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
