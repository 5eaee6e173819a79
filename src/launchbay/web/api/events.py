"""The log of an instance and its live events (conformance.md, "Beyond the reference")."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from launchbay.clock import iso_time_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.store.events import LogRow
from launchbay.usecases import events
from launchbay.usecases.events import LiveEvent, LogFilter, log_line
from launchbay.web.requests import JSON, NDJSON, Request
from launchbay.web.responses import (
    EVENTS,
    HEARTBEAT,
    EventStreamResponse,
    JSONStream,
    MomentMs,
    Response,
    TextStream,
    encoded_event,
    first_moment,
    list_of_chunks,
)
from launchbay.web.routing import Returns, Routes

routes = Routes("Jobs", extension=True)

TEXT = "text/plain; charset=utf-8"
_encode = msgspec.json.Encoder().encode
_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LogQuery(msgspec.Struct, frozen=True):
    """Paging and filters of a log. Times are in milliseconds since the Unix epoch."""

    job: Annotated[str | None, msgspec.Meta(description="Only lines of the job with this ID.")] = None
    step: Annotated[str | None, msgspec.Meta(description="Only lines of the step with this path.")] = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Only lines after the one with this ID.")] = 0
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of lines. Default: all.")]
        | None
    ) = None
    component: Annotated[str | None, msgspec.Meta(description="Only lines of the steps of this component.")] = None
    level: Annotated[
        Literal["debug", "info", "warning", "error"], msgspec.Meta(description="Only lines of this level and above.")
    ] = "debug"
    q: Annotated[str, msgspec.Meta(max_length=200, description="Only lines with this text, in any case.")] = ""
    since: Annotated[MomentMs | None, msgspec.Meta(description="Only lines from this time on.")] = None
    until: Annotated[MomentMs | None, msgspec.Meta(description="Only lines before this time.")] = None
    tail: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Only the newest lines, so many of them.")]
        | None
    ) = None

    def filter(self) -> LogFilter:
        return LogFilter(
            job_id=self.job,
            step=self.step,
            component=self.component,
            level=self.level,
            text=self.q,
            since=first_moment(self.since),
            until=first_moment(self.until),
        )


class LogLine(TypedDict):
    """A log line. Pass `id` as `after`; `at` is in milliseconds since the epoch.

    `step` is the step's path.

    `stream` is `stdout` or `stderr` for the output of a program, otherwise `system`.
    """

    id: int
    at: int
    level: str
    job: str
    step: str | None
    text: str
    component: str | None
    attempt: int | None
    stream: str


_FORMATS = {EVENTS: "events", NDJSON: "ndjson", "text/plain": "text", JSON: "json"}


class EventsQuery(msgspec.Struct, frozen=True):
    """Where to resume, for clients that can't send Last-Event-ID with their first request."""

    after: Annotated[
        _NUMBER | None,
        msgspec.Meta(description="ID of the last event that you have. The header Last-Event-ID takes precedence."),
    ] = None


@routes.get(
    "/instances/{id}/log",
    command="instance log",
    permission="Read",
    returns=Returns(
        "The lines, oldest first, in the form that the header Accept asks for. Server-sent events continue until the"
        " job or the instance ends: each line is an event `log` with its ID, and the last event is `end`.",
        type=list[LogLine],
        also=(NDJSON, TEXT, EVENTS),
    ),
)
async def read_log(request: Request[None, LogQuery]) -> Response:
    """Show or follow the log of an instance, a job or a step."""
    query, path = request.query, request.path
    form = _preferred(request.headers.get("accept", ""))
    if form == "events":
        after = _last_event_id(request, query.after) or 0
        tail = None if after else query.tail
        return EventStreamResponse(
            _chunks(events.follow_log(request.ctx, path["id"], query.filter(), after=after, tail=tail))
        )
    is_page = form == "json" and query.limit is not None and query.tail is None
    found = events.read_log(
        request.ctx,
        path["id"],
        query.filter(),
        after=query.after,
        limit=query.limit + 1 if is_page and query.limit is not None else query.limit,
        tail=query.tail,
    )
    if form == "json":
        chunks = ([log_line(row) for row in chunk] async for chunk in found)
        return await list_of_chunks(request, chunks) if is_page else JSONStream(chunks, immediate=True)
    if form == "ndjson":
        return TextStream((b"".join(map(_json_line, chunk)) async for chunk in found), NDJSON)
    return TextStream((b"".join(map(_text_line, chunk)) async for chunk in found), TEXT)


def _preferred(accept: str) -> str:
    """Return the first format that an Accept header names."""
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    return next((_FORMATS[kind] for kind in kinds if kind in _FORMATS), "json")


def _json_line(row: LogRow) -> bytes:
    return _encode(log_line(row)) + b"\n"


def _text_line(row: LogRow) -> bytes:
    where = "" if row.step is None else f" {row.step}"
    return f"{iso_time_ms(row.at)} {row.level.upper()}{where}: {row.text}\n".encode()


def _last_event_id(request: Request[Any, Any], otherwise: int | None) -> int | None:
    """Return where a stream resumes; an impossible ID is ignored."""
    last = request.headers.get("last-event-id", "")
    return int(last) if last.isdecimal() and len(last) < 19 else otherwise


@routes.get(
    "/instances/{id}/events",
    command="instance events",
    permission="Read",
    returns=Returns(
        "The events, until the instance is deleted. The stream starts after Last-Event-ID, or with the current"
        " state of the instance. A comment every 15 s keeps the connection alive.",
        media_type=EVENTS,
    ),
)
async def watch_instance(request: Request[None, EventsQuery]) -> Response:
    """Stream the events of an instance as server-sent events: status, job, step, log, signal, approval."""
    after = _last_event_id(request, request.query.after)  # without one, the stream starts with the current state
    return EventStreamResponse(_chunks(events.watch_instance(request.ctx, request.path["id"], after)))


async def _chunks(stream: AsyncGenerator[list[LiveEvent], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream):
        async for live_events in stream:
            yield b"".join(encoded_event(each.name, each.data, each.id) for each in live_events) or HEARTBEAT
