"""HTTP/1.1 on one connection, with the limits that uvicorn's protocol lacks (promise 11).

uvicorn with httptools rejects malformed syntax. It limits neither the size of headers, nor the time for sending headers
and body or reading the response, and a new connection may stay silent forever. This subclass adds those limits, and
rejects with JSON responses. A request that arrives in one piece needs no timer.
"""

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

import httptools
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from launchbay.ids import new_id
from launchbay.limits import (
    BODY_READ_S,
    HEADER_BYTES,
    HEADER_LINES,
    HEADER_READ_S,
    KIB,
    LEFTOVER_BYTES,
    LINGER_S,
    PIPELINED_REQUESTS,
    RESPONSE_STALL_BYTES,
    RESPONSE_STALL_S,
    UPLOAD_STALL_BYTES,
)
from launchbay.telemetry import metrics
from launchbay.web.problems import plain_problem

_log = structlog.get_logger("launchbay.web")


_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


class _Reading(Enum):
    """Which part of a request comes next."""

    NOTHING = "nothing"  # between two requests
    HEADERS = "headers"
    BODY = "body"


class _Refusal(NamedTuple):
    status: int
    code: str
    message: str


_TOO_LARGE = _Refusal(
    431,
    "HeadersTooLarge",
    f"The request line and headers are larger than {HEADER_BYTES // KIB} KiB or {HEADER_LINES} lines.",
)
_HEADERS_LATE = _Refusal(408, "RequestTimeout", f"The headers were not complete within {HEADER_READ_S:.0f} s. Retry.")
_BODY_LATE = _Refusal(408, "RequestTimeout", f"The body took longer than {BODY_READ_S:.0f} s.")
_BROKEN = _Refusal(
    400, "MalformedRequest", "Malformed HTTP request. Check the request line, the headers and the framing."
)
_TOO_MANY = _Refusal(
    400,
    "TooManyPipelined",
    f"More than {PIPELINED_REQUESTS} requests are waiting on one connection. Read responses first.",
)


