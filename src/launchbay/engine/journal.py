"""The journal of one job in PostgreSQL: what is done stays done, and only the worker that holds the job writes.

Writes gather while one is under way and go out together, so steps that end at the same time share a commit. A write
waits out a database that is away; it never gives up on its own, because the job's effects have happened already.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog

from launchbay import limits
from launchbay.actions.contract import Document
from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.backoff import Backoff
from launchbay.clock import Clock
from launchbay.errors import ActionFailed, Fenced, Unavailable
from launchbay.ids import new_id
from launchbay.model.job import StepStatus, is_own_step, raise_percent, step_name, transition_step
from launchbay.runtime.contract import DocumentKey, JobRun, StepRecord
from launchbay.runtime.secrets import Secrets
from launchbay.store import instances as store
from launchbay.store import jobs
from launchbay.store.database import Database
from launchbay.store.instances import document_purpose
from launchbay.telemetry import metrics

FULL = "The {what} has written as much log as is kept ({lines} lines or {size} characters); further lines are left out."
_LINES_RESERVED = 100  # errors beyond the bound: why it ended is worth a line, a thousand times is not


@dataclass(slots=True)
class _Written:
    lines: int = 0
    size: int = 0
    errors: int = 0
    is_told: bool = False


@dataclass(slots=True)
class LogQuota:
    """Counts what one claim of a job writes."""

    _job: _Written = field(default_factory=_Written)
    _steps: defaultdict[str | None, _Written] = field(default_factory=lambda: defaultdict(_Written))

    def admit(self, path: str | None, level: str, text: str) -> tuple[str, str] | None:
        """Return level and text of the line that may be written for this one, None for none."""
        bounds = (
            ("job", self._job, limits.LOG_JOB_LINES, limits.LOG_JOB_CHARS),
            ("step", self._steps[path], limits.LOG_STEP_LINES, limits.LOG_STEP_CHARS),
        )
        for what, written, lines, size in bounds:
            if written.lines < lines and written.size < size:
                continue
            if level == "error" and written.errors < _LINES_RESERVED:
                written.errors += 1
            elif written.is_told:
                return None
            else:
                written.is_told = True
                return "warning", FULL.format(what=what, lines=lines, size=size)
        for _, written, _, _ in bounds:
            written.lines += 1
            written.size += len(text)
        return level, text


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_CUT = " … (cut)"


def postgres_text(text: str, longest: int) -> str:
    """Return the text without what PostgreSQL refuses (NUL, lone surrogates), cut to so many characters."""
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    text = text.replace("\x00", _REPLACEMENT)
    try:
        text.encode()
    except UnicodeEncodeError:
        text = "".join(_REPLACEMENT if 0xD800 <= ord(each) <= 0xDFFF else each for each in text)
    return text


LAZY_S = 0.25  # log lines, percentages and notes wait this long for company
OUTCOME_S = 0.005  # outcomes wait this long for the begin of the next step, which is written with them
FRESH_S = 1.0  # how old the proof that the job is held may be when an effect begins; less than a lease
CLOSE_S = 0.4  # within the time that the queue gives to cancelled handlers
DATABASE_RETRY = Backoff(0.1, 2.0)
_WRITES_OF_A_BEGIN = 3  # where the database is slow, this is enough of asking
_LEVEL_CHARS = 20
_FINAL = frozenset({StepStatus.SUCCEEDED, StepStatus.FAILED})
T = TypeVar("T")
log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _StepRow:
    status: StepStatus
    percent: int = 0
    attempt: int = 1
    started_at: datetime | None = None
    name: str = ""
    is_record: bool = False
    outputs: str | None = None
    error: str | None = None
    finished_at: datetime | None = None


@dataclass(slots=True)
class _Batch:
    steps: dict[str, _StepRow] = field(default_factory=dict)
    lines: list[tuple[str | None, str, str, datetime]] = field(default_factory=list)
    sent_at_s: float = 0.0
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


NOTHING_TO_WRITE: Mapping[str, Any] = {
    name: []
    for name in (
        *("paths", "names", "statuses", "percents", "are_records", "attempts", "outputs", "errors", "started"),
        *("finished", "log_steps", "log_levels", "log_texts", "log_times"),
    )
}


class PostgresJournal:
    """Implements `runtime.journal.Journal` for one claim of one job.

    `on_fenced` is called when another worker holds the job. Then, and when PostgreSQL refuses what is to be written,
    nothing is written any more, and `start` and `settle` raise the reason. `secrets` covers what must not be shown
    (promise 10), because texts of actions and of those whom they ask may repeat it, and seals it in outputs.
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
    ) -> None:
        self._database = database
        self._clock = clock
        self._key = {"job_id": job_id, "fence": fence}
        self._records = dict(records)
        self._on_fenced = on_fenced
        self.secrets = Secrets() if secrets is None else secrets
        self._steps: dict[str, _StepRow] = {}
        self._log_quota = LogQuota()
        self._next: _Batch | None = None
        self._writer: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._lost: Exception | None = None

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        return self._records.get(path)

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of."""
        return self._records.keys()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Record that an attempt begins; returns when it is durable, and was so just now. Raises Fenced."""
        row = self._row(path, name)
        row.is_record = True
        row.status = transition_step(row.status, StepStatus.EXECUTING)
        row.attempt = attempt
        row.started_at = at
        for _ in range(_WRITES_OF_A_BEGIN):
            batch = self._put(path, row)
            self._write_now()
            await asyncio.shield(batch.written)
            # A process that was suspended since may have lost the job meanwhile: it must not begin now.
            if self._clock.monotonic_s() - batch.sent_at_s < FRESH_S:
                break

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success with its outputs."""
        row = self._steps[path]
        self._finish(row, StepStatus.SUCCEEDED)
        row.outputs = msgspec.json.encode(self.secrets.sealed(outputs)).decode()
        self._put(path, row)
        self._write_within(OUTCOME_S)

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Record that the step failed for good, unless an earlier claim has recorded it."""
        row = self._row(path, name)
        if row.status is StepStatus.FAILED:
            return
        if row.status is StepStatus.SUCCEEDED:
            # It was computed before a crash and cannot be computed now; what is shown must not hide that.
            row.status = StepStatus.EXECUTING
        self._finish(row, StepStatus.FAILED)
        row.is_record = True
        row.attempt = attempt
        row.error = self.redact(error, limits.ERROR_CHARS)
        self._put(path, row)
        self._write_within(OUTCOME_S)

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step without an effect of its own; what is shown as final stays so."""
        row = self._row(path, name)
        if row.status in _FINAL:
            return
        if status in _FINAL:
            self._finish(row, status)
        self._put(path, row)
        self._write_within(LAZY_S)

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage soon."""
        row = self._steps.get(path)
        if row is not None and row.status is StepStatus.EXECUTING:
            row.percent = raise_percent(row.percent, percent)
            self._put(path, row)
            self._write_within(LAZY_S)

    def log(self, path: str | None, level: str, text: str) -> None:
        """Add a line to the instance's log soon, as far as there is room for more of the step's."""
        admitted = self._log_quota.admit(path, level, self.redact(text, limits.LOG_LINE_CHARS))
        if admitted is None:
            return
        level, text = admitted
        self._batch().lines.append((path, postgres_text(level, _LEVEL_CHARS), text, self._clock.now()))
        self._write_within(LAZY_S)

    def redact(self, text: str, longest_chars: int) -> str:
        """Return the form of a text that may be written: without secrets, and of a length that is stored."""
        return postgres_text(self.secrets.redact(text), longest_chars)

    def interrupt_open_steps(self) -> None:
        """End the steps that the job leaves behind unfinished, such as those of a command that took too long."""
        for path, record in self._records.items():
            if record.status is StepStatus.EXECUTING:
                self._row(path, path.rpartition("/")[2])
        for path, row in self._steps.items():
            if row.status is StepStatus.EXECUTING:
                self._finish(row, StepStatus.FAILED)
                row.error = "The step was broken off."
                self._put(path, row)

    def summary(self, planned: list[list[Any]]) -> str:
        """Return the planned steps `[path, name, status, percent]` with what has become of them, in the stored form.

        Steps of the job's own workflows that could not be planned (a reconfiguration finds out what to run) follow.
        """
        now: list[list[Any]] = []
        known = {path for path, *_ in planned}
        unplanned = [path for path in dict.fromkeys((*self._records, *self._steps)) if path not in known]
        found = [[path, step_name(path), "", 0] for path in unplanned if is_own_step(path)]
        for path, name, status, percent in [*planned, *found]:
            row = self._steps.get(path)
            record = self._records.get(path)
            if row is not None:
                now.append([path, name, row.status.value, row.percent])
            elif record is not None:
                now.append([path, name, record.status.value, record.percent])
            else:
                now.append([path, name, status, percent])
        return msgspec.json.encode(now).decode()

    async def drain(self) -> dict[str, Any]:
        """Wait for the write under way and return what is still unwritten, for the statement that ends the job.

        Raises what kept an earlier write from being made.
        """
        self._stop_timer()
        while self._writer is not None and not self._writer.done():
            await asyncio.shield(self._writer)
        if self._lost is not None:
            raise self._lost
        batch, self._next = self._next or _Batch(), None
        return batch.columns()

    async def close(self) -> None:
        """Write what is still unwritten, if that is quick; then nothing any more."""
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
        """Return what is shown of a step, on from where an earlier claim left it."""
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

    def _finish(self, row: _StepRow, status: StepStatus) -> None:
        row.status = transition_step(row.status, status)
        row.finished_at = self._clock.now()
        if row.is_record and row.started_at is not None:
            metrics.steps.labels(status.value).observe((row.finished_at - row.started_at).total_seconds())
        if status is StepStatus.SUCCEEDED:
            row.percent = 100

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

    def _write_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        at = loop.time() + seconds
        if self._timer is None or self._timer.when() > at:
            self._stop_timer()
            self._timer = loop.call_at(at, self._write_now)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _write_now(self) -> None:
        self._stop_timer()
        if self._next is not None and (self._writer is None or self._writer.done()):
            self._writer = asyncio.create_task(self._write_all())

    async def _write_all(self) -> None:
        while self._next is not None:
            batch, self._next = self._next, None
            try:
                if self._lost is None:
                    await retry_while_unavailable(partial(self._write, batch, batch.columns()))
            except asyncio.CancelledError:
                batch.written.cancel()
                raise
            except Fenced as error:
                self._lost = error
                self._on_fenced()
            except Exception as error:  # whatever it is, those who wait for the write must hear of it
                log.exception("journal.refused", job=self._key["job_id"])
                self._lost = error
            if self._lost is None:
                batch.written.set_result(None)
            else:
                batch.written.set_exception(self._lost)

    async def _write(self, batch: _Batch, columns: dict[str, Any]) -> None:
        async with self._database.connection() as connection:
            batch.sent_at_s = self._clock.monotonic_s()
            if await jobs.write_journal(connection, **self._key, **columns) is None:
                raise Fenced("Another worker has taken the job over.")


