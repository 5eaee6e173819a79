#!/usr/bin/env bash
# yamale 6.1.0, pykwalify 1.8.0 and Cerberus 1.3.8 (PyPI, Python 3.11): `true` is an address in one and a fraction in another.
#
# Expected: a schema that asks for a number, an address or one of a list refuses a truth value, and a text isn't a number.
# Seen: yamale takes `true` and 1 for an address (0.0.0.1), and `true` for a member of `enum(1, 2)`. Cerberus takes `true` for a float and
#   an integer, not for a number. pykwalify takes the text "1.5" for a float and for a number, and null for any type.
# What to do: ask for a pattern or a list of texts instead, and look at the type in the program.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install yamale==6.1.0 pykwalify==1.8.0 Cerberus==1.3.8 setuptools==80.9.0
cat >look.py <<'END'
import logging
import warnings

warnings.simplefilter("ignore")
import yamale
from cerberus import Validator
from pykwalify.core import Core
from pykwalify.errors import SchemaError

logging.disable(logging.CRITICAL)
for kind, value in [("ip()", "true"), ("ip()", "1"), ("enum(1, 2)", "true"), ("int()", "true"), ("num()", "true")]:
    try:
        yamale.validate(yamale.make_schema(content=f"a: {kind}"), yamale.make_data(content=f"a: {value}"))
        print("yamale", kind, value, True)
    except ValueError:
        print("yamale", kind, value, False)
for kind, value in [("float", "1.5"), ("number", "1.5"), ("int", "1"), ("float", True), ("str", None)]:
    try:
        Core(source_data={"a": value}, schema_data={"type": "map", "mapping": {"a": {"type": kind}}}).validate()
        print("pykwalify", kind, repr(value), True)
    except SchemaError:
        print("pykwalify", kind, repr(value), False)
for kind, value in [("float", True), ("number", True), ("integer", True)]:
    print("cerberus", kind, value, Validator({"a": {"type": kind}}).validate({"a": value}))
END
venv/bin/python look.py | tee seen
diff seen - <<'SEEN'
yamale ip() true True
yamale ip() 1 True
yamale enum(1, 2) true True
yamale int() true False
yamale num() true False
pykwalify float '1.5' True
pykwalify number '1.5' True
pykwalify int '1' False
pykwalify float True False
pykwalify str None True
cerberus float True True
cerberus number True False
cerberus integer True True
SEEN
