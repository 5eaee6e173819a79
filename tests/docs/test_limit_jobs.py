"""The page on limits of jobs at a time works: its commands run in order against a server."""

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import served
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "limit-jobs.md"


@pytest.mark.slow  # a server of its own, and a command after the other
def test_the_second_migration_waits_for_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown: dict[str, str] = {}
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        for block in blocks(PAGE):
            named = re.search(r"Save this as `([^`]+)`", block.before)
            if block.language == "yaml" and named:
                (tmp_path / named[1]).write_text(block.text, "utf-8")
            if block.language == "console":
                for line in block.text.splitlines():
                    words = shlex.split(line.removeprefix("$ launchbay "))
                    shown[" ".join(words[:3])] = shell.good(*words)
        assert "for lock 'database'; 1 has started" in " ".join(shown["status shop-2"].split())
        (group,) = (
            each for each in json.loads(shown["organization concurrency -o"]) if each["title"] == "lock 'database'"
        )
        assert "shop-2" in {each["instance"] for each in group["jobs"]}
        of_environment = [each["key"] for each in shell.document("environment", "concurrency", "default")["limits"]]
        assert of_environment == ["environment", "application"]
        assert shell.document("application", "concurrency", "shop")["limits"][0]["limit"] == 2
