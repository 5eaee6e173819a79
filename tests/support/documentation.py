"""The pages of documentation as tests see them: paragraphs, and fenced blocks with what stands before them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

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


MANIFESTS = sorted((DOCS / "reference" / "manifest").glob("*.md"))
_REFUSED = re.compile(r"Refused with\s`(\w+)`:$")
_AFTER = re.compile(r"After `([^`]+)` with `(\{.*\})`(?:, a moment later)?:$")


@dataclass
class Example:
    """A manifest of a page, with what the page says about it."""

    page: str
    line: int
    text: str
    before: str
    values: Any = None
    commands: list[tuple[str, Any, Any]] = field(default_factory=list)  # name, parameters, values afterwards

    def found(self, pattern: re.Pattern[str]) -> str | None:
        match = pattern.search(self.before)
        return None if match is None else match[1]


def examples(page: Path) -> Iterator[Example]:
    """Yield the manifests of a page with the values that follow them."""
    example: Example | None = None
    for block in blocks(page):
        if block.language == "yaml":
            if example is not None:
                yield example
            example = Example(page.stem, block.line, block.text, block.before)
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


EXAMPLES = [example for page in MANIFESTS for example in examples(page)]
LAUNCHED = [example for example in EXAMPLES if example.found(_REFUSED) is None]

_FUNCTION = re.compile(r"^ *(?:async )?def (\w+)", re.MULTILINE)


@cache
def functions_of(path: Path) -> frozenset[str]:
    """Return the names of the functions of a file of tests; none where there is no such file."""
    if not path.is_file():
        return frozenset()
    return frozenset(_FUNCTION.findall(path.read_text("utf-8")))
