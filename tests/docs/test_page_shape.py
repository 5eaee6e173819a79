"""Pages are as long as a reader has patience for, and each one says where to go on."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from generators.pages import MARK
from launchbay.documentation import pages, without_keywords
from tests.support.documentation import DOCS

# The beginning of a page's path → lines that such a page may have. The first one decides.
LIMITS = {
    "index": 45,
    "get-started/tutorial": 250,
    "get-started/": 120,
    "cookbook/": 100,
    "howto/": 100,
    "explain/": 120,
}
# Pages that are longer, with what they have, because a reader looks for one of their parts by its name. They may only
# become shorter; a new page can't be among them.
LONGER = {
    "explain/architecture": 161,  # a line for each folder
    "explain/guarantees": 132,  # fifteen guarantees
    "howto/alerts": 156,  # a section for each alert, to which the alert leads
}
ENTRY_LINES = 8  # of a symptom in the page on troubleshooting
# The page whose every line is a next step, and a record that tests read section by section.
WITHOUT_NEXT_STEPS = {"index", "contribute/conformance"}
_NEXT = re.compile(r"\n## Next steps\n\n((?:- .*\n(?:  .*\n)*)+)\Z")


def written() -> Iterator[tuple[str, str]]:
    """Yield path and text of the pages that are written by hand."""
    for page in sorted(DOCS.rglob("*.md")):
        path = page.relative_to(DOCS).with_suffix("").as_posix()
        text = page.read_text("utf-8")
        if MARK not in text and not path.startswith(("contribute/decisions/", "contribute/evidence/")):
            yield path, without_keywords(text)[1]


WRITTEN = dict(written())


@pytest.mark.parametrize("path", [path for path in WRITTEN if path.startswith(tuple(LIMITS))])
def test_a_page_is_no_longer_than_its_kind_may_be(path: str) -> None:
    allowed = LONGER.get(path, next(lines for start, lines in LIMITS.items() if path.startswith(start)))
    assert WRITTEN[path].count("\n") <= allowed


def test_a_page_that_became_short_is_no_exception() -> None:
    assert [path for path, lines in LONGER.items() if WRITTEN[path].count("\n") < lines] == []


@pytest.mark.parametrize("path", [path for path in WRITTEN if path not in WITHOUT_NEXT_STEPS])
def test_a_page_ends_with_two_or_three_next_steps(path: str) -> None:
    found = _NEXT.search(WRITTEN[path])
    assert found, "end the page with the section Next steps, a list of links"
    assert 2 <= found[1].count("\n- ") + 1 <= 3


@pytest.mark.parametrize("path", [path for path in WRITTEN if path.startswith(("howto/", "reference/manifest/"))])
def test_a_page_has_other_words_that_people_search_for(path: str) -> None:
    assert pages()[path].keywords, "put `keywords:` between two lines --- at the head of the file"


def test_a_guide_says_first_what_it_needs() -> None:
    guides = [path for path in WRITTEN if path.startswith("howto/")]
    assert [path for path in guides if "\n## Before you begin\n" not in WRITTEN[path]] == []


def test_a_symptom_is_explained_in_a_few_lines() -> None:
    entries = re.split(r"^#{2,3} ", WRITTEN["troubleshooting"], flags=re.MULTILINE)[1:]
    lines = {entry.partition("\n")[0]: len([line for line in entry.splitlines()[1:] if line]) for entry in entries}
    assert {title: count for title, count in lines.items() if count > ENTRY_LINES} == {}


def test_the_parts_of_a_page_are_measured() -> None:
    assert Path(DOCS / "index.md").is_file()
    assert len(WRITTEN) > 100
    assert _NEXT.search("# A\n\n## Next steps\n\n- [B](b.md)\n- [C](c.md)\n  and more\n")
    assert not _NEXT.search("# A\n\n## Next steps\n\n- [B](b.md)\n\n## More\n")
