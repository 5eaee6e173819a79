#!/usr/bin/env bash
# CEL of cel-expr-python 0.1.3 (the C++ implementation): a whole number and a fraction are equal though they differ by one.
#
# Expected: comparisons between an int and a double are exact, on one number line. So 9007199254740993, which no double can be, equals none.
# Seen: the int is converted to the nearest double first, so it equals 9007199254740992.0, and is in a list that has it. As ints, the two
# numbers differ, so equality isn't transitive. Python compares them exactly.
# What to do: compare identifiers of more than 53 bits as ints or as text on both sides.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip --quiet install cel-expr-python==0.1.3
cat >run.py <<'END'
from cel_expr_python import cel

environment = cel.NewEnv(variables={"read": cel.Type.DYN})


def answer(formula):
    return environment.compile(formula).eval(data={"read": 9007199254740993}).plain_value()


wanted = {
    "read == 9007199254740992.0": True,
    "read in dyn([9007199254740992.0])": True,
    "dyn(9007199254740992) == dyn(9007199254740992.0)": True,
    "read == 9007199254740992": False,
}
for formula, value in wanted.items():
    print(formula, answer(formula))
    assert answer(formula) is value
assert 9007199254740993 != 9007199254740992.0  # Python
END
venv/bin/python run.py
