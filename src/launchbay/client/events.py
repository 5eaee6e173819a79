"""Server-sent events of an instance: read, and gone on with after an interruption (HTML Living Standard, §9.2)."""

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from launchbay.client.call import Call
from launchbay.client.core import Core
from launchbay.client.effects import Close, Emit, Failure, Pause, Stream, read
from launchbay.client.errors import NotFound

SILENCE_S = 45.0  # the server says every 15 s that it is there; after this the connection counts as dead


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an instance. `name` is status, job, step, log or signal; `id` what `after` takes."""

    name: str
    data: dict[str, Any]
    id: str | None = None


class EventParser:
    """Makes events of the pieces of a stream."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._name, self._id = "", ""
        self._data: list[str] = []
        self._has_id = False
        self.retry_s: float | None = None

    def feed(self, piece: bytes) -> Iterator[Event]:
        """Yield the events that are complete now."""
        *lines, self._line = (self._line + self._text.decode(piece)).split("\n")
        for line in lines:
            event = self._take(line.removesuffix("\r"))
            if event is not None:
                yield event

    def _take(self, line: str) -> Event | None:
        if not line:
            return self._end()
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            self._name = value
        elif field == "data":
            self._data.append(value)
        elif field == "id":
            self._id, self._has_id = value, True
        elif field == "retry" and value.isdecimal():
            self.retry_s = int(value) / 1000
        return None

    def _end(self) -> Event | None:
        name, data, number = self._name, "\n".join(self._data), self._id if self._has_id else None
        self._name, self._data, self._has_id = "", [], False
        if not data:
            return None
        try:
            document = msgspec.json.decode(data)
        except msgspec.MsgspecError:
            return None  # not an event of this API
        return Event(name or "message", document if isinstance(document, dict) else {"value": document}, number)


def watched(core: Core, call: Call[Event]) -> Stream[Event]:
    """Emit the events of a stream until the instance is deleted, across interruptions: nothing is missed or seen twice.

    Raises NotFound where there is no such instance to begin with, and what a call raises when the server stays away.
    """
    last_id: str | None = None
    parser = EventParser()
    has_begun = False
    while True:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        try:
            yield from core.opened(call, headers, SILENCE_S)
        except NotFound:
            if has_begun:
                return
            raise
        has_begun = True
        while True:
            piece = yield from read()
            if isinstance(piece, Failure) or not piece:
                break
            for event in parser.feed(piece):
                last_id = last_id if event.id is None else event.id
                yield Emit(event)
        yield Close()
        yield Pause(min(parser.retry_s or 1.0, core.retries.longest_pause_s))
        parser = _fresh(parser)
        call = replace(call, query={})  # `after` counts for the first connection; Last-Event-ID has taken over


def _fresh(parser: EventParser) -> EventParser:
    """Return a parser for the next connection: half an event of the last one is nothing."""
    fresh = EventParser()
    fresh.retry_s = parser.retry_s
    return fresh