async def retry_while_unavailable(attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat a statement until the database takes it. Only for statements that may run twice."""
    delays = DATABASE_RETRY.delays()
    while True:
        try:
            return await attempt()
        except Unavailable:
            await asyncio.sleep(next(delays))


class PostgresDocuments:
    """Implements `runtime.run.KeptDocuments`; one object serves all jobs of the process."""

    def __init__(self, database: Database, secret_key: SecretKey) -> None:
        self._database = database
        self._secret_key = secret_key

    async def list_by_instance(self, job: JobRun) -> Sequence[DocumentKey]:
        """Return which documents there are."""
        return await retry_while_unavailable(partial(self._list_by_instance, job))

    async def read(self, job: JobRun, key: DocumentKey) -> Document | None:
        """Return a document, None where there is none."""
        found = await retry_while_unavailable(partial(self._read, job, key))
        if found is None:
            return None
        try:
            return Document(self._secret_key.open(found.sealed, document_purpose(found.id)), found.version)
        except UnsealFailed as error:
            raise ActionFailed(*error.messages, retryable=False) from error

    async def write(self, job: JobRun, key: DocumentKey, document: Document) -> int:
        """Write over the version that the document names, and return the new one."""
        version = await retry_while_unavailable(partial(self._write, job, key, document))
        if version is None:
            raise ActionFailed(
                f"Another step has changed what {key.action} keeps as {key.name!r} meanwhile.",
                "Give steps that run beside each other different names, or let one wait for the other.",
            )
        return version

    async def delete(self, job: JobRun, key: DocumentKey) -> None:
        """Drop a document."""
        await retry_while_unavailable(partial(self._delete, job, key))

    async def _list_by_instance(self, job: JobRun) -> Sequence[DocumentKey]:
        async with self._database.connection() as connection:
            rows = await store.list_documents_by_instance(connection, instance_id=job.instance_id)
        return [DocumentKey(*row) for row in rows]

    async def _read(self, job: JobRun, key: DocumentKey) -> store.DocumentRow | None:
        async with self._database.connection() as connection:
            return await store.get_document(connection, instance_id=job.instance_id, **key._asdict())

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
                raise Fenced("Another worker has taken the job over.")
            return version

    async def _delete(self, job: JobRun, key: DocumentKey) -> None:
        async with self._database.connection() as connection:
            await store.delete_document(connection, instance_id=job.instance_id, **key._asdict(), **_claim(job))


def _claim(job: JobRun) -> dict[str, str | int]:
    return {"job_id": job.claimed_id or job.job_id, "fence": job.fence}
