"""The journal of one job in PostgreSQL.

Only the worker that holds the job writes, and a recorded outcome stays.

Changes collect while a write is running and are written together, so steps that end at the same time share a commit.
A write waits for an unavailable database and never gives up: the job's effects have already happened.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec
import structlog

from launchbay import limits
from launchbay.actions.contract import Document
from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.clock import Backoff, Clock, to_ms
from launchbay.concurrency import shielded
from launchbay.errors import ActionFailed, Fenced, Unavailable
from launchbay.ids import new_id
from launchbay.manifest.workflow_rules import IDENTITY, SECRETS
from launchbay.model.job import (
    INTERRUPTED_STEP,
    StepStatus,
    StepWait,
    is_decision,
    is_own_step,
    raise_percent,
    step_name,
    transition_step,
)
from launchbay.quotas.stored_bytes import StoredBytes
from launchbay.runtime.contract import SYSTEM, DocumentKey, JobRun, StepRecord
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.slot import staying
from launchbay.store import instances as store
from launchbay.store import jobs
from launchbay.store.database import Connection, Database
from launchbay.store.instances import document_purpose
from launchbay.store.jobs import passing_purpose
from launchbay.telemetry import metrics

FULL = "The {what} has reached its log limit ({lines} lines or {size} characters). Launchbay drops further lines."
_LINES_RESERVED = 100  # errors beyond the limit: the reason for a failure is worth a line, not thousands
ORGANIZATION_FULL = "The logs of the organization have reached their quota. Launchbay drops further lines."
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CUT = " … (cut)"
_ENDED_OPENED = 500  # ended attempts whose secrets a take-over masks
REFUSED = "Another worker has taken the job over, or it was cancelled."
LAZY_S = 0.25  # how long log lines, percentages and notes wait to be written together
OUTCOME_S = 0.005  # how long outcomes wait for the start of the next step, to share its write
# So many passes of the loop follow for the steps that the outcome lets begin: in a busy process, the loop is late.
OUTCOME_PASSES = 10
FRESH_S = 1.0  # an effect starts only this soon after a fenced write was sent; less than a lease
BATCH_ROWS = 300  # steps and log lines of one statement; the steps that wait for it continue together
CLOSE_S = 0.4  # less than the queue gives cancelled handlers
DATABASE_RETRY = Backoff(0.1, 2.0)
_STARTS_WRITTEN = 3  # attempts at a fresh write if the database is slow
_LEVEL_CHARS = 20
_FINAL = frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED})
T = TypeVar("T")
log = structlog.get_logger(__name__)
NOTHING_TO_WRITE: Mapping[str, Any] = {
    name: []
    for name in (
        *("paths", "names", "statuses", "percents", "are_records", "attempts", "outputs", "errors", "started"),
        *("finished", "log_steps", "log_levels", "log_texts", "log_times", "failed", "log_attempts", "log_streams"),
        "inputs",
    )
}


@dataclass(slots=True)
class _Written:
    lines: int = 0
    size: int = 0
    errors: int = 0
    is_told: bool = False


@dataclass(slots=True)
class LogQuota:
    """Counts the log lines of one claim of a job."""

    _organization: _Written = field(default_factory=_Written)
    _job: _Written = field(default_factory=_Written)
    _steps: defaultdict[str | None, _Written] = field(default_factory=lambda: defaultdict(_Written))

    def admit(self, path: str | None, level: str, text: str, *, is_full: bool = False) -> tuple[str, str] | None:
        """Return level and text of the line to write, or None.

        `is_full`: the organization has used up its quota.
        """
        job, of_job = self._job, (limits.LOG_JOB_LINES, limits.LOG_JOB_CHARS)
        step, of_step = self._steps[path], (limits.LOG_STEP_LINES, limits.LOG_STEP_CHARS)
        if not is_full and _has_room(job, *of_job) and _has_room(step, *of_step):
            for written in (job, step):
                written.lines += 1
                written.size += len(text)
            return level, text
        bounds = (
            *([("organization", self._organization, 0, 0)] if is_full else []),
            ("job", job, *of_job),
            ("step", step, *of_step),
        )
        for what, written, lines, size in bounds:
            if _has_room(written, lines, size):
                continue
            if level == "error" and written.errors < _LINES_RESERVED:
                written.errors += 1
            elif written.is_told:
                return None
            else:
                written.is_told = True
                return "warning", FULL.format(what=what, lines=lines, size=size) if lines else ORGANIZATION_FULL
        for _, written, _, _ in bounds:
            written.lines += 1
            written.size += len(text)
        return level, text


def _has_room(written: _Written, lines: int, size: int) -> bool:
    return written.lines < lines and written.size < size


def postgres_text(text: str, longest: int) -> str:
    """Replace what PostgreSQL rejects (NUL, lone surrogates) and cut the text to `longest` characters."""
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    text = text.replace("\x00", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = "".join(_REPLACEMENT if 0xD800 <= ord(each) <= 0xDFFF else each for each in text)
    return text


@dataclass(slots=True)
class _StepRow:
    status: StepStatus
    percent: int = 0
    attempt: int = 1
    started_at: datetime | None = None
    name: str = ""
    is_record: bool = False
    outputs: str | None = None
    unsealed: Mapping[str, Any] | None = None  # outputs that aren't a text yet
    error: str | None = None
    finished_at: datetime | None = None
    attempt_at: datetime | None = None


class _Line(NamedTuple):
    step: str | None
    level: str
    text: str
    at: datetime
    attempt: int | None
    stream: str


@dataclass(slots=True)
class _Batch:
    steps: dict[str, _StepRow] = field(default_factory=dict)
    failed: dict[str, list[list[Any]]] = field(default_factory=dict)
    inputs: dict[str, str] = field(default_factory=dict)  # of its steps, those that are new
    lines: list[_Line] = field(default_factory=list)
    waits: dict[str, str] = field(default_factory=dict)  # path → JSON, empty if the wait is over
    starts: set[str] = field(default_factory=set)  # of attempts, by path
    is_cut: bool = False  # whether its starts were refused because the job was cancelled
    positions: dict[tuple[str, int, str], str] = field(default_factory=dict)  # path, attempt, source
    sent_at_s: float = 0.0
    written: "asyncio.Future[None]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def is_full(self) -> bool:
        return len(self.steps) + len(self.lines) >= BATCH_ROWS

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the SQL function that writes a batch."""
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
            "failed": [_failed_text(self.failed.get(path)) for path in self.steps],
            "log_steps": [line.step for line in self.lines],
            "log_levels": [line.level for line in self.lines],
            "log_texts": [line.text for line in self.lines],
            "log_times": [line.at for line in self.lines],
            "log_attempts": [line.attempt for line in self.lines],
            "log_streams": [line.stream for line in self.lines],
            "inputs": [self.inputs.get(path) for path in self.steps],
        }


