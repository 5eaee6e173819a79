"""Jobs that this process runs: accepted while it had room, or claimed.

A process with an engine holds a job from the moment of its acceptance, and starts it right after the commit. A job that
no process had room for waits in the table `ready`; workers claim from it in batches, organization by organization.
Announcements are sent after the commit and only make the wait shorter: a poll every second finds what they missed.
They go to all workers through PostgreSQL, or to one through NATS JetStream (`engine/jetstream.py`).

A job of which every branch only waits is parked after some seconds: a row in the table `parked` says until when. It
comes back through `ready`, like the job of a dead worker, when the time is over or what it waits for has happened.

Decision 0092 says why there is no queue library, decision 0096 how a parked job is woken.
"""

import asyncio
import contextvars
import gc
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import structlog

from launchbay.clock import Clock
from launchbay.concurrency import gather_bounded
from launchbay.engine.admission import MOST_CLAIMED_EACH, STARTING, Admission
from launchbay.engine.journal import run_until_available
from launchbay.engine.worker_watch import WorkerWatch
from launchbay.errors import LaunchbayError, Unavailable
from launchbay.runtime.slot import Slot, current_slot
from launchbay.store import dispatch as store
from launchbay.store.database import Connection, Database, DatabaseError, on_transaction_end, unavailable
from launchbay.store.dispatch import ClaimedJob, Heartbeat, WorkerBeat
from launchbay.store.events import Waiter
from launchbay.store.jobs import ClaimRow
from launchbay.telemetry import metrics
from launchbay.tenants import Tenants, current_tenant

log = structlog.get_logger(__name__)
POLL_S = 1.0  # finds jobs that become due, and what no announcement told
LONELY_POLL_S = 0.25  # while others may send wake-ups that don't reach this process
RECONCILE_S = 1.0
RETRY_S = 0.5  # between attempts while the database is unavailable
ANNOUNCE_S = 0.01  # announcements within this time are sent as one
CLEANUP_S = 0.7  # for cancelled jobs to clean up
LONGEST_DELAY_S = 32.0
PARKED_AT_ONCE = 4  # at most, each on a connection: one, and one more for each PARKED_ALONE that have rested
PARKED_ALONE = 20
COLLECTED_AFTER = 50  # parked jobs: garbage of some 2 MiB
PARK_LOOK_S = 0.1  # jobs that began to wait one after the other are parked so, and not as many as there are in a second
WOKEN_AT_ONCE = 500

RunJob = Callable[[ClaimedJob], Awaitable[bool]]


class WakeUp(Protocol):
    """A message for one worker: an organization has jobs that are ready.

    An empty ID means any organization.
    """

    @property
    def organization_id(self) -> str: ...
    async def acknowledge(self) -> None:
        """Take the message away from the others, after the claim."""

    async def pass_on(self) -> None: ...


class WakeUps(Protocol):
    """What tells one worker, instead of all of them, that jobs are ready.

    Nothing depends on it but how soon a job starts: messages may be lost, repeated or late. `on_change` is called when
    `is_up` changes.
    """

    on_change: Callable[[], object]

    @property
    def is_up(self) -> bool: ...
    async def offer(self, organizations: Collection[str]) -> bool:
        """Send a message for each organization. False: PostgreSQL has to do it."""

    async def take(self) -> WakeUp | None:
        """Wait for a message. None: ask again."""


@dataclass(eq=False)
class _Held:
    claimed: ClaimedJob
    worker_id: int
    slot: Slot
    task: "asyncio.Task[None] | None" = None
    is_interrupted: bool = False
    is_parked: bool = False
    rested_at_s: float = 0.0  # since when the slot has had so many `changes`, by the event loop's clock
    changes: int = -1


