"""The job queue: Procrastinate on PostgreSQL, used through its public classes. No other module imports it.

A job is a row. One worker claims it, and the row is deleted when the job's handler returns. A handler that was
interrupted (stop, crash, `launchbay_interrupt`) or raised an exception runs again.
`docs/decisions/0001-procrastinate-carries-the-engine.md` separates our part from the library's, and
`0002-missed-wake-ups.md` explains why no wake-up is missed.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, NoReturn, TypeAlias

import psycopg
import structlog
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import ConnectorException, UniqueViolation
from procrastinate.jobs import Job, Notification, Status
from procrastinate.manager import JobManager, NotificationCallback
from procrastinate.worker import Worker
from psycopg import AsyncConnection, sql
from psycopg.rows import scalar_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from launchbay import limits
from launchbay.runtime.slot import Slot, current_slot
from launchbay.store.database import BoundedConnection

log = structlog.get_logger(__name__)
RECONNECT_S = 0.2
CONNECTION_TIMEOUT_S = 5.0  # if the database is silent: a few heartbeats, far less than a TCP timeout
OnHeartbeat = Callable[[psycopg.AsyncConnection[tuple[object, ...]]], Awaitable[None]]
OnNotification = Callable[[str], Awaitable[None]]
Handler = Callable[..., Awaitable[None]]
WorkerHeartbeat: TypeAlias = tuple[int, datetime]  # a worker's id and its last heartbeat by the database's clock
QUEUE = "launchbay"
CHANNEL = "procrastinate_any_queue_v1"
HEARTBEAT_S = 0.5
GRACE_S = 5.0
POLL_S = 1.0  # finds jobs that become due; new jobs send notifications
RETRY_S = 0.5  # between attempts while the database is unavailable
UNCERTAIN_CLAIM_S = 60.0  # after a failed claim; longer than a statement can outlive its connection
CLEANUP_S = 0.7  # for cancelled handlers to clean up
DEFER_SQL = "SELECT launchbay_defer(%(task)s, %(lock)s, %(arguments)s, %(at)s, %(priority)s, %(queue)s)"
_CLAIM_SQL = """
SELECT id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
FROM launchbay_claim(%(worker_id)s, %(known)s::bigint[], %(queues)s::text[], %(places)s::int[], %(free)s)
"""
_FINISH_SQL = "SELECT launchbay_finish(%(job_id)s, %(worker_id)s, %(attempt)s, %(outcome)s)"
_WAKE: Notification = {"type": "job_inserted", "job_id": 0}


async def defer(
    conn: AsyncConnection[Any],
    *,
    task: str,
    lock: str,
    arguments: Mapping[str, Any],
    at: datetime | None = None,
    priority: int = 0,
    queue: str = QUEUE,
) -> int:
    """Queue a job in the caller's transaction and return its number; workers see it after the commit.

    `arguments` go to the handler by name and appear in logs: pass ids only. Jobs with the same lock run one at a time,
    by priority, then by number; a job with `at` in the future also delays later ones with its lock.
    Workers divide their job slots between queues (`queue.sql`): an organization's work uses the queue named by its id.
    Statements in `store/queries/` call the SQL function `launchbay_defer` with the same arguments instead, in their
    outermost SELECT (PostgreSQL skips a SELECT in WITH that nothing reads).
    """
    about = {"task": task, "lock": lock, "arguments": Jsonb(dict(arguments))}
    when = {"at": at, "priority": priority, "queue": queue}
    async with conn.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute(DEFER_SQL, {**about, **when})
        number: int = await cursor.fetchone()  # type: ignore[assignment]  # a function call gives exactly one row
        return number


class Queue:
    """The queue as one process sees it.

    `work` may run in the web application's event loop: it installs no signal handlers. It needs one dedicated
    connection, and briefly a pooled one, at any concurrency. The pool should be in autocommit mode: every statement is
    its own transaction, and costs three round trips otherwise.
    """

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        conninfo: str,
        *,
        heartbeat_s: float = HEARTBEAT_S,
        grace_s: float = GRACE_S,
    ) -> None:
        self._pool = pool
        self._conninfo = conninfo
        self._heartbeat_s = heartbeat_s
        self._grace_s = grace_s

    async def work(self, handlers: Mapping[str, Handler], *, concurrency: int, name: str, stop: asyncio.Event) -> None:
        """Run jobs until `stop` is set or the caller is cancelled; both give running handlers the grace period.

        A handler gets its job's arguments by name. Returning ends the job. CancelledError (stop, interrupt, or lost
        lease) returns it to the queue immediately, any other exception after 1, 2, 4 … 32 s. An unavailable database
        is waited for.
        """
        while not stop.is_set():
            try:
                await _Session(self._pool, self._conninfo, handlers, concurrency, name).run(
                    stop, self._heartbeat_s, self._grace_s
                )
            except ConnectorException as error:
                log.warning("worker.database_lost", worker=name, error=repr(error.__cause__ or error))
            if not stop.is_set():
                await _first(stop.wait(), timeout_s=RETRY_S)

    async def heartbeats(self) -> list[WorkerHeartbeat]:
        """Return the last heartbeat of each registered worker."""
        async with self._pool.connection() as conn:
            found = await conn.execute("SELECT id, last_heartbeat FROM procrastinate_workers")
            return [(worker, sent_at) async for worker, sent_at in found]

    async def rescue(self, silent: Collection[WorkerHeartbeat]) -> int:
        """Remove workers that sent no newer heartbeat, and requeue jobs without a worker; return how many jobs."""
        workers, heartbeats = [worker for worker, _ in silent], [sent_at for _, sent_at in silent]
        async with self._pool.connection() as conn, conn.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute("SELECT launchbay_rescue(%s::bigint[], %s::timestamptz[])", [workers, heartbeats])
            return int(await cursor.fetchone() or 0)

    async def depth(self) -> int:
        """Return how many due jobs are waiting, including those behind a lock."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute("SELECT launchbay_queue_depth()")
            return int(await cursor.fetchone() or 0)


