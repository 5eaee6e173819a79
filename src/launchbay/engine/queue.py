"""The job queue: Procrastinate on our PostgreSQL, reached through its public classes. No other module imports it.

What is ours and what is the library's is in docs/decisions/0001-procrastinate-carries-the-engine.md; why wake-ups are
not missed is in 0002-missed-wake-ups.md. In short: a job is a row. It is claimed by one worker, and deleted when its
handler returns. A handler that was interrupted (stop, crash, `launchbay_interrupt`) or that raised is run again.
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

# One connection of its own per worker: it hears of new jobs, and tells the others that this worker lives.
#
# Both on one connection, outside the pool, so that neither depends on how busy the pool is: a worker whose handlers
# hold every pooled connection must still beat, or it would be taken for dead. See
# docs/decisions/0002-missed-wake-ups.md.

log = structlog.get_logger(__name__)
RECONNECT_S = 0.2
CONNECTION_TIMEOUT_S = 5.0  # with a database that does not answer: a few intervals, not TCP's own patience
OnHeartbeat = Callable[[psycopg.AsyncConnection[tuple[object, ...]]], Awaitable[None]]
OnNotification = Callable[[str], Awaitable[None]]


class Heartbeat:
    """Listens on a channel and beats at an interval, for as long as `run` is not cancelled; reconnects by itself."""

    def __init__(
        self,
        conninfo: str,
        *,
        channel: str,
        on_heartbeat: OnHeartbeat,
        on_notification: OnNotification,
        interval_s: float,
    ) -> None:
        """Take what to do: `beat` runs a statement on the connection, `hear` gets each payload ("" = look now)."""
        self._conninfo = conninfo
        self._channel = channel
        self._on_heartbeat = on_heartbeat
        self._on_notification = on_notification
        self._interval_s = interval_s

    async def run(self) -> NoReturn:
        """Listen and beat until cancelled."""
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
            # A heartbeat that a power cut forgets harms nobody; without this an idle worker costs a disk flush
            # per beat.
            await conn.execute("SET synchronous_commit = off")
            await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            # Whatever was committed before LISTEN took effect was announced to nobody here.
            await self._on_notification("")
            while True:
                await self._on_heartbeat(conn)
                # Notifications that arrive during a beat wait in psycopg's backlog and come out first here.
                async for notification in conn.notifies(timeout=self._interval_s):
                    await self._on_notification(notification.payload)


Handler = Callable[..., Awaitable[None]]
WorkerHeartbeat: TypeAlias = tuple[
    int, datetime
]  # of a worker: its number, and when it last beat by the database's clock
QUEUE = "launchbay"
CHANNEL = "procrastinate_any_queue_v1"
HEARTBEAT_S = 0.5
GRACE_S = 5.0
POLL_S = 1.0  # finds jobs whose time comes; new ones are announced
RETRY_S = 0.5  # between attempts while the database is away
UNCERTAIN_CLAIM_S = 60.0  # after a failed claim; longer than any statement may run on behind a broken connection
CLEANUP_S = 0.7  # for cancelled handlers to clean up after themselves
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
    """Queue a job in the caller's transaction and return its number; nobody sees it before the commit.

    `arguments` go to the handler by name and show up in logs: ids only. Jobs of one lock run one at a time, by
    priority and then in order of their numbers; a job with `at` in the future holds back later ones of its lock too.
    Workers share out their places between queues (`queue.sql`): work for an organization goes into the queue of its id.
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
    """The queue as one process sees it. `work` may run in the event loop of the web application: it installs no signal
    handlers, and needs one connection of its own and a pooled one for moments, whatever the concurrency.

    The pool should be in autocommit mode: every statement here is a transaction by itself, and without autocommit each
    costs three round trips.
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
        """Run jobs until `stop` is set, or the caller is cancelled; both give running handlers the grace time.

        A handler gets its job's arguments by name. Returning ends the job. CancelledError (stop, interrupt, or this
        worker was taken for dead) puts it back in the queue at once, any other exception after 1, 2, 4 … 32 s.
        While the database is away it waits for it.
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
        """Return the last heartbeat of each worker that is in the table."""
        async with self._pool.connection() as conn:
            found = await conn.execute("SELECT id, last_heartbeat FROM procrastinate_workers")
            return [(worker, beat) async for worker, beat in found]

    async def rescue(self, silent: Collection[WorkerHeartbeat]) -> int:
        """Take workers off the table that have not beaten again, and put jobs without a worker back in the queue.

        Returns how many jobs. Who is silent is for the Rescuer to say.
        """
        workers, beats = [worker for worker, _ in silent], [beat for _, beat in silent]
        async with self._pool.connection() as conn, conn.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute("SELECT launchbay_rescue(%s::bigint[], %s::timestamptz[])", [workers, beats])
            return int(await cursor.fetchone() or 0)

    async def depth(self) -> int:
        """Return how many jobs wait that could run now, those behind a lock included."""
        async with self._pool.connection() as conn, conn.cursor(row_factory=scalar_row) as cursor:
            await cursor.execute("SELECT launchbay_queue_depth()")
            return int(await cursor.fetchone() or 0)


