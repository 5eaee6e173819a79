"""Each template that Python or another template names is there, and each one is named: no page needs to be rendered."""

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import jinja2
from jinja2 import nodes

from tests.support.templates import template_texts

SOURCE = Path(__file__).parents[2] / "src" / "launchbay"
TEMPLATES = template_texts()
# Pages of the sign-in without the console have a folder of their own (`web/html.py`).
SIGN_IN = {path.name for path in (SOURCE / "web" / "pages").glob("*.html")}
NAME = re.compile(r"[\w/*-]+\.html")


def named_in_python(source: str) -> Iterator[str]:
    """Yield the templates in a module's strings; what an f-string computes is a `*`."""
    parts: set[ast.expr] = set()
    for node in ast.walk(ast.parse(source)):
        text = ""
        if isinstance(node, ast.JoinedStr):
            parts.update(node.values)
            text = "".join(str(each.value) if isinstance(each, ast.Constant) else "*" for each in node.values)
        elif isinstance(node, ast.Constant) and node not in parts:
            text = str(node.value)
        if NAME.fullmatch(text):
            yield text


def named_in_template(text: str) -> Iterator[str]:
    """Yield the templates that a template extends, includes, imports or names in a call; what it computes is a `*`."""
    for node in jinja2.Environment(autoescape=True).parse(text).find_all((nodes.Const, nodes.Concat)):
        parts = node.nodes if isinstance(node, nodes.Concat) else [node]
        named = "".join(str(part.value) if isinstance(part, nodes.Const) else "*" for part in parts)
        if NAME.fullmatch(named):
            yield named


@cache
def named() -> dict[str, str]:
    """Return the templates that somebody names, each with one of the places that do."""
    modules = {str(path.relative_to(SOURCE)): path.read_text("utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    return {name: place for place, text in TEMPLATES.items() for name in named_in_template(text)} | {
        name: place for place, text in modules.items() if ".html" in text for name in named_in_python(text)
    }


def test_each_named_template_is_there() -> None:
    known = SIGN_IN | set(TEMPLATES)
    missing = {name: place for name, place in named().items() if not any(fnmatchcase(each, name) for each in known)}
    assert not missing


def test_each_template_is_named() -> None:
    assert not {name for name in TEMPLATES if not any(fnmatchcase(name, each) for each in named())}


def test_a_misspelled_name_is_seen_wherever_it_is() -> None:
    code = 'show("bulk/templates/bulc.html")\nshow(f"run_{part}.html")\nshow("Not a .html file")'
    assert list(named_in_python(code)) == ["bulk/templates/bulc.html", "run_*.html"]
    template = '{% extends "layuot.html" %}{% include "service_" ~ part ~ ".html" %}{{ piece("keys.html") }}'
    assert set(named_in_template(template)) == {"layuot.html", "service_*.html", "keys.html"}