class Heartbeat:
    """Sends a worker's heartbeats and listens for new jobs until `run` is cancelled; reconnects on its own.

    Both use one dedicated connection. A worker whose handlers occupy the whole pool must still send heartbeats, or the
    others declare it dead.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        channel: str,
        on_heartbeat: OnHeartbeat,
        on_notification: OnNotification,
        interval_s: float,
    ) -> None:
        """`on_notification` gets each payload; "" means that notifications may have been missed."""
        self._conninfo = conninfo
        self._channel = channel
        self._on_heartbeat = on_heartbeat
        self._on_notification = on_notification
        self._interval_s = interval_s

    async def run(self) -> NoReturn:
        """Listen and send heartbeats until cancelled."""
        while True:
            try:
                await self._connected()
            except (psycopg.Error, OSError) as error:
                log.warning("worker.heartbeat_disconnected", error=str(error), retry_in_s=RECONNECT_S)
            await asyncio.sleep(RECONNECT_S)

    async def _connected(self) -> NoReturn:
        conn = await BoundedConnection.connect(self._conninfo, autocommit=True)
        async with conn:
            conn.timeout_s = max(CONNECTION_TIMEOUT_S, 4 * self._interval_s)
            # Losing a heartbeat in a power cut is harmless. Without this, an idle worker flushes the disk for each one.
            await conn.execute("SET synchronous_commit = off")
            await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            # This connection was not notified of jobs that were committed before LISTEN took effect.
            await self._on_notification("")
            while True:
                await self._on_heartbeat(conn)
                # psycopg keeps notifications that arrive during a heartbeat and yields them first.
                async for notification in conn.notifies(timeout=self._interval_s):
                    await self._on_notification(notification.payload)


class _Jobs(JobManager):
    """The library's job storage, without its wake-up race, and with every write bound to the claim (0002)."""

    def __init__(self, connector: PsycopgConnector, pool: AsyncConnectionPool[Any], concurrency: int) -> None:
        super().__init__(connector)
        self._pool = pool
        self._concurrency = concurrency
        self._occupied: Counter[str] = Counter()  # by queue: claimed jobs, except those that only wait
        self._waking: set[asyncio.Task[None]] = set()
        self._slots: set[Slot] = set()
        self.worker_id: int | None = None
        self.lost = asyncio.Event()  # the others declared this worker dead
        self.over = asyncio.Event()  # the time for writing outcomes has ended
        self._notify: NotificationCallback | None = None
        self._wakes = 0
        self._known: dict[int, str] = {}  # claimed jobs, with their queues
        self._uncertain_until_s = 0.0  # monotonic: until then, a claim may exist whose result was lost

    async def wake(self, notification: Notification = _WAKE) -> None:
        """Make the worker query for jobs, even if a query is already running: it may have missed them."""
        self._wakes += 1
        if self._notify is not None:
            await self._notify(channel=CHANNEL, notification=notification)

    @contextmanager
    def slot(self, queue: str, on_evicted: Callable[[], object]) -> Iterator[Slot]:
        """Provide the slot of a claimed job. The job may release it while it only waits."""
        slot = Slot(partial(self._slot_released, queue), partial(self._slot_reacquired, queue), on_evicted)
        self._slots.add(slot)
        try:
            yield slot
        finally:
            self._slots.discard(slot)

    def drain(self) -> None:
        """Let each running job go to another worker as soon as that cuts nothing in two."""
        for slot in list(self._slots):
            slot.drain()

    def evict(self) -> None:
        """Interrupt all running jobs: other workers have them already."""
        for slot in list(self._slots):
            slot.evict()

    def _slot_released(self, queue: str) -> None:
        self._occupied[queue] -= 1
        waking = asyncio.create_task(self.wake())
        self._waking.add(waking)
        waking.add_done_callback(self._waking.discard)

    def _slot_reacquired(self, queue: str) -> None:
        # Immediately, even beyond the concurrency: no further job is claimed until there is room again.
        self._occupied[queue] += 1

    async def handle_notification(self, payload: str) -> None:
        """Handle one notification; an empty payload means that some may have been missed."""
        await self.wake(json.loads(payload) if payload else _WAKE)

    async def send_heartbeat(self, conn: AsyncConnection[Any]) -> None:
        """Send a heartbeat, or set `lost` if the others have declared this worker dead."""
        if self.worker_id is not None:
            cursor = await conn.execute("SELECT launchbay_beat(%s)", [self.worker_id])
            if await cursor.fetchone() == (False,) and self.worker_id is not None:
                self.lost.set()

    async def listen_for_jobs(
        self,
        *,
        on_notification: NotificationCallback,
        queues: Iterable[str] | None = None,  # noqa: ARG002  # the library's signature; there is one queue
    ) -> None:
        """Store the callback. `Heartbeat` listens, because this is cancelled before the grace period starts."""
        self._notify = on_notification
        await asyncio.Event().wait()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:  # noqa: ARG002  # the library's signature
        """Claim a job; return None only if no notification came during the query.

        The worker drops pending wake-ups when this returns, without awaiting in between. So a notification that came
        during the query needs another query here.
        """
        if self._occupied.total() >= self._concurrency:
            return None  # the worker asks again when a job ends or starts to wait
        while True:
            wakes = self._wakes
            known = list(self._known) if time.monotonic() < self._uncertain_until_s else None
            try:
                row = await self.connector.execute_query_one_async(
                    _CLAIM_SQL,
                    worker_id=worker_id,
                    known=known,
                    queues=list(self._occupied),
                    places=list(self._occupied.values()),
                    free=self._concurrency - self._occupied.total(),
                )
            except UniqueViolation:
                continue  # another worker has just claimed a lower-priority job with the same lock
            except ConnectorException as error:
                self._uncertain_until_s = time.monotonic() + UNCERTAIN_CLAIM_S
                await self._log_failure("job.claim_failed", error, worker_id=worker_id)
                return None  # the worker asks again at the next poll
            if row["id"] is not None:
                self._known[row["id"]] = row["queue_name"]
                self._occupied[row["queue_name"]] += 1
                return Job.from_row(row)
            if wakes == self._wakes:
                return None

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: ARG002, FBT001  # the library's signature
        """Write the outcome of a run: done, retry now, or retry later. Repeats until written or out of time."""
        while True:
            try:
                await self.connector.execute_query_async(
                    _FINISH_SQL, job_id=job.id, worker_id=job.worker_id, attempt=job.attempts, outcome=status.value
                )
            except ConnectorException as error:
                await self._log_failure("job.outcome_write_failed", error, job=job.id)
                await _first(self.over.wait(), timeout_s=RETRY_S)
                if self.over.is_set():
                    return  # the rescuer finds the job without a live worker and requeues it
            else:
                break
        queue = self._known.pop(job.id or 0, None)
        if queue is not None:
            self._occupied -= Counter([queue])  # subtraction drops queues at zero
        # The next job with the same lock may have been announced, and found blocked, before this commit.
        await self.wake()

    async def register_worker(self) -> int:
        """Register this worker and start its heartbeats."""
        self.worker_id = await super().register_worker()
        return self.worker_id

    async def unregister_worker(self, worker_id: int) -> None:
        """Unregister this worker and wake the others for the jobs it leaves."""
        self.worker_id = None
        await super().unregister_worker(worker_id)
        await self.connector.execute_query_async("SELECT launchbay_announce()")

    async def _log_failure(self, event: str, error: ConnectorException, **about: object) -> None:
        log.warning(event, error=repr(error.__cause__ or error), **about)
        # After a database restart every pooled connection is dead. Without this, each costs one failed attempt.
        await self._pool.check()

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002  # the library's signature
        """Do nothing: `Queue.rescue` removes a dead worker and frees its jobs in one statement."""
        return []


