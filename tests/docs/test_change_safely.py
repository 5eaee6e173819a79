"""The page on safe changes works: its commands run in order against a server."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.documentation import DOCS, blocks
from tests.support.servers import served
from tests.support.shell import Shell

PAGE = DOCS / "howto" / "change-safely.md"
FAILING = ("rollout wait",)  # the page says so


@pytest.mark.slow  # a server of its own, and a command after the other
def test_a_bad_version_is_stopped_in_its_first_wave_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ids: dict[str, str] = {}
    shown: dict[str, str] = {}
    with served() as bay:
        shell = Shell.of(bay, tmp_path / "config")
        for block in blocks(PAGE):
            named = re.search(r"Save this as `([^`]+)`", block.before)
            if block.language == "yaml" and named:
                (tmp_path / named[1]).write_text(block.text, "utf-8")
            if block.language != "console":
                continue
            for line in block.text.splitlines():
                if line.startswith("$ sed "):
                    subprocess.run(line.removeprefix("$ "), shell=True, check=True)
                    continue
                words = [ids.get(word, word) for word in shlex.split(line.removeprefix("$ launchbay "))]
                call = " ".join(words[:2])
                if call in {"rollout create", "change-set create"}:
                    name = {"rollout": "ROLLOUT", "change-set": "CHANGE_SET"}[words[0]]
                    ids[name] = shell.document(*words)["id"]
                elif call in FAILING:
                    shown[call] = shell.bad(1, *words)
                else:
                    shown[call] = shell.good(*words)
        assert re.search(r"The rollout is Returned\. shop-\d failed: .*negative", shown["rollout wait"])
        rows = shell.document("rollout", "instances", ids["ROLLOUT"])
        assert sorted(row["status"] for row in rows) == ["Returned", "Skipped", "Skipped"]
        impact = shell.document("application", "impact", "shop", "--version", "3")
        assert (impact["changes"], impact["fails"]) == (3, 0)
        assert shell.document("change-set", "show", ids["CHANGE_SET"])["status"] == "Succeeded"
        assert [shell.document("status", name)["version"] for name in ("shop-1", "shop-2", "shop-3")] == [2, 4, 2]
