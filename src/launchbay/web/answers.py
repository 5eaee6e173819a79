"""What a handler returns. Success is always 200 (api-decisions, "Wire" 1); everything else is raised as an error.

Pages for people are the exception: they show what went wrong themselves, so an Html brings its own status.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec

JSON = "application/json"
YAML = "application/x-yaml"
HTML = "text/html; charset=utf-8"
EVENTS = "text/event-stream"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"

Headers = tuple[tuple[str, str], ...]


class Json(msgspec.Struct, frozen=True):
    """A value that msgspec can encode."""

    value: Any
    headers: Headers = ()


class RawJson(msgspec.Struct, frozen=True):
    """JSON text that is encoded already, such as a stored document."""

    data: bytes
    headers: Headers = ()


class JsonList(msgspec.Struct, frozen=True):
    """A JSON array that is streamed, so that memory does not grow with it ("Wire" 9).

    Each chunk holds the encoded rows without the brackets, as `encode.rows` makes them. A failure after the first
    chunks aborts the connection: a cut list never looks complete.
    """

    chunks: AsyncIterator[bytes]
    headers: Headers = ()


class EventStream(msgspec.Struct, frozen=True):
    """Server-sent events, for as long as the client listens. Each chunk holds whole events (`web/event_stream.py`)."""

    chunks: AsyncGenerator[bytes, None]


class Yaml(msgspec.Struct, frozen=True):
    """A YAML document."""

    text: str
    headers: Headers = ()


class Html(msgspec.Struct, frozen=True):
    """A page; `web/html.py` makes them."""

    text: str
    status: int = 200
    headers: Headers = ()


class Text(msgspec.Struct, frozen=True):
    """Text of a form that its media type names."""

    data: bytes
    media_type: str
    headers: Headers = ()


class Empty(msgspec.Struct, frozen=True):
    """The empty JSON object, where the reference shows no response body ("Wire" 2)."""

    headers: Headers = ()


WholeAnswer = Json | RawJson | Yaml | Html | Text | Empty
Answer = WholeAnswer | JsonList | EventStream
