"""The facts of an answer, each by its place, and the same answer with one of them altered.

A fact is what somebody may rely on: in JSON each number, text and flag; on a page a status, and each text or attribute
with a number, an ID or a name that is stored; in the table of a command each cell.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.support.truth.oracle import Oracle
from tests.support.truth.recording import Kept

_ID = re.compile(r"[0-9a-f]{24}")
_STATUSES = ("Requested", "Executing", "Running", "Failed", "Destroying", "Destroyed", "Succeeded")
_WORDS = ("Queued", "In progress", "Running", "Failed", "Destroyed", "Succeeded", "Cancelled", "Paused", "Finished")


@dataclass(frozen=True)
class Fact:
    """A value at a place of an answer; `where` is the same for all rows of a list."""

    where: str
    value: str
    altered: Callable[[], str]  # the text of the whole answer


def facts_of(answer: Kept, names: frozenset[str]) -> Iterator[Fact]:
    """Yield the facts of an answer. `names` are those that are stored."""
    assert answer.place is not None
    if answer.place[0] == "page":
        yield from _facts_of_page(answer.text, names)
        return
    try:
        document = json.loads(answer.text)
    except ValueError:
        yield from _facts_of_text(answer.text)
        return
    yield from _facts_of_json(document)


def _other(value: Any) -> Any:
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if value in _STATUSES:
        return _STATUSES[(_STATUSES.index(value) + 1) % len(_STATUSES)]
    return _other_text(value)


def _other_text(text: str) -> str:
    """Return a text with another ID, number, or word."""
    if text.strip() in _WORDS:
        return text.replace(text.strip(), _WORDS[(_WORDS.index(text.strip()) + 1) % len(_WORDS)])
    found = [*_ID.finditer(text)] or [*re.finditer(r"(?<![&#\w])\d+", text)] or [*re.finditer(r"(?<![&\w])\w+", text)]
    if not found:
        return f"{text}x"
    at = found[0].end() - 1
    return f"{text[:at]}{_next(text[at])}{text[at + 1 :]}"


def _next(letter: str) -> str:
    if letter.isdigit():
        return str((int(letter) + 1) % 10)
    return "b" if letter == "a" else "a"


def _facts_of_json(document: Any) -> Iterator[Fact]:
    def walk(value: Any, where: str, put: Callable[[Any], None]) -> Iterator[Fact]:
        if isinstance(value, dict | list):
            inside = value.items() if isinstance(value, dict) else enumerate(value)
            for key, each in inside:
                step = f".{_ID.sub('ID', str(key))}" if isinstance(value, dict) else "[]"
                yield from walk(each, f"{where}{step}", partial(value.__setitem__, key))
        elif value is not None:

            def altered() -> str:
                put(_other(value))
                try:
                    return json.dumps(whole[0])
                finally:
                    put(value)

            yield Fact(where.removeprefix("."), str(value), altered)

    whole = [document]
    yield from walk(document, "", lambda new: whole.__setitem__(0, new))


def _facts_of_text(text: str) -> Iterator[Fact]:
    """Yield the cells of a table under its heads, and otherwise what stands after the first words of a line."""
    heads: list[tuple[int, str]] = []
    before: list[tuple[int, str]] = []  # the cells of the line before
    start = 0
    for line in text.splitlines(keepends=True):
        cells = [*re.finditer(r"\S+(?: \S+)*", line)]
        if set(line.strip()) == {"─"} or re.fullmatch(r"[─ ]+", line.strip()):
            heads = before
        elif not line.strip():
            heads = []
        elif heads:
            for cell in cells:
                head = next((name for at, name in reversed(heads) if at <= cell.start()), "?")
                yield _in_text(text, head, start + cell.start(), start + cell.end())
        else:
            for cell in cells[1:] or cells:
                yield _in_text(text, re.sub(r"\d", "#", cells[0][0])[:20], start + cell.start(), start + cell.end())
        before = [(each.start(), each[0]) for each in cells]
        start += len(line)


def _in_text(text: str, where: str, begin: int, end: int, alter: Callable[[str], str] = _other_text) -> Fact:
    return Fact(where, text[begin:end], lambda: f"{text[:begin]}{alter(text[begin:end])}{text[end:]}")


_PART = re.compile(
    r"<!--.*?-->|<(?P<raw>script|style)\b.*?</(?P=raw)>"
    r"|<(?P<close>/?)(?P<tag>[a-zA-Z][\w-]*)(?P<rest>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>|(?P<text>[^<]+)",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(r"\s([a-z-]+)=\"([^\"]*)\"")
_VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "use", "rect", "line", "path"}
_ROWS = {"tr", "li", "option", "section", "tbody", "article", "form", "ul", "div", "details"}
_SHOWN = {"datetime", "href", "title", "value"}


def _facts_of_page(text: str, names: frozenset[str]) -> Iterator[Fact]:
    open_tags: list[tuple[str, str, dict[str, int]]] = [("document", "", {})]
    label = ""  # the last <dt>
    for part in _PART.finditer(text):
        if part["text"] is not None:
            tag, where, _ = open_tags[-1]
            shown = part["text"].strip()
            if tag == "dt":
                label = shown
            if "main" in where and shown and (".st" in where or _tells(shown, names)):
                yield _in_text(text, where, part.start("text"), part.end("text"))
        elif part["close"]:
            for place in range(len(open_tags) - 1, 0, -1):
                if open_tags[place][0] == part["tag"]:
                    del open_tags[place:]
                    break
        elif part["tag"]:
            attributes = {found[1]: found for found in _ATTRIBUTE.finditer(part["rest"])}
            step = _step(part["tag"], attributes, open_tags[-1][2], label)
            where = f"{open_tags[-1][1]} {step}" if part["tag"] != "main" else "main"
            if "main" in where:
                for name in _SHOWN & attributes.keys():
                    value = attributes[name][2]
                    if name == "href" and not (part["tag"] == "a" and _ID.search(value)):
                        continue  # an icon, or a link that names no object
                    if _tells(value, names) and attributes.get("type", (0, 0, ""))[2] not in {"hidden", "submit"}:
                        begin = part.start("rest") + attributes[name].start(2)
                        yield _in_text(text, f"{where} @{name}", begin, begin + len(value))
            if part["tag"] not in _VOID and not part["rest"].endswith("/"):
                open_tags.append((part["tag"], where, {}))


def _step(tag: str, attributes: dict[str, re.Match[str]], siblings: dict[str, int], label: str) -> str:
    siblings[tag] = siblings.get(tag, 0) + 1
    if "id" in attributes and not re.search(r"\d", attributes["id"][2]):
        return f"{tag}#{attributes['id'][2]}"
    css = attributes["class"][2].split() if "class" in attributes else []
    if tag == "dd":
        return f"dd:{label}"
    return ".".join([tag, *css[:1]]) + ("" if tag in _ROWS or siblings[tag] == 1 else f":{siblings[tag]}")


def _tells(text: str, names: frozenset[str]) -> bool:
    return bool(re.search(r"\d", re.sub(r"&#?\w+;", "", text))) or any(name in text for name in names)


def names_of(oracle: Oracle) -> frozenset[str]:
    """Return the names that are stored, without those that are words of pages as well."""
    columns = ("name", "email", "url", "description", "comment", "instance_name")
    rows = (row for table in oracle.tables.values() for row in table)
    found = {row[column] for row in rows for column in columns if isinstance(row.get(column), str)}
    return frozenset(each for each in found if len(each) > 3 and not re.fullmatch(r"[a-z_-]+|[A-Z][a-z]+", each))
