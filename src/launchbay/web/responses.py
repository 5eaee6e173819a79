"""Responses. Success is always 200 (conformance.md, "Wire" 1); everything else is raised as an error.

Pages are the exception: they show errors themselves, so an HTMLResponse has its own status.
"""

import asyncio
import json
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlencode

import msgspec
import structlog
from starlette.types import Receive, Send

from launchbay.clock import from_ms, to_ms
from launchbay.concurrency import cancel_all
from launchbay.errors import LaunchbayError
from launchbay.limits import EVENT_HEARTBEAT_S, LIST_LIMIT_MAX, PAGE_ROWS, PAGE_ROWS_MAX, WARNINGS_HEADER_BYTES
from launchbay.model.expiry import IfExists
from launchbay.planning.acceptance import StartedJob
from launchbay.web.requests import JSON, YAML, ClientDisconnect, Request

HTML = "text/html; charset=utf-8"
EVENTS = "text/event-stream"
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
Headers = tuple[tuple[str, str], ...]


class JSONResponse(msgspec.Struct, frozen=True):
    """A value that msgspec can encode.

    `warnings` have places, as findings do; others are those of the request (see `warned`). None: this endpoint has no
    such. `is_cut`: a list lacks items that no other page has.
    """

    value: Any
    headers: Headers = ()
    warnings: Sequence[Any] | None = None
    is_cut: bool = False


class RawJSONResponse(msgspec.Struct, frozen=True):
    """Encoded JSON, such as a stored document."""

    data: bytes
    headers: Headers = ()


class JSONStream(msgspec.Struct, frozen=True):
    """A JSON array that is streamed in constant memory ("Wire" 9).

    A failure after the first chunks aborts the connection, so that an incomplete list never looks complete. One chunk
    alone is sent with its length, unless the stream is `immediate`: then the first chunk doesn't wait for the second.
    """

    chunks: AsyncIterator[Sequence[Any]]
    headers: Headers = ()
    immediate: bool = False


class TextStream(msgspec.Struct, frozen=True):
    """Text that is streamed in constant memory, as `JSONStream` streams a list."""

    chunks: AsyncIterator[bytes]
    media_type: str
    headers: Headers = ()


class EventStreamResponse(msgspec.Struct, frozen=True):
    """Server-sent events. Each chunk contains complete events."""

    chunks: AsyncGenerator[bytes, None]


class YAMLResponse(msgspec.Struct, frozen=True):
    """A YAML document."""

    text: str
    headers: Headers = ()


class Versioned(msgspec.Struct, frozen=True):
    """A JSON answer that is made only if the client lacks it.

    Its tag is known before.
    """

    tag: str
    make: Callable[[], Awaitable[bytes]]


class KeptAnswer(NamedTuple):
    """The encoded answer of a read, its tag, and its sources."""

    sources: object
    tag: str
    data: bytes
    size: int  # of all that it keeps in memory, in bytes

    async def made(self) -> bytes:
        """Return the answer."""
        return self.data


class KeptAnswers:
    """The latest answers about the objects that were asked for last.

    Clients that poll read the same rows again and again. An answer with the same sources need not be made again.
    """

    def __init__(self, size: int, size_each: int) -> None:
        """Keep up to `size` bytes, and no answer larger than `size_each`."""
        self._size_most = size
        self._size_each = size_each
        self._size = 0
        self._kept: OrderedDict[str, KeptAnswer] = OrderedDict()

    def find(self, object_id: str, sources: object) -> KeptAnswer | None:
        """Return the answer that was made of equal sources."""
        found = self._kept.get(object_id)
        if found is None or found.sources != sources:
            return None
        self._kept.move_to_end(object_id)
        return found

    def keep(self, object_id: str, answer: KeptAnswer) -> None:
        """Keep an answer instead of an older one about the object."""
        if (older := self._kept.pop(object_id, None)) is not None:
            self._size -= older.size
        if answer.size > self._size_each:
            return
        self._kept[object_id] = answer
        self._size += answer.size
        while self._size > self._size_most:
            self._size -= self._kept.popitem(last=False)[1].size


class HTMLResponse(msgspec.Struct, frozen=True):
    """A page; `web/html.py` makes them."""

    text: str
    status: int = 200
    headers: Headers = ()


class PlainTextResponse(msgspec.Struct, frozen=True):
    """Text of any media type."""

    data: bytes
    media_type: str
    headers: Headers = ()


class EmptyResponse(msgspec.Struct, frozen=True):
    """An empty JSON object, for endpoints without a response body in the reference ("Wire" 2)."""

    headers: Headers = ()


