"""Pages of the reference that follow from the code. What is written by hand in them stands above a mark, and stays."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from generators.api_page import api_pages, places_of_operations
from generators.cli_page import cli_pages
from generators.console_gallery import console_pages
from generators.limits_page import limits_table
from generators.words import ROOT, Schema, table_row
from launchbay.auth.permissions import ALIASES, Permission
from launchbay.cli.output import MEANINGS
from launchbay.documentation import Entry, entries, plain

REFERENCE = Path("docs/reference")
MARK = "<!-- Below this line `python -m generators` writes. -->"


def pages(document: Schema) -> dict[Path, str]:
    """Return path → text of the pages."""
    places = places_of_operations(document)
    generated = {
        "actions/index.md": "\n".join(_actions()) + "\n",
        "errors.md": "\n".join(_findings()) + "\n",
        "console-pages.md": console_pages(),
        "exit-codes.md": _exit_codes(),
        "limits.md": limits_table(),
        "permissions.md": "\n".join(_permissions(document, places)) + "\n",
    }
    whole: dict[Path, str] = {}
    for folder, found in (("api", api_pages(document)), ("cli", cli_pages(places))):
        for name, (title, text) in found.items():
            if title:
                whole[REFERENCE / folder / f"{name}.md"] = f"# {title}\n\n{MARK}\n\n{text}"
            else:
                generated[f"{folder}/{name}.md"] = text
    return whole | {
        REFERENCE / name: f"{_by_hand(REFERENCE / name)}{MARK}\n\n{text}" for name, text in generated.items()
    }


def _by_hand(path: Path) -> str:
    """Return what stands above the mark of a page."""
    text = (ROOT / path).read_text("utf-8")
    head, mark, _ = text.partition(MARK)
    assert mark, f"{path} has no line that says {MARK}"
    return head


def _actions() -> Iterator[str]:
    """Yield a table of the actions, from the pages about them. Old links to an action on this page find its row."""
    yield "| action | what it does |"
    yield "|---|---|"
    headings: dict[str, list[Entry]] = {}
    for entry in entries():
        if entry.kind == "action":
            headings.setdefault(entry.place.removeprefix("reference/actions/"), []).append(entry)
    for place, named in headings.items():
        page, _, anchor = place.partition("#")
        names = ", ".join(f"`{entry.name}`" for entry in named)
        about = plain(named[0].text.partition("\n\n")[0]).partition(". ")[0].rstrip(".")
        yield table_row(f'<a id="{anchor}"></a>[{names}]({page}.md#{anchor})', f"{about}.")


def _findings() -> Iterator[str]:
    """Yield links to the codes of findings. Old links to a finding on the page of errors arrive here."""
    found = [entry for entry in entries() if entry.kind == "finding"]
    yield ",\n".join(f'<a id="{each.anchor}"></a>[`{each.name}`](findings.md#{each.anchor})' for each in found)


def _exit_codes() -> str:
    lines = ["| code | name | when | what to do |", "|---|---|---|---|"]
    lines += [f"| `{int(code)}` | {code.name} | {when} | {remedy} |" for code, (when, remedy) in MEANINGS.items()]
    return "\n".join(lines) + "\n"


def _permissions(document: Schema, places: Mapping[str, str]) -> Iterator[str]:
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
        links = ", ".join(f"[{name}](api/{places[name]})" for name in words)
        also = f", `{spellings[permission]}`" if permission in spellings else ""
        yield f"| `{permission}`{also} | {links or '–'} |"
