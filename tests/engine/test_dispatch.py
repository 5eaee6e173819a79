"""Who runs which job, on a real PostgreSQL (decisions 0080, 0081 and 0092)."""

import asyncio
import contextlib
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from structlog.testing import capture_logs

from launchbay.clock import SystemClock
from launchbay.engine import admission
from launchbay.engine import dispatch as engine_dispatch
from launchbay.engine.dispatch import Dispatcher
from launchbay.store import dispatch, jobs
from launchbay.store.database import Connection, Database, DatabaseError, OutcomeUnknown, conninfo
from launchbay.store.dispatch import ClaimedJob, Heartbeat
from launchbay.store.jobs import ClaimRow
from launchbay.tenants import Tenants
from tests.support.clock import HandClock
from tests.support.engine import Runs, ask, cut_connections, empty, end_job, insert_jobs, put, until, working
from tests.support.eventually import eventually

LEASE_S = 4.0
PLACES = 10
SOON_S = 20.0  # on a busy machine, and long before a slow poll
STALLED_AFTER_S = 0.5  # ten heartbeats of the victim: enough of them come through on a busy machine
LISTENING = """
SELECT count(*) > 0 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%UPDATE workers SET beat_at%'
"""  # who beats has begun to listen before
HELD = "SELECT count(*) FROM jobs WHERE worker_id IS NOT NULL AND id LIKE '{}%'"


@pytest.fixture
def slow_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls find nothing in the time of a test: what happens was announced."""
    monkeypatch.setattr(engine_dispatch, "POLL_S", 60.0)


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: its connections are cut."""
    return fresh_database


async def accept(dispatcher: Dispatcher, connection: Connection, organization: str, number: int = 0) -> int | None:
    """Accept a job in the transaction under way; return the worker that holds it."""
    worker_id = dispatcher.hold(connection, organization, f"{organization}{number}")
    await insert_jobs(connection, [organization], first=number, worker_id=worker_id)
    return worker_id


def a_claim(instance_id: str) -> ClaimRow:
    given = {"plan": "{}", "steps": "[]", "parameters": "{}", "environment_view": "{}"}
    return ClaimRow.of_launch(
        {}, instance_id=instance_id, organization_id="o", application_id="a", environment_id="e", version=1, **given
    )


async def until_room(database: Database, dispatcher: Dispatcher) -> None:
    """Wait until the process would hold a job of a new organization."""
    await until(database, LISTENING)

    async def held() -> bool:
        with contextlib.suppress(ZeroDivisionError):
            async with database.transaction() as connection:
                worker_id = dispatcher.hold(connection, "nobody's", "none")
                raise ZeroDivisionError
        return worker_id is not None

    await eventually(held)


def other_process(database: Database, **options: Any) -> Dispatcher:
    """Return the dispatcher of a process that does not work."""
    given: dict[str, Any] = {
        "concurrency": 1,
        "heartbeat_s": 0.1,
        "grace_s": 0.0,
        "stalled_after_s": STALLED_AFTER_S,
        "park_after_s": 5.0,
    }
    return Dispatcher(database, SystemClock(), **given | options)


async def sql(database: Database, statement: str, *values: Any) -> None:
    async with database.connection() as connection:
        await connection.execute(statement.encode(), values)


# Acceptance


