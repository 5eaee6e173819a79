#!/usr/bin/env bash
# starlark-pyo3 2026.1.3 (Python 3.11): infinity and "not a number" reach Python as None.
#
# Expected: a float of a Starlark program arrives in Python as the same float, or the conversion fails, as it does for a range.
# Seen: 1e400, float("inf") and float("nan") are None, as results and as arguments of Python functions, so that a limit that overflowed
#   looks as if nobody had set one. The other way, Python's infinity is refused by an error.
# What to do: return str(value) where a float may overflow.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install starlark-pyo3==2026.1.3
"$folder/venv/bin/python" - <<'END'
from importlib.metadata import version

import starlark

print("starlark-pyo3", version("starlark-pyo3"))
right, seen = True, []
names, module = starlark.Globals.standard(), starlark.Module()
module.add_callable("give", lambda value: seen.append(value))


def evaluated(text: str) -> object:
    return starlark.eval(module, starlark.parse("x.star", text), names)


for text, expected in [("1e308", 1e308), ("1e400", None), ('float("inf")', None), ('float("nan")', None)]:
    found = evaluated(text)
    print(f"{text:14} {found!r}")
    right = right and found == expected
evaluated("give(1e400)")
print("argument      ", seen)
for text, value in (("infinity", float("inf")), ("a range", None)):
    try:
        module["x"] = value
        evaluated("range(3)" if value is None else "x")
        right = False
    except starlark.StarlarkError as error:
        print(f"{text:14} refused: {str(error).splitlines()[0][:60]}")
raise SystemExit(0 if right and seen == [None] else "The behaviour has changed.")
END
