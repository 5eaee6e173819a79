"""Every manifest of the reference is refused, warned about, or launched with the values that the page shows."""

import json
import re
from typing import Any

import pytest

from launchbay.actions.registry import BUILT_IN
from launchbay.manifest.compiler import check, compile_manifest
from launchbay.manifest.graph import BUILTIN as KNOWN_TYPES
from launchbay.model.findings import Finding
from launchbay.runtime.components.builtin import BUILTIN as LAUNCHED_TYPES
from tests.support.cases import hold
from tests.support.documentation import _REFUSED, DOCS, EXAMPLES, LAUNCHED, Example
from tests.support.servers import Bay

ACTIONS = {name: action for action in BUILT_IN for name in (action.name, *action.aliases)}
_GIVEN = re.compile(r"Given `(\{.*\})`:$", re.DOTALL)
_ENVIRONMENT = re.compile(r"In the environment `(\{.*\})`:$", re.DOTALL)
_WARNED = re.compile(r"[Ww]arning\s`(\w+)`[:;]")
_TYPE = re.compile(r"^\| `([\w.]+)` \| .* \| (yes|no) \|$", re.MULTILINE)
COMPONENTS = DOCS / "reference" / "manifest" / "components.md"
RECONFIGURATION = "PUT configuration"
SOON = "a moment later:"
FAILS = "ends as `Failed`:"
_NAMED = re.compile(r"The application `(\w+)`:$")


def _name(example: Example) -> str:
    return f"{example.page}-{example.line}"


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


def test_a_manifest_of_the_page_has_the_findings_that_the_page_names() -> None:
    hold(_has_its_findings, ((each,) for each in EXAMPLES), named=_name)


def _has_its_findings(example: Example) -> None:
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
    shown = {name: answer == "yes" for name, answer in _TYPE.findall(COMPONENTS.read_text("utf-8"))}
    assert shown == {name: name in LAUNCHED_TYPES for name in KNOWN_TYPES}


def test_an_example_with_values_shows_every_value_that_it_returns() -> None:
    for example in EXAMPLES:
        if example.values is not None:
            shown = set(example.values).union(*(values for _, _, values in example.commands))
            assert set(compile_manifest(example.text.encode(), known_actions=ACTIONS).results) == shown