class Dispatcher:
    """The jobs of one process: accepted with `hold`, run by `work`.

    Implements `Dispatch` of `planning/acceptance.py`.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        concurrency: int,
        heartbeat_s: float,
        grace_s: float,
        stalled_after_s: float,
        park_after_s: float,
        wake_ups: WakeUps | None = None,
        tenants: Tenants | None = None,
    ) -> None:
        self._database = database
        self._tenants = tenants or Tenants()
        self._wake_ups = wake_ups
        if wake_ups is not None:
            wake_ups.on_change = self._look_for_jobs
        self._park_after_s = park_after_s
        self._heartbeat_s = heartbeat_s
        self._grace_s = grace_s
        self._admission = Admission(concurrency, self._tenants)
        self._places = self._admission.places
        self._held: dict[str, _Held] = {}
        self._worker_id: int | None = None  # while this process takes jobs
        self._run_job: RunJob | None = None
        self._wake = asyncio.Event()
        self._may_be_ready = True  # since the last claim, any organization may have got jobs that are ready
        self._behind: set[str] = set()  # organizations with jobs that may be ready, but had all their places here
        self._last = ""  # the organization whose turn was last
        self._dead = asyncio.Event()
        self._due = asyncio.Event()  # set when a job is parked that is due before `_wakes_at_s`
        self._uncollected = 0  # jobs that were parked since the last look for garbage
        self._wakes_at_s = 0.0  # the next look for parked jobs that are due, by the event loop's clock
        self._has_claimed = asyncio.Event()  # set after each look for jobs
        self._has_jobs = asyncio.Event()  # set when a job begins here
        self._has_room = asyncio.Event()  # set when a place is given back
        self._announcing: asyncio.Task[None] | None = None  # until it begins to send
        self._announced_s = float("-inf")
        self._to_announce: set[str] = set()  # organizations, "" for any
        self._announcements: set[asyncio.Task[None]] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._released: set[tuple[str, int]] = set()  # claims (job and fence) that are released
        self._begun: dict[str, ClaimRow] = {}  # claims that acceptances write, until the jobs run
        self._not_accepted: set[str] = set()  # jobs that are held until the transaction ends
        self._waiters: dict[str, set[Waiter]] = {}
        self._watch = WorkerWatch(clock, stalled_after_s)
        self.rescue_interval_s = stalled_after_s / 8

    # Accepting

    def hold(self, connection: Connection, organization_id: str, job_id: str, *, here: bool = True) -> int | None:
        """Return this process's worker for a job being accepted, or None without room.

        The job starts after the commit, or is announced to others. A rollback gives its place back. `here=False` leaves
        it to any worker.
        """
        worker_id = self._worker_id
        has_room = self._places.may_take(organization_id)
        # A job doesn't overtake those of its organization that wait.
        if not here or worker_id is None or self._may_be_ready or organization_id in self._behind or not has_room:
            behind = None if has_room else organization_id
            on_transaction_end(connection, partial(self._announce_if_committed, organization_id, behind=behind))
            return None
        self._places.take(organization_id)
        on_transaction_end(connection, partial(self._accepted, worker_id, ClaimedJob(job_id, organization_id, 1)))
        return worker_id

    def begin(self, job_id: str, claim: ClaimRow) -> bool:
        """Let a held job begin with its acceptance, and return whether it does.

        It doesn't while others wait for their start.
        """
        may_begin = len(self._begun) < STARTING and self._admission.may_start()
        if may_begin:
            self._begun[job_id] = claim
        return may_begin

    def take_begun(self, job_id: str) -> ClaimRow | None:
        """Return the claim of a job that began with its acceptance, once."""
        return self._begun.pop(job_id, None)

    def release(self, job_id: str) -> None:
        """Don't run a job that was held and then not accepted."""
        self._not_accepted.add(job_id)

    async def turn(self, tenant: str) -> None:
        """Wait until a request may accept a job."""
        await self._admission.turn(tenant)

    def _accepted(self, worker_id: int, job: ClaimedJob, committed: bool) -> None:  # noqa: FBT001 - a callback's outcome
        is_accepted = job.job_id not in self._not_accepted
        self._not_accepted.discard(job.job_id)
        if committed and is_accepted and worker_id == self._worker_id:
            self._start(worker_id, job)
        else:
            self._begun.pop(job.job_id, None)
            self._give_place_back(job.organization_id)
            if committed and is_accepted:  # this process was declared dead meanwhile, or is stopping
                self._release_soon(worker_id, job)

    # Announcing

    def _announce_if_committed(self, organization_id: str, committed: bool, *, behind: str | None = None) -> None:  # noqa: FBT001 - a callback's outcome
        """Announce jobs that are ready.

        `behind` is their organization if it has all its places here.
        """
        if not committed:
            return
        if behind is None or self._places.may_take(behind):
            self._look_for_jobs()
        else:
            self._behind.add(behind)  # `_give_place_back` looks for them
        self.announce(organization_id)

    def _look_for_jobs(self) -> None:
        self._may_be_ready = True
        self._wake.set()

    def announce(self, organization_id: str = "") -> None:
        """Announce jobs of an organization, or of any, within ANNOUNCE_S."""
        self._to_announce.add(organization_id)
        if self._announcing is None:
            self._announcing = _detached(self._announce())
            self._announcements.add(self._announcing)
            self._announcing.add_done_callback(self._announcements.discard)

    async def _announce(self) -> None:
        try:
            is_alone = self._wake_ups is not None and self._wake_ups.is_up  # only one worker is disturbed
            await asyncio.sleep(max(self._announced_s + ANNOUNCE_S - _now_s(), 0.0) if is_alone else ANNOUNCE_S)
        finally:
            self._announcing = None  # what is committed from here on needs an announcement of its own
            organizations, self._to_announce = self._to_announce, set()
        self._announced_s = _now_s()
        if self._wake_ups is not None and await self._wake_ups.offer(organizations):
            metrics.announcements.labels("nats").inc()
            return
        try:
            async with self._database.connection() as connection:
                await store.announce(connection, payload="")
            metrics.announcements.labels("postgresql").inc()
        except Unavailable as error:
            log.warning("jobs.announcement_failed", error=str(error), repeats=True)  # their poll finds the jobs

    # Telling those who wait for ends

    @contextmanager
    def watch_ends(self, instance_id: str) -> Iterator[Waiter]:
        """Wake the waiter whenever a job of the instance has ended in this process."""
        waiter = Waiter()
        waiters = self._waiters.setdefault(instance_id, set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(instance_id, None)

    def ended(self, instance_id: str) -> None:
        """Tell those who wait that a job of the instance has ended."""
        for waiter in self._waiters.get(instance_id, ()):
            waiter.wake()

    # Working

    async def work(self, run_job: RunJob, *, name: str, stop: asyncio.Event) -> None:
        """Run jobs until `stop` or cancellation; both give running jobs the grace period.

        `run_job` returns whether it has ended its job. If not, or if it is cancelled, the job waits for a worker again;
        after an exception it waits 1, 2, 4 … LONGEST_DELAY_S.
        """
        self._run_job = run_job
        while not stop.is_set():
            try:
                async with self._database.connection() as connection:
                    worker_id = await store.register(connection, name=name)
            except (Unavailable, DatabaseError) as error:
                log.warning("worker.not_registered", worker=name, error=str(error), repeats=True)
                await _first(stop.wait(), timeout_s=RETRY_S)
                continue
            assert worker_id is not None, "INSERT … RETURNING gives a row"
            await self._session(worker_id, name, stop)

    async def take_over_all(self) -> int:
        """Free the jobs of all workers without waiting for their leases; return how many."""
        async with self._database.connection() as connection:
            seen = await store.list_workers(connection)
            return await self._rescue(connection, [(row.id, row.beat_at) for row in seen])

    async def rescue(self) -> None:
        """Free the jobs of dead workers. Raises Unavailable."""
        try:
            async with self._database.connection() as connection:
                if dead := self._watch.dead(await store.list_workers(connection)):
                    await self._rescue(connection, dead)
        except DatabaseError as error:
            self._watch.forget_sessions()
            raise unavailable(error) or error from error
        except Unavailable:
            self._watch.forget_sessions()
            raise

    async def rescue_unheld(self) -> None:
        """Free the jobs of workers that were removed before. Raises Unavailable."""
        async with self._database.connection() as connection:
            await self._rescue(connection, ())

    async def _rescue(self, connection: Connection, dead: Collection[WorkerBeat]) -> int:
        worker_ids, beats = [worker_id for worker_id, _ in dead], [beat_at for _, beat_at in dead]
        freed = await store.rescue(connection, worker_ids=worker_ids, beats=beats) or 0
        if freed:
            metrics.recoveries.inc(freed)
            log.info("jobs.recovered", jobs=freed)
            self._announce_if_committed("", committed=True)
        return freed

    async def _session(self, worker_id: int, name: str, stop: asyncio.Event) -> None:
        """Work under one registration: until `stop`, or until the others declare this worker dead."""
        self._dead.clear()
        self._may_be_ready = True
        self._wake.set()
        self._worker_id = worker_id
        heartbeat = Heartbeat(self._database.direct_url, worker_id, self._heartbeat_s, self._announced, self._dead.set)
        heartbeat.start()
        tasks = {
            asyncio.create_task(work, name=f"{name} {what}")
            for what, work in (
                ("claims", self._claim_jobs(worker_id)),
                ("reconciles", self._reconcile(worker_id)),
                ("parks", self._park_jobs()),
                ("wakes", self._wake_jobs()),
                *([] if self._wake_ups is None else [("wake-ups", self._take_wake_ups(self._wake_ups))]),
            )
        }
        try:
            await _first(*tasks, stop.wait(), self._dead.wait())
        finally:
            self._worker_id = None  # nothing is held from here on
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            try:
                await self._empty(worker_id, name)
            finally:
                await heartbeat.stop()
        for task in tasks:
            if not task.cancelled():
                task.result()

    async def _empty(self, worker_id: int, name: str) -> None:
        """Release all jobs, each at a safe point, and all after the grace period."""
        for held in list(self._held.values()):
            held.slot.drain()
        running = {held.task for held in self._held.values() if held.task is not None}
        if running and not self._dead.is_set():
            await _first(asyncio.wait(running), self._dead.wait(), timeout_s=self._grace_s)
        for held in list(self._held.values()):
            held.slot.evict()
        if left := {held.task for held in self._held.values() if held.task is not None}:
            _, ignoring = await asyncio.wait(left, timeout=CLEANUP_S)
            if ignoring:
                log.error("job.cancellation_ignored", worker=name, jobs=len(ignoring))
        if self._dead.is_set():
            log.warning("worker.lease_lost", worker=name)
        self._held.clear()
        if self._announcing is not None:
            self._announcing.cancel()  # the last statement below announces
        if self._releasing:
            _, late = await asyncio.wait(self._releasing, timeout=RETRY_S)
            for task in late:
                task.cancel()
        try:
            async with self._database.connection() as connection:
                # Also frees what this process doesn't know to hold.
                held_jobs = await store.list_held(connection, worker_id=worker_id)
                await _release(connection, worker_id, held_jobs, delay_s=None)
                await store.unregister(connection, worker_id=worker_id)
                await store.announce(connection, payload="")
        except (Unavailable, DatabaseError) as error:
            log.warning("worker.not_unregistered", worker=name, error=str(error))  # the others notice its silence

    def _announced(self, job_id: str) -> None:
        if job_id:
            self._interrupt(job_id)
        else:
            self._look_for_jobs()

    def _interrupt(self, job_id: str) -> None:
        """Stop a job that was cancelled or superseded, and claim it again."""
        held = self._held.get(job_id)
        if held is not None and not held.is_interrupted:
            held.is_interrupted = True
            held.slot.evict()

    # Claiming

    async def _claim_jobs(self, worker_id: int) -> None:
        while True:
            is_reached = self._wake_ups is None or self._wake_ups.is_up
            await _first(self._wake.wait(), timeout_s=POLL_S if is_reached else LONELY_POLL_S)
            self._wake.clear()
            try:
                await self._claim(worker_id)
            except (Unavailable, DatabaseError) as error:
                log.warning("job.claim_failed", error=str(error), worker_id=worker_id, repeats=True)
                await asyncio.sleep(RETRY_S)
            else:
                self._has_claimed.set()

    async def _take_wake_ups(self, wake_ups: WakeUps) -> None:
        """Look for jobs whenever this worker gets a message."""
        while True:
            while self._places.free <= 0:
                self._has_room.clear()
                await self._has_room.wait()
            wake_up = await wake_ups.take()
            if wake_up is None:
                continue
            organization_id = wake_up.organization_id
            if self._places.free <= 0 or not self._places.may_take(organization_id):
                if organization_id:
                    self._behind.add(organization_id)
                metrics.wake_ups.labels("passed on").inc()
                await wake_up.pass_on()
                continue
            metrics.wake_ups.labels("taken").inc()
            if not organization_id:  # it may concern those that have all their places here
                for each in self._places.full():
                    self.announce(each)
            self._has_claimed.clear()
            self._look_for_jobs()
            await self._has_claimed.wait()  # meanwhile, the next message is for a worker that has nothing to do
            await wake_up.acknowledge()

    async def _claim(self, worker_id: int) -> None:
        """Claim jobs while there are places and jobs for them."""
        has_told = self._wake_ups is None or not self._wake_ups.is_up  # or all have been told already
        while places := self._places.claimable():
            self._may_be_ready = False  # unless an announcement comes during the query
            behind, self._behind = self._behind, set()
            full = self._places.full()
            try:
                async with self._database.connection() as connection:
                    claimed = await store.claim(
                        connection,
                        worker_id=worker_id,
                        last=self._last,
                        full=full,
                        places=places,
                        each=MOST_CLAIMED_EACH,
                    )
            except BaseException:
                self._may_be_ready = True
                self._behind |= behind
                raise
            for job in claimed:
                self._places.take(job.organization_id)
                self._last = job.organization_id
                self._start(worker_id, job)
            self._behind.update(full)  # nobody has looked for their jobs
            if not claimed:
                if not full:
                    self._admission.ready_is_empty()
                return
            self._may_be_ready = True
            if not has_told and _may_have_left_some(claimed, places):
                has_told = True
                self.announce(claimed[-1].organization_id)  # for one more worker
        self._may_be_ready = True

    async def _reconcile(self, worker_id: int) -> None:
        """Start jobs that this worker holds after a commit of unknown outcome."""
        unknown: set[ClaimedJob] = set()
        while True:
            await asyncio.sleep(RECONCILE_S)
            try:
                async with self._database.connection() as connection:
                    held = await store.list_held(connection, worker_id=worker_id)
            except (Unavailable, DatabaseError) as error:
                log.warning("jobs.reconciliation_failed", error=str(error), worker_id=worker_id, repeats=True)
                continue
            missing = {job for job in held if not self._knows(job)}
            for job in missing & unknown:  # twice: the first time, its acceptance may just have been committed
                log.warning("job.found", job=job.job_id)
                self._places.take(job.organization_id)
                self._start(worker_id, job)
            unknown = missing - unknown

    def _knows(self, job: ClaimedJob) -> bool:
        return job.job_id in self._held or (job.job_id, job.fence) in self._released

    # Parking

    async def _park_jobs(self) -> None:
        """Park the jobs that have rested long enough."""
        loop = asyncio.get_running_loop()
        while True:
            if not self._held:
                self._has_jobs.clear()
                await self._has_jobs.wait()
            await asyncio.sleep(min(self._park_after_s / 4, PARK_LOOK_S))
            rested = [held for held in self._held.values() if self._has_rested(held, loop.time())]
            if rested:
                at_once = min(PARKED_AT_ONCE, 1 + len(rested) // PARKED_ALONE)
                await gather_bounded(map(self._park, rested), at_once)
                self._collect_garbage(sum(held.is_parked for held in rested))

    def _collect_garbage(self, parked: int) -> None:
        """Free what parked jobs leave: tasks and frames that refer to each other.

        They have outlived the collector's first generations, so it would come to them after millions of objects.
        """
        self._uncollected += parked
        if self._uncollected >= max(COLLECTED_AFTER, len(self._held) // 4):  # it looks at those, too
            self._uncollected = 0
            gc.collect()

    def _has_rested(self, held: _Held, now_s: float) -> bool:
        """Return whether a job has rested long enough, and will for as long."""
        slot = held.slot
        if not slot.is_resting or slot.changes != held.changes:
            held.changes, held.rested_at_s = slot.changes, now_s
            return False
        return now_s - held.rested_at_s >= self._park_after_s and slot.rest_ends_at_s - now_s >= self._park_after_s

    async def _park(self, held: _Held) -> None:
        slot, job = held.slot, held.claimed
        loop = asyncio.get_running_loop()
        rests = list(slot.rests)
        steps = [(*rest.step, rest.ends_at_s) for rest in rests if rest.step is not None]
        with slot.closed():
            try:
                for flush in tuple(slot.flushes):
                    await flush()
                if not slot.is_resting or slot.changes != held.changes:
                    return
                due_s = slot.rest_ends_at_s - loop.time()
                async with self._database.connection() as connection:
                    held.is_parked = bool(
                        await store.park(
                            connection,
                            job_id=job.job_id,
                            organization_id=job.organization_id,
                            worker_id=held.worker_id,
                            fence=job.fence,
                            due_s=due_s,
                            approval_ids=list({rest.approval_id for rest in rests if rest.approval_id}),
                            step_jobs=[job_id for job_id, _, _ in steps],
                            step_paths=[path for _, path, _ in steps],
                            steps_end_s=[ends_at_s - loop.time() for _, _, ends_at_s in steps],
                        )
                    )
            except (LaunchbayError, DatabaseError) as error:
                log.warning("job.not_parked", job=job.job_id, error=str(error), repeats=True)
            if not held.is_parked:
                held.changes = -1  # not again at the next look
                return
            has_changed = slot.changes != held.changes
            slot.evict()
        log.debug("job.parked", job=job.job_id)
        if has_changed:  # a branch began something that the row in `parked` knows nothing of
            await self._wake_now(job)
        elif loop.time() + due_s < self._wakes_at_s:
            self._due.set()

    # Waking

    async def _wake_now(self, job: ClaimedJob) -> None:
        await run_until_available(self._database, store.wake, job_ids=[job.job_id])

    async def _wake_jobs(self) -> None:
        """Make parked jobs ready when they are due; each process does so for all."""
        loop = asyncio.get_running_loop()
        while True:
            self._due.clear()
            next_s: float | None = RETRY_S
            try:
                async with self._database.connection() as connection:
                    woken = await store.wake_due(connection, most=WOKEN_AT_ONCE)
            except (Unavailable, DatabaseError) as error:
                log.warning("jobs.not_woken", error=str(error), repeats=True)
            else:
                assert woken is not None, "a statement without FROM gives a row"
                next_s = woken.next_s
                if woken.jobs:
                    self._announce_if_committed("", committed=True)
                if woken.jobs == WOKEN_AT_ONCE:
                    continue
            wait_s = POLL_S if next_s is None else min(max(next_s, 0.0), POLL_S)
            self._wakes_at_s = loop.time() + wait_s
            await _first(self._due.wait(), timeout_s=wait_s)

    # Running

    def _start(self, worker_id: int, job: ClaimedJob) -> None:
        if (older := self._held.get(job.job_id)) is not None:
            if older.claimed == job:  # `_reconcile` found it before the answer to its claim arrived
                self._give_place_back(job.organization_id)
                return
            older.slot.evict()  # it lost the job
        give_back = partial(self._give_place_back, job.organization_id)
        slot = Slot(give_back, partial(self._places.take, job.organization_id))
        held = self._held[job.job_id] = _Held(job, worker_id, slot)
        self._has_jobs.set()
        held.task = _detached(self._run(held), name=f"job {job.job_id}")
        # A task that is cancelled before its first step never runs, not even its `finally`.
        slot.on_evicted = partial(asyncio.get_running_loop().call_soon, held.task.cancel)

    def _give_place_back(self, organization_id: str) -> None:
        self._places.give_back(organization_id)
        self._has_room.set()
        # Not one claim for each job that ends, while others of the organization wait here for their start.
        if (self._may_be_ready or self._behind) and not self._admission.has_enough(organization_id):
            self._wake.set()

    async def _run(self, held: _Held) -> None:
        job = held.claimed
        delay_s: float | None = None
        has_ended = False
        try:
            has_ended = await self._run_gated(held)
        except asyncio.CancelledError:
            if not held.is_parked:
                log.info("job.handed_over", job=job.job_id)
        except Exception as error:
            delay_s = min(2.0 ** min(job.fence - 1, 10), LONGEST_DELAY_S)
            if isinstance(error, Unavailable):  # which says all, and many jobs may say it
                log.warning("job.postponed", job=job.job_id, delay_s=delay_s, error=str(error), repeats=True)
            else:
                log.exception("job.postponed", job=job.job_id, delay_s=delay_s)
        finally:
            if self._held.get(job.job_id) is held:
                del self._held[job.job_id]
            self._begun.pop(job.job_id, None)
            self._give_place_back(job.organization_id)
            if not (has_ended or held.is_parked):
                self._release_soon(held.worker_id, job, delay_s)

    async def _run_gated(self, held: _Held) -> bool:
        assert self._run_job is not None, "jobs start only while the engine works"
        tenant = self._tenants.of(held.claimed.organization_id)
        with held.slot.interruptible():
            end_start = await self._admission.start(tenant)
        current_slot.set(held.slot)
        current_tenant.set(tenant)
        try:
            return await self._run_job(held.claimed)
        finally:
            end_start()

    def _release_soon(self, worker_id: int, job: ClaimedJob, delay_s: float | None = None) -> None:
        self._released.add((job.job_id, job.fence))
        task = _detached(self._release(worker_id, job, delay_s))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def _release(self, worker_id: int, job: ClaimedJob, delay_s: float | None) -> None:
        """Release a job, so that any worker may claim it.

        Repeats until written."""
        try:
            while True:
                try:
                    async with self._database.connection() as connection:
                        released = await _release(connection, worker_id, [job], delay_s)
                except (Unavailable, DatabaseError) as error:
                    log.warning("job.release_failed", job=job.job_id, error=str(error), repeats=True)
                    await asyncio.sleep(RETRY_S)
                else:
                    if released and delay_s is None:
                        self._announce_if_committed(job.organization_id, committed=True)
                    return
        finally:
            self._released.discard((job.job_id, job.fence))


async def _release(
    connection: Connection, worker_id: int, claims: Collection[ClaimedJob], delay_s: float | None
) -> int:
    job_ids, fences = [job.job_id for job in claims], [job.fence for job in claims]
    return await store.release(connection, worker_id=worker_id, job_ids=job_ids, fences=fences, delay_s=delay_s)


def _may_have_left_some(claimed: Collection[ClaimedJob], places: int) -> bool:
    """Return whether a claim ended at one of its bounds."""
    by_organization = Counter(job.organization_id for job in claimed)
    return len(claimed) >= places or max(by_organization.values(), default=0) >= MOST_CLAIMED_EACH


def _detached(work: Awaitable[None], name: str | None = None) -> "asyncio.Task[None]":
    """Start a task without the transaction and log fields of its creator."""
    return asyncio.create_task(work, name=name, context=contextvars.Context())  # type: ignore[arg-type]  # coroutines only


def _now_s() -> float:
    return asyncio.get_running_loop().time()


async def _first(*awaitables: Awaitable[object], timeout_s: float | None = None) -> None:
    """Wait until the first awaitable ends or the time is up."""
    given = {each for each in awaitables if isinstance(each, asyncio.Future)}
    made = {asyncio.ensure_future(each) for each in awaitables if not isinstance(each, asyncio.Future)}
    try:
        await asyncio.wait(given | made, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in made:
            task.cancel()
