#!/usr/bin/env bash
# scim2-filter-parser 0.7.0 (Python 3.11): "or" binds as strongly as "and".
#
# Expected: as RFC 7644 (3.4.2.2) says, `a or b and c` is `a or (b and c)`.
# Seen: the SQL is `(a OR b) AND c`, so that people are missing from the answer. An escaped quote in a value is a syntax error.
# What to do: put parentheses into each filter that mixes the two.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install scim2-filter-parser==0.7.0
"$folder/venv/bin/python" - <<'END'
from scim2_filter_parser.queries import SQLQuery

COLUMNS = {("userName", None, None): "name", ("title", None, None): "title"}


def where(text):
    return SQLQuery(text, "people", COLUMNS).where_sql

right = True
for label, found, expected in [
    ("a or b and c", where('title pr or userName pr and title pr'), "((title IS NOT NULL) OR (UPPER(name) IS NOT NULL)) AND (title IS NOT NULL)"),
    ("a or (b and c)", where('title pr or (userName pr and title pr)'), "(title IS NOT NULL) OR ((UPPER(name) IS NOT NULL) AND (title IS NOT NULL))"),
]:
    print(f"{label:16} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