class _Jobs(JobManager):
    """The library's storage of jobs, with the wake-up race closed and every write bound to the claim (0002)."""

    def __init__(self, connector: PsycopgConnector, pool: AsyncConnectionPool[Any], concurrency: int) -> None:
        super().__init__(connector)
        self._pool = pool
        self._concurrency = concurrency
        self._capacity: Counter[str] = (
            Counter()
        )  # by queue: jobs claimed and not finished, but for those that only wait
        self._waking: set[asyncio.Task[None]] = set()
        self._slots: set[Slot] = set()
        self.worker_id: int | None = None
        self.lost = asyncio.Event()  # others took this worker for dead
        self.over = asyncio.Event()  # nothing can be saved any more: stop trying to write
        self._notify: NotificationCallback | None = None
        self._wakes = 0
        self._known: dict[int, str] = {}  # jobs claimed and not finished, with their queues
        self._uncertain_until_s = 0.0  # monotonic: a claim whose answer was lost may exist

    async def wake(self, notification: Notification = _WAKE) -> None:
        """Make the worker look for jobs, and let no look that is under way count as having seen them."""
        self._wakes += 1
        if self._notify is not None:
            await self._notify(channel=CHANNEL, notification=notification)

    @contextmanager
    def slot(self, queue: str, on_evicted: Callable[[], object]) -> Iterator[Slot]:
        """Give the place of a claimed job, which it may lend to others while it only waits."""
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
        """Break all running jobs off: others have them already."""
        for slot in list(self._slots):
            slot.evict()

    def _slot_released(self, queue: str) -> None:
        self._capacity[queue] -= 1
        waking = asyncio.create_task(self.wake())
        self._waking.add(waking)
        waking.add_done_callback(self._waking.discard)

    def _slot_reacquired(self, queue: str) -> None:
        # At once, even where all places are taken: until there is room again, no further job is claimed.
        self._capacity[queue] += 1

    async def handle_notification(self, payload: str) -> None:
        """Take one notification from the database; an empty one stands for those that may have been missed."""
        await self.wake(json.loads(payload) if payload else _WAKE)

    async def send_heartbeat(self, conn: AsyncConnection[Any]) -> None:
        """Say that this worker lives, or find that the others have given its jobs away."""
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
        """Remember whom to wake; the Pulse listens, because this is cancelled before the grace time begins."""
        self._notify = on_notification
        await asyncio.Event().wait()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:  # noqa: ARG002  # the library's signature
        """Claim a job; None only if nothing was announced while we looked.

        The worker forgets pending wake-ups when this returns, without awaiting in between, so an announcement that
        came during the query must be answered here, with another query.
        """
        if self._capacity.total() >= self._concurrency:
            return None  # the worker looks again when a job ends or begins to wait
        while True:
            wakes = self._wakes
            known = list(self._known) if time.monotonic() < self._uncertain_until_s else None
            try:
                row = await self.connector.execute_query_one_async(
                    _CLAIM_SQL,
                    worker_id=worker_id,
                    known=known,
                    queues=list(self._capacity),
                    places=list(self._capacity.values()),
                    free=self._concurrency - self._capacity.total(),
                )
            except UniqueViolation:
                continue  # another worker claimed a job of the same lock, of lower priority, at the same moment
            except ConnectorException as error:
                self._uncertain_until_s = time.monotonic() + UNCERTAIN_CLAIM_S
                await self._log_failure("job.claim_failed", error, worker_id=worker_id)
                return None  # the worker asks again at the next poll
            if row["id"] is not None:
                self._known[row["id"]] = row["queue_name"]
                self._capacity[row["queue_name"]] += 1
                return Job.from_row(row)
            if wakes == self._wakes:
                return None

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:  # noqa: ARG002, FBT001  # the library's signature
        """Write the outcome of a run: gone, again at once, or again later. Tries until written or out of time."""
        while True:
            try:
                await self.connector.execute_query_async(
                    _FINISH_SQL, job_id=job.id, worker_id=job.worker_id, attempt=job.attempts, outcome=status.value
                )
            except ConnectorException as error:
                await self._log_failure("job.outcome_write_failed", error, job=job.id)
                await _first(self.over.wait(), timeout_s=RETRY_S)
                if self.over.is_set():
                    return  # the rescue finds the job without a living worker, and it runs again
            else:
                break
        queue = self._known.pop(job.id or 0, None)
        if queue is not None:
            self._capacity -= Counter([queue])  # which forgets the queues that have no place any more
        # The next job of the same lock may have been announced, looked for and found blocked before this commit.
        await self.wake()

    async def register_worker(self) -> int:
        """Enter this worker into the table and start its heartbeat."""
        self.worker_id = await super().register_worker()
        return self.worker_id

    async def unregister_worker(self, worker_id: int) -> None:
        """Take this worker off the table, and let others look for what it left."""
        self.worker_id = None
        await super().unregister_worker(worker_id)
        await self.connector.execute_query_async("SELECT launchbay_announce()")

    async def _log_failure(self, event: str, error: ConnectorException, **about: object) -> None:
        log.warning(event, error=repr(error.__cause__ or error), **about)
        # After a restart of the database every pooled connection is dead; without this each costs a failed attempt.
        await self._pool.check()

    async def prune_stalled_workers(self, seconds_since_heartbeat: float) -> list[int]:  # noqa: ARG002  # the library's signature
        """Do nothing: `Queue.rescue` removes a dead worker and frees its jobs in one statement."""
        return []


