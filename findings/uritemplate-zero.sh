#!/usr/bin/env bash
# uritemplate 4.2.0 and uri-template 1.3.0 (Python 3.11): the number 0 is left out of an address by one of them.
#
# Expected: `{?offset}` with 0 is "?offset=0", as 1 is "?offset=1". RFC 6570, section 2.3, lets an undefined member of a map be left out.
# Seen: in queries, uritemplate writes "?offset=" for 0, 0.0 and False, but "0" for 0 inside of a list, and "/0" in a path. A member of a
#   map that is None is the text "None" in queries, in both packages, though None alone is left out by both.
# What to do: give numbers as text, and take members without a value out of maps.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install uritemplate==4.2.0 uri-template==1.3.0
"$folder/venv/bin/python" - <<'END'
import uri_template
import uritemplate

right = True
for template, value, one, other in [
    ("{?x}", 1, "?x=1", "?x=1"),
    ("{?x}", 0, "?x=", "?x=0"),
    ("{?x}", 0.0, "?x=", "?x=0.0"),
    ("{x}", 0, "0", "0"),
    ("/items{/x}", 0, "/items/0", "/items/0"),
    ("{?x}", [0, 1], "?x=0,1", "?x=0,1"),
    ("{?x}", False, "?x=", "?x=false"),
    ("{?x}", None, "", ""),
    ("{?x*}", {"a": 1, "b": None}, "?a=1&b=None", "?a=1&b=None"),
]:
    found = uritemplate.expand(template, x=value), uri_template.expand(template, x=value)
    print(f"{template} with {value!r}: uritemplate {found[0]!r}, uri-template {found[1]!r}")
    right = right and found == (one, other)
raise SystemExit(0 if right else "The behaviour has changed.")
END
