"""The pages of settings and actions have everything that there is, and nothing else."""

import re
import tomllib
from dataclasses import fields
from textwrap import indent

import pytest

from launchbay.actions.contract import Action
from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check
from launchbay.settings import Settings, load
from tests.support.documentation import DOCS, Block, blocks

SETTINGS = DOCS / "reference" / "settings.md"
ACTIONS = sorted((DOCS / "reference" / "actions").glob("*.md"))
_SETTING = re.compile(r"^\| `([a-z_]+)` \| (\S+) \|", re.MULTILINE)
_PARAMETER = re.compile(r"^\| `([^`]+)` \| (\S+) \| (yes)?(?:, or `\w+`)? ?\|", re.MULTILINE)
_OUTPUT = re.compile(r"^\| `([^`]+)` \| [A-Z][^|]*\|$", re.MULTILINE)
STEPS = [
    block
    for page in ACTIONS
    for block in blocks(page)
    if block.language == "yaml" and not block.text.startswith("policies:")
]


def action_sections() -> dict[str, str]:
    """Return the text of the section of each action that a heading of the pages names."""
    parts = re.split(r"^#{1,2} (.*)$", "".join(page.read_text("utf-8") for page in ACTIONS), flags=re.MULTILINE)
    named = zip(parts[1::2], parts[2::2], strict=True)
    return {name: text for heading, text in named for name in re.findall(r"`([^`]+)`", heading)}


def test_every_setting_is_on_the_page_with_its_default() -> None:
    shown = dict(_SETTING.findall(SETTINGS.read_text("utf-8")))
    real = {field.name: "empty" if field.default == "" else f"`{field.default}`" for field in fields(Settings)}
    assert shown == real


def test_the_settings_file_of_the_page_can_be_loaded() -> None:
    (block,) = (block for block in blocks(SETTINGS) if block.language == "toml")
    values = tomllib.loads(block.text)
    assert load(environ={}, overrides=values).port == values["port"]


def test_every_action_is_on_the_page_and_nothing_else() -> None:
    assert set(action_sections()) == {name for action in BUILT_IN for name in (action.name, *action.aliases)}


@pytest.mark.parametrize("action", BUILT_IN, ids=lambda action: str(action.name))
def test_an_action_is_shown_with_its_parameters_and_outputs(action: Action) -> None:
    section = action_sections()[action.name]
    parameters = {name: (type_, needed == "yes") for name, type_, needed in _PARAMETER.findall(section)}
    assert parameters == {name: (entry.type or "any", entry.required) for name, entry in action.parameters.items()}
    assert set(_OUTPUT.findall(section)) == set(action.outputs)
    assert ("Pure" in section) == action.pure


@pytest.mark.parametrize("block", STEPS, ids=lambda block: f"line-{block.line}")
def test_the_steps_of_the_page_compile(block: Block) -> None:
    manifest = f"launch:\n  steps:\n{indent(block.text, '    ')}"
    names = [name for action in BUILT_IN for name in (action.name, *action.aliases)]
    assert check(manifest.encode(), known_actions=names) == []
