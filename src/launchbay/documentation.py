"""The documentation in the package: its pages, their sections and entries, and a search."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

_PACKAGE = Path(__file__).resolve().parent
_INSTALLED = _PACKAGE / "docs"  # pyproject.toml puts docs/ there in the wheel
_IN_A_CHECKOUT = _PACKAGE.parents[1] / "docs"
_MENU = "zensical.toml"  # of the site, in docsite/ of a checkout
# They record how Launchbay was made, and would hide what people look for.
_NOT_SEARCHED = ("contribute/",)
_FRONT = re.compile(r"\A---\n(.*?)^---\n+", re.DOTALL | re.MULTILINE)
_FENCE = re.compile(r"^(?:```|~~~)")
_HEADING = re.compile(r"^(#{1,6}) (.*)$")
_NAMES_ALONE = re.compile(r"`[^`]+`(?:, `[^`]+`)*")
_LINK = re.compile(r"!?\[((?:[^\]\[]|\[[^\]]*\])*)\]\([^)\s]+\)")
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')  # an address that a heading had before
_CELL = re.compile(r"(?<!\\)\|")
_COMMAND = "launchbay "
_EXIT_CODE = "Exit code "
_ALERT = "Launchbay"
_VARIABLE = "LAUNCHBAY_"
# Addresses that a page had before, or that people try, without the suffix → the page that is shown instead.
MOVED = {
    "cli": "reference/cli/index",
    "settings": "reference/settings",
    "actions": "reference/actions/index",
    "metrics": "reference/metrics",
    "limits": "reference/limits",
    "permissions": "reference/permissions",
    "manifest": "reference/manifest/index",
    "guarantees": "explain/guarantees",
    "howto/index": "index",
    "reference/index": "index",
    # Until 0.1 the pages below had these addresses.
    "tutorial": "get-started/tutorial",
    "console": "get-started/tour",
    "errors": "reference/errors",
    "glossary": "reference/glossary",
    "promises": "explain/guarantees",
    "architecture": "explain/architecture",
    "security": "explain/security",
    "modules": "contribute/modules",
    "reference/conformance": "contribute/conformance",
    "howto/watch": "howto/monitor",
    "howto/install": "howto/install-package",
    "reference/actions": "reference/actions/index",
    "reference/api": "reference/api/index",
    "reference/cli": "reference/cli/index",
    "reference/manifest": "reference/manifest/index",
}
# Tables whose rows are entries, by the head of their first column and the page.
_ROWS = {
    "reference/errors": "code",
    "reference/findings": "code",
    "reference/settings": "setting",
    "reference/metrics": "metric",
    "reference/exit-codes": "code",
    "reference/permissions": "permission",
    "reference/glossary": "status",
}
_SENTENCES = ("meaning", "what it does", "what it measures", "when")  # columns that say what an entry is
_PARAGRAPHS = {  # columns that come after these, and what they are called there
    "what to do": "What to do",
    "example": "Entry of a role",
    "without": "Not included",
    "operations that need it, alone or among others": "Operations that need it, alone or among others",
}
# What headings of pages are, by the beginning of the page's path.
_KINDS = {
    "reference/errors": "error",
    "reference/findings": "finding",
    "reference/settings": "setting",
    "reference/metrics": "metric",
    "reference/exit-codes": "exit code",
    "reference/permissions": "permission",
    "howto/alerts": "alert",
    "reference/glossary": "status of a rollout",
    "reference/actions/": "action",
    "reference/cli/": "command",
}
_DEEPEST = 6
_LINKING = frozenset(
    {
        "a",
        "after",
        "an",
        "and",
        "are",
        "at",
        "be",
        "but",
        "by",
        "can",
        "can't",
        "cannot",
        "did",
        "didn't",
        "do",
        "does",
        "doesn't",
        "don't",
        "for",
        "from",
        "get",
        "got",
        "had",
        "has",
        "have",
        "how",
        "i",
        "in",
        "instead",
        "is",
        "isn't",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "or",
        "our",
        "see",
        "that",
        "the",
        "there",
        "they",
        "this",
        "to",
        "was",
        "we",
        "what",
        "when",
        "why",
        "with",
        "won't",
        "you",
    }
)
_ENDINGS = ("ing", "ed", "es", "s")  # that a search leaves out: "crashes" and "crashed" find "crash"
_SHORTEST_STEM, _SHORTEST_ENDING = 4, 3
# Points of a word that a search finds in a heading, as a word of its own in it, in the page's title, and in the text.
_IN_HEADING, _AS_WORD, _IN_TITLE, _MOST_IN_TEXT = 8, 8, 4, 5
_LONGER_WORD = 6  # letters: "install" finds "installation", and "launch" doesn't find "LaunchbayQueueLong"
_LONG_CHARS = 1_000  # in a longer text, a word has to appear more often for the same points
# The best section for so many words, or for so many that count, may lack some; each costs points.
_SENTENCE_WORDS, _COUNTING_WORDS, _PER_MISSING = 6, 5, 12
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_LETTERS_AND_DIGITS = _LETTERS | frozenset("0123456789")
_SHORT_ENDINGS = ("", "s", "es", "ed", "ing")
QUERY_CHARS = 200  # of a search; the rest is ignored
_PUNCTUATION = '.,;:?!"()[]“”'
_AS_KEYWORD = 8  # of a page, for its first section
_OF_PAGES = {
    "troubleshooting": 16,
    "get-started/faq": 3,
    "howto/": 4,
    "explain/security": -6,
    "reference/glossary": -6,
    "reference/api/": -10,
    "reference/cli/": -8,
    "reference/console-pages": -6,
}
_EXCERPT_CHARS = 160
_MOST_WORDS = 10  # each is looked for in every section


class Section(NamedTuple):
    """A heading and its text."""

    level: int
    heading: str
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page as the site shows it.

    `path` has no suffix, such as `howto/upgrade`; `keywords` are other words for what the page is about.
    """

    path: str
    title: str
    text: str
    sections: tuple[Section, ...]
    keywords: str = ""

    @property
    def description(self) -> str:
        """Return the first sentence under the title."""
        first = plain(self.sections[0].text.partition("\n\n")[0]) if self.sections else ""
        return first.partition(". ")[0].removesuffix(".")


