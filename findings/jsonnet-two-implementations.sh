#!/usr/bin/env bash
# jsonnet (C++) and gojsonnet (Go), both 0.22.0 (Python 3.11): the same program gives other documents.
#
# Expected: two implementations of one language, of one version and with one standard library, agree about what it defines.
# Seen: `std.parseYaml` reads by YAML 1.1 in Go (`yes` is true, `017` is 15, `1_000` is 1000), and as text in C++. An alias is resolved in
#   Go; in C++ it is the text "*x". `std.base64` of a text with an umlaut is that of UTF-8 in Go, and of Latin-1 in C++, so that a Secret
#   of Kubernetes holds another password. Neither warns.
# What to do: use one implementation for all, quote in YAML, and pass bytes to base64: std.base64(std.encodeUTF8(text)).
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install jsonnet==0.22.0 gojsonnet==0.22.0
"$folder/venv/bin/python" - <<'END'
import json
from importlib.metadata import version

import _gojsonnet
import _jsonnet

print(*(f"{name} {version(name)}" for name in ("jsonnet", "gojsonnet")))
right = True
for program, in_c, in_go in [
    ("std.parseYaml('a: yes')", {"a": "yes"}, {"a": True}),
    ("std.parseYaml('a: 017')", {"a": "017"}, {"a": 15}),
    ("std.parseYaml('a: 1_000')", {"a": "1_000"}, {"a": 1000}),
    ("std.parseYaml('a: &x 1\\nb: *x')", {"a": 1, "b": "*x"}, {"a": 1, "b": 1}),
    ("std.base64('ü')", "/A==", "w7w="),
    ("std.base64(std.encodeUTF8('ü'))", "w7w=", "w7w="),
]:
    seen = [json.loads(each.evaluate_snippet("program", program)) for each in (_jsonnet, _gojsonnet)]
    print(f"{program:36} C++: {json.dumps(seen[0]):22} Go: {json.dumps(seen[1])}")
    right = right and seen == [in_c, in_go]
raise SystemExit(0 if right else "The behaviour has changed.")
END
