"""Every manifest of the reference is refused, warned about, or launched with the values that the page shows."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import BUILTIN as KNOWN_TYPES
from launchbay.model.findings import Finding
from launchbay.runtime.components.registry import BUILTIN as LAUNCHED_TYPES
from tests.docs.pages import DOCS, blocks
from tests.docs.served import Bay

PAGE = DOCS / "reference" / "manifest.md"
ACTIONS = frozenset(name for action in BUILT_IN for name in (action.name, *action.aliases))
_GIVEN = re.compile(r"Given `(\{.*\})`:$", re.DOTALL)
_ENVIRONMENT = re.compile(r"In the environment `(\{.*\})`:$", re.DOTALL)
_REFUSED = re.compile(r"Refused with\s`(\w+)`:$")
_WARNED = re.compile(r"[Ww]arning\s`(\w+)`[:;]")
_AFTER = re.compile(r"After `([^`]+)` with `(\{.*\})`(?:, a moment later)?:$")
_TYPE = re.compile(r"^\| `([\w.]+)` \| .* \| (yes|no) \|$", re.MULTILINE)
RECONFIGURATION = "PUT configuration"
SOON = "a moment later:"
FAILS = "ends as `Failed`:"
_NAMED = re.compile(r"The application `(\w+)`:$")


@dataclass
class Example:
    """A manifest of the page, with what the page says about it."""

    line: int
    text: str
    before: str
    values: Any = None
    commands: list[tuple[str, Any, Any]] = field(default_factory=list)  # name, parameters, values afterwards

    def found(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.search(self.before)
        return None if match is None else match[1]


def examples() -> Iterator[Example]:
    """Yield the manifests of the page with the values that follow them."""
    example: Example | None = None
    for block in blocks(PAGE):
        if block.language == "yaml":
            if example is not None:
                yield example
            example = Example(block.line, block.text, block.before)
            continue
        assert block.language == "json", f"line {block.line}: a block of this page is YAML or JSON"
        assert example is not None
        after = _AFTER.search(block.before)
        if after is None:
            assert block.before == "", f"line {block.line}: these values follow no manifest"
            example.values = json.loads(block.text)
        else:
            example.commands.append((after[1], json.loads(after[2]), json.loads(block.text)))
    if example is not None:
        yield example


EXAMPLES = list(examples())
LAUNCHED = [example for example in EXAMPLES if example.found(_REFUSED) is None]


def _name(example: Example) -> str:
    return f"line-{example.line}"


def _findings(example: Example) -> list[Finding]:
    return check(example.text.encode(), known_actions=ACTIONS)


@pytest.fixture(scope="module")
def page(bay: Bay) -> Bay:
    """The service with the applications that examples name."""
    for example in EXAMPLES:
        name = example.found(_NAMED)
        if name is not None:
            bay.application(name, example.text)
    return bay


@pytest.mark.parametrize("example", EXAMPLES, ids=_name)
def test_a_manifest_of_the_page_has_the_findings_that_the_page_names(example: Example) -> None:
    expected = [("error", example.found(_REFUSED)), ("warning", example.found(_WARNED))]
    codes = {(finding.severity, finding.code) for finding in _findings(example)}
    assert codes == {(severity, code) for severity, code in expected if code is not None}


@pytest.mark.parametrize("example", LAUNCHED, ids=_name)
def test_a_manifest_of_the_page_is_launched_with_the_values_that_the_page_shows(page: Bay, example: Example) -> None:
    request: dict[str, Any] = {"parameters": json.loads(example.found(_GIVEN) or "{}")}
    offers = example.found(_ENVIRONMENT)
    if offers is not None:
        request["environmentId"] = page.environment(_name(example), json.loads(offers))
    application = page.application(_name(example), example.text)
    instance = page.call("POST", f"applications/{application}/launch", request)["id"]
    if SOON in example.before:
        page.returning(instance, example.values)
        return
    seen = page.settled(instance)
    assert seen["status"] == ("Failed" if FAILS in example.before else "Running"), seen["errorMessage"]
    if example.values is not None:
        assert seen["returnValues"] == example.values
    for command, parameters, values in example.commands:
        if command == RECONFIGURATION:
            page.call("PUT", f"instances/{instance}/configuration", parameters)
        else:
            page.call("POST", f"instances/{instance}/{command}", parameters)
        page.returning(instance, values)


def test_the_page_knows_all_component_types_and_which_of_them_are_launched() -> None:
    shown = {name: answer == "yes" for name, answer in _TYPE.findall(PAGE.read_text("utf-8"))}
    assert shown == {name: name in LAUNCHED_TYPES for name in KNOWN_TYPES}


def test_an_example_with_values_shows_every_value_that_it_returns() -> None:
    for example in EXAMPLES:
        if example.values is not None:
            assert set(compile_manifest(example.text.encode(), known_actions=ACTIONS).results) == set(example.values)