BufferedResponse = JSONResponse | RawJSONResponse | YAMLResponse | HTMLResponse | PlainTextResponse | EmptyResponse
Response = BufferedResponse | Versioned | JSONStream | TextStream | EventStreamResponse

_encoder = msgspec.json.Encoder()


def response_of(returned: Any) -> Response:
    """Return the response for a handler's result: itself, `{}` for None, or the value as JSON."""
    if isinstance(returned, Response):
        return returned
    return EmptyResponse() if returned is None else JSONResponse(returned)


WARNINGS_HEADER = "Launchbay-Warnings"


def warned(request: Request[Any, Any], response: Response) -> Response:
    """Return a response with its warnings where old clients don't look ("Wire" 12).

    All callers get a header: a JSON array of strings, in ASCII. Those that ask with `include=warnings` get the field
    `warnings` in the object, too. Where it is of findings, the others are findings at line 0.
    """
    if not isinstance(response, JSONResponse | EmptyResponse):
        return response
    response = response if isinstance(response, JSONResponse) else JSONResponse({}, response.headers)
    warnings = [*request.warnings, *(response.warnings or ())]
    if not warnings:
        return response
    can_ask = isinstance(request.query, IncludeQuery)
    headers = (*response.headers, *warning_headers([_sentence(each) for each in warnings], can_ask=can_ask))
    value = response.value
    if includes(request, "warnings"):
        if response.warnings is not None:
            placeless = {"line": 0, "column": 0, "code": "RequestWarning"}
            warnings = [*response.warnings, *({"message": each, **placeless} for each in request.warnings)]
        value = {**msgspec.to_builtins(value), "warnings": warnings}
    return JSONResponse(value, headers)


def includes(request: Request[Any, Any], what: str) -> bool:
    """Return whether the query asks for an addition to the answer."""
    return what in (getattr(request.query, "include", "") or "").split(",")


def _sentence(warning: Any) -> str:
    if isinstance(warning, str):
        return warning
    return f"Line {warning.line}, column {warning.column}: {warning.message}"


def warning_headers(warnings: Sequence[str], *, can_ask: bool = False) -> Headers:
    """Return the header with these sentences, if there are any."""
    return ((WARNINGS_HEADER, _header_text(warnings, can_ask=can_ask)),) if warnings else ()


def _header_text(texts: Sequence[str], *, can_ask: bool) -> str:
    """Return a JSON array of the texts that fit: proxies refuse long headers.

    `can_ask`: the endpoint takes `include=warnings`, which brings the rest.
    """
    shown, size = list[str](), 0
    for text in texts:
        encoded = json.dumps(text).replace("\x7f", "\\u007f")
        size += len(encoded) + 2
        if size > WARNINGS_HEADER_BYTES:
            more = f"{len(texts) - len(shown)} more"
            shown.append(json.dumps(f"{more}: ask with include=warnings." if can_ask else f"{more}."))
            break
        shown.append(encoded)
    return f"[{', '.join(shown)}]"


class IncludeQuery(msgspec.Struct, frozen=True):
    """What the answer has besides the fields of the reference."""

    include: Annotated[
        str,
        msgspec.Meta(
            description="Additions to the answer, comma-separated: `warnings`. Default: none, because clients exist "
            "that refuse fields they don't know.",
        ),
    ] = ""


class LaunchQuery(IncludeQuery, frozen=True):
    """What a launch does if a living instance has its name.

    It isn't a field of the body, which would be a parameter in the obsolete form.
    """

    ifExists: Annotated[
        IfExists | None,
        msgspec.Meta(
            description="If a living instance of the application has this name in the environment: `fail`, `return` it "
            "as it is, or `allow` a second one. Default: as the rules of application and environment say, else `allow`."
        ),
    ] = None


def job_headers(started: StartedJob) -> Headers:
    """Return the headers that name the job which a request began or queued."""
    if not started.job_id:  # a launch returned an instance on which nothing runs
        return ()
    location = f"/api/1/instances/{started.instance_id}/jobs/{started.job_id}"
    return (("Location", location), ("Launchbay-Job", started.job_id))


# A time in milliseconds since the Unix epoch, up to the end of the year 9999.
MOMENT_LATEST_MS = 253_402_300_799_999
MomentMs = Annotated[int, msgspec.Meta(ge=0, le=MOMENT_LATEST_MS)]


def first_moment(at_ms: int | None) -> datetime | None:
    """Return the first moment that is shown as this millisecond."""
    return None if at_ms is None else from_ms(at_ms)


_PAGED = f"A page has at most {PAGE_ROWS_MAX:,}."