class _Session:
    """One life of a worker, from its entry in the table to its end."""

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
            # Those that wait come on top; `_Jobs.fetch_job` counts.
            concurrency=concurrency + limits.WAITING_JOBS,
            fetch_job_polling_interval=POLL_S,
            install_signal_handlers=False,
            update_heartbeat_interval=86_400.0,  # the Pulse beats, during the grace time too
        )

    async def run(self, stop: asyncio.Event, heartbeat_s: float, grace_s: float) -> None:
        """Work until stop, cancellation, loss of the lease, or a failure of the worker itself."""
        jobs, worker = self._jobs, self._worker
        worker.shutdown_graceful_timeout = grace_s
        await self._app.open_async(self._pool)
        beats = Heartbeat(
            self._conninfo,
            channel=CHANNEL,
            on_heartbeat=jobs.send_heartbeat,
            on_notification=jobs.handle_notification,
            interval_s=heartbeat_s,
        )
        pulse = asyncio.create_task(beats.run(), name=f"{self._name} pulse")
        running = asyncio.create_task(worker.run(), name=f"{self._name} worker")  # type: ignore[no-untyped-call]  # unannotated there
        try:
            await _first(running, pulse, stop.wait(), jobs.lost.wait())
        finally:
            try:
                await self._end(running, grace_s)
            finally:
                pulse.cancel()
                await asyncio.wait({pulse})
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
                await jobs.unregister_worker(jobs.worker_id)  # which leaves its jobs to the rescue
        else:
            running.result()


def _coroutine_function(handler: Handler, jobs: _Jobs) -> Callable[..., Awaitable[None]]:
    # The library looks at the function itself, and would run a callable object in a thread.
    async def run(context: JobContext, **arguments: Any) -> None:
        running = asyncio.current_task()
        assert running is not None, "the library makes a task of each job"
        with jobs.slot(context.job.queue, running.cancel) as slot:
            current_slot.set(slot)
            await handler(**arguments)

    return run


async def _first(*awaitables: Awaitable[Any], timeout_s: float | None = None) -> None:
    """Wait for the first of them to end, or for the time; leave tasks running, end what was made here."""
    given = {a for a in awaitables if isinstance(a, asyncio.Future)}
    made = {asyncio.ensure_future(a) for a in awaitables if not isinstance(a, asyncio.Future)}
    try:
        await asyncio.wait(given | made, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in made:
            task.cancel()
