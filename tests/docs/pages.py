"""The pages of documentation as tests see them: paragraphs, and fenced blocks with what stands before them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

_FENCE = re.compile(r"^```(.*)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, the line it starts in, and the paragraph right before it."""

    language: str
    text: str
    line: int
    before: str


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page in order. A block right after another one has no paragraph before it."""
    language: str | None = None
    inside: list[str] = []
    paragraph: list[str] = []
    begin = 0
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if language is not None:
            if fence:
                yield Block(language, "".join(f"{text}\n" for text in inside), begin, "\n".join(paragraph).strip())
                language, inside, paragraph = None, [], []
            else:
                inside.append(line)
        elif fence:
            language, begin = fence[1].strip(), number
        elif not line.strip() and paragraph and paragraph[-1] != "":
            paragraph.append("")
        elif line.strip():
            if paragraph and paragraph[-1] == "":
                paragraph = []
            paragraph.append(line)
    assert language is None, f"{page}: the block that starts in line {begin} has no end"


def prose(page: Path) -> str:
    """Return the page without its fenced blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)


def table_codes(page: Path) -> list[str]:
    """Return what stands in backquotes at the start of each table row of the page."""
    return re.findall(r"^\| `([^`]+)`", page.read_text("utf-8"), flags=re.MULTILINE)
