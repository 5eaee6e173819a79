#!/usr/bin/env bash
# json-merge-patch 0.3.0 (Python 3.11): a change from 1 to true isn't in the patch.
#
# Expected: `create_patch(before, after)` is a patch that makes `after` of `before` (RFC 7396), where 1, 1.0 and true are three JSON values
#   of two types. A null in `after`, which no patch can write, is refused.
# Seen: the patch from {"on": 1} to {"on": true} is {}, as is that from 0 to false, also inside of lists and objects. A new member that is
#   null goes into the patch, where it means "remove": merging gives an object without it, and no error.
# What to do: merge the patch, and compare the JSON text of the result with that of what was wanted.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install json-merge-patch==0.3.0
"$folder/venv/bin/python" - <<'END'
from copy import deepcopy
from json import dumps

from json_merge_patch import create_patch, merge

right = True
for before, after, patch, result in [
    ({"on": 1}, {"on": True}, {}, {"on": 1}),
    ({"on": [0]}, {"on": [False]}, {}, {"on": [0]}),
    ({"a": {"on": False}}, {"a": {"on": 0}}, {}, {"a": {"on": False}}),
    ({"on": 1}, {"on": 2}, {"on": 2}, {"on": 2}),
    ({}, {"a": None}, {"a": None}, {}),
]:
    made = create_patch(deepcopy(before), deepcopy(after))
    merged = merge(deepcopy(before), deepcopy(made))
    print(f"{dumps(before)} to {dumps(after)}: {dumps(made)}, which makes {dumps(merged)}")
    right = right and dumps([made, merged]) == dumps([patch, result])
raise SystemExit(0 if right else "The behaviour has changed.")
END