def _nothing() -> None:
    """Do nothing: nobody counts this connection."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits on headers, bodies, pipelines and time."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._reading = _Reading.NOTHING
        self._messages = 0
        self._header_bytes = 0  # of the lines of this request that are complete
        self._header_lines = 0
        self._unparsed_bytes = 0  # received since the last callback of the parser
        self._leftover_bytes = 0  # of a body that is no longer read
        self._body_bytes = 0  # received since the timer started
        self._refusal: _Refusal | None = None
        self._replaying = False  # a new parser is being brought to the position of the last one
        self._active: RequestResponseCycle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_of: tuple[int, _Reading] | None = None
        self._stall_timer: asyncio.TimerHandle | None = None
        self._quiet_since_s = time.monotonic()
        self.closed: Callable[[], None] = _nothing

    # The connection.

    def quiet_s(self) -> tuple[bool, float]:
        """Return if a request has begun to arrive, and how long the client has been silent.

        0 if the server works for it.
        """
        waited_s = max(time.monotonic() - self._quiet_since_s, 1e-6)
        if self._reading is not _Reading.NOTHING:
            return True, 0.0 if self.flow.read_paused else waited_s
        if self._active is not None and not self._active.response_complete:
            return self._stall_timer is not None, waited_s if self._stall_timer is not None else 0.0
        return False, waited_s

    def drop(self) -> None:
        """Abort the connection without a response, to make room for others."""
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # declared so by uvicorn
        """Start the timer: a client that only connects must not keep the connection."""
        super().connection_made(transport)
        self._watch_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers, drop waiting requests, and notify the running one."""
        self._stop_timer()
        self._stop_stall_timer()
        self._unset_keepalive_if_required()
        self.pipeline.clear()
        self._disconnect_active()
        super().connection_lost(exc)
        self.closed()

    def eof_received(self) -> bool:  # type: ignore[override]  # declared without the answer by uvicorn
        """Answer what has arrived completely before the connection closes ("Wire" 13).

        A client that has gone sends the same as one that only closes its sending side. It is noticed with the first
        bytes that it refuses. An event stream, which has no end of its own, ends with either, and a wait gives its
        answer at once. asyncio can't leave half of a TLS connection open.
        """
        self._stop_timer()
        active = self._active
        if self.scheme == "https" or active is None or active.response_complete:
            return False
        state = active.scope["state"]
        if state.get("is_stream") or state.get("ends_with_client"):
            return False
        if self._reading is _Reading.BODY:
            if active is self.cycle:
                return False
            self.pipeline.popleft()
        self._reading = _Reading.NOTHING
        if (half_closed := state.get("half_closed")) is not None:
            half_closed()
        last = self.pipeline[0][0] if self.pipeline else active
        last.keep_alive = False
        return True

    def data_received(self, data: bytes) -> None:
        """Parse the data, and start the timer for the rest of the request."""
        if self._refusal is not None:
            return
        self._unset_keepalive_if_required()
        self._unparsed_bytes += len(data)
        try:
            rest = self._parse(data)
            while rest:
                rest = self._parse(rest)
        except httptools.HttpParserError:
            # The reason of the parser, or of the callback that stopped it.
            self._refuse(self._refusal or _BROKEN)
            return
        if self._unparsed_bytes > HEADER_BYTES:
            self._refuse(_TOO_LARGE)
        elif not self.transport.is_closing():
            self._watch_reading()

    def _parse(self, data: bytes) -> bytes:
        """Feed the parser; return the data after an upgrade, which is declined."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._reading is _Reading.BODY:
                self._read_body_of_declined_upgrade()
            offset: int = upgrade.args[0]
            return data[offset:]
        return b""

    def _read_body_of_declined_upgrade(self) -> None:
        """Continue as if no upgrade had been offered.

        Java's client offers h2c with its first request of any method. The parser treats everything after the headers
        as another protocol, so the body would be lost, and a launch would run without its parameters. A new parser
        continues at the position of the old one.
        """
        framing = [name + b": " + value for name, value in self.headers if name in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self._replaying = True
        self.parser.feed_data(b"\r\n".join([b"POST / HTTP/1.1", *framing, b"", b""]))
        self._replaying = False

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection; abort it if the client hasn't read the last response."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            super().timeout_keep_alive_handler()

    # Callbacks of the parser. An exception stops the parser.

    def on_message_begin(self) -> None:
        """Start counting a request."""
        if self._replaying:
            return
        super().on_message_begin()
        self._reading = _Reading.HEADERS
        self._quiet_since_s = time.monotonic()
        self._messages += 1
        self._header_bytes = self._header_lines = self._unparsed_bytes = 0

    def on_url(self, url: bytes) -> None:
        if self._replaying:
            return
        super().on_url(url)
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header line. Trailers of a chunked body count too, but are dropped."""
        if self._replaying:
            return
        self._header_lines += 1
        self._count_header(len(name) + len(value) + 4)
        if self._reading is _Reading.HEADERS:
            # The parser leaves blanks at the end, which RFC 9110 §5.5 doesn't count as part of the value.
            super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Start the request, unless too many are waiting."""
        if self._replaying:
            return
        self._unparsed_bytes = self._leftover_bytes = 0
        if len(self.pipeline) >= PIPELINED_REQUESTS:
            self._stop_parsing(_TOO_MANY)
        if self.parser.get_http_version() == "1.0":
            # RFC 9110 §10.1.1: such a client doesn't know `100 Continue`, and would take it for its answer.
            self.headers[:] = [header for header in self.headers if header[0] != b"expect"]
            self.expect_100_continue = False
        super().on_headers_complete()
        self._reading = _Reading.BODY

    def on_chunk_header(self) -> None:
        """Reset the count: the length line of a chunk is limited like a header line."""
        self._unparsed_bytes = 0

    def on_body(self, body: bytes) -> None:
        """Pass on the body; after the response, drop it up to a limit."""
        self._unparsed_bytes = 0
        if self.cycle.response_complete:
            self._leftover_bytes += len(body)
            if self._leftover_bytes > LEFTOVER_BYTES:
                self.transport.close()
            return
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and any(name in _FRAMING for name, _ in self.headers):
            return
        self._reading = _Reading.NOTHING
        self._unparsed_bytes = 0
        super().on_message_complete()

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES or self._header_lines > HEADER_LINES:
            self._stop_parsing(_TOO_LARGE)

    def _stop_parsing(self, refusal: _Refusal) -> None:
        self._refusal = refusal
        raise ValueError(refusal.code)

    # The responses.

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._active = cycle
        answer = _Answer(cycle)
        super()._start_asgi_task(cycle, lambda scope, receive, _: app(scope, receive, answer.send))

    def on_response_complete(self) -> None:
        """Continue with the next request; start the timer if the connection closes with unsent bytes."""
        super().on_response_complete()
        self._quiet_since_s = time.monotonic()
        if self.transport.is_closing() and self.transport.get_write_buffer_size():
            self._watch_writing()

    def pause_writing(self) -> None:
        """Start the timer for a client that doesn't read its response."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_stall_timer()

    def _refuse(self, refusal: _Refusal) -> None:
        """Respond with the refusal if possible, and close the connection."""
        self._refusal = refusal
        self._stop_timer()
        active = self._active
        own = active is self.cycle and self._reading is _Reading.BODY
        if active is not None and not active.response_complete and not own:
            # Earlier requests still get their responses; the connection closes after the last one.
            if self._reading is _Reading.BODY:
                self.pipeline.popleft()
            last = self.pipeline[0][0] if self.pipeline else active
            last.keep_alive = False
            return
        if self._reading is _Reading.BODY and self.cycle.response_started:
            self.transport.close()
            return
        self._disconnect_active()
        request_id = new_id()
        _log.info("http.rejected", request_id=request_id, code=refusal.code, address=self.client and self.client[0])
        metrics.refusals.labels(refusal.code).inc()
        problem = plain_problem(refusal.status, refusal.code, refusal.message, request_id)
        lines = [
            *(name.encode() + b": " + value.encode() for name, value in problem.headers),
            b"content-length: %d" % len(problem.body),
            b"x-request-id: " + request_id.encode(),
            b"connection: close",
        ]
        self.transport.write(STATUS_LINE[refusal.status] + b"\r\n".join([*lines, b"", problem.body]))
        self._linger()

    def _linger(self) -> None:
        """Close late, so that the refusal arrives: closing with unread bytes resets the connection."""
        if self.transport.can_write_eof():
            self.transport.write_eof()
            self._timer = self.loop.call_later(LINGER_S, self.transport.abort)
        else:
            self.transport.close()

    def _disconnect_active(self) -> None:
        # uvicorn notifies only the last of pipelined requests.
        if self._active is not None and not self._active.response_complete:
            self._active.disconnected = True
            self._active.message_event.set()

    # The timers.

    def _watch_reading(self) -> None:
        """Start the timer for the next part of a request. More bytes of the same part don't restart it."""
        if self._reading is _Reading.NOTHING and self._active is not None and not self._active.response_complete:
            self._stop_timer()
            return
        wanted = (self._messages, self._reading)
        if self._timer is not None and self._timer_of == wanted:
            return
        self._stop_timer()
        seconds = BODY_READ_S if self._reading is _Reading.BODY else HEADER_READ_S
        self._timer_of = wanted
        self._body_bytes = 0
        self._timer = self.loop.call_later(seconds, self._reading_late)

    def _reading_late(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            # This side doesn't read: the request waits for its handler, or for an earlier request.
            self._watch_reading()
        elif self._reading is _Reading.NOTHING:
            self.transport.close()
        elif self._is_uploading():
            self._watch_reading()
        else:
            self._refuse(_BODY_LATE if self._reading is _Reading.BODY else _HEADERS_LATE)

    def _is_uploading(self) -> bool:
        """Return whether a file arrives, which may take longer than other bodies."""
        is_upload = self._reading is _Reading.BODY and self.cycle.scope["state"].get("is_upload", False)
        return is_upload and self._body_bytes >= UPLOAD_STALL_BYTES

    def _watch_writing(self) -> None:
        if self._stall_timer is None:
            self._quiet_since_s = time.monotonic()
        self._stop_stall_timer()
        waiting = self.transport.get_write_buffer_size()
        self._stall_timer = self.loop.call_later(RESPONSE_STALL_S, partial(self._writing_late, waiting))

    def _writing_late(self, waiting_before: int) -> None:
        if waiting_before - self.transport.get_write_buffer_size() < RESPONSE_STALL_BYTES:
            self.transport.abort()
        else:
            self._watch_writing()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


class _Answer:
    """Sends a short answer in one piece.

    uvicorn looks at each header with regular expressions, which took a tenth of the CPU time of a read. All that isn't
    plain goes uvicorn's way.
    """

    __slots__ = ("_cycle", "_start")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._start: Any = None  # the first message, until the body comes

    async def send(self, message: Any) -> None:
        """Send an ASGI message, the first one of an answer with a known length together with the second."""
        cycle, start = self._cycle, self._start
        if start is None:
            if not cycle.response_started and message["type"] == "http.response.start" and self._is_plain(message):
                self._start = message
                return
        else:
            self._start = None
            if not message.get("more_body") and self._send_whole(start, message.get("body", b"")):
                return
            await cycle.send(start)
        await cycle.send(message)

    def _is_plain(self, message: Any) -> bool:
        cycle = self._cycle
        if not cycle.keep_alive or cycle.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        names = [name for name, _ in message["headers"]]
        return b"content-length" in names and b"connection" not in names and b"transfer-encoding" not in names

    def _send_whole(self, start: Any, body: bytes) -> bool:
        """Write an answer; return False if uvicorn must look at it."""
        cycle = self._cycle
        if cycle.disconnected or not cycle.keep_alive:
            return False
        lines = [STATUS_LINE[start["status"]]]
        count, length = 1, b""
        for name, value in (*cycle.default_headers, *start["headers"]):
            if name == b"content-length":
                length = value
            lines += (name, b": ", value, b"\r\n")
            count += 1
        head = b"".join(lines)
        if head.count(b"\n") != count or head.count(b"\r") != count or b"\0" in head or length != b"%d" % len(body):
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"".join((head, b"\r\n", body)))
        cycle.message_event.set()
        cycle.on_response()
        return True
