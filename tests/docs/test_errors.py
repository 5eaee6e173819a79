"""The pages of errors and findings have every code of the source, and the source every code of the pages."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.documentation import DOCS, ROOT, table_codes
from tests.support.sources import nodes_of, tree_of

PAGES = (DOCS / "reference" / "errors.md", DOCS / "reference" / "findings.md")
SOURCE = ROOT / "src" / "launchbay"
_CODE = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+")
# Calls whose texts look like codes and are none.
_OTHER_CALLS = {"TypeVar"}
# Texts that look like codes and are kinds of Kubernetes.
_OTHER_TEXTS = {"CustomResourceDefinition"}


def codes_in(tree: ast.AST) -> Iterator[str]:
    """Yield what is a code by its place.

    That is `code = "…"`, `X_CODE = "…"`, `code="…"`, or an argument that is written like one.
    """
    annotations = {id(node.slice) for node in nodes_of(tree) if isinstance(node, ast.Subscript)}
    for node in nodes_of(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(code))) if name.endswith("_CODE"):
                yield from _codes_among([ast.Constant(code)])
            case ast.ClassDef(body=body):
                for statement in body:
                    match statement:
                        case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                            yield code
            case ast.Call(func=function, args=arguments, keywords=keywords):
                for keyword in keywords:
                    match keyword:
                        case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                            yield code
                codes = list(_codes_among(arguments))
                if codes and ast.unparse(function) not in _OTHER_CALLS:
                    yield from codes
            case ast.Tuple(elts=elements) if id(node) not in annotations:
                yield from _codes_among(elements)


def _codes_among(nodes: list[ast.expr]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if _CODE.fullmatch(text) and text not in _OTHER_TEXTS:
                yield text


@cache
def codes_of_the_source() -> dict[str, str]:
    """Return every code with a file that has it."""
    found: dict[str, str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for code in codes_in(tree_of(path)):
            found.setdefault(code, str(path.relative_to(ROOT)))
    return found


def shown_codes() -> list[str]:
    return [code for page in PAGES for code in table_codes(page)]


def test_every_code_of_the_source_is_on_the_page() -> None:
    shown = set(shown_codes())
    missing = {code: path for code, path in codes_of_the_source().items() if code not in shown}
    assert missing == {}, "add a row with meaning and remedy to docs/reference/errors.md or findings.md"


def test_every_code_of_the_page_is_in_the_source() -> None:
    assert set(shown_codes()) - set(codes_of_the_source()) == set(), "nothing answers these codes any more"


def test_no_code_is_on_the_page_twice() -> None:
    shown = shown_codes()
    assert sorted(shown) == sorted(set(shown))


def test_codes_are_found_wherever_they_stand() -> None:
    source = """
class Odd(LaunchbayError):
    code = "Odd"
raise BadRequest("No.", code="Single")
findings.error("OddThing", f"{x} is odd", place)
_TAKEN = "That name is taken.", "NameGone"
Kind = TypeVar("KindT")
log.info("Not a code")
later: Mapping[str, "NotYet"] = {}
"""
    assert set(codes_in(ast.parse(source))) == {"Odd", "Single", "OddThing", "NameGone"}


def test_every_row_has_a_meaning_and_a_remedy() -> None:
    rows = [line for page in PAGES for line in page.read_text("utf-8").splitlines() if line.startswith("| `")]
    for row in rows:
        *_, meaning, remedy = (cell.strip() for cell in row.strip("|").split("|"))
        assert meaning.endswith("."), row
        assert remedy.endswith("."), row