@pytest.mark.slow
async def test_a_process_with_room_holds_the_job_that_it_accepts(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            worker_id = await accept(dispatcher, connection, "acme")
        assert worker_id is not None
        assert await runs.next() == "acme0"
        assert await ask(database, "SELECT worker_id, fence FROM jobs") == (worker_id, 1)
        assert await ask(database, "SELECT count(*) FROM ready") == (0,)
        runs.go.set()
        await empty(database)


async def test_so_many_jobs_begin_with_their_acceptance_as_may_start_at_once(database: Database) -> None:
    dispatcher = other_process(database)
    claims = [a_claim(f"i{number}") for number in range(admission.STARTING + 1)]
    begun = [dispatcher.begin(f"j{number}", claim) for number, claim in enumerate(claims)]
    assert begun == [True] * admission.STARTING + [False]
    assert dispatcher.take_begun("j0") is claims[0]
    assert dispatcher.take_begun("j0") is None
    assert dispatcher.begin("j99", claims[-1])


async def test_a_claim_is_forgotten_if_its_job_is_not_accepted(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)
        with contextlib.suppress(ZeroDivisionError):
            async with database.transaction() as connection:
                assert await accept(dispatcher, connection, "acme") is not None
                assert dispatcher.begin("acme0", a_claim("acme0"))
                raise ZeroDivisionError
        assert dispatcher.take_begun("acme0") is None


async def test_a_rolled_back_acceptance_holds_nothing_and_gives_its_place_back(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs, concurrency=1) as (dispatcher, _):
        for _ in range(3):
            await until_room(database, dispatcher)
            with contextlib.suppress(ZeroDivisionError):
                async with database.transaction() as connection:
                    assert await accept(dispatcher, connection, "rolled") is not None
                    raise ZeroDivisionError
        await put(database, "after")
        assert await runs.next() == "after0"
        await empty(database)
        assert runs.started.empty()


@pytest.mark.usefixtures("slow_polls")
async def test_a_job_is_unseen_before_the_commit_and_starts_right_after_it(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            await accept(dispatcher, connection, "acme")
            with pytest.raises(TimeoutError):
                await runs.next(within_s=0.2)
        assert await runs.next(within_s=SOON_S) == "acme0"
        await empty(database)


@pytest.mark.usefixtures("slow_polls")
async def test_a_job_in_a_savepoint_starts_after_the_commit_of_the_whole_transaction(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)
        async with database.transaction() as outer, outer.transaction():
            with database.joined(outer):
                async with database.transaction() as inner:
                    await accept(dispatcher, inner, "acme")
            with pytest.raises(TimeoutError):
                await runs.next(within_s=0.2)
        assert await runs.next(within_s=SOON_S) == "acme0"
        await empty(database)


async def test_a_process_that_does_not_work_or_has_no_room_makes_its_job_ready(database: Database) -> None:
    runs = Runs(database, holding=True)
    idle = other_process(database)
    async with database.transaction() as connection:
        assert await accept(idle, connection, "idle") is None
    async with working(database, runs, concurrency=1) as (dispatcher, _):
        assert await runs.next() == "idle0"
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "acme") is None
        assert await ask(database, "SELECT job_id FROM ready") == ("acme0",)
        runs.go.set()
        assert await runs.next() == "acme0"
        await empty(database)


async def test_a_job_that_is_left_to_any_worker_is_not_held(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            assert dispatcher.hold(connection, "acme", "acme0", here=False) is None


async def test_a_job_does_not_overtake_those_that_wait(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs, concurrency=1) as (dispatcher, _):
        await put(database, "acme", 3)
        assert await runs.next() == "acme0"
        runs.go.set()  # from now on there is room between two jobs
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "acme", 3) is None
        assert [await runs.next() for _ in range(3)] == ["acme1", "acme2", "acme3"]
        await empty(database)


@pytest.mark.usefixtures("slow_polls")
async def test_the_announcement_after_a_commit_reaches_another_worker_before_its_poll(database: Database) -> None:
    busy, free = Runs(database, holding=True), Runs(database)
    async with working(database, busy, concurrency=1) as (accepting, _):
        await put(database, "busy")
        await busy.next()
        async with working(database, free):
            await until(database, "SELECT count(*) = 2 FROM workers")
            [now] = await ask(database, "SELECT clock_timestamp()")
            await until(database, f"SELECT bool_and(beat_at > '{now}') FROM workers")  # who beats listens
            for number in range(3):
                async with database.transaction() as connection:
                    await accept(accepting, connection, "acme", number)
                assert await free.next(within_s=SOON_S) == f"acme{number}"
            busy.go.set()
            await empty(database)


async def test_what_is_committed_while_an_announcement_is_being_sent_is_announced_too(database: Database) -> None:
    async with Database(database.url, connections=1) as narrow:
        accepting = other_process(narrow)
        async with narrow.connection():  # the announcement waits for the only connection
            accepting.announce()
            await eventually(lambda: narrow.pool.waiting)
            accepting.announce()
            heard: list[str] = []
            listening = asyncio.Event()
            async with database.connection() as listener:
                await listener.execute(f"LISTEN {dispatch.CHANNEL}".encode())

                async def hear() -> None:
                    listening.set()
                    async for notification in listener.notifies(timeout=1.0):
                        heard.append(notification.payload)

                hearing = asyncio.create_task(hear())
                await listening.wait()
        await hearing
        assert heard == ["", ""]


# Running


async def test_a_finished_job_leaves_no_row_behind(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs):
        await put(database, "acme", 20)
        await empty(database)
        assert await ask(database, "SELECT count(*) FROM ready") == (0,)
        assert await ask(database, HELD.format("")) == (0,)
    assert await ask(database, "SELECT count(*) FROM workers") == (0,)
    assert runs.started.qsize() == 20


async def test_jobs_of_one_organization_run_together(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs, concurrency=10):
        await put(database, "acme", 8)
        for _ in range(8):
            await runs.next()
        assert runs.most == 8
        runs.go.set()
        await empty(database)


async def test_an_instance_cannot_have_two_jobs_under_way(database: Database) -> None:
    await put(database, "acme")
    with pytest.raises(Exception, match="jobs_one_under_way"):
        await sql(
            database,
            "INSERT INTO jobs (id, instance_id, name, owner_id, status, plan)"
            " VALUES ('second', 'acme0', 'go', 'u', 'Executing', '{}')",
        )


async def test_two_workers_claim_each_job_once(database: Database) -> None:
    one, other = Runs(database), Runs(database)
    async with working(database, one, concurrency=5), working(database, other, concurrency=5):
        await put(database, "acme", 100)
        await empty(database)
    names = [runs.started.get_nowait() for runs in (one, other) for _ in range(runs.started.qsize())]
    assert sorted(names) == sorted(f"acme{number}" for number in range(100))


async def test_a_job_that_raises_runs_again_a_second_later(database: Database) -> None:
    times: asyncio.Queue[float] = asyncio.Queue()

    async def failing(job: ClaimedJob) -> bool:
        times.put_nowait(time.monotonic())
        if times.qsize() == 1:
            raise ValueError(job.job_id)
        return await end_job(database, job)

    async with working(database, failing):
        await put(database, "acme")
        await empty(database)
    first, second = times.get_nowait(), times.get_nowait()
    assert 1.0 <= second - first < 15


@pytest.mark.parametrize(("fence", "delay_s"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 32), (2000, 32)])
async def test_each_failed_attempt_doubles_the_delay_up_to_a_limit(
    database: Database, fence: int, delay_s: float
) -> None:
    failed_at: asyncio.Queue[Any] = asyncio.Queue()

    async def failing(job: ClaimedJob) -> bool:
        failed_at.put_nowait((await ask(database, "SELECT clock_timestamp()"))[0])
        raise ValueError(job.job_id)

    async with working(database, failing):
        await put(database, "acme", fence=fence - 1)
        failed = await asyncio.wait_for(failed_at.get(), 5.0)
        await until(database, "SELECT count(*) > 0 FROM parked")
        [due_at] = await ask(database, "SELECT due_at FROM parked")
    assert delay_s <= (due_at - failed).total_seconds() < 1.5 * delay_s + 8.0  # to log an error takes a while


