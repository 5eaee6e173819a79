"""The page on security covers the standard's chapters, and names tests that exist."""

import re

from tests.support.documentation import DOCS, ROOT, functions_of

PAGE = DOCS / "explain" / "security.md"
CHAPTERS = 17  # of the OWASP Application Security Verification Standard 5.0
_ROW = re.compile(r"^\| (V[^|]+) \| (.+) \| ([^|]+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_UNTESTED = ("Not held", "Not enforced", "Doesn't apply")


def rows() -> list[tuple[str, str, str]]:
    """Return chapters, what holds, and tests."""
    found = _ROW.findall(PAGE.read_text("utf-8"))
    assert len(found) == PAGE.read_text("utf-8").count("\n| V")
    return found


def test_every_chapter_of_the_standard_is_on_the_page() -> None:
    named = {int(number) for chapter, _, _ in rows() for number in re.findall(r"\bV(\d+)", chapter)}
    assert named == set(range(1, CHAPTERS + 1))


def test_every_test_that_the_page_on_security_names_exists() -> None:
    named = [each for _, _, tests in rows() for each in _TEST.findall(tests)]
    assert len(named) > len(rows())
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or (name and name not in functions_of(ROOT / path))
    ]
    assert missing == [], "rename these on the page too"


def test_what_has_no_test_says_that_it_does_not_hold() -> None:
    for chapter, holds, tests in rows():
        assert bool(_TEST.search(tests)) != holds.startswith(_UNTESTED), chapter
