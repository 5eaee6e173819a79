"""Lists item by item: read while they arrive, or page by page (api-decisions, "Wire" 9)."""

import codecs
import json
import re
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Any, TypeVar, get_args
from urllib.parse import parse_qs, urlsplit

import msgspec

from launchbay.client.answers import unreadable, value_of
from launchbay.client.call import Call
from launchbay.client.core import Core
from launchbay.client.effects import Close, Effect, Emit, Failure, Response, Stream, read
from launchbay.client.errors import ConnectionFailed

T = TypeVar("T")

_NEXT = re.compile(r'<([^>]*)>;\s*rel="?next"?')
_SPACE = re.compile(r"[\s,]*")
_AFTER_ITEM = re.compile(r"[\s,\]]")


def items(core: Core, call: Call[list[T]]) -> Stream[T]:
    """Emit every item of a list. With `limit` in its query each page is a call of its own, repeated if need be.

    Without it the items come out of one answer while it arrives, whatever its length. Raises ConnectionFailed where
    that is cut off: items were handed out already, so it is not begun again.
    """
    following: Call[list[T]] | None = call
    while following is not None:
        current = following
        if current.query.get("limit") is not None:
            response = yield from core.response(current)
            for item in value_of(current, response):
                yield Emit(item)
        else:
            response = yield from _arriving(core, current)
        following = _next(current, response)


def _arriving(core: Core, call: Call[list[T]]) -> Generator[Effect | Emit[T], Any, Response]:
    (kind,) = get_args(call.returns) or (Any,)
    response = yield from core.opened(call)
    splitter = ArrayItems()
    while True:
        piece = yield from read()
        if isinstance(piece, Failure):
            raise ConnectionFailed(f"The list was cut off: {piece.message}.", may_have_arrived=True)
        try:
            for item in splitter.feed(piece):
                yield Emit(msgspec.convert(item, kind))
        except (ValueError, msgspec.MsgspecError) as error:
            raise unreadable(call, replace(response, content=piece), error) from error
        if not piece:
            break
    yield Close()
    return response


def _next(call: Call[list[T]], response: Response) -> Call[list[T]] | None:
    """Return the call that the link of an answer leads to; only the query of it counts, the path is the same."""
    found = _NEXT.search(response.headers.get("link", ""))
    if found is None:
        return None
    return replace(call, query={name: values[-1] for name, values in parse_qs(urlsplit(found[1]).query).items()})


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
        """Yield the items that are complete now; an empty piece is the end. Raises ValueError for what is no array."""
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
