"""The log of a job in windows, by line number, text, step or error.

Nothing here reads a whole log. A window begins after a place, which knows its number: only a jump counts the lines
before it, in the database.
"""

from collections.abc import AsyncIterator
from typing import NamedTuple

from launchbay import limits
from launchbay.auth.permissions import Permission
from launchbay.store import events as store
from launchbay.store.events import LogRow
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context
from launchbay.usecases.events import LogFilter, mask_lines, redactor_for

WINDOW_LINES = 500
COUNTED_LINES = 100_000  # for show; a jump counts all
_ALL_LINES = 10**9
_SEARCHED_LINES = 20_000  # for one window of a search; the next window continues
_CONTEXT_LINES = 100  # before a line that a window is about


class LogPosition(NamedTuple):
    """A place in a log: after the line with this ID and number.

    Lines are numbered 1, 2, 3 … in their job. The number is 0 before the first one.
    """

    id: int = 0
    number: int = 0


class NumberedLine(NamedTuple):
    """A line with its number in the job."""

    number: int
    row: LogRow


class LogWindow(NamedTuple):
    """Some lines of a job's log.

    `before` is where they begin, `after` where the next ones do, or None at the end.
    """

    lines: list[NumberedLine]
    before: LogPosition
    after: LogPosition | None
    end: LogPosition


async def read_window(
    ctx: Context, instance_id: str, job_id: str, place: LogPosition, *, wanted: LogFilter | None = None, count: int = 0
) -> LogWindow:
    """Return lines after a place, masked, by default `WINDOW_LINES`.

    A search looks through a bounded number of lines; `after` says where the next one begins.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    wanted = wanted or LogFilter()
    hidden = wanted.columns()["hidden"]
    text = wanted.text.casefold()
    most = count or WINDOW_LINES
    redactor = await redactor_for(record)
    lines: list[NumberedLine] = []
    at, looked = place, 0
    async for rows in _chunks(ctx, record, job_id, place.id):
        shown = await mask_lines(redactor, rows)
        for row in shown:
            at = LogPosition(row.id, at.number + 1)
            looked += 1
            if row.level not in hidden and (not text or text in row.text.casefold()):
                lines.append(NumberedLine(at.number, row))
            if len(lines) >= most or looked >= _SEARCHED_LINES:
                return LogWindow(lines, place, at, at)
    return LogWindow(lines, place, None, at)


async def _chunks(ctx: Context, record: InstanceRecord, job_id: str, after: int) -> AsyncIterator[list[LogRow]]:
    while True:
        async with ctx.read() as work:
            rows = await store.list_log_lines(
                work.connection,
                instance_id=record.id,
                after=after,
                count=limits.LOG_CHUNK_LINES,
                bytes=limits.LIST_CHUNK_BYTES,
                **LogFilter(job_id=job_id).columns(),
            )
        if not rows:
            return
        yield rows
        after = rows[-1].id


class LogPositions:
    """Finds places in the log of a job.

    The caller must have looked at the job, which checks the permission.
    """

    def __init__(self, ctx: Context, instance_id: str, job_id: str) -> None:
        self._ctx = ctx
        self._of = {"instance_id": instance_id, "job_id": job_id}

    async def count(self, until: int | None = None, most: int = _ALL_LINES) -> int:
        """Return the number of lines up to a line, with a maximum."""
        async with self._ctx.read() as work:
            return await store.count_log_lines(work.connection, **self._of, until=until, most=most) or 0

    async def around(self, number: int) -> LogPosition:
        """Return the place some lines before the one with a number."""
        first = min(number, await self.count()) - _CONTEXT_LINES
        return await self._before(max(1, first))

    async def tail(self) -> LogPosition:
        """Return the place before the last window."""
        return await self._before(max(1, await self.count() - WINDOW_LINES + 1))

    async def _before(self, number: int) -> LogPosition:
        if number <= 1:
            return LogPosition()
        async with self._ctx.read() as work:
            found = await store.find_numbered_line(work.connection, **self._of, skipped=number - 2)
        return LogPosition() if found is None else LogPosition(found, number - 1)

    async def next_error(self, after: int, step: str | None = None) -> int | None:
        """Return the number of the first error after a line."""
        async with self._ctx.read() as work:
            found = await store.find_next_error(work.connection, **self._of, after=after, step=step)
        return None if found is None else await self.count(found)

    async def last_error(self, before: int | None = None, step: str | None = None) -> int | None:
        """Return the number of the last error, or that before a line."""
        async with self._ctx.read() as work:
            found = await store.find_last_error(work.connection, **self._of, before=before, step=step)
        return None if found is None else await self.count(found)

    async def step_start(self, step: str) -> int | None:
        """Return the number of the first line of a step."""
        async with self._ctx.read() as work:
            found = await store.find_step_start(work.connection, **self._of, step=step)
        return None if found is None else await self.count(found)