@dataclass(frozen=True, slots=True)
class DocumentedName:
    """Something with a name to look up, such as an error."""

    kind: str
    name: str
    page: str
    anchor: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}#{self.anchor}"


class Hit(NamedTuple):
    """A section that a search found.

    `excerpt` is plain text around the first word, `missing` the words that the section doesn't have.
    """

    page: Page
    section: Section
    excerpt: str
    missing: tuple[str, ...] = ()


def folder() -> Path:
    return _INSTALLED if _INSTALLED.is_dir() else _IN_A_CHECKOUT


class Listed(NamedTuple):
    """A page in the menu; `group` is the heading above it, or ""."""

    title: str
    path: str
    group: str


class Part(NamedTuple):
    """A part of the menu."""

    title: str
    pages: tuple[Listed, ...]


@cache
def menu() -> tuple[Part, ...]:
    """Return the menu of the site, with the pages that the package has."""
    path = _INSTALLED / _MENU if _INSTALLED.is_dir() else _IN_A_CHECKOUT.parent / "docsite" / _MENU
    parts = []
    for entry in tomllib.loads(path.read_text("utf-8"))["project"]["nav"]:
        for title, value in entry.items():
            listed = tuple(each for each in _listed(title, value) if each.path in pages())
            if listed:
                parts.append(Part(title, listed))
    return tuple(parts)


def _listed(title: str, value: Any, group: str = "") -> Iterator[Listed]:
    """Yield the pages of an entry of the menu."""
    if isinstance(value, str):
        yield Listed(title, value.removesuffix(".md"), group)
        return
    for entry in value:
        for name, inner in entry.items():
            yield from _listed(name, inner, group if isinstance(inner, str) else name)


