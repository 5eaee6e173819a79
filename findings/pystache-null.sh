#!/usr/bin/env bash
# pystache 0.6.8, chevron 0.14.0 (Python 3.11): a null is nothing in one Mustache and "None" in the other.
#
# Expected: both render null as nothing, and escape the same characters.
# Seen: pystache writes "None". An apostrophe is &#x27; in pystache and stays in chevron, which matters in an attribute between
#   apostrophes. `{{items.0}}` is the first of a list in chevron and nothing in pystache.
# What to do: take nulls out before rendering, and quote attributes with double quotes.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install pystache==0.6.8 chevron==0.14.0
"$folder/venv/bin/python" - <<'END'
import chevron
import pystache

DATA = {"none": None, "name": "it's", "items": ["a"]}

right = True
for label, found, expected in [
    ("pystache null", pystache.render("{{none}}", DATA), "None"),
    ("chevron null", chevron.render("{{none}}", DATA), ""),
    ("pystache apostrophe", pystache.render("{{name}}", DATA), "it&#x27;s"),
    ("chevron apostrophe", chevron.render("{{name}}", DATA), "it's"),
    ("pystache items.0", pystache.render("{{items.0}}", DATA), ""),
    ("chevron items.0", chevron.render("{{items.0}}", DATA), "a"),
]:
    print(f"{label:22} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
