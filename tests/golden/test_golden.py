"""What people and programs outside rely on, as text: a change that is not meant shows as a difference.

After a change that is meant: LAUNCHBAY_GOLDEN=write .venv/bin/pytest tests/golden, and read the diff. Who may do what
is in tests/matrix/matrix.golden.
"""

import ast
import difflib
import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path

import click
import msgspec
import pytest
from prometheus_client import Counter, Gauge, Histogram

import launchbay
from launchbay.app.features import ENDPOINTS, PAGES
from launchbay.auth.permissions import Permission
from launchbay.cli.main import main
from launchbay.settings import Settings
from launchbay.telemetry import metrics
from launchbay.web.openapi import document
from launchbay.web.problems import STATUSES
from tests.support.api_contract import contract
from tests.support.sources import nodes_of, tree_of

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOURCE = Path(launchbay.__file__).parent
WRITES = os.environ.get("LAUNCHBAY_GOLDEN") == "write"
COLUMNS = 100


def openapi() -> str:
    """Return what the OpenAPI document binds programs to."""
    return contract(json.loads(msgspec.json.encode(document(ENDPOINTS))))


def endpoints() -> str:
    """Return a line for each endpoint, in the order of the table."""
    return "\n".join(
        f"{row.method} {row.path} · {row.operation_id} · {row.permission or 'public'}"
        f" · {' '.join(str(status) for status in row.all_statuses() if status < 400)}"
        f" · {'addition' if row.extension else 'reference'}"
        for row in ENDPOINTS
    )


def cli_help() -> str:
    """Return the help of every group and command, those that are loaded late and those made from operations too."""
    root = click.Context(main, info_name="launchbay", terminal_width=COLUMNS, **main.context_settings)
    return "\n\n".join(f"$ {context.command_path} --help\n{context.get_help()}" for context in _contexts(root))


def _contexts(context: click.Context) -> Iterator[click.Context]:
    yield context
    if not isinstance(context.command, click.Group):
        return
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        assert command is not None, f"{name} was listed"
        yield from _contexts(click.Context(command, parent=context, info_name=name, **command.context_settings))


def console_pages() -> str:
    """Return method and path of each page and of what its forms are sent to."""
    return "\n".join(f"{page.method} {page.path}" for page in PAGES)


def metric_names() -> str:
    """Return name, type and labels of the metrics."""
    held = [value for value in vars(metrics).values() if isinstance(value, Counter | Gauge | Histogram)]
    return "\n".join(sorted(f"{each._name} {each._type} {' '.join(each._labelnames)}".rstrip() for each in held))


def settings() -> str:
    """Return name, environment variable and default of each setting."""
    return "\n".join(
        f"{each.name} LAUNCHBAY_{each.name.upper()} {json.dumps(each.default, default=str)}"
        for each in fields(Settings)
    )


def error_codes() -> str:
    """Return each code with its statuses, from the places that raise it and from the page that lists them for clients.

    The page has the codes that go through a variable too; tests/docs/test_errors.py compares it with the source.
    """
    nodes = [
        node
        for path in sorted(SOURCE.rglob("*.py"))
        for node in nodes_of(tree_of(path))
        if isinstance(node, ast.ClassDef | ast.Call)
    ]
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for node in nodes
        if isinstance(node, ast.ClassDef)
    }
    by_name = {kind.__name__: status for kind, status in STATUSES.items()} | {"MethodNotAllowed": 405}

    def status_of(name: str) -> int:
        if name in by_name or name == "LaunchbayError":
            return by_name.get(name, 500)
        return min((status_of(base) for base in bases.get(name, ())), default=0)

    raised = {(code, status_of(name)) for node in nodes for code, name in _codes(node)}
    rows = "".join((ROOT / "docs" / "reference" / f"{name}.md").read_text("utf-8") for name in ("errors", "findings"))
    shown = re.findall(r"^\| `(\w+)` \| (?:(\d{3}|error|warning) \|)?", rows, re.MULTILINE)
    lines = [f"{code} {status}" for code, status in sorted(raised) if status]
    return "\n".join(["Raised:", *lines, "", "For clients:", *(" ".join(row).rstrip() for row in sorted(shown))])


def _codes(node: ast.ClassDef | ast.Call) -> Iterator[tuple[str, str]]:
    """Yield codes with the name of the class that has them or is called with them."""
    match node:
        case ast.ClassDef(name=name, body=body):
            for statement in body:
                match statement:
                    case ast.Assign(targets=[ast.Name(id="code")], value=ast.Constant(value=str(code))):
                        yield code, name
        case ast.Call(func=function, keywords=keywords):
            for keyword in keywords:
                match keyword:
                    case ast.keyword(arg="code", value=ast.Constant(value=str(code))):
                        yield code, ast.unparse(function).rpartition(".")[2]


def permissions() -> str:
    """Return the names that roles use."""
    return "\n".join(Permission)


FILES: dict[str, Callable[[], str]] = {
    "openapi.golden": openapi,
    "endpoints.golden": endpoints,
    "cli_help.golden": cli_help,
    "console_pages.golden": console_pages,
    "metrics.golden": metric_names,
    "settings.golden": settings,
    "error_codes.golden": error_codes,
    "permissions.golden": permissions,
}


@pytest.mark.parametrize("name", FILES)
def test_what_others_rely_on_is_as_it_was(name: str) -> None:
    file = HERE / name
    now = FILES[name]() + "\n"
    if WRITES:
        file.write_text(now, "utf-8")
    then = file.read_text("utf-8")
    difference = difflib.unified_diff(then.splitlines(), now.splitlines(), name, "now", n=1, lineterm="")
    assert then == now, "\n" + "\n".join(difference)
