"""The log of an instance and its live events (api-decisions, "Beyond the reference")."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, TypedDict

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.store.events import LogRow
from launchbay.usecases import events
from launchbay.usecases.events import LiveEvent
from launchbay.web.requests import Request
from launchbay.web.responses import (
    EVENTS,
    HEARTBEAT,
    EventStreamResponse,
    JSONStream,
    Response,
    encoded_event,
    page,
    rows,
)
from launchbay.web.routing import Returns, Routes

routes = Routes("Jobs")

_NUMBER = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class LogQuery(msgspec.Struct, frozen=True):
    """Which lines of a log, and how many."""

    job: Annotated[str | None, msgspec.Meta(description="Only lines of the job with this id.")] = None
    step: Annotated[str | None, msgspec.Meta(description="Only lines of the step with this path.")] = None
    after: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1, description="Only lines after the one with this id.")] = 0
    limit: (
        Annotated[int, msgspec.Meta(ge=1, le=LIST_LIMIT_MAX, description="At most so many lines; without it, all.")]
        | None
    ) = None


class LogLine(TypedDict):
    """A line of a log; `id` is what `after` takes, `at` milliseconds since the Unix epoch, `step` the step's path."""

    id: int
    at: int
    level: str
    job: str
    step: str | None
    text: str


class EventsQuery(msgspec.Struct, frozen=True):
    """Where to go on, for clients that cannot send Last-Event-ID with their first request."""

    after: Annotated[_NUMBER | None, msgspec.Meta(description="Like the header Last-Event-ID, which wins.")] = None


@routes.get(
    "/instances/{id}/log",
    permission="Read",
    returns=Returns("The lines, the oldest first.", type=list[LogLine]),
    statuses=(403,),
    extension=True,
)
async def read_log(request: Request[None, LogQuery]) -> Response:
    """Reads the log of the instance, of one job or of one step; secrets are covered."""
    query = request.query
    found = events.read_log(
        request.ctx,
        request.path["id"],
        job_id=query.job,
        step=query.step,
        after=query.after,
        limit=None if query.limit is None else query.limit + 1,
    )
    if query.limit is not None:
        return page(request, [_line(row) async for chunk in found for row in chunk], query.limit)
    return JSONStream(_encoded(found))


@routes.get(
    "/instances/{id}/events",
    permission="Read",
    returns=Returns(
        "The events, until the instance is deleted. With Last-Event-ID the stream goes on after that event; else it"
        " begins with where the instance stands. A comment every 15 s says that it is alive.",
        media_type=EVENTS,
    ),
    statuses=(403,),
    extension=True,
)
async def watch_instance(request: Request[None, EventsQuery]) -> Response:
    """Streams what happens to the instance as server-sent events: status, job, step, log, signal, approval."""
    last = request.headers.get("last-event-id", "")
    # What no number of ours is, such as one of another server's, cannot be gone on from: the stream begins anew.
    after = int(last) if last.isdecimal() and len(last) < 19 else request.query.after
    return EventStreamResponse(_chunks(events.watch_instance(request.ctx, request.path["id"], after)))


async def _chunks(stream: AsyncGenerator[list[LiveEvent], None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream):
        async for happenings in stream:
            yield b"".join(encoded_event(each.name, each.data, each.id) for each in happenings) or HEARTBEAT


async def _encoded(chunks: AsyncIterator[list[LogRow]]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield rows([_line(row) for row in chunk])


def _line(row: LogRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "at": to_ms(row.at),
        "level": row.level,
        "job": row.job_id,
        "step": row.step,
        "text": row.text,
    }