async def test_a_job_that_has_not_ended_waits_for_a_worker_again(database: Database) -> None:
    fences: list[int] = []

    async def twice(job: ClaimedJob) -> bool:
        fences.append(job.fence)
        return len(fences) > 1 and await end_job(database, job)

    async with working(database, twice):
        await put(database, "acme")
        await empty(database)
    assert fences == [1, 2]


@pytest.mark.usefixtures("slow_polls")
async def test_an_announced_job_is_interrupted_and_runs_again_at_once(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs), database.connection() as connection:
        await put(database, "acme", 2)
        assert {await runs.next(), await runs.next()} == {"acme0", "acme1"}
        await until(database, LISTENING)
        await dispatch.announce(connection, payload="another")
        await dispatch.announce(connection, payload="acme0")
        assert await runs.next(within_s=SOON_S) == "acme0"
        assert runs.cancelled == ["acme0"]
        runs.go.set()
        await empty(database)


async def test_the_notification_of_a_cancelled_job_interrupts_it(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs), database.connection() as connection:
        await put(database, "acme")
        await runs.next()
        await until(database, LISTENING)
        assert await jobs.cancel(connection, job_id="acme0", reason="Enough.")
        assert await runs.next() == "acme0"
        assert runs.cancelled == ["acme0"]
        runs.go.set()
        await empty(database)


async def test_many_running_jobs_need_few_connections_and_install_no_signal_handlers(database: Database) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    async with Database(database.url, connections=2) as narrow:
        runs = Runs(narrow, holding=True)
        async with working(narrow, runs, concurrency=250):
            await put(database, "acme", 200)
            for _ in range(200):
                await runs.next()
            assert {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} == before
            runs.go.set()
            await empty(database)
    assert runs.most == 200


# The worker's end


async def test_stop_lets_running_jobs_finish_within_the_grace_time(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs, grace_s=5.0) as (dispatcher, stop):
        await put(database, "running")
        await runs.next()
        stop.set()
        await asyncio.sleep(0.1)
        await put(database, "late")
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "later") is None
        await asyncio.sleep(0.1)
        runs.go.set()
    assert runs.cancelled == []
    assert await ask(database, "SELECT array_agg(job_id ORDER BY number) FROM ready") == (["late0", "later0"],)
    assert await ask(database, "SELECT status FROM jobs WHERE id = 'running0'") == ("Succeeded",)


async def test_a_job_accepted_before_the_stop_and_committed_after_it_goes_to_another(database: Database) -> None:
    runs, taken = Runs(database), Runs(database)
    async with working(database, runs) as (dispatcher, stop):
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "acme") is not None
            stop.set()
            await until(database, "SELECT count(*) = 0 FROM workers")
    assert runs.started.empty()
    async with working(database, taken):
        assert await taken.next() == "acme0"
        await empty(database)


@pytest.mark.usefixtures("slow_polls")
async def test_stop_hands_unfinished_jobs_to_another_worker_before_it_polls(database: Database) -> None:
    held, taken = Runs(database, holding=True), Runs(database)
    async with working(database, held, grace_s=0.1) as (_, stop):
        await put(database, "acme", 5)
        for _ in range(5):
            await held.next()
        async with working(database, taken):
            stop.set()
            assert {await taken.next(within_s=SOON_S) for _ in range(5)} == {f"acme{number}" for number in range(5)}
            await empty(database)
    assert sorted(held.cancelled) == [f"acme{number}" for number in range(5)]


async def test_cancelling_work_cancels_it_and_puts_its_jobs_back(database: Database) -> None:
    runs = Runs(database, holding=True)
    worker = asyncio.create_task(other_process(database).work(runs, name="test", stop=asyncio.Event()))
    await put(database, "acme")
    await runs.next()
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert runs.cancelled == ["acme0"]
    assert await ask(database, "SELECT worker_id FROM jobs") == (None,)
    assert await ask(database, "SELECT array_agg(job_id) FROM ready") == (["acme0"],)
    assert await ask(database, "SELECT count(*) FROM workers") == (0,)


@pytest.mark.slow
async def test_a_job_that_ignores_cancellation_does_not_hold_up_the_stop(database: Database) -> None:
    release, began = asyncio.Event(), asyncio.Event()

    async def stubborn(_: ClaimedJob) -> bool:
        began.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return False

    async with working(database, stubborn) as (_, stop):
        await put(database, "acme")
        await began.wait()
        stopped = time.monotonic()
        stop.set()
    assert time.monotonic() - stopped < 3.0
    runs = Runs(database, holding=True)
    async with working(database, runs):
        assert await runs.next() == "acme0"
        release.set()
        await asyncio.sleep(0.3)  # the old claim's release comes now, and is late
        assert await ask(database, HELD.format("acme")) == (1,)
        runs.go.set()
        await empty(database)
    assert runs.cancelled == []


# Death


