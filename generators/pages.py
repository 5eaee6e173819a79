"""Pages of the reference that follow from the code. What is written by hand in them stands above a mark, and stays."""

from collections.abc import Iterator
from pathlib import Path

from generators.api_page import api_reference
from generators.cli_page import cli_reference
from generators.console_gallery import console_pages
from generators.limits_page import limits_table
from generators.words import ROOT, Schema
from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.output import MEANINGS

REFERENCE = Path("docs/reference")
MARK = "<!-- Below this line `python -m generators` writes. -->"


def pages(document: Schema) -> dict[Path, str]:
    """Return path → text of the pages."""
    generated = {
        "api.md": api_reference(document),
        "cli.md": cli_reference(),
        "console-pages.md": console_pages(),
        "exit-codes.md": _exit_codes(),
        "limits.md": limits_table(),
        "permissions.md": "\n".join(_permissions(document)) + "\n",
    }
    return {REFERENCE / name: f"{_by_hand(REFERENCE / name)}{MARK}\n\n{text}" for name, text in generated.items()}


def _by_hand(path: Path) -> str:
    """Return what stands above the mark of a page."""
    text = (ROOT / path).read_text("utf-8")
    head, mark, _ = text.partition(MARK)
    assert mark, f"{path} has no line that says {MARK}"
    return head


def _exit_codes() -> str:
    lines = ["| code | name | when | what to do |", "|---|---|---|---|"]
    lines += [f"| `{int(code)}` | {code.name} | {when} | {remedy} |" for code, (when, remedy) in MEANINGS.items()]
    return "\n".join(lines) + "\n"


def _permissions(document: Schema) -> Iterator[str]:
    """Yield a table: each permission with the operations that speak of it."""
    needs = {
        entry["operationId"]: entry.get("description", "")
        for methods in document["paths"].values()
        for entry in methods.values()
    }
    yield "| permission | operations that need it, alone or among others |"
    yield "|---|---|"
    spellings = {permission: name for name, permission in ALIASES.items()}
    for permission in Permission:
        words = [name for name, text in needs.items() if permission in text.replace(",", " ").replace(";", " ").split()]
        links = ", ".join(f"[{name}](api.md#{name})" for name in words)
        also = f", also `{spellings[permission]}`" if permission in spellings else ""
        yield f"| `{permission}`{also} | {links or '–'} |"