class Paging(msgspec.Struct, frozen=True):
    """The query of a list that is complete without `limit` (decision 0164)."""

    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of items. Default: all.")]
        | None
    ) = None
    after: (
        Annotated[
            str,
            msgspec.Meta(pattern="^[0-9a-f]{24}$", max_length=24, description="Only items after the one with this ID."),
        ]
        | None
    ) = None


class Pages(Paging, frozen=True):
    """The query of a list that always has pages."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description=f"Maximum number of items. {_PAGED}")] = (
        PAGE_ROWS
    )

    @property
    def most_items(self) -> int:
        """How many items the page has at most, whatever the limit asks for."""
        return min(self.limit, PAGE_ROWS_MAX)


class LongPages(Paging, frozen=True):
    """The query of a list that always has pages, of many items."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of items.")] = (
        LIST_LIMIT_MAX
    )


class WordPaging(Paging, frozen=True):
    """The query of a list whose IDs are words, such as hosts."""

    after: Annotated[str, msgspec.Meta(max_length=255, description="Only items after the one with this ID.")] | None = (
        None
    )


class LabeledPaging(Paging, frozen=True):
    """The query of a list of objects with labels."""

    labels: Annotated[
        str | None, msgspec.Meta(description="Only objects with these labels, such as `team=web,tier!=db`.")
    ] = None


LIST_HEADER = "Launchbay-List"


def list_headers(query: Any, response: Response) -> Headers:
    """Return the header that says whether a list is complete (decision 0164).

    A page begins after an item, has a link to the next one, or is cut. Lines of a log may be the last ones only.
    """
    if isinstance(response, EventStreamResponse | Versioned):
        return ()
    is_cut = isinstance(response, JSONResponse) and response.is_cut
    is_cut |= isinstance(response, TextStream) and getattr(query, "limit", None) is not None
    begins = any(getattr(query, name, None) for name in ("after", "tail"))
    has_next = any(name == "Link" for name, _ in response.headers)
    return ((LIST_HEADER, "page" if is_cut or begins or has_next else "complete"),)


def encode_buffered(response: BufferedResponse) -> tuple[str, bytes]:
    if isinstance(response, JSONResponse):
        return JSON, _encoder.encode(response.value)
    if isinstance(response, RawJSONResponse):
        return JSON, response.data
    if isinstance(response, YAMLResponse):
        return YAML, response.text.encode()
    if isinstance(response, HTMLResponse):
        return HTML, response.text.encode()
    if isinstance(response, PlainTextResponse):
        return response.media_type, response.data
    return JSON, b"{}"


def encode_items(items: Sequence[Any]) -> bytes:
    """Return the items of a JSON array, comma-separated, without the brackets."""
    return _encoder.encode(items)[1:-1]


async def list_of_chunks(request: Request[Any, Any], chunks: AsyncIterator[Sequence[Any]]) -> Response:
    """Return one page if the query has a `limit`, else stream all items.

    With a limit, `chunks` must bring one item more, if there is one.
    """
    limit = request.query.limit
    if limit is None:
        return JSONStream(chunks)
    # Encoded chunk by chunk: to encode thousands of long items at once would keep other requests waiting.
    parts: list[bytes] = []
    last: Any = None
    left = limit
    headers: Headers = ()
    async for chunk in chunks:
        shown = chunk[:left]
        if len(chunk) > left:
            headers = next_link(request, _id(shown[-1] if shown else last))
        if shown:
            parts.append(encode_items(shown))
            left, last = left - len(shown), shown[-1]
    # One join: each copy of many megabytes takes a while.
    parts[:1] = [b"[" + each for each in parts[:1] or [b""]]
    parts[-1] += b"]"
    return RawJSONResponse(b",".join(parts), headers)


def page(request: Request[Any, Any], items: Sequence[Any], limit: int) -> JSONResponse:
    """Return one page, with a link to the next one if there is more.

    `items` are up to `limit` + 1 objects in the order of their IDs; the last one only shows that more follow.
    """
    shown = items[:limit]
    if not len(items) > limit > 0:
        return JSONResponse(shown)
    return JSONResponse(shown, next_link(request, _id(shown[-1])))


def _id(item: Any) -> str:
    found = item["id"] if isinstance(item, Mapping) else item.id
    return str(found)


def next_link(request: Request[Any, Any], after: str) -> Headers:
    """Return the `Link` header to the items after an ID, with the rest of the query unchanged."""
    path, _, query = request.target.partition("?")
    kept = [(name, value) for name, value in parse_qsl(query, keep_blank_values=True) if name != "after"]
    return (("Link", f'<{path}?{urlencode([*kept, ("after", after)])}>; rel="next"'),)


