"""The pages on lifetimes and sleep work: their commands run in order against a server."""

import re
import shlex
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import served
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "lifetimes.md"
SLEEP = DOCS / "howto" / "sleep.md"


def follow(page: Path, shell: Shell, folder: Path) -> None:
    """Save the files of a page and run its commands, in order."""
    for block in blocks(page):
        named = re.search(r"Save this as `([^`]+)`", block.before)
        if block.language == "yaml" and named:
            (folder / named[1]).write_text(block.text, "utf-8")
        if block.language == "console":
            for line in block.text.splitlines():
                shell.good(*shlex.split(line.removeprefix("$ launchbay ")))


@pytest.mark.slow  # a server of its own, and a command after the other
def test_an_instance_sleeps_by_the_rules_and_is_kept_awake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        follow(SLEEP, shell, tmp_path)
        found = shell.document("instance", "sleep", "shop-1")
        kept = datetime.fromisoformat(found["keptAwakeUntil"])
        assert kept - datetime.now(kept.tzinfo) > timedelta(hours=3)
        assert datetime.fromisoformat(found["sleepsAt"]) >= kept
        assert found["ruleOf"] == "application"


@pytest.mark.slow  # a server of its own, and a command after the other
def test_an_instance_lives_by_the_rules_and_is_extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        follow(PAGE, shell, tmp_path)
        found = shell.document("instance", "lifetime", "shop-1")
        assert found["extensions"] == 1
        created, destroyed, latest = (
            datetime.fromisoformat(found[name]) for name in ("createdAt", "destroyAt", "latestAt")
        )
        assert abs(destroyed - created - timedelta(hours=25)) < timedelta(minutes=1)
        assert latest - created == timedelta(days=7)
