"""The page of conformance has every section and every call, and each of its rules names tests that exist."""

import re
from itertools import pairwise

from launchbay.app.features import ENDPOINTS
from tests.support.documentation import DOCS, ROOT, functions_of

PAGE = DOCS / "contribute" / "conformance.md"
# The sections of the reference, by their titles.
HEADINGS = [
    *("1. What the service does", "2. Resources and their fields", "3. States and transitions", "4. Endpoints"),
    *("5. Authentication", "6. Events", "7. Errors", "8. Limits", "9. Versioning"),
]
GROUPS = ["Organizations", "Roles", "Applications", "Environments", "Service instances", "Application instances"]
DECISIONS = [
    *("Wire", "States", "Organizations, roles, permissions", "Authentication", "Beyond the reference", "Running it"),
]
WIRE_RULES = range(1, 14)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_CALL = re.compile(r"`([A-Z]+ /[^`]*)`")


def text() -> str:
    return PAGE.read_text("utf-8")


def rules() -> list[str]:
    return [line for line in text().splitlines() if line.startswith("- ")]


def test_every_section_of_the_reference_and_of_the_decisions_is_there_in_order() -> None:
    headings = [line.lstrip("# ") for line in text().splitlines() if line.startswith("##")]
    assert [heading.partition(" ")[2] for heading in headings if heading.startswith("Reference")] == HEADINGS
    assert [heading for heading in headings if not heading.startswith(("Reference", "Decisions"))] == GROUPS
    assert [heading.partition(": ")[2] for heading in headings if heading.startswith("Decisions")] == DECISIONS
    wire = text().partition("## Decisions: Wire")[2].partition("## ")[0]
    assert {int(number) for number in re.findall(r"^- (\d+): ", wire, re.MULTILINE)} == {*WIRE_RULES}


def test_every_section_has_rules_and_every_rule_a_test() -> None:
    for heading, following in pairwise([*text().splitlines(), "## end"]):
        assert not (heading.startswith("- ") and following.startswith("  ")), "a rule stands in one line"
    for section in re.split(r"^## ", text(), flags=re.MULTILINE)[1:]:
        assert "\n- " in section, f"there is no rule under {section.splitlines()[0]}"
    assert [rule for rule in rules() if not _TEST.search(rule)] == []


def test_every_test_that_the_page_names_exists() -> None:
    named = set(_TEST.findall(text()))
    known = {path: functions_of(ROOT / path) for path, _ in named}
    missing = sorted(f"{path}::{name}" for path, name in named if name not in known[path])
    assert missing == [], "rename these on the page too"


def test_every_call_of_the_reference_is_on_the_page_and_none_that_there_is_not() -> None:
    calls = [call for rule in rules() for call in _CALL.findall(rule)]
    assert len(set(calls)) == len(calls), "each call has one line"
    assert set(calls) <= {f"{row.method} {row.path}" for row in ENDPOINTS}
    assert {f"{row.method} {row.path}" for row in ENDPOINTS if not row.extension} <= set(calls)
