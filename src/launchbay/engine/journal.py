"""The journal of one job in PostgreSQL: what is done stays done, and only the worker that holds the job writes.

Writes gather while one is under way and go out together, so steps that end at the same time share a commit. A write
waits out a database that is away; it never gives up on its own, because the job's effects have happened already.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec

from launchbay.clock import Clock
from launchbay.errors import Fenced, Unavailable
from launchbay.model.job import StepStatus, move_step, raise_percent
from launchbay.runtime.journal import StepRecord
from launchbay.store import jobs
from launchbay.store.pool import Database

LAZY_S = 0.25  # log lines, percentages and notes wait this long for company
RETRY_FIRST_S = 0.1
RETRY_LONGEST_S = 2.0

T = TypeVar("T")


@dataclass(slots=True)
class _StepRow:
    name: str
    status: StepStatus
    is_record: bool
    percent: int = 0
    attempt: int = 1
    outputs: str | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


@dataclass(slots=True)
class _Batch:
    steps: dict[str, _StepRow] = field(default_factory=dict)
    lines: list[tuple[str | None, str, str, datetime]] = field(default_factory=list)
    written: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the SQL function that writes a flush."""
        rows = self.steps.values()
        return {
            "paths": list(self.steps),
            "names": [row.name for row in rows],
            "statuses": [row.status.value for row in rows],
            "percents": [row.percent for row in rows],
            "are_records": [row.is_record for row in rows],
            "attempts": [row.attempt for row in rows],
            "outputs": [row.outputs for row in rows],
            "errors": [row.error for row in rows],
            "started": [row.started_at for row in rows],
            "finished": [row.finished_at for row in rows],
            "log_steps": [line[0] for line in self.lines],
            "log_levels": [line[1] for line in self.lines],
            "log_texts": [line[2] for line in self.lines],
            "log_times": [line[3] for line in self.lines],
        }


class PostgresJournal:
    """Implements `runtime.journal.Journal` for one claim of one job; `on_fenced` is called when the job is lost."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        job_id: str,
        fence: int,
        records: Mapping[str, StepRecord],
        on_fenced: Callable[[], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._key = {"job_id": job_id, "fence": fence}
        self._records = dict(records)
        self._on_fenced = on_fenced
        self._steps: dict[str, _StepRow] = {}
        self._next: _Batch | None = None
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def find(self, path: str) -> StepRecord | None:
        """Return what is recorded of a step with an effect, or None."""
        return self._records.get(path)

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Record that an attempt begins; returns when it is durable. Raises Fenced."""
        row = self._row(path, name, StepStatus.EXECUTING, is_record=True)
        row.attempt = attempt
        row.started_at = at
        batch = self._put(path, row)
        self._write_now()
        await asyncio.shield(batch.written)

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success with its outputs."""
        row = self._row(path, self._steps[path].name, StepStatus.SUCCEEDED, is_record=True)
        row.outputs = msgspec.json.encode(outputs).decode()
        self._put(path, row)
        self._write_now()

    def fail(self, path: str, error: str) -> None:
        """Record that the step failed for good."""
        record = self._records.get(path)
        if record is not None and record.status is StepStatus.FAILED:
            return  # an earlier claim of the job has recorded it
        if path not in self._steps:  # it failed before its first attempt, for its parameters
            self._row(path, path.rpartition("/")[2], StepStatus.EXECUTING, is_record=True)
        row = self._row(path, self._steps[path].name, StepStatus.FAILED, is_record=True)
        row.error = error
        self._put(path, row)
        self._write_now()

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step without an effect of its own."""
        if status is not StepStatus.EXECUTING and path not in self._steps:
            self._row(path, name, StepStatus.EXECUTING, is_record=False)
        self._put(path, self._row(path, name, status, is_record=False))
        self._write_later()

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage soon."""
        row = self._steps.get(path)
        if row is not None and row.status is StepStatus.EXECUTING:
            row.percent = raise_percent(row.percent, percent)
            self._put(path, row)
            self._write_later()

    def log(self, path: str | None, level: str, text: str) -> None:
        """Add a line to the instance's log soon."""
        self._batch().lines.append((path, level, text.replace("\x00", "\N{REPLACEMENT CHARACTER}"), self._clock.now()))
        self._write_later()

    def brief(self, planned: list[list[Any]]) -> str:
        """Return the planned steps `[path, name, status, percent]` with what has become of them, in the stored form."""
        now = []
        for path, name, status, percent in planned:
            row = self._steps.get(path)
            record = self._records.get(path)
            if row is not None:
                now.append([path, name, row.status.value, row.percent])
            elif record is not None:
                now.append([path, name, record.status.value, 100 if record.status is StepStatus.SUCCEEDED else percent])
            else:
                now.append([path, name, status, percent])
        return msgspec.json.encode(now).decode()

    async def settle(self) -> dict[str, Any]:
        """Wait for the write under way and return what is still unwritten, for the statement that ends the job."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._writer is not None and not self._writer.done():
            await asyncio.shield(self._writer)
        batch, self._next = self._next or _Batch(), None
        return batch.columns()

    async def close(self) -> None:
        """Write nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait({self._writer})

    def _row(self, path: str, name: str, status: StepStatus, *, is_record: bool) -> _StepRow:
        now = self._clock.now()
        row = self._steps.get(path)
        if row is None:
            move_step(StepStatus.REQUESTED, StepStatus.EXECUTING)
            row = self._steps[path] = _StepRow(name, StepStatus.EXECUTING, is_record, started_at=now)
        if status is not StepStatus.EXECUTING:
            row.status = move_step(row.status, status)
            row.finished_at = now
            if status is StepStatus.SUCCEEDED:
                row.percent = 100
        return row

    def _batch(self) -> _Batch:
        if self._next is None:
            self._next = _Batch()
            # Nobody waits for the batch of a mere note: its failure is told through on_fenced.
            self._next.written.add_done_callback(lambda future: future.cancelled() or future.exception())
        return self._next

    def _put(self, path: str, row: _StepRow) -> _Batch:
        batch = self._batch()
        batch.steps[path] = row
        return batch

    def _write_later(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LAZY_S, self._write_now)

    def _write_now(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._next is not None and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._next is not None:
            batch, self._next = self._next, None
            try:
                held = await patiently(partial(self._write, batch.columns()))
            except asyncio.CancelledError:
                batch.written.cancel()
                raise
            if not held:
                batch.written.set_exception(Fenced("Another worker has taken the job over."))
                self._on_fenced()
                return
            batch.written.set_result(None)

    async def _write(self, columns: dict[str, Any]) -> bool:
        async with self._database.connection() as connection:
            return await jobs.write_journal(connection, **self._key, **columns) is not None


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat a statement until the database takes it. Only for statements that may run twice."""
    pause_s = RETRY_FIRST_S
    while True:
        try:
            return await attempt()
        except Unavailable:
            await asyncio.sleep(pause_s)
            pause_s = min(RETRY_LONGEST_S, pause_s * 2)
