#!/usr/bin/env bash
# fastavro 1.13.1 (Python 3.11): a number that the schema can't have is written, and a fraction is cut off.
#
# Expected: an `int` of Avro is a signed number of 32 bits (specification, "Primitive Types"), so that 2 to the power of 40 is refused, as
#   a text is. 1.7 for an `int` is refused, too.
# Seen: 2 to the power of 40 is written and read back, in a file that readers of other languages can't read as an int. 1.7 becomes 1, true
#   becomes 1. A decimal of three digits with scale 2 is refused, and a union of int and long does look at the size.
# What to do: call fastavro.validate before writing, which refuses all three.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install fastavro==1.13.1
"$folder/venv/bin/python" - <<'END'
from io import BytesIO

from fastavro import schemaless_reader, schemaless_writer, validate

right = True
for value, back, valid in [(1, 1, True), (2**40, 2**40, False), (1.7, 1, False), (True, 1, False)]:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}
    file = BytesIO()
    schemaless_writer(file, schema, {"a": value})
    file.seek(0)
    found = schemaless_reader(file, schema)["a"]
    checked = validate({"a": value}, schema, raise_errors=False)
    print(f"{value!r} is read back as {found!r}, valid: {checked}")
    right = right and (repr(found), checked) == (repr(back), valid)
raise SystemExit(0 if right else "The behaviour has changed.")
END