@cache
def pages() -> Mapping[str, Page]:
    """Return the pages by path, without decisions and measurements."""
    found = {}
    root = folder()
    for path in sorted(root.rglob("*.md")):
        name = path.relative_to(root).with_suffix("").as_posix()
        if not name.startswith(("contribute/decisions/", "contribute/evidence/")):
            found[name] = _page(name, path.read_text("utf-8"))
    return found


def _page(path: str, text: str) -> Page:
    keywords, text = without_keywords(text)
    text = with_headings(path, text)
    sections = tuple(_sections(text))
    return Page(path, sections[0].heading if sections else path, text, sections, keywords)


def without_keywords(text: str) -> tuple[str, str]:
    """Return the keywords at the head of a file, and the page below them."""
    found = _FRONT.match(text)
    if found is None:
        return "", text
    return found[1].partition("keywords:")[2].strip(), text[found.end() :]


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", plain(heading).lower()).strip().replace(" ", "-")


def plain(text: str) -> str:
    """Return Markdown on one line without links, anchors, backquotes and asterisks."""
    words = _ANCHOR.sub("", without_links(text)).replace("`", "").replace("**", "").replace("\\|", "|")
    return " ".join(words.split())


def without_links(text: str) -> str:
    """Return Markdown with the texts of its links only."""
    return _LINK.sub(r"\1", text)


def _sections(text: str) -> Iterator[Section]:
    level, heading, anchors = 0, "", Counter[str]()
    lines: list[str] = []
    for line, is_code in _lines(text):
        found = None if is_code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if level:
            yield _section(level, heading, lines, anchors)
        level, heading, lines = len(found[1]), found[2], []
    if level:
        yield _section(level, heading, lines, anchors)


def _section(level: int, heading: str, lines: Sequence[str], anchors: Counter[str]) -> Section:
    anchor = slug(heading)
    anchors[anchor] += 1
    number = anchors[anchor] - 1
    return Section(level, heading, f"{anchor}_{number}" if number else anchor, "\n".join(lines).strip())