HEARTBEAT = b":\n\n"
RETRY_MS = 2_000  # before a browser reconnects
_HEADERS = (
    (b"content-type", EVENTS.encode()),
    (b"x-accel-buffering", b"no"),  # a buffering proxy would pass on nothing
)
_log = structlog.get_logger("launchbay.web")
_encode = msgspec.json.Encoder().encode


def encoded_event(name: str, data: Any, number: int | None) -> bytes:
    """Return an encoded event; its JSON has no line breaks, so it is one `data` line."""
    tail = b"\n\n" if number is None else b"\nid: %d\n\n" % number
    return b"event: %b\ndata: %b%b" % (name.encode(), _encode(data), tail)


def beginning() -> bytes:
    return b"retry: %d\n\n" % RETRY_MS


async def write_events(
    response: EventStreamResponse,
    method: str,
    receive: Receive,
    send: Send,
    still_allowed: Callable[[], Awaitable[object]],
    end_turn: Callable[[], None] | None,
) -> None:
    """Write a stream until it ends, the client disconnects, or the caller's credentials become invalid.

    `end_turn` ends the turn of the request, which the first chunk needs: what comes later is waited for without one.
    Nothing is sent before the first chunk, so its errors become responses. Later errors end the stream normally: the
    client reconnects, and gets the error then.
    """
    chunks = aiter(response.chunks)
    gone = asyncio.create_task(until_disconnect(receive))
    try:
        try:
            first = await _first_chunk(chunks, gone)
        finally:
            if end_turn is not None:
                end_turn()
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        if method != "HEAD":
            await _write_body(first, chunks, gone, send, still_allowed)
        await send({"type": "http.response.body", "body": b""})
    finally:
        gone.cancel()
        await response.chunks.aclose()


async def _first_chunk(chunks: AsyncIterator[bytes], disconnected: "asyncio.Task[None]") -> bytes:
    coming = asyncio.ensure_future(anext(chunks, b""))
    try:
        await asyncio.wait({coming, disconnected}, return_when=asyncio.FIRST_COMPLETED)
        if not coming.done():
            raise ClientDisconnect
        return await coming
    finally:
        await cancel_all((coming,))


async def _write_body(
    first: bytes,
    chunks: AsyncIterator[bytes],
    disconnected: "asyncio.Task[None]",
    send: Send,
    still_allowed: Callable[[], Awaitable[object]],
) -> None:
    await send({"type": "http.response.body", "body": beginning() + first, "more_body": True})
    allowed_until_s = time.monotonic() + EVENT_HEARTBEAT_S
    while True:
        coming = asyncio.ensure_future(anext(chunks, None))
        try:
            await asyncio.wait({coming, disconnected}, return_when=asyncio.FIRST_COMPLETED)
            if disconnected.done():
                return
            chunk = coming.result()
            # A heartbeat comes at once when credentials of the person have ended: perhaps these.
            if chunk == HEARTBEAT or time.monotonic() >= allowed_until_s:
                await still_allowed()
                allowed_until_s = time.monotonic() + EVENT_HEARTBEAT_S
        except LaunchbayError as error:
            _log.info("event_stream.ended", reason=str(error))
            return
        finally:
            coming.cancel()
            await asyncio.wait({coming})
            if not coming.cancelled():
                coming.exception()  # else asyncio logs it as never retrieved
        if chunk is None:
            return
        await send({"type": "http.response.body", "body": chunk, "more_body": True})


async def until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _Item(Protocol):
    id: str


def list_response(request: Request[Any, Any], items: Sequence[_Item]) -> JSONResponse:
    """Return all items, or with `limit` or `after` in the query one page, ordered by ID."""
    query = request.query
    if query.limit is None and query.after is None:
        return JSONResponse(items)
    after = query.after or ""
    following = sorted((item for item in items if item.id > after), key=lambda item: item.id)
    shown = following[: query.limit]
    return JSONResponse(shown, next_link(request, shown[-1].id) if len(shown) < len(following) else ())


def optional_ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)


class Named(msgspec.Struct):
    """An ID with its name: the list item of organizations, applications and revisions (reference §2)."""

    id: str
    name: str


class Created(msgspec.Struct):
    """The ID of the created object."""

    id: str


class NameBody(msgspec.Struct, forbid_unknown_fields=False):
    """A body with a name."""

    name: str


class ServiceItem(msgspec.Struct):
    """A service instance as lists show it."""

    id: str
    name: str
    typeId: str


def absolute_url(request: Request[Any, Any], path: str) -> str:
    """Return the URL of a path: below the configured base URL, else on the Host of the request.

    `Entrance` has checked that the Host is a name of this server.
    """
    scheme = "https" if request.deps.is_secure else "http"
    base = request.deps.base_url.rstrip("/") or f"{scheme}://{request.headers.get('host', 'localhost')}"
    return base + path
