"""What happens to an instance, live, and its log (conformance.md, "Beyond the reference")."""

import asyncio
import sys
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.concurrency import computed
from launchbay.errors import NotFound
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus, StepStatus, is_cancellation, owner_of, segment
from launchbay.model.redaction import Redactor, masked_message
from launchbay.store import events as store
from launchbay.store import jobs
from launchbay.store.events import EventRow, LogRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context, Work

# Whatever was about to commit when the watch began was announced to nobody; by then it has.
REFRESH_INTERVAL_S = 1.0
_INLINE_EVENTS = 20
_SLICE_S = 0.0005
_LINES_TOGETHER = 50
_FIRST_LINES = 125
LOG_LEVELS = ("debug", "info", "warning", "error")


class LiveEvent(msgspec.Struct, frozen=True):
    """One event.

    Who has the number `id` has everything up to it; without one the next event belongs to this.
    """

    name: str
    data: dict[str, Any]
    id: int | None = None


async def watch_instance(ctx: Context, instance_id: str, after: int | None) -> AsyncGenerator[list[LiveEvent], None]:
    """Stream what happens to an instance: `status, job, step, log, signal, approval`, in order.

    An empty list says "still here", or that the caller should look whether their session is. It comes at least once in
    two heartbeats with nothing to tell, however often something else happens.

    `after` is the number of the last event that the caller has; without it the stream begins with where the instance
    stands. The caller's permission is looked at with every look at the instance. Ends when the process shuts down;
    raises NotFound when the instance is deleted, and whatever else a look at it raises.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    allowed = ctx.app.quotas.event_streams(record.organization_id)
    async with ctx.app.feed.watching(instance_id, ctx.actor.user_id, record.organization_id, allowed) as waiter:
        encoder = _EventEncoder()
        has_begun = False
        clock = ctx.app.clock
        said_at_s = clock.monotonic_s()
        patience_s = REFRESH_INTERVAL_S
        while not ctx.app.feed.closing.is_set():
            async with ctx.read() as work:
                record = await work.lookup.instance(instance_id, Permission.READ)
                if after is None:
                    rows = await store.list_current(work.connection, instance_id=instance_id)
                else:
                    rows = await store.list_since(
                        work.connection, instance_id=instance_id, after=after, count=limits.EVENTS_CHUNK
                    )
            if rows:
                # Masking many texts takes a while; other requests must not wait for it.
                encode = partial(encoder.encode, record, rows, is_first=after is None)
                size = len(record.parameters) + len(record.environment_view)
                live_events = await computed(size if len(rows) < _INLINE_EVENTS else sys.maxsize, encode)
                after = rows[-1].id
                if live_events:
                    has_begun = True
                    said_at_s = clock.monotonic_s()
                    yield live_events
            if len(rows) >= limits.EVENTS_CHUNK:
                continue
            if not has_begun:  # so that the response begins, and its request holds nothing while it waits
                has_begun = True
                yield []
            await waiter.wait(patience_s)
            # Also while it is woken for what its reader doesn't see: only then is the session looked at.
            if waiter.credentials_ended or clock.monotonic_s() >= said_at_s + limits.EVENT_HEARTBEAT_S:
                waiter.credentials_ended = False
                said_at_s = clock.monotonic_s()
                yield []
            patience_s = limits.EVENT_HEARTBEAT_S
            await asyncio.sleep(limits.EVENT_POLL_PAUSE_S)


class LogFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which lines of a log. `level` is the lowest one; times are in UTC.

    `since` is included, `until` is not. `text` may occur anywhere in a line, in upper or lower case.
    """

    job_id: str | None = None
    step: str | None = None
    component: str | None = None
    level: str = LOG_LEVELS[0]
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statements."""
        return {
            "job_id": self.job_id,
            "step": self.step,
            "component": None if self.component is None else segment(self.component),
            "hidden": list(LOG_LEVELS[: LOG_LEVELS.index(self.level)]),
            "since": self.since,
            "until": self.until,
        }

    async def mask(self, redactor: Redactor, rows: Sequence[LogRow]) -> list[LogRow]:
        """Return the lines that have the text once masked: no search finds a secret."""
        wanted = self.text.casefold()
        return [row for row in await mask_lines(redactor, rows) if wanted in row.text.casefold()]


async def read_log(
    ctx: Context,
    instance_id: str,
    wanted: LogFilter,
    *,
    after: int = 0,
    limit: int | None = None,
    tail: int | None = None,
) -> AsyncIterator[list[LogRow]]:
    """Stream lines of an instance's log after the number `after`, with secrets covered.

    `tail` is the number of the newest lines to show, `limit` that of the oldest.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    if tail is not None and wanted.text:
        newest: deque[LogRow] = deque(maxlen=tail)
        async for _, rows in _scan(ctx, record, wanted, after):
            newest.extend(rows)
        yield list(newest)
        return
    left = limit
    async for _, rows in _scan(ctx, record, wanted, await _tail_start(ctx, record, wanted, after, tail)):
        if rows:
            yield rows if left is None else rows[:left]
        left = None if left is None else left - len(rows)
        if left is not None and left <= 0:
            return


