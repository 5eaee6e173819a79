"""The log of an instance and its live events (conformance.md, "Beyond the reference")."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, TypedDict

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.store.events import LogRow
from launchbay.usecases import events
from launchbay.usecases.events import LiveEvent
from launchbay.web.requests import Request
from launchbay.web.responses import EVENTS, HEARTBEAT, EventStreamResponse, Response, encoded_event, list_of_chunks
from launchbay.web.routing import Returns, Routes

routes = Routes("Jobs", extension=True)

_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LogQuery(msgspec.Struct, frozen=True):
    """Paging and filters of a log."""

    job: Annotated[str | None, msgspec.Meta(description="Only lines of the job with this ID.")] = None
    step: Annotated[str | None, msgspec.Meta(description="Only lines of the step with this path.")] = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Only lines after the one with this ID.")] = 0
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="Maximum number of lines. Default: all.")]
        | None
    ) = None


class LogLine(TypedDict):
    """A log line. Pass `id` as `after`; `at` is in milliseconds since the Unix epoch; `step` is the step's path."""

    id: int
    at: int
    level: str
    job: str
    step: str | None
    text: str


class EventsQuery(msgspec.Struct, frozen=True):
    """Where to resume, for clients that can't send Last-Event-ID with their first request."""

    after: Annotated[
        _NUMBER | None,
        msgspec.Meta(description="ID of the last event that you have. The header Last-Event-ID takes precedence."),
    ] = None


@routes.get("/instances/{id}/log", permission="Read", returns=Returns("The lines, oldest first.", type=list[LogLine]))
async def read_log(request: Request[None, LogQuery]) -> Response:
    """Show the log of an instance, of one job or of one step, with secrets masked."""
    query = request.query
    found = events.read_log(
        request.ctx,
        request.path["id"],
        job_id=query.job,
        step=query.step,
        after=query.after,
        limit=None if query.limit is None else query.limit + 1,
    )
    return await list_of_chunks(request, ([_line(row) for row in chunk] async for chunk in found))


@routes.get(
    "/instances/{id}/events",
    permission="Read",
    returns=Returns(
        "The events, until the instance is deleted. The stream starts after Last-Event-ID, or with the current"
        " state of the instance. A comment every 15 s keeps the connection alive.",
        media_type=EVENTS,
    ),
)
async def watch_instance(request: Request[None, EventsQuery]) -> Response:
    """Stream the events of an instance as server-sent events: status, job, step, log, signal, approval."""
    last = request.headers.get("last-event-id", "")
    # Ignore an ID that this server could not have sent; the stream starts with the current state.
    after = int(last) if last.isdecimal() and len(last) < 19 else request.query.after
    return EventStreamResponse(_chunks(events.watch_instance(request.ctx, request.path["id"], after)))


async def _chunks(stream: AsyncGenerator[list[LiveEvent], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream):
        async for live_events in stream:
            yield b"".join(encoded_event(each.name, each.data, each.id) for each in live_events) or HEARTBEAT


def _line(row: LogRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": to_ms(row.at),
        "level": row.level,
        "job": row.job_id,
        "step": row.step,
        "text": row.text,
    }
