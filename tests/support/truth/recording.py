"""What somebody has read, and what of it was compared: from the requests and comparisons themselves.

A route counts as compared once a value of the oracle was compared that its answer shows.
"""

import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import httpx

from launchbay.app.features import ENDPOINTS, PAGES

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
class _Answer:
    kind: str
    name: str
    text: str

    def shows(self, values: list[str]) -> bool:
        text = self.text
        if self.kind == "page":  # its words, and what its links and fields have
            text = " ".join(html.unescape(f"{re.sub(r'<[^>]+>', ' ', text)} {text}").split())
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
    _open: list[_Answer] = field(default_factory=list)

    def read(self, kind: str, name: str, text: str) -> None:
        """Note an answer."""
        self.requested.add((kind, name))
        if self.reader not in self.compared.get((kind, name), ()):
            self._open = [*self._open[-50:], _Answer(kind, name, text)]

    def compare(self, so: Any) -> None:
        """Note that this value of the oracle was compared with what has been read."""
        if not self._open:
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
        answer = await self._transport.handle_async_request(request)
        place = place_of(request.url.path) if request.method == "GET" and answer.status_code == 200 else None
        if place is not None:
            text = (await answer.aread()).decode()
            is_json = place[0] == "operation" and answer.headers.get("content-type") == "application/json"
            self._record.read(*place, "\n".join(leaves(json.loads(text))) if is_json else text)
        return answer
