"""The page about dry runs: its manifest, with its answers and with its policies, returns what the page says."""

import json
from pathlib import Path
from typing import Any

import pytest

from launchbay.app.machines import read_answers_file
from launchbay.machines.dry_run import DryRun
from launchbay.machines.registry import Providers
from launchbay.manifest.policies import read_policies
from launchbay.model.environment import EnvironmentView
from tests.support.documentation import DOCS, Block, blocks
from tests.support.runtime import instance

PAGE = DOCS / "reference" / "dry-run.md"
SWITCH, MANIFEST, ANSWERS, FROM_ANSWERS, POLICIES, FROM_POLICIES = blocks(PAGE)


async def returned(policies: Block, answers: str = "") -> dict[str, Any]:
    providers = Providers([("launchbay", DryRun(read_answers_file(answers)))])
    view = EnvironmentView(policies=dict(read_policies(policies.text)))
    live = instance(MANIFEST.text, machines=providers, environment=view)
    assert await live.launch() is None
    assert any(text.startswith("dry run: ") for text in live.disk.texts())
    return live.results


async def test_the_answers_of_the_page_are_given(tmp_path: Path) -> None:
    path = tmp_path / "answers.yml"
    path.write_text(ANSWERS.text)
    assert await returned(SWITCH, str(path)) == json.loads(FROM_ANSWERS.text)


async def test_the_policies_of_the_page_are_given_and_come_before_the_answers(tmp_path: Path) -> None:
    path = tmp_path / "answers.yml"
    path.write_text(ANSWERS.text)
    assert await returned(POLICIES) == json.loads(FROM_POLICIES.text)
    assert await returned(POLICIES, str(path)) == json.loads(FROM_POLICIES.text)


async def test_without_an_answer_a_command_prints_a_word_and_chef_tells_what_it_was_given() -> None:
    found = await returned(SWITCH)
    assert found["password"].startswith("dry-run-")
    assert found["url"] is None


@pytest.mark.parametrize("word", ["provisionVms", "execrun", "chefsolo", "restcall", "get-file", "error"])
def test_everything_that_can_be_given_is_on_the_page(word: str) -> None:
    assert f"`{word}`" in PAGE.read_text("utf-8")
