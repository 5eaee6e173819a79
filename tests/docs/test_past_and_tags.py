"""The pages on the past and on tags work: their commands run in order against a server."""

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import Bay, served
from tests.support.shell import Shell

PAST = DOCS / "howto" / "see-the-past.md"
TAGS = DOCS / "howto" / "change-without-overwriting.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Bay]:
    with served() as bay:
        yield bay


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words of each command, and write the files that the page names."""
    for block in blocks(page):
        named = re.search(r"Save this as `([^`]+)`", block.before)
        if block.language == "yaml" and named:
            Path(named[1]).write_text(block.text, "utf-8")
        if block.language == "console":
            yield from (shlex.split(line.removeprefix("$ launchbay ")) for line in block.text.splitlines())


@pytest.mark.slow  # a server of its own, and a command after the other
def test_the_past_of_an_instance(server: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell.of(server, tmp_path / "config")
    launched_ms = 0
    for words in commands(PAST):
        # The instance of the page is older.
        shell.good(*(str(launched_ms) if word == "1h" else word for word in words))
        if words[:2] == ["launch", "shop"]:
            launched_ms = int(time.time() * 1000)
    entries = shell.document("instance", "timeline", "shop-1")
    assert [change["field"] for change in entries[0]["changes"]] == ["userData"]
    assert entries[-1]["kind"] == "created"
    assert shell.document("instance", "show", "shop-1", "--at", "0s")["userData"] == {"ticket": "OPS-1"}
    differences = shell.document("instance", "diff", "shop-1", "--other", "shop-2")["differences"]
    changed = {each["path"]: each["change"] for each in differences if each["path"] != "destroyAt"}
    assert changed == {"userData.ticket": "removed"}


@pytest.mark.slow  # the same
def test_changes_for_a_state_that_was_seen(server: Bay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shell = Shell.of(server, tmp_path / "config")
    tag, failures = "", []
    for command in commands(TAGS):
        words = [tag if word == "$TAG" else word for word in command]
        if tag and "green" in words:
            failures.append(shell.bad(6, *words))
        else:
            said = shell.good(*words)
            tag = said.strip() if "--etag" in words else tag
    assert "PreconditionFailed" in failures[0]
    assert shell.document("environment", "show-markers", "shared")["markers"] == [{"name": "blue"}]
