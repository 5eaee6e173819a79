"""Links in the documentation lead somewhere: to a file of the repository, and to a heading of it."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from launchbay.documentation import with_headings
from tests.support.documentation import DOCS, ROOT, prose

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
