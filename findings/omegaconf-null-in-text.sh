#!/usr/bin/env bash
# omegaconf 2.3.1 (Python 3.11): a null inside of a text is "None", and times are numbers.
#
# Expected: `x${b}` with a null b is "x" or an error; numbers follow one version of YAML.
# Seen: it is "xNone". 12:30 is 750, 010 is 8 and yes is true, as in YAML 1.1; 1e3 is a number, as in YAML 1.2.
# What to do: give a fallback with oc.select, and quote times.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install omegaconf==2.3.1
"$folder/venv/bin/python" - <<'END'
from omegaconf import OmegaConf


def read(text):
    return OmegaConf.to_container(OmegaConf.create(text), resolve=True)["a"]

right = True
for label, found, expected in [
    ("x${b}", read("a: x${b}\nb: null"), "xNone"),
    ("12:30", read("a: 12:30"), 750),
    ("010", read("a: 010"), 8),
    ("1e3", read("a: 1e3"), 1000.0),
    ("yes", read("a: yes"), True),
]:
    print(f"{label:8} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
