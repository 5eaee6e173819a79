"""The how-to pages name commands, make targets, methods and fields that there are."""

import re
from pathlib import Path

from launchbay.cli.commands import ADDED
from launchbay.cli.main import SECTIONS
from launchbay.cli.verbs import nouns
from launchbay.client import Client
from launchbay.features.directories.files import read_directory
from tests.support.cases import hold
from tests.support.documentation import DOCS, blocks

DIRECTORY = DOCS / "reference" / "directory.md"
OLDER = DOCS / "howto" / "migrate-from-older-clients.md"
WITH_COMMANDS = [
    *sorted((DOCS / "howto").glob("*.md")),
    *(
        DOCS / name
        for name in (
            "get-started/tutorial.md",
            "reference/client.md",
            "reference/errors.md",
            "troubleshooting.md",
            "cookbook/index.md",
            "get-started/faq.md",
        )
    ),
]
COMMANDS = {name for entries in SECTIONS.values() for name in entries}


def unknown_commands(text: str) -> list[str]:
    found = []
    for noun, verb in re.findall(r"(?<![\w./-])launchbay ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", text):
        verbs = {*nouns().get(noun, {}), *ADDED.get(noun, {})}
        if noun not in COMMANDS or (noun in nouns() and verb and verb not in verbs):
            found.append(f"{noun} {verb}".strip())
    return found


def test_every_command_of_the_page_exists() -> None:
    hold(_has_no_other_command, ((each,) for each in WITH_COMMANDS), named=lambda page: str(page.name))


def _has_no_other_command(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    quoted = "\n".join(re.findall(r"`([^`]+)`", prose))
    in_blocks = "\n".join(block.text for block in blocks(page) if block.language == "console")
    assert unknown_commands(quoted + "\n" + in_blocks) == []


def test_a_command_that_is_not_there_is_noticed() -> None:
    assert unknown_commands("launchbay lunch\nlaunchbay instance shw\nlaunchbay instance show") == [
        "lunch",
        "instance shw",
    ]


def test_every_method_of_the_page_exists() -> None:
    names = set(re.findall(r"`client\.(\w+)\(", OLDER.read_text("utf-8")))
    assert len(names) > 5
    assert [name for name in names if not hasattr(Client, name)] == []


def test_the_files_of_the_page_are_files_of_a_directory(tmp_path: Path) -> None:
    written = 0
    for block in blocks(DIRECTORY):
        named = re.search(r"^`((?:environments|applications)/\S+)`", block.before)
        if block.language == "yaml" and named:
            path = tmp_path / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
            written += 1
    contents = read_directory(tmp_path)
    assert written == 2
    assert contents.environments is not None
    assert contents.environments["lab"].markers == ["blue"]
    assert contents.applications is not None
    assert contents.applications["shop"].revisions is not None
    stable = contents.applications["shop"].revisions["stable"].content
    assert stable.submodules["database"]["revision"] == "postgres/stable"