def _failed_text(attempts: list[list[Any]] | None) -> str | None:
    return None if attempts is None else msgspec.json.encode(attempts).decode()


def duration_text(seconds: float) -> str:
    """Return a duration as log lines show it."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


class PostgresJournal:
    """Implements `runtime.contract.Journal` for one claim of one job.

    `on_fenced` is called when another worker holds the job. After that, or if PostgreSQL rejects a write, nothing more
    is written, and `start` and `drain` raise the reason. It is also called when the job was cancelled: then no step
    begins, but what running ones still do is written (decision 0161). `is_cancelled`: this claim is there to end a
    cancelled job. `secrets` masks secrets in texts (guarantee 10), because
    actions and the systems that they call may repeat them, and encrypts them in outputs.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        job_id: str,
        fence: int,
        records: Mapping[str, StepRecord],
        on_fenced: Callable[[], None],
        secrets: Secrets | None = None,
        organization_id: str = "",
        stored: StoredBytes | None = None,
        secret_key: SecretKey | None = None,
        *,
        is_cancelled: bool = False,
    ) -> None:
        self._is_cancelled = is_cancelled
        self.was_cancelled = False  # since this claim, as far as a write has found out
        self._database = database
        self._clock = clock
        self._organization_id = organization_id
        self._stored = stored
        self._secret_key = secret_key
        self._key = {"job_id": job_id, "fence": fence}
        self._records = dict(records)
        self._attempts = {path: record.attempt for path, record in records.items()}  # as they are written
        self._cut: set[str] = set()  # steps that don't begin anymore
        self._drained: _Batch | None = None
        self._noted: dict[tuple[str, int, str], str] = {}  # by this claim
        self._positions: dict[tuple[str, int, str], str] | None = None  # by earlier ones
        self._reading_positions = asyncio.Lock()
        self._on_fenced = on_fenced
        self.secrets = Secrets() if secrets is None else secrets
        self._steps: dict[str, _StepRow] = {}
        self._new_inputs: dict[str, str] = {}  # that no batch has yet
        self._waits: defaultdict[str, list[StepWait]] = defaultdict(list)
        self._log_quota = LogQuota()
        self._unwritten: deque[_Batch] = deque()  # all but the last one are full
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.Handle | None = None
        self._write_at_s = 0.0
        self._lost: Exception | None = None

    def find(self, path: str) -> StepRecord | None:
        return self._records.get(path)

    def traces(self) -> Collection[str]:
        return self._records.keys()

    async def start(self, path: str, name: str, attempt: int, at: datetime, *, durable: bool = True) -> None:
        """Record the start of an attempt durably. Raises Fenced if the job was lost.

        With `durable=False`, return at once, and write it within LAZY_S.
        """
        row = self._row(path, name)
        row.is_record = True
        row.status = transition_step(row.status, StepStatus.EXECUTING)
        row.attempt = attempt
        row.started_at = at
        row.attempt_at = self._clock.now()
        earlier = self._records.get(path)
        if attempt > (0 if earlier is None else earlier.attempt):
            self._tell(path, row, "started" if attempt == 1 else "starts again")
        if not durable:
            if self._lost is not None:
                raise self._lost
            self._put(path, row).starts.add(path)
            self._write_within(LAZY_S)
            return
        for _ in range(_STARTS_WRITTEN):
            batch = self._put(path, row)
            batch.starts.add(path)
            self._write_now()
            await shielded(batch.written)
            # A process that was suspended since the write may have lost the job: it must not start the effect.
            if self._clock.monotonic_s() - batch.sent_at_s < FRESH_S:
                break

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        row = self._steps[path]
        self._finish(path, row, StepStatus.SUCCEEDED)
        row.outputs, row.unsealed = None, outputs
        self._put(path, row)
        self._write_within(OUTCOME_S, OUTCOME_PASSES)

    def skip(self, path: str, name: str) -> None:
        row = self._row(path, name)
        row.is_record = True
        row.attempt = 0
        row.started_at = self._clock.now()
        row.status = transition_step(row.status, StepStatus.EXECUTING)
        self._finish(path, row, StepStatus.SUCCEEDED, "skipped")
        row.outputs = "{}"
        self._put(path, row)
        self._write_within(OUTCOME_S, OUTCOME_PASSES)

    def attempt_failed(self, path: str, error: str, retry_s: float) -> None:
        """Record the failure of an attempt that will be repeated after a pause."""
        row = self._steps[path]
        now = self._clock.now()
        began = row.attempt_at or row.started_at or now
        text = self.redact(error, limits.ERROR_CHARS)
        failed = [row.attempt, to_ms(began), to_ms(now), text, to_ms(now) + int(retry_s * 1000)]
        self._put(path, row).failed.setdefault(path, []).append(failed)
        self._write_within(LAZY_S)

    def fail(self, path: str, name: str, error: str, attempt: int, *, is_ignored: bool = False) -> None:
        """Record the step's final failure, unless an earlier claim has recorded it."""
        row = self._row(path, name)
        if row.status is StepStatus.FAILED:
            return
        if row.status is StepStatus.SUCCEEDED:
            # Computed before a crash, but not computable now: the history must show the failure.
            row.status = StepStatus.EXECUTING
        row.attempt = attempt
        self._finish(path, row, StepStatus.FAILED)
        row.is_record = True
        row.error = self.redact(error, limits.ERROR_CHARS)
        row.outputs, row.unsealed = "{}" if is_ignored else None, None  # the workflow continues as with none
        self._put(path, row)
        self._write_within(OUTCOME_S, OUTCOME_PASSES)

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step without an effect; a final status stays."""
        is_new = path not in self._steps and path not in self._records
        row = self._row(path, name)
        if row.status in _FINAL:
            return
        if status in _FINAL:
            self._finish(path, row, status)
        elif is_new:
            self._tell(path, row, "started")
        self._put(path, row)
        self._write_within(LAZY_S)

    def note_inputs(self, path: str, inputs: Mapping[str, Any]) -> None:
        """Show what a step is sent. Masked at once: an action may change them."""
        shown = self.secrets.shown(inputs, limits.STEP_INPUTS_BYTES)
        self._new_inputs[path] = msgspec.json.encode(shown).decode()

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage within LAZY_S."""
        row = self._steps.get(path)
        if row is not None and row.status is StepStatus.EXECUTING:
            row.percent = raise_percent(row.percent, percent)
            self._put(path, row)
            self._write_within(LAZY_S)

    @contextmanager
    def waiting(self, path: str, wait: StepWait) -> Iterator[None]:
        """Show within LAZY_S what a step waits for."""
        waits = self._waits[path]
        waits.append(wait)
        self._show_wait(path)
        try:
            yield
        finally:
            waits.remove(wait)
            self._show_wait(path)

    def _show_wait(self, path: str) -> None:
        waits = self._waits[path]
        text = ""
        if waits:
            text = msgspec.json.encode(
                msgspec.structs.replace(waits[-1], text=self.redact(waits[-1].text, limits.ERROR_CHARS))
            ).decode()
        self._batch().waits[path] = text
        self._write_within(LAZY_S)

    def log(self, path: str | None, level: str, text: str, stream: str = SYSTEM) -> None:
        """Add a line to the log within LAZY_S, up to the limits."""
        if self._log_into(self._batch(), path, level, text, stream):
            self._write_within(LAZY_S)

    def _log_into(self, batch: _Batch, path: str | None, level: str, text: str, stream: str = SYSTEM) -> bool:
        is_full = self._stored is not None and self._stored.are_logs_full(self._organization_id)
        admitted = self._log_quota.admit(path, level, self.redact(text, limits.LOG_LINE_CHARS), is_full=is_full)
        if admitted is None:
            return False
        level, text = admitted
        row = None if path is None else self._steps.get(path)
        attempt = None if row is None else row.attempt
        line = _Line(path, postgres_text(level, _LEVEL_CHARS), text, self._clock.now(), attempt, stream)
        batch.lines.append(line)
        return True

    def note_log_position(self, path: str, attempt: int, source: str, position: str) -> None:
        """Record the position in the batch that has the last line."""
        batch = self._unwritten[-1] if self._unwritten else self._batch()
        batch.positions[path, attempt, source] = self._noted[path, attempt, source] = position
        self._write_within(LAZY_S)

    async def log_position(self, path: str, attempt: int, source: str) -> str:
        key = path, attempt, source
        if key not in self._noted:
            with staying():
                async with self._reading_positions:  # once for all sources: those of thousands of machines may ask
                    if self._positions is None:
                        self._positions = await self._earlier_positions()
        return self._noted.get(key) or (self._positions or {}).get(key, "")

    async def keep_passing(self, path: str, attempt: int, values: Mapping[str, Any]) -> None:
        """Keep what an attempt gets for itself, sealed.

        Secrets stay until the job's end, a token alone until the next attempt of the step. Raises Fenced.
        """
        if self._secret_key is None:
            return
        row_id, data = new_id(), msgspec.json.encode(values)
        seal = partial(self._secret_key.seal, data, passing_purpose(row_id))
        about = {"id": row_id, "path": path, "attempt": attempt, "has_secrets": SECRETS in values, **self._key}
        if not await store_sealed_until_available(self._database, jobs.keep_passing, seal, **about):
            self._on_fenced()
            raise Fenced(REFUSED)

    async def open_passing(self) -> None:
        """Mask from now on what steps got for themselves in earlier claims. Raises UnsealFailed."""
        if self._secret_key is None:
            return
        rows = await run_until_available(self._database, jobs.list_passing, job_id=self._key["job_id"])
        newest: dict[str, int] = {}  # attempts by path
        ended = 0
        for row in rows:
            values = msgspec.json.decode(await retry_while_unavailable(partial(_opened, self._secret_key, row)))
            if row.has_ended or row.attempt < newest.setdefault(row.path, row.attempt):
                values.pop(IDENTITY, None)  # no command of that attempt writes anything anymore
                ended += 1
                if ended > _ENDED_OPENED:
                    continue
            self.secrets.register_passing(values, row.path)
            await asyncio.sleep(0)  # each takes milliseconds

    async def _earlier_positions(self) -> dict[tuple[str, int, str], str]:
        """Return the positions that earlier claims of the job have noted."""
        rows = await run_until_available(self._database, jobs.list_log_positions, job_id=self._key["job_id"])
        return {(row.path, row.attempt, row.source): row.position for row in rows}

    def redact(self, text: str, longest_chars: int) -> str:
        """Mask the secrets in a text and make it storable."""
        return postgres_text(self.secrets.redact(text, longest_chars), longest_chars)

    def interrupt_open_steps(self) -> None:
        """End unfinished steps, such as those of a command that timed out."""
        for path, record in self._records.items():
            if record.status is StepStatus.EXECUTING:
                self._row(path, path.rpartition("/")[2])
        for path, row in self._steps.items():
            if row.status is StepStatus.EXECUTING:
                self._finish(path, row, StepStatus.FAILED, "was interrupted")
                row.error = INTERRUPTED_STEP
                self._put(path, row)

    async def summary(self, planned: list[list[Any]]) -> str:
        """Encode the planned steps `[path, name, status, percent]` with their present statuses.

        Other jobs and requests get their turn in between.

        Steps of the job's own workflows that weren't planned follow: a reconfiguration finds out what to run.
        """
        now: list[list[Any]] = []
        known = {path for path, *_ in planned}
        unplanned = [path for path in dict.fromkeys((*self._records, *self._steps)) if path not in known]
        found = [[path, step_name(path), "", 0] for path in unplanned if is_own_step(path)]
        for path, name, status, percent in [*planned, *found]:
            if len(now) % BATCH_ROWS == BATCH_ROWS - 1:
                await asyncio.sleep(0)
            row = self._steps.get(path)
            record = self._records.get(path)
            if row is not None:
                now.append([path, name, row.status.value, row.percent])
            elif record is not None:
                now.append([path, name, record.status.value, record.percent])
            else:
                now.append([path, name, status, percent])
        return msgspec.json.encode(now).decode()

    async def drain(self, last: str | None = None) -> dict[str, Any]:
        """Return what is unwritten, for the statement that ends the job.

        `last` is a line of the log about the end. Raises the reason if an earlier write failed.
        """
        batch = self._drained = self._unwritten.pop() if self._unwritten else _Batch()
        await self.flush()
        if batch.waits:
            async with self._database.connection() as connection:
                await self._write_waits(connection, batch.waits)
        await self._seal(batch)
        self._leave_out_cut(batch)
        self._count(batch)
        if last is None:
            return batch.columns()
        ending = _Batch(batch.steps, batch.failed, batch.inputs, list(batch.lines))
        self._log_into(ending, None, "info", last)
        return ending.columns()

    async def keep_drained(self) -> None:
        """Write what `drain` has returned, because the job hasn't ended by this claim.

        The line about the end isn't written.
        """
        if self._drained is not None and self._lost is None:
            self._unwritten.append(self._drained)
            with suppress(Fenced):
                await self.flush()
                self.was_cancelled = True  # else this claim could write nothing

    async def flush(self) -> None:
        """Write what is unwritten.

        Raises the reason if a write failed.
        """
        self._write_now()
        while self._writer is not None and not self._writer.done():
            await shielded(self._writer)
        if self._lost is not None:
            raise self._lost

    async def close(self) -> None:
        """Write what is unwritten, within CLOSE_S, and stop."""
        self._stop_timer()
        if self._lost is None:
            self._write_now()
        if self._writer is None:
            return
        _, late = await asyncio.wait({self._writer}, timeout=CLOSE_S)
        if late:
            self._writer.cancel()
            await asyncio.wait({self._writer})

    def _row(self, path: str, name: str) -> _StepRow:
        """Return the shown state of a step, continuing that of an earlier claim."""
        row = self._steps.get(path)
        if row is None:
            record = self._records.get(path)
            if record is None:
                status = transition_step(StepStatus.REQUESTED, StepStatus.EXECUTING)
                row = _StepRow(status, started_at=self._clock.now())
            else:
                row = _StepRow(record.status, record.percent, record.attempt, record.started_at)
            self._steps[path] = row
            row.name = postgres_text(name, limits.NAME_CHARS)
        return row

    def _tell(self, path: str, row: _StepRow, what: str) -> None:
        """Write into the log what becomes of a step."""
        if "/" in path and not is_decision(path):  # anything else is the launch of a whole component
            of_attempt = f" (attempt {row.attempt})" if row.attempt > 1 else ""
            self.log(path, "info", f"Step {row.name!r} {what}{of_attempt}.")

    def _finish(self, path: str, row: _StepRow, status: StepStatus, how: str = "") -> None:
        row.status = transition_step(row.status, status)
        row.finished_at = self._clock.now()
        if row.is_record and row.started_at is not None:
            metrics.steps_with(status.value).observe((row.finished_at - row.started_at).total_seconds())
        if status is StepStatus.SUCCEEDED:
            row.percent = 100
        # As the record shows it, in which times are whole milliseconds.
        took = duration_text((to_ms(row.finished_at) - to_ms(row.started_at or row.finished_at)) / 1000)
        self._tell(path, row, f"{how or status.lower()} after {took}" if row.attempt else how)

    def _batch(self) -> _Batch:
        if not self._unwritten or self._unwritten[-1].is_full:
            batch = _Batch()
            # No one awaits the batch of a note: on_fenced reports its failure.
            batch.written.add_done_callback(lambda future: future.cancelled() or future.exception())
            self._unwritten.append(batch)
        return self._unwritten[-1]

    def _put(self, path: str, row: _StepRow) -> _Batch:
        batch = self._batch()
        batch.steps[path] = row
        inputs = self._new_inputs.pop(path, None)
        if inputs is not None:
            batch.inputs[path] = inputs
        return batch

    def _write_within(self, seconds: float, turns: int = 0) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is None or self._write_at_s > at:
            self._stop_timer()
            # Not the handle's `when`: uvloop returns one without it if the time has come meanwhile.
            self._timer, self._write_at_s = loop.call_at(at, self._write_after, turns), at

    def _write_after(self, turns: int) -> None:
        """Write after so many further passes of the event loop."""
        if turns:
            self._timer = asyncio.get_running_loop().call_soon(self._write_after, turns - 1)
        else:
            self._write_now()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_now(self) -> None:
        self._stop_timer()
        if self._unwritten and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._unwritten:
            batch = self._unwritten.popleft()
            try:
                if self._lost is None:
                    await self._write_when_available(batch)
            except asyncio.CancelledError:
                batch.written.cancel()
                raise
            except Fenced as error:
                self._lost = error
                self._on_fenced()
            except Exception as error:  # whatever it is, the callers that wait for the write must get it
                log.exception("journal.refused", job=self._key["job_id"])
                self._lost = error
            reason = self._lost or (Fenced(REFUSED) if batch.is_cut else None)
            if reason is None:
                batch.written.set_result(None)
            else:
                batch.written.set_exception(reason)
            if batch.is_cut:
                self._on_fenced()

    async def _write_when_available(self, batch: _Batch) -> None:
        """Write a batch; log how long the database was away."""
        away_since_s: float | None = None

        async def attempt() -> None:
            nonlocal away_since_s
            try:
                await self._seal(batch)
                await self._write(batch)
            except Unavailable:
                away_since_s = self._clock.monotonic_s() if away_since_s is None else away_since_s
                raise

        await retry_while_unavailable(attempt)
        if away_since_s is not None:
            took = duration_text(self._clock.monotonic_s() - away_since_s)
            self.log(None, "warning", f"The database was unavailable for {took}; the job waited for it.")

    async def _seal(self, batch: _Batch) -> None:
        """Turn the outputs of a batch into texts; threads encode large ones."""
        for row in list(batch.steps.values()):
            if (outputs := row.unsealed) is not None:
                text = await self.secrets.stored(outputs)  # it may be cancelled
                if row.unsealed is outputs:
                    row.outputs, row.unsealed = text, None

    async def _write(self, batch: _Batch) -> None:
        async with self._database.connection() as connection:
            batch.sent_at_s = self._clock.monotonic_s()
            if not batch.positions:
                await self._write_rows(connection, batch)
            else:
                # With its lines or not at all: the next process would write lines again, or leave some out.
                async with connection.transaction():
                    await self._write_rows(connection, batch)
                    await self._write_positions(connection, batch.positions)
            if batch.waits:
                await self._write_waits(connection, batch.waits)
        self._count(batch)

    async def _write_rows(self, connection: Connection, batch: _Batch) -> None:
        """Write steps and lines; those of a cancelled job only if begun."""
        self._leave_out_cut(batch)
        begins = not self._is_cancelled and bool(batch.starts or batch.steps.keys() - self._attempts.keys())
        written = await jobs.write_journal(connection, **self._key, begins=begins, **batch.columns())
        if written is None and begins:
            self._cut_starts(batch)
            written = await jobs.write_journal(connection, **self._key, begins=False, **batch.columns())
            self.was_cancelled = batch.is_cut = written is not None
        if written is None:
            raise Fenced(REFUSED)
        self._attempts.update((path, row.attempt) for path, row in batch.steps.items())

    def _cut_starts(self, batch: _Batch) -> None:
        """Take back from a batch what begins in it."""
        for path in batch.starts & self._attempts.keys():
            batch.steps[path].attempt = self._attempts[path]
        self._cut |= batch.steps.keys() - self._attempts.keys()
        batch.starts.clear()
        self._leave_out_cut(batch)

    def _leave_out_cut(self, batch: _Batch) -> None:
        if self._cut:
            for path in self._cut & batch.steps.keys():
                del batch.steps[path]
            batch.lines = [line for line in batch.lines if line.step not in self._cut]

    async def _write_positions(self, connection: Connection, positions: Mapping[tuple[str, int, str], str]) -> None:
        paths, attempts, sources = zip(*positions, strict=True)
        await jobs.set_log_positions(
            connection,
            **self._key,
            paths=list(paths),
            attempts=list(attempts),
            sources=list(sources),
            positions=list(positions.values()),
        )

    async def _write_waits(self, connection: Connection, waits: Mapping[str, str]) -> None:
        await jobs.set_waits(connection, **self._key, paths=list(waits), waits=list(waits.values()))

    def _count(self, batch: _Batch) -> None:
        if self._stored is not None:
            log_bytes = sum(len(line.text) for line in batch.lines)
            rows = batch.steps.items()
            journal_bytes = sum(len(path) + len(row.outputs or "") + len(row.error or "") for path, row in rows)
            journal_bytes += sum(map(len, batch.inputs.values()))
            self._stored.add(self._organization_id, log_bytes, journal_bytes)