async def follow_log(
    ctx: Context, instance_id: str, wanted: LogFilter, *, after: int = 0, tail: int | None = None
) -> AsyncGenerator[list[LiveEvent], None]:
    """Stream lines as `read_log` does, and those to come, as events `log`.

    The event `end` follows the last line of the job that is asked for, or of a destroyed instance. An empty list says
    "still here". Raises NotFound when the instance has no such job or is deleted.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    allowed = ctx.app.quotas.event_streams(record.organization_id)
    async with ctx.app.feed.watching(instance_id, ctx.actor.user_id, record.organization_id, allowed) as waiter:
        after = await _tail_start(ctx, record, wanted, after, tail)
        has_begun = False
        clock = ctx.app.clock
        said_at_s = clock.monotonic_s()
        patience_s = REFRESH_INTERVAL_S
        while not ctx.app.feed.closing.is_set():
            async with ctx.read() as work:
                record = await work.lookup.instance(instance_id, Permission.READ)
                status = await _end_status(work, record, wanted.job_id)
            async for reached, rows in _scan(ctx, record, wanted, after):
                after = reached
                if rows:
                    has_begun = True
                    said_at_s = clock.monotonic_s()
                    yield [LiveEvent("log", log_line(row), row.id) for row in rows]
            if status is not None:
                yield [LiveEvent("end", {"status": status}, after)]
                return
            if not has_begun:  # so that the response begins, and its request holds nothing while it waits
                has_begun = True
                yield []
            await waiter.wait(patience_s)
            # Also while it is woken for what its reader doesn't see: only then is the session looked at.
            if waiter.credentials_ended or clock.monotonic_s() >= said_at_s + limits.EVENT_HEARTBEAT_S:
                waiter.credentials_ended = False
                said_at_s = clock.monotonic_s()
                yield []
            patience_s = limits.EVENT_HEARTBEAT_S
            await asyncio.sleep(limits.EVENT_POLL_PAUSE_S)


async def _end_status(work: Work, record: InstanceRecord, job_id: str | None) -> str | None:
    """Return the status after which no lines come, if it is reached."""
    if job_id is None:
        return record.status if record.status is InstanceStatus.DESTROYED and record.job_id is None else None
    found = await jobs.get_status(work.connection, job_id=job_id)
    if found is None or found.instance_id != record.id:
        raise NotFound(f"The instance has no job {job_id!r}. List its jobs.")
    return None if found.status == JobStatus.EXECUTING else found.status


async def _tail_start(ctx: Context, record: InstanceRecord, wanted: LogFilter, after: int, tail: int | None) -> int:
    """Return the number before the first of the newest lines."""
    if tail is None:
        return after
    async with ctx.read() as work:
        first = await store.find_log_tail(
            work.connection, instance_id=record.id, after=after, count=tail, **wanted.columns()
        )
    return after if first is None else first - 1


async def _scan(
    ctx: Context, record: InstanceRecord, wanted: LogFilter, after: int
) -> AsyncIterator[tuple[int, list[LogRow]]]:
    """Stream the last number of each chunk, and its wanted lines."""
    redactor = await redactor_for(record)
    count = _FIRST_LINES  # the first chunk comes soon; the later ones are more efficient
    without_hit_bytes = 0
    while True:
        async with ctx.read() as work:
            rows = await store.list_log_lines(
                work.connection,
                instance_id=record.id,
                after=after,
                count=count,
                bytes=limits.LIST_CHUNK_BYTES,
                **wanted.columns(),
            )
        if not rows:
            return
        after = rows[-1].id
        hits = await wanted.mask(redactor, rows)
        yield after, hits
        without_hit_bytes = 0 if hits else without_hit_bytes + sum(len(row.text) for row in rows)
        if without_hit_bytes >= limits.LOG_SEARCH_TURN_BYTES:  # nothing slows it down: nobody reads what it finds
            without_hit_bytes = 0
            await asyncio.sleep(limits.LOG_SEARCH_PAUSE_S)
        count = min(2 * count, limits.LOG_CHUNK_LINES)


def log_line(row: LogRow) -> dict[str, Any]:
    """Return a line as the API shows it."""
    return {
        "id": row.id,
        "at": to_ms(row.at),
        "level": row.level,
        "job": row.job_id,
        "step": row.step,
        "text": row.text,
        "component": None if row.step is None else owner_of(row.step),
        "attempt": row.attempt,
        "stream": row.stream,
    }


class _EventEncoder:
    """Turns rows into events. Remembers the return values to report changes."""

    def __init__(self) -> None:
        self._signals: dict[str, Any] | None = None
        self._secrets = ""
        self._redactor = Redactor()

    def encode(self, record: InstanceRecord, rows: Sequence[EventRow], *, is_first: bool) -> list[LiveEvent]:
        """Return the events of some rows. With `is_first`, they describe its present state."""
        secrets = record.parameters + record.environment_view
        if secrets != self._secrets:
            self._secrets, self._redactor = secrets, _redactor(record)
        if is_first:
            self._signals = msgspec.json.decode(rows[0].text or "{}")
        encoded = [(row.id, name, data) for row in rows for name, data in self._of(row)]
        numbers = [number for number, _, _ in encoded]
        # A number stands at the last event that has it: a client that was cut off before gets all of them again.
        last = {number: place for place, number in enumerate(numbers)}
        return [
            LiveEvent(name, data, number if last[number] == place else None)
            for place, (number, name, data) in enumerate(encoded)
        ]

    def _of(self, row: EventRow) -> Iterator[tuple[str, dict[str, Any]]]:
        at = None if row.at is None else to_ms(row.at)
        match row.kind:
            case "status":
                yield "status", {"status": row.status, "at": at}
            case "begun" | "ended" if row.job_id is not None:
                status = "Executing" if row.kind == "begun" else row.job_status
                error = None if row.text is None else self._redactor.text(row.text)
                yield (
                    "job",
                    {
                        "job": row.job_id,
                        "name": row.name,
                        "status": status,
                        "errorMessage": error,
                        "at": at,
                        "cancelled": row.kind == "ended" and is_cancellation(row.text),
                    },
                )
            case "step" if "/" in (row.path or ""):
                yield "step", self._step(row, at)
            case "log":
                text = self._redactor.text(row.text or "")
                yield "log", {"at": at, "level": row.level, "job": row.job_id, "step": row.path, "text": text}
            case "approval" if row.name is not None:
                text = self._redactor.text(row.text or "")
                about = {"approval": row.name, "job": row.job_id, "step": row.path}
                yield "approval", {**about, "status": row.status, "text": text, "at": at}
            case "signal":
                yield from self._changed(row, at)

    def _step(self, row: EventRow, at: int | None) -> dict[str, Any]:
        return {
            "job": row.job_id,
            "path": row.path,
            "name": row.name,
            "status": row.status,
            "percentComplete": 100 if row.status == StepStatus.SUCCEEDED else row.percent,
            "attempt": row.attempt,
            "errorMessage": None if row.text is None else self._redactor.text(row.text),
            "ignored": row.level == "warning",
            "at": at,
        }

    def _changed(self, row: EventRow, at: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
        values: dict[str, Any] = msgspec.json.decode(row.text or "{}")
        before = self._signals
        for name, value in values.items():
            if before is None or name not in before or before[name] != value:
                yield "signal", {"name": name, "value": self._redactor.value({name: value})[name], "at": at}
        self._signals = values


async def mask_lines(redactor: Redactor, rows: Sequence[LogRow]) -> list[LogRow]:
    """Return the lines with their secrets masked, and give way to other requests meanwhile.

    A thread would only slow those down: they would wait for the interpreter at each of their own waits.
    """
    lines: list[LogRow] = []
    until_s = time.perf_counter() + _SLICE_S
    for start in range(0, len(rows), _LINES_TOGETHER):
        several = rows[start : start + _LINES_TOGETHER]
        if redactor.leaves([row.text for row in several]):
            lines += several
            continue
        for row in several:
            lines.append(row._replace(text=redactor.text(row.text)))
            if time.perf_counter() > until_s:
                await asyncio.sleep(0)
                until_s = time.perf_counter() + _SLICE_S
    return lines


async def redactor_for(record: InstanceRecord) -> Redactor:
    """Return what masks the secrets of an instance."""
    return await computed(len(record.parameters) + len(record.environment_view), partial(_redactor, record))


async def mask_message(message: str | None, *documents: str | None) -> str | None:
    """Mask the secrets of an instance's JSON documents in a message of its jobs."""
    size = sum(len(document or "") for document in documents)
    return await computed(size, partial(masked_message, message, *documents))


def _redactor(record: InstanceRecord) -> Redactor:
    return Redactor(map(msgspec.json.decode, (record.parameters, record.environment_view)))