VICTIM = """
import asyncio, sys, time
from launchbay.clock import SystemClock
from launchbay.engine.dispatch import Dispatcher
from launchbay.store import dispatch
from launchbay.store.database import Database
async def run_job(job):
    print("started", flush=True)
    time.sleep({blocked_s})
    print("moves again", flush=True)
    await asyncio.sleep(60)
async def main():
    dispatch.DEAD_LOOP_S = {dead_loop_s}
    async with Database({url!r}, connections=2) as database:
        dispatcher = Dispatcher(
            database, SystemClock(), concurrency=1, heartbeat_s=0.05, grace_s=0.0, stalled_after_s={lease_s},
            park_after_s=5.0
        )
        await dispatcher.work(run_job, name="victim", stop=asyncio.Event())
asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def victim(database: Database, *, blocked_s: float = 0.0, dead_loop_s: float = 60.0) -> AsyncIterator[Any]:
    """Run a worker in a process of its own until its first job has started; its loop then blocks."""
    script = VICTIM.format(url=database.url, blocked_s=blocked_s, dead_loop_s=dead_loop_s, lease_s=STALLED_AFTER_S)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    try:
        await line(process, b"started\n")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def line(process: asyncio.subprocess.Process, wanted: bytes) -> None:
    """Wait until the process prints a line; its log goes there too."""
    assert process.stdout is not None
    while (got := await process.stdout.readline()) != wanted:
        assert got, "the process has ended"


async def look(dispatcher: Dispatcher, seconds: float) -> None:
    """Look for the dead at the usual interval for so long."""
    for _ in range(round(seconds / dispatcher.rescue_interval_s)):
        await dispatcher.rescue()
        await asyncio.sleep(dispatcher.rescue_interval_s)


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "least"), [(signal.SIGKILL, 0.3), (signal.SIGSTOP, 0.8)])
async def test_a_process_loses_its_jobs_after_half_a_lease_if_killed_and_after_a_lease_if_frozen(
    database: Database, sent: signal.Signals, least: float
) -> None:
    await put(database, "acme")
    runs, rescuer = Runs(database), other_process(database)
    async with victim(database) as process, working(database, runs):
        await look(rescuer, 1.25 * STALLED_AFTER_S)
        assert runs.started.empty()
        process.send_signal(sent)
        struck = time.monotonic()
        while runs.started.empty():
            await look(rescuer, rescuer.rescue_interval_s)
        assert await runs.next() == "acme0"
        assert least * STALLED_AFTER_S < time.monotonic() - struck < STALLED_AFTER_S + 10
        await empty(database)
        assert await ask(database, "SELECT count(*) FROM workers") == (1,)


@pytest.mark.slow
async def test_an_event_loop_that_is_blocked_for_longer_than_the_lease_costs_no_job(database: Database) -> None:
    await put(database, "acme")
    runs, rescuer = Runs(database), other_process(database)
    async with victim(database, blocked_s=4 * STALLED_AFTER_S) as process, working(database, runs):
        await look(rescuer, 3 * STALLED_AFTER_S)
        await line(process, b"moves again\n")
        await look(rescuer, STALLED_AFTER_S)
        assert runs.started.empty()
        assert await ask(database, "SELECT fence FROM jobs") == (1,)


@pytest.mark.slow
async def test_an_event_loop_that_is_blocked_for_ever_loses_its_jobs(database: Database) -> None:
    await put(database, "acme")
    runs, rescuer = Runs(database), other_process(database)
    async with victim(database, blocked_s=30.0, dead_loop_s=0.2), working(database, runs):
        async with asyncio.timeout(10.0):
            while runs.started.empty():
                await look(rescuer, rescuer.rescue_interval_s)
        await empty(database)


async def test_a_worker_declared_dead_drops_its_jobs_and_works_on_as_a_new_one(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs):
        await put(database, "acme")
        await runs.next()
        [before] = await ask(database, "SELECT id FROM workers")
        assert await other_process(database).take_over_all() == 1
        # A claim that began before the worker was removed may still give it the job, which it drops once more.
        await until(
            database,
            f"SELECT worker_id <> {before} AND worker_id IN (SELECT id FROM workers) FROM jobs",
        )
        assert await ask(database, "SELECT count(*) FROM workers") == (1,)
        while runs.running != ["acme0"]:
            assert await runs.next(within_s=3.0) == "acme0"
        runs.go.set()
        await empty(database)
    assert set(runs.cancelled) == {"acme0"}


async def test_a_worker_that_lost_a_job_cannot_release_the_claim_of_its_successor(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs), database.connection() as connection:
        await put(database, "acme", fence=4)
        await runs.next()
        [worker_id] = await ask(database, "SELECT id FROM workers")
        await dispatch.release(connection, worker_id=worker_id + 1, job_ids=["acme0"], fences=[5], delay_s=None)
        # An earlier claim of the same worker, released again because the answer was lost.
        await dispatch.release(connection, worker_id=worker_id, job_ids=["acme0"], fences=[4], delay_s=None)
        assert await ask(database, "SELECT worker_id FROM jobs") == (worker_id,)
        assert await ask(database, "SELECT count(*) FROM ready") == (0,)
        runs.go.set()
        await empty(database)


@pytest.mark.slow
async def test_a_claim_whose_answer_was_lost_is_found_and_running_jobs_are_kept(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs):
        await put(database, "running")
        await runs.next()
        async with database.connection() as connection:
            [worker_id] = await ask(database, "SELECT id FROM workers")
            await insert_jobs(connection, ["lost"], worker_id=worker_id)
        await cut_connections(database)
        assert await runs.next() == "lost0"
        runs.go.set()
        await empty(database)
    assert runs.cancelled == []
    assert runs.started.empty()


@pytest.mark.slow
async def test_a_commit_whose_answer_was_lost_is_found(database: Database) -> None:
    runs = Runs(database)
    async with working(database, runs) as (dispatcher, _):
        await until_room(database, dispatcher)

        async def lose_the_answer() -> None:
            async with database.transaction() as connection:
                assert await accept(dispatcher, connection, "acme") is not None
                await connection.execute("COMMIT; BEGIN")
                await cut_connections(database, f"AND pid = {connection.info.backend_pid}")

        with pytest.raises(OutcomeUnknown):
            await lose_the_answer()
        assert await runs.next() == "acme0"
        await empty(database)
        assert runs.started.empty()


@pytest.mark.usefixtures("slow_polls")
async def test_a_worker_whose_connections_are_cut_goes_on(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs):
        await put(database, "acme")
        await runs.next()
        await cut_connections(database)
        runs.go.set()
        await empty(database)
        await until(database, LISTENING)
        await put(database, "after")
        assert await runs.next(within_s=SOON_S) == "after0", "it listens again"
    assert runs.cancelled == []


@pytest.mark.usefixtures("slow_polls")
async def test_a_superseded_job_is_free_only_when_its_worker_has_let_it_go(database: Database) -> None:
    cleaned, began, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow_to_stop(_: ClaimedJob) -> bool:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
            await cleaned.wait()
        return False

    async with working(database, slow_to_stop), database.connection() as connection:
        await put(database, "acme")
        await began.wait()
        await until(database, LISTENING)
        await jobs.supersede(connection, job_id="acme0", job_status="Failed", error_message="", status="Running")
        await asyncio.wait_for(cancelled.wait(), SOON_S)
        assert await dispatch.is_free(connection, job_id="acme0") is False
        cleaned.set()
        await until(database, "SELECT worker_id IS NULL FROM jobs")
        assert await dispatch.is_free(connection, job_id="acme0") is True
        assert await ask(database, "SELECT count(*) FROM ready") == (0,)


async def test_a_heartbeat_that_is_stopped_at_once_ends(database: Database) -> None:
    for _ in range(20):
        heartbeat = Heartbeat(database.url, 1, 0.1, lambda _: None, lambda: None)
        heartbeat.start()
        await heartbeat.stop()


async def test_a_heartbeat_of_a_worker_that_is_gone_says_so(database: Database) -> None:
    dead = asyncio.Event()
    heartbeat = Heartbeat(database.url, 1, 0.1, lambda _: None, dead.set)
    heartbeat.start()
    await asyncio.wait_for(dead.wait(), 5.0)
    await heartbeat.stop()


async def test_whoever_listens_again_looks_for_what_it_missed(database: Database) -> None:
    announced: asyncio.Queue[str] = asyncio.Queue()
    async with database.connection() as connection:
        worker_id = await dispatch.register(connection, name="test")
    assert worker_id is not None
    heartbeat = Heartbeat(database.url, worker_id, 0.1, announced.put_nowait, lambda: None)
    heartbeat.start()
    assert await asyncio.wait_for(announced.get(), 5.0) == ""
    await until(database, LISTENING)
    await cut_connections(database)
    assert await asyncio.wait_for(announced.get(), 5.0) == ""
    await heartbeat.stop()


@pytest.mark.slow  # longer than a loop may take
async def test_a_loop_is_called_blocked_when_it_is_and_not_because_the_database_was_away(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "RECONNECT_S", 1.5 * dispatch.SLOW_LOOP_S)
    await sql(database, "INSERT INTO workers (name, beat_at) VALUES ('test', 'epoch')")
    announced: asyncio.Queue[str] = asyncio.Queue()
    heartbeat = Heartbeat(database.url, 1, 0.1, announced.put_nowait, lambda: None)
    with capture_logs() as logs:
        heartbeat.start()
        await announced.get()
        await until(database, "SELECT beat_at > 'epoch' FROM workers")
        await cut_connections(database)
        await asyncio.wait_for(announced.get(), 10.0)
        await sql(database, "UPDATE workers SET beat_at = 'epoch'")
        await until(database, "SELECT beat_at > 'epoch' FROM workers")
        assert logs == []
        time.sleep(1.5 * dispatch.SLOW_LOOP_S)
        assert logs[-1]["event"] == "worker.event_loop_blocked"
    await heartbeat.stop()


@pytest.mark.slow
async def test_a_first_host_that_takes_connections_and_says_nothing_is_passed_over(database: Database) -> None:
    async def silence(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)
        writer.close()

    silent = await asyncio.start_server(silence, "127.0.0.1", 0)
    port, real = silent.sockets[0].getsockname()[1], conninfo_to_dict(database.url)
    two = {**real, "host": f"127.0.0.1,{real['host']}", "port": f"{port},{real['port']}"}
    await sql(database, "INSERT INTO workers (name, beat_at) VALUES ('test', 'epoch')")
    heartbeat = Heartbeat(make_conninfo("", **two), 1, 0.1, lambda _: None, lambda: None)
    heartbeat.start()
    await until(database, "SELECT beat_at > 'epoch' FROM workers", within_s=20.0)
    await heartbeat.stop()
    silent.close()


# Rescue and clocks. No clock of the database has a say in it (decision 0081).


class Watch:
    """A process whose time stands still between the steps of a test, and a worker that beats when told."""

    def __init__(self, database: Database) -> None:
        self.clock = HandClock()
        self.database = database
        self.dispatcher = Dispatcher(
            database,
            self.clock,
            concurrency=1,
            heartbeat_s=1.0,
            grace_s=0.0,
            stalled_after_s=LEASE_S,
            park_after_s=5.0,
        )

    async def looks(self, seconds: float) -> None:
        """Look at the usual interval for so long."""
        for _ in range(round(seconds / self.dispatcher.rescue_interval_s)):
            self.clock.advance(self.dispatcher.rescue_interval_s)
            await self.dispatcher.rescue()

    async def beat(self) -> None:
        """Let every worker in the table beat."""
        await sql(self.database, "UPDATE workers SET beat_at = clock_timestamp()")

    async def workers(self) -> int:
        return int((await ask(self.database, "SELECT count(*) FROM workers"))[0])


@pytest.fixture
async def watch(database: Database) -> Watch:
    await sql(database, "INSERT INTO workers (name) VALUES ('watched')")
    return Watch(database)


async def test_silence_of_a_lease_is_death_and_less_is_not(watch: Watch) -> None:
    await watch.looks(0.5)
    await watch.looks(LEASE_S - 0.5)
    assert await watch.workers() == 1
    await watch.looks(1.0)
    assert await watch.workers() == 0


async def test_a_worker_that_beats_in_time_lives_on(watch: Watch) -> None:
    for _ in range(5):
        await watch.looks(LEASE_S - 0.5)
        await watch.beat()
    assert await watch.workers() == 1


@pytest.mark.parametrize("jump", ["1 hour", "-1 hour", "-10 years"])
async def test_a_clock_of_the_database_that_is_set_kills_nobody_and_keeps_no_dead_alive(
    watch: Watch, jump: str
) -> None:
    await watch.looks(2.0)
    await sql(watch.database, f"UPDATE workers SET beat_at = beat_at + interval '{jump}'")
    await watch.looks(LEASE_S - 0.5)
    assert await watch.workers() == 1
    await watch.looks(2.0)
    assert await watch.workers() == 0


async def test_time_in_which_nobody_could_look_is_not_silence(watch: Watch) -> None:
    await watch.looks(2.0)
    watch.clock.advance(3600.0)  # the database was away, or this process was suspended
    await watch.looks(0.5)
    assert await watch.workers() == 1
    await watch.beat()
    await watch.looks(LEASE_S - 0.5)
    assert await watch.workers() == 1


async def beat_once(watch: Watch) -> None:
    """Let the watched worker beat in a session that ends after the next look."""
    [worker_id] = await ask(watch.database, "SELECT id FROM workers")
    async with await Connection.connect(conninfo(watch.database.url), autocommit=True) as session:
        pid = session.info.backend_pid
        await dispatch.beat(session, worker_id=worker_id)
        await watch.looks(0.5)
    await until(watch.database, f"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})")


async def test_half_a_lease_of_silence_is_death_if_the_session_was_seen_to_go(watch: Watch) -> None:
    await beat_once(watch)
    await watch.looks(LEASE_S / 2 - 0.5)
    assert await watch.workers() == 1
    await watch.looks(0.5)
    assert await watch.workers() == 0


async def test_a_worker_that_beats_in_a_new_session_each_time_lives_on(watch: Watch) -> None:
    for _ in range(5):
        await beat_once(watch)
        await watch.looks(LEASE_S / 2 - 0.5)
    assert await watch.workers() == 1


async def test_a_session_that_ended_while_nobody_could_look_proves_nothing(watch: Watch) -> None:
    await beat_once(watch)
    watch.clock.advance(LEASE_S)  # the database was away, and with it all sessions
    await watch.looks(LEASE_S - 1.5)
    assert await watch.workers() == 1
    await watch.looks(1.5)
    assert await watch.workers() == 0


async def test_a_session_that_ended_before_a_look_that_failed_proves_nothing(watch: Watch) -> None:
    await beat_once(watch)
    await sql(watch.database, "ALTER TABLE workers RENAME TO away")
    with pytest.raises(DatabaseError):
        await watch.looks(0.5)
    await sql(watch.database, "ALTER TABLE away RENAME TO workers")
    await watch.looks(LEASE_S - 1.0)
    assert await watch.workers() == 1
    await watch.looks(1.0)
    assert await watch.workers() == 0


async def test_a_beat_between_the_look_and_the_rescue_saves_the_worker(watch: Watch, database: Database) -> None:
    async def rescue(connection: Connection, seen: list[dispatch.WorkerRow]) -> None:
        await dispatch.rescue(connection, worker_ids=[each.id for each in seen], beats=[each.beat_at for each in seen])

    async with database.connection() as connection:
        seen = await dispatch.list_workers(connection)
        await watch.beat()
        await rescue(connection, seen)
        assert await watch.workers() == 1
        await rescue(connection, await dispatch.list_workers(connection))
        assert await watch.workers() == 0


async def test_jobs_of_a_worker_that_is_no_more_are_found_and_freed(watch: Watch, database: Database) -> None:
    async with database.connection() as connection:
        assert await dispatch.list_unheld(connection) == []
        await insert_jobs(connection, ["acme"], worker_id=1_000_000)
        assert await dispatch.list_unheld(connection) == ["acme0"]
    await watch.dispatcher.rescue_unheld()
    assert await ask(database, "SELECT worker_id FROM jobs") == (None,)
    assert await ask(database, "SELECT array_agg(job_id) FROM ready") == (["acme0"],)


# Fairness: a worker's places are shared between organizations, however much one of them asks for.


async def test_whoever_comes_late_waits_for_one_place_and_not_for_the_backlog_of_others(database: Database) -> None:
    runs = Runs(database, holding=True)
    await put(database, "noisy", 60)
    async with working(database, runs, concurrency=PLACES):
        for _ in range(8):
            await runs.next()
        await put(database, "late")
        assert await runs.next() == "late0"
        assert await ask(database, HELD.format("noisy")) == (8,)
        runs.go.set()
        await empty(database)


async def test_alone_an_organization_gets_four_fifths_of_the_places(database: Database) -> None:
    runs = Runs(database, holding=True)
    await put(database, "noisy", 60)
    async with working(database, runs, concurrency=PLACES):
        for _ in range(8):
            await runs.next()
        await put(database, "late")
        assert await runs.next() == "late0", "whoever takes it would have taken the ninth of the other before it"
        runs.go.set()
        await empty(database)


async def test_organizations_of_one_creator_have_places_as_one_organization(database: Database) -> None:
    runs, tenants = Runs(database, holding=True), Tenants()
    tenants.replace([(f"branch{number:02}", "ann") for number in range(50)])
    for number in range(50):
        await put(database, f"branch{number:02}")
    async with working(database, runs, concurrency=PLACES, tenants=tenants) as (dispatcher, _):
        for _ in range(8):
            await runs.next()
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "branch49", 1) is None
        await put(database, "late")
        assert await runs.next() == "late0", "whoever takes it would have taken the ninth of them before it"
        runs.go.set()
        await empty(database)


async def test_accepting_jobs_gives_an_organization_no_more_places_either(database: Database) -> None:
    runs = Runs(database, holding=True)
    async with working(database, runs, concurrency=PLACES) as (dispatcher, _):
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            held = [await accept(dispatcher, connection, "noisy", number) for number in range(20)]
        assert sum(worker_id is not None for worker_id in held) == 8
        runs.go.set()
        await empty(database)


async def test_while_one_organization_has_all_its_places_jobs_of_others_are_held(database: Database) -> None:
    runs = Runs(database, holding=True)
    await put(database, "noisy", 60)
    async with working(database, runs, concurrency=PLACES) as (dispatcher, _):
        await until(database, f"SELECT ({HELD.format('noisy')}) = 8")
        await until_room(database, dispatcher)
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "noisy", 60) is None
        async with database.transaction() as connection:
            assert await accept(dispatcher, connection, "modest") is not None
        runs.go.set()
        await empty(database)


async def test_a_worker_of_one_place_works_for_everybody(database: Database) -> None:
    runs = Runs(database)
    await put(database, "a", 20)
    await put(database, "b", 20)
    async with working(database, runs, concurrency=1):
        names = [await runs.next() for _ in range(40)]
        await empty(database)
    assert runs.most == 1
    assert Counter(name[0] for name in names) == {"a": 20, "b": 20}
    assert Counter(name[0] for name in names[:20]).most_common()[-1][1] >= 2, "neither waits for the other's end"


async def test_a_large_backlog_and_a_small_one_run_side_by_side(database: Database) -> None:
    runs = Runs(database, holding=True)
    await put(database, "noisy", 60)
    await put(database, "modest", 60)
    async with working(database, runs, concurrency=PLACES):
        await until(database, f"SELECT ({HELD.format('noisy')}) + ({HELD.format('modest')}) = 9")
        places = {await ask(database, HELD.format(name)) for name in ("noisy", "modest")}
        assert places == {(4,), (5,)}
        runs.go.set()
        await empty(database)


async def test_within_an_organization_the_oldest_job_is_first(database: Database) -> None:
    runs = Runs(database)
    await put(database, "acme", 10)
    async with working(database, runs, concurrency=1):
        assert [await runs.next() for _ in range(10)] == [f"acme{number}" for number in range(10)]
        await empty(database)


async def test_a_job_that_is_not_due_waits_and_holds_up_nothing(database: Database) -> None:
    runs = Runs(database)
    await put(database, "acme", 2)
    await sql(database, "UPDATE ready SET due_at = now() + interval '1 hour' WHERE job_id = 'acme0'")
    async with working(database, runs):
        assert await runs.next() == "acme1"
        await sql(database, "UPDATE ready SET due_at = now()")
        assert await runs.next(within_s=SOON_S) == "acme0"  # no announcement tells of it
        await empty(database)


async def test_a_claim_takes_from_as_many_organizations_as_it_needs_in_turn(database: Database) -> None:
    async with database.connection() as connection:
        worker_id = await dispatch.register(connection, name="claims")
        await insert_jobs(connection, list("abcdefgh"))
        await insert_jobs(connection, ["f"], 8, first=1)

        async def claimed(last: str, full: list[str]) -> str:
            jobs = await dispatch.claim(connection, worker_id=worker_id, last=last, full=full, places=6, each=4)
            return "".join(job.organization_id for job in jobs)

        assert await claimed("d", full=["h"]) == "effffg"
        assert await claimed("g", full=["h"]) == "abcdff"
        assert await claimed("f", full=[]) == "hfff"
        assert await claimed("f", full=[]) == ""

        await insert_jobs(connection, list("abcdefgh"), first=20)
        await connection.execute("UPDATE jobs SET status = 'Succeeded' WHERE id IN ('b20', 'd20')")
        assert await claimed("a", full=[]) == "cefgha", "jobs that have ended leave their places to others"


async def test_a_claim_reads_no_more_rows_than_it_takes_though_statistics_say_that_there_are_none(
    database: Database,
) -> None:
    async def blocks(jobs: int) -> int:
        async with database.connection() as connection:
            worker_id = await dispatch.register(connection, name="claims")
            await connection.execute("DELETE FROM ready")
            await connection.execute("ANALYZE ready")
            await connection.execute(
                "INSERT INTO ready (organization_id, job_id) SELECT 'acme', id FROM jobs ORDER BY id LIMIT %s", [jobs]
            )
            await dispatch.claim(connection, worker_id=worker_id, last="", full=[], places=4, each=4)
            explained = await connection.execute(
                "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM launchbay_claim(%s, '', '{}', 4, 4)", [worker_id]
            )
            [(plan,)] = await explained.fetchall()
            return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])

    async with database.connection() as connection:
        await insert_jobs(connection, ["acme"], 4_000)
    few = await blocks(20)
    assert await blocks(4_000) < few + 20


@pytest.mark.slow
async def test_a_claim_costs_no_more_behind_a_large_backlog_of_another(database: Database) -> None:
    few = await _blocks_of_a_claim(database, ["few"], 200)
    many = await _blocks_of_a_claim(database, ["many"], 20_000)
    assert many < 2 * few, (few, many)


@pytest.mark.slow
async def test_a_claim_costs_no_more_while_many_organizations_wait(database: Database) -> None:
    few = await _blocks_of_a_claim(database, [f"few{number}-" for number in range(50)], 2)
    many = await _blocks_of_a_claim(database, [f"many{number}-" for number in range(5000)], 2)
    assert many < 2 * few, (few, many)


async def test_a_look_at_what_is_due_reads_nothing_of_what_is_due_later(database: Database) -> None:
    async with database.connection() as connection:
        await insert_jobs(connection, ["parked"], 2_000)
        await connection.execute("DELETE FROM ready")
        await connection.execute(
            "INSERT INTO parked (job_id, organization_id, due_at)"
            " SELECT id, 'parked', now() + (id <> 'parked7')::integer * interval '1 hour' FROM jobs"
        )
        await connection.execute("VACUUM ANALYZE parked")
    async with database.transaction() as connection:  # counts what it reads
        woken = await dispatch.wake_due(connection, most=100)
        [(read,)] = await (
            await connection.execute("SELECT pg_stat_get_xact_tuples_returned('parked_due'::regclass)")
        ).fetchall()
    assert woken is not None
    assert (woken.jobs, read) == (1, 2)  # the one that is due, and the next one


async def _blocks_of_a_claim(database: Database, organizations: list[str], count: int) -> int:
    """Make jobs ready, and return how many blocks a claim of 32 jobs reads then."""
    async with database.connection() as connection:
        arguments = f"({await dispatch.register(connection, name='measured')}, '', '{{}}', 32, 4)"
        await connection.execute("TRUNCATE ready")
        await insert_jobs(connection, organizations, count)
        await connection.execute("VACUUM ANALYZE ready, jobs")
        await connection.execute(f"SELECT FROM launchbay_claim{arguments}".encode())  # reads the catalogs
        explained = await connection.execute(
            f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM launchbay_claim{arguments}".encode()
        )
        [(plan,)] = await explained.fetchall()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])


# Starts


async def test_a_job_does_not_wait_until_all_jobs_of_another_organization_have_started(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.engine.admission.STARTING", 1)
    monkeypatch.setattr("launchbay.engine.admission.STARTING_S", 60.0)
    runs = Permits(database)
    async with working(database, runs, concurrency=PLACES) as (dispatcher, _):
        await put(database, "noisy", 8)
        await until(database, f"SELECT ({HELD.format('noisy')}) = 8")
        assert await runs.started.get() == "noisy0"
        await put(database, "late", 2)
        await until(database, f"SELECT ({HELD.format('late')}) > 0")
        names = [await runs.next() for _ in range(4)]
        assert "late0" in names[:2], names
        while runs.ended < 9:
            await runs.next()
        runs._permits.release()
        await empty(database)
    assert dispatcher._admission._precedence.starting == 0, "no start is lost"


@pytest.mark.usefixtures("slow_polls")
async def test_no_job_is_claimed_while_enough_of_its_organization_wait_for_their_start(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.engine.admission.STARTING", 2)
    monkeypatch.setattr("launchbay.engine.admission.STARTING_S", 60.0)
    runs, held = Permits(database), HELD.format("acme")
    async with working(database, runs, concurrency=PLACES) as (dispatcher, stop):
        await put(database, "acme", 30)
        await until(database, f"SELECT ({held}) = 8")
        await runs.started.get()
        await runs.started.get()
        for left in (7, 6, 5, 4):
            await runs.next()
            assert not dispatcher._wake.is_set(), "two wait for their start"
            await until(database, f"SELECT ({held}) = {left}")
        await runs.next()
        await until(database, f"SELECT ({held}) > 4")
        stop.set()


# Acceptance keeps the pace of starts


class Permits:
    """A handler whose runs end one by one, as they are permitted to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._permits = asyncio.Semaphore(0)
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.ended = 0

    async def __call__(self, job: ClaimedJob) -> bool:
        self.started.put_nowait(job.job_id)
        await self._permits.acquire()
        self.ended += 1
        return await end_job(self._database, job)

    async def next(self) -> str:
        """Let a job end, and return which one has started then."""
        self._permits.release()
        async with asyncio.timeout(5.0):
            return await self.started.get()


