#!/usr/bin/env bash
# LDAP filters: ldap-filter 1.0.1 (PyPI, Python 3.11) and ldap-filters 2.2.2 (npm, Node.js 20) don't match alike.
#
# Expected: RFC 4515 and 4517: numbers are compared as numbers, `(cn=*)` asks whether there is a value, attribute names have no case.
# Seen: `(age>=9)` matches "10" in one, not in the other, which compares texts. An empty value is present in one. `(CN=a)` matches `cn` in
#   none of them. A value that is a number raises AttributeError in one, TypeError in the other.
# What to do: turn all values into texts and all names into small letters before, pad numbers, or let the directory search.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit ldap-filters@2.2.2 >/dev/null
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install ldap-filter==1.0.1
cat >look.py <<'END'
from ldap_filter import Filter

ASKED = [("age>=9", {"age": "10"}), ("cn=*", {"cn": ""}), ("CN=a", {"cn": "a"}), ("cn=A", {"cn": "a"}), ("age=9", {"age": 9})]
for text, entry in [(f"({words})", entry) for words, entry in ASKED]:
    try:
        print("ldap-filter", text, entry, Filter.parse(text).match(entry))
    except AttributeError as problem:
        print("ldap-filter", text, entry, type(problem).__name__)
END
cat >look.cjs <<'END'
const Filter = require("ldap-filters");
const asked = [["age>=9", { age: "10" }], ["cn=*", { cn: "" }], ["CN=a", { cn: "a" }], ["cn=A", { cn: "a" }], ["age=9", { age: 9 }]];
for (const [text, entry] of asked.map(([words, entry]) => [`(${words})`, entry]))
  try {
    console.log("ldap-filters", text, JSON.stringify(entry), Filter.parse(text).match(entry));
  } catch (problem) {
    console.log("ldap-filters", text, JSON.stringify(entry), problem.name);
  }
END
{ venv/bin/python look.py; node look.cjs; } | tee seen
diff seen - <<'SEEN'
ldap-filter (age>=9) {'age': '10'} True
ldap-filter (cn=*) {'cn': ''} True
ldap-filter (CN=a) {'cn': 'a'} False
ldap-filter (cn=A) {'cn': 'a'} True
ldap-filter (age=9) {'age': 9} AttributeError
ldap-filters (age>=9) {"age":"10"} false
ldap-filters (cn=*) {"cn":""} false
ldap-filters (CN=a) {"cn":"a"} false
ldap-filters (cn=A) {"cn":"a"} true
ldap-filters (age=9) {"age":9} TypeError
SEEN
