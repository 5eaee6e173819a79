#!/usr/bin/env bash
# python-hcl2 8.1.4 (Python 3.11): texts keep their quotes, here-documents their markers, and 1e3 is an expression.
#
# Expected: `a = "x"` is the text x; a here-document is its lines, without the indentation that `<<-` removes; 1e3 is 1000; an attribute
#   given twice is refused, as Terraform does.
# Seen: the value of "x" has two more characters, its quotes; labels of blocks too. A here-document is one text from `<<-EOT` to `EOT` in
#   quotes. 1e3 is "${1e3}", 010 is 10. Of two attributes with one name, the last counts.
# What to do: pin the version (before 8, quotes were removed), and take values from `terraform show -json` where they matter.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" -q --disable-pip-version-check install python-hcl2==8.1.4
"$folder/venv/bin/python" - <<'END'
import hcl2

right = True
for label, found, expected in [
    ("text", hcl2.loads('a = "x"\n'), {"a": '"x"'}),
    ("here-document", hcl2.loads("a = <<-EOT\n  x\n  EOT\n"), {"a": '"<<-EOT\n  x\n  EOT"'}),
    ("1e3", hcl2.loads("a = 1e3\n"), {"a": "${1e3}"}),
    ("010", hcl2.loads("a = 010\n"), {"a": 10}),
    ("twice", hcl2.loads("a = 1\na = 2\n"), {"a": 2}),
    ("label", list(hcl2.loads('b "x" {\n}\n')["b"][0]), ['"x"']),
]:
    print(f"{label:14} {found!r}")
    right = right and found == expected
raise SystemExit(0 if right else "The behaviour has changed.")
END
