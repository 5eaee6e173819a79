"""The page on rules works: its commands run in order against a server."""

import shlex
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import served
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "rules.md"


@pytest.mark.slow  # a server of its own, and a command after the other
def test_rules_are_tested_compared_set_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = iter(("production.yml", "production.test.yml"))
    printed: dict[str, list[str]] = {}
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        shell.good("environment", "create", "production")
        for block in blocks(PAGE):
            if block.language == "yaml":
                (tmp_path / next(names)).write_text(block.text, "utf-8")
            elif block.language == "console":
                for line in block.text.splitlines():
                    words = shlex.split(line.removeprefix("$ launchbay "))
                    printed.setdefault(" ".join(words[:2]), []).append(shell.good(*words))
        assert "quiet-friday" in printed["environment rules"][0]
        shell.good("application", "create", "shop")
        for name in ("shop", "all"):
            (tmp_path / f"{name}.yml").write_text((tmp_path / "production.yml").read_text("utf-8"), "utf-8")
        shell.good("application", "set-rules", "shop", "@shop.yml")
        shell.good("organization", "set-rules", "@all.yml")
        assert "quiet-friday" in shell.good("organization", "rules")
        tag = shell.good("environment", "rules", "production", "--etag").strip()
        shell.good("environment", "set-rules", "production", "@production.yml", "--if-match", tag)
        (tmp_path / "bad.yml").write_text("- name: x\n  when: $.kin == 1\n  deny: No.\n", "utf-8")
        said = shell.bad(9, "environment", "set-rules", "production", "@bad.yml")
        assert "Line 2, column 9: x: There is no fact 'kin'." in said
