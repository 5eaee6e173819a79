"""Links in the documentation lead somewhere: to a file of the repository, and to a heading of it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.console import shell
from launchbay.documentation import pages as shown_pages
from launchbay.documentation import with_headings
from tests.support.documentation import DOCS, ROOT, prose
from tests.support.templates import template_texts

_LINK = re.compile(r"(?<!!)\[(?:[^\]\[]|\[[^\]]*\])*\]\(([^)\s]+)\)")
_IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_NOT_OURS = {".venv", "node_modules", "data", "build", "dist", ".git", ".pytest_cache", ".ruff_cache", ".mypy_cache"}


def pages(root: Path) -> Iterator[Path]:
    """Yield the markdown files of the repository."""
    for directory, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - _NOT_OURS)
        yield from (Path(directory, name) for name in sorted(files) if name.endswith(".md"))


def anchors(page: Path) -> set[str]:
    """Return the anchors that the headings of a page get."""
    text = prose(page)
    if page.is_relative_to(DOCS):
        text = with_headings(page.relative_to(DOCS).with_suffix("").as_posix(), text)
    headings = _HEADING.findall(text)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the relative links of a page that lead nowhere."""
    text = prose(page)
    for link in [*_LINK.findall(text), *_IMAGE.findall(text)]:
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists():
            yield f"{link}: there is no such file"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"{link}: the page has no such heading"


@pytest.mark.parametrize("page", list(pages(ROOT)), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One `two`\n[a](page.md) [b](no.md) [c](#one-two) [d](page.md#x) [e](https://x.example/y)", "utf-8"
    )
    assert [problem.partition(":")[0] for problem in broken_links(page)] == ["no.md", "page.md#x"]


# The documentation itself, and the macros that read the table.
_OF_ADDRESSES = {"documentation/templates/documentation.html", "macros.html", "parts.html", "layout.html"}


@pytest.mark.parametrize("topic", shell.GUIDES)
def test_a_guide_of_the_console_is_a_page_and_a_heading_of_it(topic: str) -> None:
    path, _, anchor = shell.GUIDES[topic].page.partition("#")
    assert path in shown_pages()
    assert not anchor or anchor in {section.anchor for section in shown_pages()[path].sections}


def test_the_console_takes_addresses_of_the_documentation_from_its_table() -> None:
    named = set(shell.TOPICS.values()) | set(shell._OWN_TOPICS.values()) | {"start", "tour"}
    for name, text in template_texts().items():
        written = re.findall(r"/docs/(?!codes/|\{\{ guides\[)[^\"']+", text)
        assert name in _OF_ADDRESSES or not written, (name, written)
        named |= set(re.findall(r"(?:macros\.(?:guide|how)\(|topic=|guides\[)\"([a-z-]+)\"", text))
    assert named == set(shell.GUIDES)
    assert set(shell._OWN_TOPICS) <= set(template_texts())


def test_an_empty_state_leads_to_the_documentation() -> None:
    for name, text in template_texts().items():
        for mark, call, rest in re.findall(
            r"\{([{%]) ?(?:call )?\w*parts\.empty\((.*?)\) ?[}%]\}(?=(.*?)(?:endcall|$))", text, re.MULTILINE
        ):
            is_of_filter = call.startswith('"filter"') or "matches" in call.partition(",")[2][:20]
            has_guide = "topic=" in call or (mark == "%" and "macros.guide(" in rest)
            assert is_of_filter or has_guide, (name, call)


def test_each_finding_has_one_row_in_the_order_of_tools_with_versions_of_its_script() -> None:
    lines = (ROOT / "findings" / "README.md").read_text("utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if "](" in line]
    names = {re.findall(r"\((.+)\.sh\)", row[2])[0]: row[1] for row in rows}
    assert len(rows) == len(names)
    assert set(names) == {path.stem for path in (ROOT / "findings").glob("*.sh")}
    assert [row[0].lower() for row in rows] == sorted(row[0].lower() for row in rows)
    for name, versions in names.items():
        script = (ROOT / "findings" / f"{name}.sh").read_text("utf-8")
        assert [each for each in re.findall(r"\d[\d.p]*", versions) if each not in script] == [], name
