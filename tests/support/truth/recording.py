"""What somebody has read, and what of it was compared: from the requests and comparisons themselves.

A route counts as compared once a value of the oracle was compared that its answer shows. Answers are kept, so that the
comparisons can read them again, one of them altered.
"""

import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import httpx

from launchbay.app.features import ENDPOINTS, PAGES

_HEADERS_KEPT = ("content-type", "link", "launchbay-total-count", "location")
_LEAST = 3  # letters: fewer are on each page


@cache
def _patterns() -> list[tuple[re.Pattern[str], str, str]]:
    """Return how the path of a request tells the page or the operation; what is written out goes before parameters."""
    named = [(route.path, "page", route.path) for route in PAGES if route.method == "GET"]
    named += [(each.path, "operation", each.operation_id) for each in ENDPOINTS if each.method == "GET"]
    named.sort(key=lambda each: (each[0].count("{"), -len(each[0])))
    return [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "/?"), kind, name) for path, kind, name in named]


def place_of(path: str) -> tuple[str, str] | None:
    """Return `page` or `operation` and its name."""
    return next(((kind, name) for pattern, kind, name in _patterns() if pattern.fullmatch(path)), None)


def leaves(value: Any) -> Iterator[str]:
    """Yield what an answer would show of a value: texts and numbers. Whether something is there shows nothing."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from leaves(name)
            yield from leaves(each)
    elif isinstance(value, list | tuple | set | frozenset):
        for each in value:
            yield from leaves(each)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


@dataclass
class Kept:
    """An answer as it was given, and which comparisons read it. The place is None for answers without facts."""

    place: tuple[str, str] | None
    text: str
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    readers: list[str] = field(default_factory=list)


class NeverAsked(AssertionError):
    """Nobody asked this when the answers were recorded: an altered answer led somewhere else."""


@dataclass
class _Answer:
    kind: str
    name: str
    text: str

    @cached_property
    def _words(self) -> str:
        if self.kind != "page":
            return self.text
        # its words, and what its links and fields have
        return " ".join(html.unescape(f"{re.sub(r'<[^>]+>', ' ', self.text)} {self.text}").split())

    def shows(self, values: list[str]) -> bool:
        text = self._words
        return any(
            value in text if len(value) >= _LEAST else re.search(rf"\b{re.escape(value)}\b", text) for value in values
        )


@dataclass
class Record:
    """What was requested, and what was compared: (`page`, path), (`operation`, ID), (`tool`, name), (`command`, words).

    `_open` are the answers since their place was compared last.
    """

    requested: set[tuple[str, str]] = field(default_factory=set)
    compared: dict[tuple[str, str], set[str]] = field(default_factory=dict)  # with the names of the comparisons
    reader: str = ""  # the comparison that reads
    answers: dict[str, Kept] = field(default_factory=dict)  # by what was asked
    is_replayed: bool = False
    altered: dict[str, str] = field(default_factory=dict)  # texts instead of the kept ones
    check: Callable[[str, Kept], list[str]] = field(default=lambda *_: [])  # what an answer says that is not so
    disagreements: list[str] = field(default_factory=list)
    _checked: set[str] = field(default_factory=set)
    _open: list[_Answer] = field(default_factory=list)

    def keep(self, asked: str, answer: Kept) -> None:
        """Keep the first answer to a question, and check each."""
        if answer.place is not None and answer.text not in self._checked:
            self._checked.add(answer.text)
            self.disagreements += [f"{asked}: {each}" for each in self.check(asked, answer)]
        kept = self.answers.setdefault(asked, answer)
        if self.reader not in kept.readers:
            kept.readers.append(self.reader)

    def again(self, asked: str) -> Kept | None:
        """Return the kept answer while answers are replayed, or what it is altered to.

        Raises NeverAsked.
        """
        if not self.is_replayed:
            return None
        if asked not in self.answers:
            raise NeverAsked(asked)
        kept = self.answers[asked]
        if asked not in self.altered:
            return kept
        return replace(kept, text=self.altered[asked])

    def read(self, kind: str, name: str, text: str) -> None:
        """Note an answer."""
        if self.is_replayed:
            return
        self.requested.add((kind, name))
        if self.reader not in self.compared.get((kind, name), ()):
            self._open = [*self._open[-50:], _Answer(kind, name, text)]

    def compare(self, so: Any) -> None:
        """Note that this value of the oracle was compared with what has been read."""
        if self.is_replayed or not self._open:
            return
        values = sorted({each for each in leaves(so) if each.strip()}, key=len, reverse=True)[:400]
        for each in self._open:
            if each.shows(values):
                self.compared.setdefault((each.kind, each.name), set()).add(self.reader)
        self._open = [each for each in self._open if self.reader not in self.compared.get((each.kind, each.name), ())]

    def begin(self, reader: str) -> None:
        """Forget what nothing was compared with; each comparison has to read for itself."""
        self.reader = reader
        self._open = []


class Recorded(httpx.AsyncBaseTransport):
    """Sends requests on, and notes what is answered."""

    def __init__(self, transport: httpx.AsyncBaseTransport, record: Record) -> None:
        self._transport = transport
        self._record = record

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = f"{request.method} {request.url}"
        if (kept := self._record.again(asked)) is not None:
            return httpx.Response(kept.status, headers=kept.headers, text=kept.text, request=request)
        answer = await self._transport.handle_async_request(request)
        place = place_of(request.url.path) if request.method == "GET" and answer.status_code == 200 else None
        text = (await answer.aread()).decode()
        headers = {name: answer.headers[name] for name in _HEADERS_KEPT if name in answer.headers}
        self._record.keep(asked, Kept(place, text, answer.status_code, headers))
        if place is not None:
            is_json = place[0] == "operation" and answer.headers.get("content-type") == "application/json"
            self._record.read(*place, "\n".join(leaves(json.loads(text))) if is_json else text)
        return answer
