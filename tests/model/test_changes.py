"""Rules about changes: no operation is forgotten, and the matrix of what they say to whom."""

import ast
from collections.abc import Iterator
from pathlib import Path

from launchbay.model.changes import EXEMPT, GOVERNED

SOURCES = Path("src/launchbay")
# What a part of a name stands for.
PARTS = {"kind": ("application", "environment")}  # what has labels is an instance too


def audited() -> Iterator[tuple[str, str]]:
    """Yield the names of all operations that are audited, with the file of each."""
    for path in sorted(SOURCES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "audit":
                yield from ((name, str(path.relative_to(SOURCES))) for name in names_of(node.args[0]))


def names_of(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(name)):
            yield name
        case ast.IfExp():
            yield from (*names_of(node.body), *names_of(node.orelse))
        case ast.Subscript(value=ast.Dict(values=values)):
            for value in values:
                yield from names_of(value)
        case ast.JoinedStr(
            values=[ast.Constant(value=str(before)), ast.FormattedValue(value=ast.Name(id=part)), *rest]
        ):
            after = "".join(str(each.value) for each in rest if isinstance(each, ast.Constant))
            yield from (f"{before}{each}{after}" for each in PARTS[part])


def test_each_operation_on_what_rules_are_about_says_whether_they_govern_it() -> None:
    about = ("application", "environment", "instance", "revision", "workflow", "manifest", "service")
    forgotten = {
        f"{name} ({path})"
        for name, path in audited()
        if any(noun in name for noun in about)
        and name not in GOVERNED
        and name not in EXEMPT
        and "service_account" not in name
    }
    assert forgotten == set()


def test_no_row_is_left_of_an_operation_that_is_gone() -> None:
    known = (
        {name for name, _ in audited()}
        | {"replace_manifest", "set_manifest_source", "refresh_manifest"}
        | {"put_instance_labels"}
    )
    assert {*GOVERNED, *EXEMPT} - known == set()


def test_no_operation_is_both() -> None:
    assert GOVERNED.keys() & EXEMPT.keys() == set()