async def retry_while_unavailable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat `attempt` until the database is available. Only for statements that may run twice."""
    delays = DATABASE_RETRY.delays()
    while True:
        try:
            return await attempt()
        except Unavailable:
            await asyncio.sleep(next(delays))


async def run_until_available(database: Database, statement: Callable[..., Awaitable[T]], /, **parameters: Any) -> T:
    """Run one statement on a pooled connection, repeated until the database is available.

    It may run twice.
    """

    async def attempt() -> T:
        async with database.connection() as connection:
            return await statement(connection, **parameters)

    with staying():
        return await retry_while_unavailable(attempt)


async def store_sealed_until_available(
    database: Database, statement: Callable[..., Awaitable[T]], seal: Callable[[], bytes], /, **parameters: Any
) -> T:
    """Run a statement as `run_until_available` does, with what `seal` returns as its `sealed`.

    It seals for each try: in an outage nothing can be sealed after a while, and then the key may be another.
    """

    async def attempt() -> T:
        async with database.connection() as connection:
            return await statement(connection, sealed=seal(), **parameters)

    with staying():
        return await retry_while_unavailable(attempt)


async def _opened(secret_key: SecretKey, row: jobs.PassingRow) -> bytes:
    return secret_key.open(bytes(row.sealed), passing_purpose(row.id))


class PostgresDocuments:
    """Implements `runtime.contract.StepDocuments`; one object serves all jobs of the process."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key

    async def list_by_instance(self, job: JobRun) -> Sequence[DocumentKey]:
        listed = store.list_documents_by_instance
        rows = await run_until_available(self._database, listed, instance_id=job.instance_id)
        return [DocumentKey(*row) for row in rows]

    async def read(self, job: JobRun, key: DocumentKey) -> Document | None:
        found = await run_until_available(
            self._database, store.get_document, instance_id=job.instance_id, **key._asdict()
        )
        if found is None:
            return None
        try:
            return Document(self._secret_key.open(found.sealed, document_purpose(found.id)), found.version)
        except UnsealFailed as error:
            raise ActionFailed(*error.messages, retryable=False) from error

    async def write(self, job: JobRun, key: DocumentKey, document: Document) -> int:
        version = await retry_while_unavailable(partial(self._write, job, key, document))
        if version is None:
            raise ActionFailed(
                f"Another step changed the {key.action} document {key.name!r} at the same time.",
                "Give parallel steps different names, or run them one after the other.",
            )
        return version

    async def delete(self, job: JobRun, key: DocumentKey) -> None:
        await run_until_available(
            self._database, store.delete_document, instance_id=job.instance_id, **key._asdict(), **_claim(job)
        )

    async def _write(self, job: JobRun, key: DocumentKey, document: Document) -> int | None:
        async with self._database.transaction() as connection:
            before = await store.get_document(connection, instance_id=job.instance_id, **key._asdict())
            if (0 if before is None else before.version) != document.version:
                return None
            document_id = new_id() if before is None else before.id
            version = await store.write_document(
                connection,
                document_id=document_id,
                instance_id=job.instance_id,
                **key._asdict(),
                sealed=self._secret_key.seal(document.data, document_purpose(document_id)),
                version=document.version,
                **_claim(job),
            )
            if version is None and not await store.has_documents(connection, **_claim(job)):
                raise Fenced(REFUSED)
            return version


def _claim(job: JobRun) -> dict[str, str | int]:
    return {"job_id": job.claimed_id or job.job_id, "fence": job.fence}
