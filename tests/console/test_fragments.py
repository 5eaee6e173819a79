"""Parts of pages that change by themselves are rendered without the page, whose macros they must not need."""

import re
from pathlib import Path

from jinja2 import meta

from launchbay.console.rendering import templates
from tests.support.templates import template_texts

SOURCE = Path(__file__).parents[2] / "src/launchbay"
_NAMED = re.compile(r'fragment\(\s*"([\w/]+\.html)"')
_LISTED = re.compile(r"(?:for name in |_PARTS = frozenset\()[({]([^)}]*)[)}]")
_BUILT = re.compile(r'fragment\(f"(\w+)\{name\}\.html"')


def fragments() -> set[str]:
    """Return the names of templates that the pages render by themselves."""
    found: set[str] = set()
    for page in [*SOURCE.glob("console/*.py"), *SOURCE.glob("pages/*.py"), *SOURCE.glob("features/*/pages.py")]:
        text = page.read_text("utf-8")
        found |= set(_NAMED.findall(text))
        for start in _BUILT.findall(text):
            listed = " ".join(_LISTED.findall(text))
            found |= {f"{start}{name}.html" for name in re.findall(r'"(\w+)"', listed)}
    return found & set(template_texts())


def test_parts_that_change_by_themselves_import_the_macros_that_they_use() -> None:
    names = fragments()
    assert {"run_head.html", "run_rows.html", "instance_why.html", "log_lines.html"} <= names
    missing = {}
    for name in sorted(names):
        parsed = templates.parse(template_texts()[name])
        missing[name] = meta.find_undeclared_variables(parsed) & {"macros", "parts"}
    assert {name: found for name, found in missing.items() if found} == {}