def _lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line, and whether it belongs to a fenced block."""
    is_code = False
    for line in text.splitlines():
        if _FENCE.match(line):
            yield line, True
            is_code = not is_code
        else:
            yield line, is_code


def with_headings(path: str, text: str) -> str:
    """Return a page with its rows of codes, settings or metrics as headings.

    The files have tables, which are easier to read and to change as a whole. People who look for one of the names
    need a heading that a search finds and that has an address.
    """
    wanted = _ROWS.get(path)
    if wanted is None:
        return text
    written: list[str] = []
    columns: list[str] = []
    level = 1
    for line, is_code in _lines(text):
        found = None if is_code else _HEADING.match(line)
        if found is not None:
            level = len(found[1])
        cells = _cells(line) if line.startswith("|") and not is_code else []
        if not cells:
            columns = []
            written.append(line)
        elif not columns and cells[0] == wanted:
            columns = cells
        elif not columns:
            written.append(line)
        elif not cells[0].startswith("--"):
            written += _entry(path, dict(zip(columns, cells, strict=True)), wanted, level + 1)
    return "\n".join(written) + "\n"


def _cells(line: str) -> list[str]:
    return [cell.strip().replace("\\|", "|") for cell in _CELL.split(line.strip().removeprefix("|").removesuffix("|"))]


def _entry(path: str, cells: Mapping[str, str], first: str, level: int) -> Iterator[str]:
    name = cells[first]
    if path == "reference/exit-codes":
        name = f"{_EXIT_CODE}{name}: {cells['name']}"
    facts = [
        f"{title[:1].upper()}{title[1:]}: {cell}"
        for title, cell in cells.items()
        if cell and title not in {first, "name", *_PARAGRAPHS, *_SENTENCES}
    ]
    yield from ("", f"{'#' * min(level, _DEEPEST)} {name}", "")
    if facts:
        yield from (" · ".join(facts), "")
    yield from (cells[title] for title in _SENTENCES if title in cells)
    for title, name in _PARAGRAPHS.items():
        if title in cells:
            yield from ("", f"**{name}.** {cells[title]}")
    yield ""


@cache
def entries() -> tuple[DocumentedName, ...]:
    """Return every entry of the pages, in their order."""
    return tuple(
        DocumentedName(kind, name, page, section.anchor, section.text)
        for start, kind in _KINDS.items()
        for page in pages()
        if page.startswith(start)
        for section in pages()[page].sections
        for kind, name in _names(kind, section)
    )


def _names(kind: str, section: Section) -> Iterator[tuple[str, str]]:
    heading = section.heading
    if kind == "command":
        if heading.startswith(_COMMAND):
            yield kind, heading
    elif kind == "exit code":
        if heading.startswith(_EXIT_CODE):
            yield kind, plain(heading).removeprefix(_EXIT_CODE).partition(":")[0]
    elif kind == "alert":
        if heading.startswith(_ALERT):
            yield kind, heading
    elif _NAMES_ALONE.fullmatch(heading):
        for name in re.findall(r"`([^`]+)`", heading):
            yield kind, name


def explained(words: str) -> list[DocumentedName]:
    """Return the entries with a name, or the errors of an HTTP status."""
    found = _named(words)
    status = words.strip()
    if not found and re.fullmatch(r"[45]\d\d", status):
        found = [entry for entry in entries() if entry.text.startswith(f"Status: {status}\n")]
    return found


def _named(words: str) -> list[DocumentedName]:
    wanted = words.strip().lower().removeprefix(_EXIT_CODE.lower())
    names = {wanted, wanted.removeprefix(_VARIABLE.lower()), f"{_COMMAND}{wanted}"}
    return [entry for entry in entries() if entry.name.lower() in names]


def search(words: str, most: int = 20) -> list[Hit]:
    """Return the sections with all words, or else with most of them, best first.

    Entries with this name come first. Words such as *a* and *not* count only if there is no other. In a sentence, a
    section that is about most of the words can be before one that only has all of them.
    """
    if len(words) > QUERY_CHARS:  # without half a word at the end
        words = words[:QUERY_CHARS].rpartition(" ")[0] or words[:QUERY_CHARS]
    typed = dict.fromkeys(word.strip(_PUNCTUATION) for word in words.lower().replace("’", "'").split())
    typed.pop("", None)
    wanted = ([word for word in typed if word not in _LINKING] or list(typed))[:_MOST_WORDS]
    stems = [_stem(word) for word in wanted]
    is_sentence = len(typed) >= _SENTENCE_WORDS or len(wanted) >= _COUNTING_WORDS
    scored = []
    for page, number, *parts in _searched():
        points = [_points(stem, *parts) for stem in stems]
        if any(points):
            missing = points.count(0)
            lost = missing * _PER_MISSING if is_sentence else 0
            scored.append((0 if is_sentence else missing, lost - sum(points) - _boost(page), page, number, points))
    named = {entry.place for entry in _named(" ".join(dict.fromkeys(words.split())))}
    scored.sort(key=lambda each: (f"{each[2]}#{pages()[each[2]].sections[each[3]].anchor}" not in named, each))
    return [
        _hit(path, number, [word for word, found in zip(wanted, points, strict=True) if not found], stems)
        for rank, _, path, number, points in scored[:most]
        if rank == scored[0][0]
    ]


def _hit(path: str, number: int, missing: Sequence[str], stems: Sequence[str]) -> Hit:
    page = pages()[path]
    section = page.sections[number]
    shown = next((stem for stem in stems if stem in section.text.lower()), "")
    return Hit(page, section, excerpt(section, shown), tuple(missing))


def _boost(path: str) -> int:
    return next((points for name, points in _OF_PAGES.items() if path.startswith(name)), 0)


@cache
def _searched() -> tuple[tuple[str, int, str, str, str, str], ...]:
    """Return path, number, title of the page, heading, text and keywords of each section.

    Words are in lower case. The keywords of a page are those of its first section.
    """
    return tuple(
        (
            page.path,
            number,
            page.title.lower(),
            section.heading.lower(),
            section.text.lower(),
            "" if number else page.keywords.lower(),
        )
        for page in pages().values()
        if not page.path.startswith(_NOT_SEARCHED)
        for number, section in enumerate(page.sections)
    )


def _stem(word: str) -> str:
    """Return a word without its ending, if enough is left."""
    ending = next((each for each in _ENDINGS if word.endswith(each)), "")
    stem = word.removesuffix(ending)
    return stem if len(stem) >= _SHORTEST_STEM else word


def _points(stem: str, title: str, heading: str, text: str, keywords: str) -> int:
    """Return how well a section fits.

    A stem counts where a word begins with it and, in headings, anywhere in a name.
    """
    most = _MOST_IN_TEXT * max(_LONG_CHARS, len(text)) // _LONG_CHARS
    found = sum(1 for _ in islice(_beginnings(stem, text), most))
    points = min(_MOST_IN_TEXT, ceil(found * _LONG_CHARS / max(_LONG_CHARS, len(text))))
    if stem in heading:
        is_word = _is_word_in(stem, heading)  # not a part of a name
        points += (_IN_HEADING if is_word or "`" in heading else 0) + (_AS_WORD if is_word else 0)
    points += _IN_TITLE if points and stem in title else 0
    return points + (_AS_KEYWORD if any(True for _ in _beginnings(stem, keywords)) else 0)


# What people type is looked for as it is: a regular expression of it would take as long as they want.
def _beginnings(stem: str, text: str) -> Iterator[int]:
    """Yield the offset after each place where a word begins with a stem."""
    at = text.find(stem)
    while at >= 0:
        end = at + len(stem)
        is_begin = at == 0 or text[at - 1] not in _LETTERS_AND_DIGITS
        if is_begin and (len(stem) > _SHORTEST_STEM or any(_ends(stem, text, end))):
            yield end
        else:
            end = at + 1
        at = text.find(stem, end)


def _ends(stem: str, text: str, end: int) -> Iterator[int]:
    """Yield where the word of a short stem can end: "HA" isn't "has", and "start" isn't "stars"."""
    endings = _SHORT_ENDINGS if len(stem) == _SHORTEST_STEM else ("",)
    if _SHORTEST_ENDING <= len(stem) < _SHORTEST_STEM:
        yield end
        return
    for ending in endings:
        after = end + len(ending)
        if text.startswith(ending, end) and text[after : after + 1] not in _LETTERS:
            yield after


def _is_word_in(stem: str, heading: str) -> bool:
    """Return whether a word of the heading is the stem with an ending."""
    at = heading.find(stem)
    while at >= 0:
        if _is_boundary(heading, at):
            end = at + len(stem)
            if len(stem) == _SHORTEST_STEM or len(stem) < _SHORTEST_ENDING:
                ends = [*_ends(stem, heading, end)]
            else:
                rest = heading[end : end + _LONGER_WORD]
                ends = [end + count for count in range(len(rest) + 1) if all(each in _LETTERS for each in rest[:count])]
            if any(_is_boundary(heading, each) for each in ends):
                return True
        at = heading.find(stem, at + 1)
    return False


def _is_boundary(text: str, at: int) -> bool:
    """Return whether a word begins or ends here."""
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    return _is_of_words(before) != _is_of_words(after)


def _is_of_words(character: str) -> bool:
    return character.isalnum() or character == "_"


def excerpt(section: Section, word: str) -> str:
    """Return some plain text of a section, around a word."""
    text = plain(re.sub(r"^\|[-| ]+\|$", "", section.text, flags=re.MULTILINE).replace("|", " "))
    at = text.lower().find(word)
    start = 0 if at < _EXCERPT_CHARS // 2 else text.rfind(" ", 0, at - 40) + 1
    shown = text[start : start + _EXCERPT_CHARS]
    return ("… " if start else "") + shown + (" …" if start + _EXCERPT_CHARS < len(text) else "")
