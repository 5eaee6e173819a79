#!/usr/bin/env bash
# Jinja: jinja2 3.1.6, minijinja 3.0.5 (PyPI, Python 3.11), nunjucks 3.2.4 and @huggingface/jinja 0.5.11 (npm, Node.js 20) render one
#   template in several ways.
#
# Expected: the other three say that they are Jinja, or inspired by it, so that the plain parts of a template give the same text.
# Seen: in nunjucks an assignment inside of a loop stays after it, an empty list is true, a loop over a map has no turns, and `list[-1]` is
#   nothing. 1 equals "1" in both of npm. `"12abc" | int` is 12 in both, 0 in jinja2, and an error in minijinja. -7 % 3 is -1 in
#   both of npm, and 4 / 2 is "2" in nunjucks alone.
# What to do: render with the engine that the template was written for.
# Exits with 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip -q --disable-pip-version-check install jinja2==3.1.6 minijinja==3.0.5
npm install --silent --no-fund --no-audit nunjucks@3.2.4 @huggingface/jinja@0.5.11 >/dev/null
cat >templates <<'END'
{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}
{% if [] %}yes{% else %}no{% endif %}
{% for key in map %}{{ key }}{% endfor %}
{{ list[-1] }}
{{ 'yes' if 1 == '1' else 'no' }}
{{ '12abc' | int }}
{{ '0x1f' | int }}
{{ -7 % 3 }}
{{ 4 / 2 }}
END
cat >look.py <<'END'
import jinja2
import minijinja

VALUES = {"map": {"a": 1}, "list": [1, 2, 3]}
for number, line in enumerate(open("templates"), 1):
    found = [jinja2.Template(line.strip()).render(VALUES)]
    try:
        found.append(minijinja.Environment().render_str(line.strip(), **VALUES))
    except minijinja.TemplateError as problem:
        found.append(type(problem).__name__)
    print(number, "jinja2", found[0], "minijinja", found[1])
END
cat >look.mjs <<'END'
import { readFileSync } from "node:fs";
import nunjucks from "nunjucks";
import { Template } from "@huggingface/jinja";
const values = () => ({ map: { a: 1 }, list: [1, 2, 3] });
readFileSync("templates", "utf8").trim().split("\n").forEach((line, index) =>
  console.log(index + 1, "nunjucks", nunjucks.renderString(line, values()), "huggingface", new Template(line).render(values())));
END
{ venv/bin/python look.py; node look.mjs; } >seen
cat seen
diff seen - <<'SEEN'
1 jinja2 1 minijinja 1
2 jinja2 no minijinja no
3 jinja2 a minijinja a
4 jinja2 3 minijinja 3
5 jinja2 no minijinja no
6 jinja2 0 minijinja TemplateError
7 jinja2 0 minijinja TemplateError
8 jinja2 2 minijinja 2
9 jinja2 2.0 minijinja 2.0
1 nunjucks 2 huggingface 1
2 nunjucks yes huggingface no
3 nunjucks  huggingface a
4 nunjucks  huggingface 3
5 nunjucks yes huggingface yes
6 nunjucks 12 huggingface 12
7 nunjucks 0 huggingface 0
8 nunjucks -1 huggingface -1
9 nunjucks 2 huggingface 2.0
SEEN
