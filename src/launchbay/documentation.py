"""The documentation in the package: its pages, their sections and entries, and a search."""

import re
import sqlite3
import tomllib
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
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
    "howto/conditions-and-loops": "cookbook/skip-a-step",
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
# Words of a question that say nothing about its subject: they count only if there is no other.
_LINKING = frozenset(
    word
    for line in (
        "a after an and are at be but by can can't cannot did didn't do does doesn't don't",
        "for from get got had has have how i in instead is isn't it its me my no not of on or",
        "our see that the there they this to was we what when why with won't you",
    )
    for word in line.split()
)
_WORD = re.compile(r"[\w']+")
_INSIDE_NAME = re.compile(r"(?<=[a-z])(?=[A-Z])")  # "UnknownAction" is found by its words too
QUERY_CHARS = 200  # of a search; the rest is ignored
_MOST_WORDS = 10
_QUESTION_WORDS = 5  # from so many on, a section with the rarest of them is better than one that happens to have all
# A word in the page's title counts as five in the text, in the heading as 20, in keywords as 10.
_RANKED = "SELECT rowid FROM sections WHERE sections MATCH ? ORDER BY bm25(sections, 5, 20, 10, 1) * share LIMIT ?"
_WITH_WORD = "SELECT rowid FROM sections WHERE sections MATCH ?"
_WITH_TEXT = """
SELECT rowid FROM sections WHERE instr(lower(title || ' ' || heading || ' ' || keywords || ' ' || body), ?)
"""
# Who searches has a task: pages to look things up in come after guides that fit as well.
_LOOKED_UP, _LOOKED_UP_SHARE = ("reference/", "explain/"), 0.75
_EXCERPT_CHARS = 160


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
    """Return the sections with all words, then those with some, best first.

    Entries with this name come first. Words such as *a* and *not* count only if there is no other. Of a question, the
    sections are ranked by how much they are about its words, whether they have all or not.
    """
    if len(words) > QUERY_CHARS:  # without half a word at the end
        words = words[:QUERY_CHARS].rpartition(" ")[0] or words[:QUERY_CHARS]
    typed = list(dict.fromkeys(_words(words)))
    wanted = ([word for word in typed if word not in _LINKING] or typed)[:_MOST_WORDS]
    index = _index()
    sections_of = {word: index.with_word(word) for word in wanted}
    known = [word for word in wanted if sections_of[word]]
    entry_places = (each.place for each in _named(" ".join(dict.fromkeys(words.split()))))
    named = [row for place in entry_places for row in index.at(place)]
    found = [] if len(known) >= _QUESTION_WORDS else index.ranked(known, " AND ", most)
    numbers = list(dict.fromkeys([*named, *found, *index.ranked(known, " OR ", most)]))[:most]
    return [
        _hit(*index.places[each], [word for word in wanted if each not in sections_of[word]], wanted)
        for each in numbers
    ]


def _words(text: str) -> list[str]:
    """Return the words of a question, of `policy's` only `policy`."""
    found = (word.strip("'") for word in _WORD.findall(text.lower().replace("’", "'")))
    return [word for each in found if (word := each if each in _LINKING else each.removesuffix("'s"))]


def _hit(path: str, number: int, missing: Sequence[str], words: Sequence[str]) -> Hit:
    page = pages()[path]
    section = page.sections[number]
    shown = next((word for word in words if word in section.text.lower()), "")
    return Hit(page, section, excerpt(section, shown), tuple(missing))


class _Index:
    """The sections of the pages in a full-text index of SQLite, in memory.

    `places` has path and number of each section, by its row. If this Python's SQLite was built without FTS5, the index
    says so and finds words as they are typed, in the order of the pages.
    """

    def __init__(self) -> None:
        self.places: dict[int, tuple[str, int]] = {}
        self._rows: dict[str, int] = {}
        self._lock = Lock()  # one connection, and pages are shown by several threads
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        columns = "title, heading, keywords, body, share"
        try:
            self._database.execute(
                f"CREATE VIRTUAL TABLE sections USING fts5({columns} UNINDEXED, tokenize = 'porter unicode61')"
            )
            self._is_ranked = True
        except sqlite3.OperationalError:
            warnings.warn(
                "SQLite of this Python has no FTS5: a search of the pages doesn't rank what it finds.", stacklevel=2
            )
            self._database.execute(f"CREATE TABLE sections ({columns})")
            self._is_ranked = False
        for page in pages().values():
            if not page.path.startswith(_NOT_SEARCHED):
                self._add(page)

    def _add(self, page: Page) -> None:
        share = _LOOKED_UP_SHARE if page.path.startswith(_LOOKED_UP) else 1
        for number, section in enumerate(page.sections):
            row = len(self.places) + 1
            heading = plain(section.heading)
            words = f"{'' if number else page.keywords} {_INSIDE_NAME.sub(' ', heading)}"
            self._database.execute(
                "INSERT INTO sections (rowid, title, heading, keywords, body, share) VALUES (?, ?, ?, ?, ?, ?)",
                (row, plain(page.title), heading, words, plain(section.text), share),
            )
            self.places[row] = (page.path, number)
            self._rows[f"{page.path}#{section.anchor}"] = row

    def at(self, place: str) -> list[int]:
        """Return the row of a place, or nothing if its page isn't searched."""
        row = self._rows.get(place)
        return [] if row is None else [row]

    def with_word(self, word: str) -> set[int]:
        """Return the rows that have a word, in any of its forms."""
        found = self._query(_WITH_WORD, _quoted(word)) if self._is_ranked else self._query(_WITH_TEXT, word)
        return {row for (row,) in found}

    def ranked(self, words: Sequence[str], operator: str, most: int) -> list[int]:
        """Return the best rows for words that `operator` joins."""
        if not self._is_ranked:
            sets = [self.with_word(word) for word in words] or [set()]
            return sorted(set.intersection(*sets) if operator == " AND " else set.union(*sets))[:most]
        found = self._query(_RANKED, operator.join(map(_quoted, words)), most) if words else []
        return [row for (row,) in found]

    def _query(self, statement: str, *values: str | int) -> list[tuple[int]]:
        with self._lock:
            return self._database.execute(statement, values).fetchall()


def _quoted(word: str) -> str:
    """Return a word as a phrase of FTS5, which has no operators."""
    return f'"{word}"'


@cache
def _index() -> _Index:
    return _Index()


def excerpt(section: Section, word: str) -> str:
    """Return some plain text of a section, around a word."""
    text = plain(re.sub(r"^\|[-| ]+\|$", "", section.text, flags=re.MULTILINE).replace("|", " "))
    at = text.lower().find(word)
    start = 0 if at < _EXCERPT_CHARS // 2 else text.rfind(" ", 0, at - 40) + 1
    shown = text[start : start + _EXCERPT_CHARS]
    return ("… " if start else "") + shown + (" …" if start + _EXCERPT_CHARS < len(text) else "")