class _Session:
    """One registration of a worker, from its row in the table to its removal."""

    def __init__(
        self,
        pool: AsyncConnectionPool[Any],
        conninfo: str,
        handlers: Mapping[str, Handler],
        concurrency: int,
        name: str,
    ) -> None:
        connector = PsycopgConnector()
        self._app = App(connector=connector)
        self._jobs = _Jobs(connector, pool, concurrency)
        self._app.job_manager = self._jobs
        self._pool = pool
        self._conninfo = conninfo
        self._name = name
        for task, handler in handlers.items():
            self._app.task(name=task, queue=QUEUE, pass_context=True)(_coroutine_function(handler, self._jobs))
        self._worker = Worker(
            self._app,
            queues=[QUEUE],
            name=name,
            # Waiting jobs come on top; `_Jobs.fetch_job` enforces the concurrency.
            concurrency=concurrency + limits.WAITING_JOBS,
            fetch_job_polling_interval=POLL_S,
            install_signal_handlers=False,
            update_heartbeat_interval=86_400.0,  # `Heartbeat` sends them, during the grace period too
        )

    async def run(self, stop: asyncio.Event, heartbeat_s: float, grace_s: float) -> None:
        """Work until stop, cancellation, a lost lease, or a failure of the worker itself."""
        jobs, worker = self._jobs, self._worker
        worker.shutdown_graceful_timeout = grace_s
        await self._app.open_async(self._pool)
        heartbeat = Heartbeat(
            self._conninfo,
            channel=CHANNEL,
            on_heartbeat=jobs.send_heartbeat,
            on_notification=jobs.handle_notification,
            interval_s=heartbeat_s,
        )
        beating = asyncio.create_task(heartbeat.run(), name=f"{self._name} heartbeat")
        running = asyncio.create_task(worker.run(), name=f"{self._name} worker")  # type: ignore[no-untyped-call]  # unannotated there
        try:
            await _first(running, beating, stop.wait(), jobs.lost.wait())
        finally:
            try:
                await self._end(running, grace_s)
            finally:
                beating.cancel()
                await asyncio.wait({beating})
        if jobs.lost.is_set():
            log.warning("worker.lease_lost", worker=self._name)

    async def _end(self, running: asyncio.Task[None], grace_s: float) -> None:
        jobs, worker = self._jobs, self._worker
        if jobs.lost.is_set():
            grace_s = worker.shutdown_graceful_timeout = 0.0
            jobs.over.set()
        worker.stop()  # type: ignore[no-untyped-call]  # unannotated in the library
        jobs.drain()
        await _first(running, jobs.lost.wait(), timeout_s=grace_s + CLEANUP_S)
        if jobs.lost.is_set():
            jobs.evict()
            await _first(running, timeout_s=CLEANUP_S)
        jobs.over.set()
        await _first(running, timeout_s=RETRY_S)
        if not running.done():
            log.error("job.cancellation_ignored", worker=self._name)
            if jobs.worker_id is not None:
                await jobs.unregister_worker(jobs.worker_id)  # the rescuer requeues its jobs
        else:
            running.result()


def _coroutine_function(handler: Handler, jobs: _Jobs) -> Callable[..., Awaitable[None]]:
    # The library inspects the function itself, and would run a callable object in a thread.
    async def run(context: JobContext, **arguments: Any) -> None:
        running = asyncio.current_task()
        assert running is not None, "the library makes a task of each job"
        with jobs.slot(context.job.queue, running.cancel) as slot:
            current_slot.set(slot)
            await handler(**arguments)

    return run


async def _first(*awaitables: Awaitable[Any], timeout_s: float | None = None) -> None:
    """Wait until the first awaitable ends or the time is up; cancel only the tasks created here."""
    given = {a for a in awaitables if isinstance(a, asyncio.Future)}
    made = {asyncio.ensure_future(a) for a in awaitables if not isinstance(a, asyncio.Future)}
    try:
        await asyncio.wait(given | made, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in made:
            task.cancel()