async def test_under_steady_load_a_process_accepts_about_as_many_jobs_as_it_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "PATIENCE_S", 0.5)
    accepted, ended = 0, 0

    async def run(job: ClaimedJob) -> bool:
        nonlocal ended
        await asyncio.sleep(0.01)  # the work of a job; its acceptance below has less
        ended += 1
        return await end_job(database, job)

    async def client(dispatcher: Dispatcher, name: str) -> None:
        nonlocal accepted
        for number in range(10_000):
            await dispatcher.turn(name)
            async with database.transaction() as connection:
                await accept(dispatcher, connection, name, number)
            accepted += 1

    async with working(database, run, concurrency=2) as (dispatcher, _):
        clients = [asyncio.create_task(client(dispatcher, f"client{each}-")) for each in range(8)]
        try:
            async with asyncio.timeout(60.0):
                # until acceptance has found its pace
                await eventually(lambda: ended >= 30 and dispatcher._admission._requests, within_s=60.0)
                accepted_before, ended_before = accepted, ended
                await eventually(lambda: ended >= ended_before + 60, within_s=60.0)
        finally:
            for each in clients:
                each.cancel()
            await asyncio.wait(clients)
        # Without a pace it is up to nine. A slow machine empties `ready` now and then, so that all requests continue.
        assert 0.7 <= (accepted - accepted_before) / (ended - ended_before) <= 2.0
