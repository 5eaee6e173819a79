#!/usr/bin/env bash
# regopy 1.5.2, which is rego-cpp (Python 3.11): mixed lists sort in another order than in Open Policy Agent, and so do prereleases.
#
# Expected: sort() has OPA's order (null, booleans, numbers, texts, arrays, objects); semver.compare counts numbers of a prerelease as
#   numbers and leaves build metadata out, as SemVer says.
# Seen: texts come before numbers, and null and true near the end. alpha.10 is before alpha.9, and 1.0.0 before 1.0.0+1.
#   time.parse_duration_ns reads "1d", which Go's durations don't have. time.parse_rfc3339_ns and sprintf of %.2f are undefined.
# What to do: test each policy with the engine that enforces it.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install regopy==1.5.2
"$folder/venv/bin/python" - <<'END'
from json import loads

from regopy import Interpreter


def evaluate(expression):
    interpreter = Interpreter()
    interpreter.add_module("policy", f"package p\nx := {expression}")
    found = str(interpreter.query("data.p.x"))
    return found if found == "undefined" else loads(found)["expressions"][0]

right = True
for label, found, expected in [
    ("sort", evaluate('sort([3, "a", null, true, 1.5, [1]])'), ["a", 1.5, 3, [1], None, True]),
    ("alpha.10, alpha.9", evaluate('semver.compare("1.0.0-alpha.10", "1.0.0-alpha.9")'), -1),
    ("1.0.0, 1.0.0+1", evaluate('semver.compare("1.0.0", "1.0.0+1")'), -1),
    ("1d", evaluate('time.parse_duration_ns("1d")'), 86_400_000_000_000),
    ("a time", evaluate('time.parse_rfc3339_ns("2026-01-01T00:00:00Z")'), "undefined"),
]:
    print(f"{label:20} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
