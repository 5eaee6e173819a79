"""The pages of guarantees name all of them, tests that exist, and how many there are."""

import re
from pathlib import Path

from tests.support.documentation import DOCS, ROOT, functions_of

PAGE = DOCS / "explain" / "guarantees.md"
TESTS = DOCS / "contribute" / "guarantees.md"
PROMISES = 15
_SECTION = re.compile(r"^## (\d+)\. ", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_LISTED = re.compile(r"^- `tests/", re.MULTILINE)
_COUNTS = re.compile(r"^- \[(\d+) tests(?:, (\d+) of them with faults)?\]\(", re.MULTILINE)


def sections(page: Path) -> dict[int, str]:
    """Return the text of each numbered section."""
    parts = _SECTION.split(page.read_text("utf-8"))
    return {int(number): text for number, text in zip(parts[1::2], parts[2::2], strict=True)}


def test_every_promise_is_on_both_pages_in_order() -> None:
    assert list(sections(PAGE)) == list(sections(TESTS)) == list(range(1, PROMISES + 1))


def test_every_test_that_the_page_names_exists() -> None:
    named = _TEST.findall(TESTS.read_text("utf-8"))
    assert len(named) > PROMISES
    missing = [f"{path}::{name}" for path, name in named if name not in functions_of(ROOT / path)]
    assert missing == [], "rename these on the page too, or say that they are to come"


def test_a_promise_without_a_test_says_so() -> None:
    for number, text in sections(TESTS).items():
        assert _TEST.search(text) or "To come:" in text, f"promise {number} has no test and does not say so"


def test_each_promise_counts_its_tests() -> None:
    for number, text in sections(TESTS).items():
        counted = (str(len(_LISTED.findall(text))), str(text.count("*(faults)*") or ""))
        assert _COUNTS.findall(sections(PAGE)[number]) == [counted], f"promise {number}: tests, and those with faults"
