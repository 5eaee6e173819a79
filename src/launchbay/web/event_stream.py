"""Server-sent events: their form, and how a stream of them is written and ended (HTML Living Standard, §9.2)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import structlog

from launchbay.errors import LaunchbayError
from launchbay.limits import EVENT_HEARTBEAT_S
from launchbay.web.answers import EVENTS, EventStream
from launchbay.web.asgi import Receive, Send

HEARTBEAT = b":\n\n"
RETRY_MS = 2_000  # what a browser waits before it connects again
_HEADERS = (
    (b"content-type", EVENTS.encode()),
    (b"x-accel-buffering", b"no"),  # a proxy that gathers an answer before it passes it on would pass on nothing
)

_log = structlog.get_logger("launchbay.web")
_encode = msgspec.json.Encoder().encode


def encoded_event(name: str, data: Any, number: int | None) -> bytes:
    """Return an event as it goes over the wire; JSON without line breaks is one `data` line."""
    tail = b"\n\n" if number is None else b"\nid: %d\n\n" % number
    return b"event: %b\ndata: %b%b" % (name.encode(), _encode(data), tail)


def beginning() -> bytes:
    """Return what a stream begins with."""
    return b"retry: %d\n\n" % RETRY_MS


async def write_events(
    answer: EventStream, method: str, receive: Receive, send: Send, still_allowed: Callable[[], Awaitable[object]]
) -> None:
    """Write a stream until it ends, its client goes away, or its caller's credentials do.

    The first chunk is waited for before anything is sent: what refuses it is an answer. Later failures end the stream
    in good form: the client connects again, and hears then what is the matter.
    """
    chunks = aiter(answer.chunks)
    gone = asyncio.create_task(_until_gone(receive))
    try:
        first = await anext(chunks, b"")
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        if method != "HEAD":
            await _write_body(first, chunks, gone, send, still_allowed)
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await answer.chunks.aclose()


async def _write_body(
    first: bytes,
    chunks: AsyncIterator[bytes],
    gone: "asyncio.Task[None]",
    send: Send,
    still_allowed: Callable[[], Awaitable[object]],
) -> None:
    await send({"type": "http.response.body", "body": beginning() + first, "more_body": True})
    allowed_until_s = time.monotonic() + EVENT_HEARTBEAT_S
    while True:
        coming = asyncio.ensure_future(anext(chunks, None))
        try:
            await asyncio.wait({coming, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                return
            if time.monotonic() >= allowed_until_s:
                await still_allowed()
                allowed_until_s = time.monotonic() + EVENT_HEARTBEAT_S
            chunk = coming.result()
        except LaunchbayError as error:
            _log.info("event stream ended", reason=str(error))
            return
        finally:
            coming.cancel()
            await asyncio.wait({coming})
            if not coming.cancelled():
                coming.exception()  # asyncio complains about one that nobody has read
        if chunk is None:
            return
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
