"""Answers that come piece by piece: long lists (conformance.md, "Wire" 9) and events (HTML Living Standard, §9.2)."""

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

import httpx
import msgspec

from launchbay.client.core import Call, Core, Effect, Emit, Pause, Stream, next_page, read, reason, unreadable
from launchbay.client.errors import ConnectionFailed, NotFound

T = TypeVar("T")

SILENCE_S = 45.0  # the server says every 15 s that it is there; after this the connection counts as dead
_SPACE = re.compile(r"[\s,]*")
_AFTER_ITEM = re.compile(r"[\s,\]]")


# Lists


def list_steps(core: Core, call: Call[list[T]]) -> Stream[T]:
    """Emit every item of a list. With `limit` in its query each page is a call of its own, repeated if need be.

    Without it the items come out of one answer while it arrives, whatever its length. Raises ConnectionFailed where
    that is cut off: items were handed out already, so it is not begun again.
    """
    following: Call[list[T]] | None = call
    while following is not None:
        current = following
        if current.query.get("limit") is not None:
            response = yield from core.response(current)
            for item in current.value_of(response):
                yield Emit(item)
        else:
            response = yield from _chunks(core, current)
        following = next_page(current, response)


def _chunks(core: Core, call: Call[list[T]]) -> Generator[Effect | Emit[T], Any, httpx.Response]:
    (kind,) = get_args(call.returns) or (Any,)
    response = yield from core.response(call, is_streamed=True)
    splitter = ArrayItems()
    while True:
        piece = yield from read()
        if isinstance(piece, httpx.TransportError):
            raise ConnectionFailed(f"The list was cut off: {reason(piece)}.", may_have_arrived=True)
        try:
            for item in splitter.feed(piece):
                yield Emit(msgspec.convert(item, kind))
        except (ValueError, msgspec.MsgspecError) as error:
            raise unreadable(response, piece, error) from error
        if not piece:
            return response


class ArrayItems:
    """Splits the text of a JSON array, which arrives in pieces, into its items."""

    def __init__(self) -> None:
        self._decoder = json.JSONDecoder()
        self._text = codecs.getincrementaldecoder("utf-8")()
        self._waiting = ""
        self._has_begun = False
        self._has_ended = False
        self._again_at = 0  # an item of many pieces is not tried again with each of them

    def feed(self, piece: bytes) -> Iterator[Any]:
        """Yield the items that are complete now; an empty piece is the end. Raises ValueError if it isn't an array."""
        self._waiting += self._text.decode(piece, final=not piece)
        if not self._has_begun:
            self._waiting = self._waiting.lstrip()
            if self._waiting and not self._waiting.startswith("["):
                raise ValueError("the answer is not a list")
            self._has_begun = bool(self._waiting)
            self._waiting = self._waiting[1:]
        if len(self._waiting) >= self._again_at or not piece:
            yield from self._complete()
        if not piece and not self._has_ended:
            raise ValueError("the list has no end")

    def _complete(self) -> Iterator[Any]:
        place = 0
        while not self._has_ended:
            place = _skip(self._waiting, place)
            if self._waiting[place : place + 1] == "]":
                self._has_ended = True
                break
            try:
                item, end = self._decoder.raw_decode(self._waiting, place)
            except ValueError:
                break
            if not _AFTER_ITEM.match(self._waiting, end):
                break  # a number goes on in the next piece: "0" is the begin of "0.5" and of "0e1"
            place = end
            yield item
        self._waiting = self._waiting[place:]
        self._again_at = 2 * len(self._waiting)


def _skip(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    assert found is not None, "the pattern matches the empty text"
    return found.end()


# Texts


def text_steps(core: Core, call: Call[str]) -> Stream[bytes]:
    """Emit the pieces of a text while it arrives, whatever its length.

    Raises ConnectionFailed where it is cut off.
    """
    yield from core.response(call, is_streamed=True)
    while True:
        piece = yield from read()
        if isinstance(piece, httpx.TransportError):
            raise ConnectionFailed(f"The answer was cut off: {reason(piece)}.", may_have_arrived=True)
        if not piece:
            return
        yield Emit(piece)


# Events


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to an instance. `name` is status, job, step, log or signal; `id` what `after` takes."""

    name: str
    data: dict[str, Any]
    id: str | None = None


class EventParser:
    """Makes events of the pieces of a stream."""

    def __init__(self, retry_s: float | None = None) -> None:
        self.retry_s = retry_s
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._line = ""
        self._name, self._id = "", ""
        self._data: list[str] = []
        self._has_id = False

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


def watch_steps(core: Core, call: Call[Event]) -> Stream[Event]:
    """Emit the events of a stream until the instance is deleted, across interruptions: nothing is missed or seen twice.

    Raises NotFound where there is no such instance to begin with, and what a call raises when the server stays away.
    """
    last_id: str | None = None
    parser = EventParser()
    has_begun = False
    while True:
        headers = {} if last_id is None else {"Last-Event-ID": last_id}
        try:
            yield from core.response(call, is_streamed=True, headers=headers, timeout_s=SILENCE_S)
        except NotFound:
            if has_begun:
                return
            raise
        has_begun = True
        while True:
            piece = yield from read()
            if isinstance(piece, httpx.TransportError) or not piece:
                break
            for event in parser.feed(piece):
                last_id = last_id if event.id is None else event.id
                yield Emit(event)
        yield Pause(min(parser.retry_s or 1.0, core.retries.longest_pause_s))
        parser = EventParser(parser.retry_s)  # half an event of the last connection is nothing
        if last_id is not None:  # it takes over from what chose the first event
            kept = {name: value for name, value in call.query.items() if name not in {"after", "tail"}}
            call = replace(call, query=kept)
