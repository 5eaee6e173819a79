"""The queue on a real PostgreSQL. What its promises rest on is in docs/decisions/0001 and 0002."""

import asyncio
import contextlib
import signal
import sys
import time

import pytest
from psycopg_pool import AsyncConnectionPool

from launchbay.clock import SystemClock
from launchbay.engine.queue import DEFER_SQL, Queue, defer
from launchbay.engine.rescuer import Rescuer
from launchbay.store.database import Database
from tests.support.engine import POLL_S, Runs, ask, cut_connections, empty, put, until, working

STALLED_AFTER_S = 0.5  # ten heartbeats of the victim: enough of them come through on a busy machine
LISTENING = """
SELECT count(*) > 0 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%launchbay_beat%'
"""  # who beats has begun to listen before


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: its connections are cut."""
    return fresh_database


async def test_one_statement_inserts_rows_and_defers_their_job(database: Database) -> None:
    runs = Runs()
    async with working(database, runs), database.connection() as conn:
        await conn.execute("CREATE TABLE thing (id text)")
        await conn.execute("""
            WITH thing AS (INSERT INTO thing VALUES ('a'), ('b') RETURNING id)
            SELECT launchbay_defer('job', id, jsonb_build_object('name', id)) FROM thing
        """)
        assert {await runs.next(), await runs.next()} == {"a", "b"}


async def test_a_rolled_back_transaction_defers_nothing(database: Database) -> None:
    runs = Runs()
    async with working(database, runs), database.connection() as conn:
        await conn.execute("CREATE TABLE thing (id text PRIMARY KEY)")
        with contextlib.suppress(ZeroDivisionError):
            async with conn.transaction():
                await conn.execute("INSERT INTO thing VALUES ('a')")
                await defer(conn, task="job", lock="a", arguments={"name": "rolled back"})
                raise ZeroDivisionError
        await put(database, "after")
        assert await runs.next() == "after"
        await empty(database)


async def test_a_job_is_unseen_before_the_commit_and_runs_after_it(database: Database) -> None:
    runs = Runs()
    async with working(database, runs), database.connection() as conn:
        async with conn.transaction():
            values = {
                "task": "job",
                "lock": "a",
                "arguments": '{"name": "a"}',
                "at": None,
                "priority": 0,
                "queue": "launchbay",
            }
            await conn.execute(DEFER_SQL, values)
            with pytest.raises(TimeoutError):
                await runs.next(within_s=0.2)
        assert await runs.next(within_s=0.5) == "a"


async def test_a_finished_job_leaves_no_row_behind(database: Database) -> None:
    runs = Runs()
    async with working(database, runs):
        for number in range(20):
            await put(database, f"{number}")
        await empty(database)
    assert await ask(database, "SELECT count(*) FROM procrastinate_events") == (0,)
    assert await ask(database, "SELECT count(*) FROM procrastinate_workers") == (0,)
    assert runs.started.qsize() == 20


async def test_jobs_of_one_lock_run_one_at_a_time_and_in_order(database: Database) -> None:
    runs = Runs()
    names = [f"{number:02}" for number in range(15)]
    async with working(database, runs, concurrency=8), working(database, runs, concurrency=8):
        for name in names:
            await put(database, name, lock="same")
        assert [await runs.next() for _ in names] == names
    assert runs.most == 1


async def test_jobs_of_different_locks_run_together(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs, concurrency=10):
        for number in range(8):
            await put(database, f"{number}")
        for _ in range(8):
            await runs.next()
        assert runs.most == 8
        runs.go.set()
        await empty(database)


async def test_a_worker_survives_losing_a_claim_to_another_of_the_same_lock(database: Database) -> None:
    runs = Runs()
    await put(database, "low", lock="same")
    async with database.connection() as other:
        await other.execute("BEGIN")
        await other.execute("SELECT procrastinate_fetch_job_v2(NULL, NULL)")
        await put(database, "high", lock="same", priority=1)
        async with working(database, runs):
            await until(database, "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event = 'transactionid'")
            await put(database, "unrelated")
            assert runs.started.empty()
            await other.execute("COMMIT")
            assert await runs.next(within_s=POLL_S / 2) == "unrelated"
    assert runs.cancelled == []


async def test_stop_lets_running_handlers_finish_within_the_grace_time(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs, grace_s=5.0) as stop:
        await put(database, "running")
        await runs.next()
        stop.set()
        await put(database, "not claimed any more")
        await asyncio.sleep(0.1)
        runs.go.set()
    assert runs.cancelled == []
    assert await ask(database, "SELECT array_agg(args->>'name') FROM procrastinate_jobs") == (["not claimed any more"],)


async def test_stop_hands_unfinished_jobs_to_another_worker_within_a_second(database: Database) -> None:
    held, taken = Runs(holding=True), Runs()
    async with working(database, held, grace_s=0.1) as stop:
        for number in range(5):
            await put(database, f"{number}")
            await held.next()
        async with working(database, taken):
            stopped = time.monotonic()
            stop.set()
            assert {await taken.next() for _ in range(5)} == set("01234")
            assert time.monotonic() - stopped < 1.0
            await empty(database)
    assert sorted(held.cancelled) == list("01234")


async def test_cancelling_work_cancels_it_and_puts_its_jobs_back(database: Database) -> None:
    runs = Runs(holding=True)
    queue = Queue(database.pool, database.url, grace_s=0.0)
    worker = asyncio.create_task(queue.work({"job": runs}, concurrency=1, name="test", stop=asyncio.Event()))
    await put(database, "a")
    await runs.next()
    worker.cancel()
    with pytest.raises(asyncio.CancelledError):
        await worker
    assert runs.cancelled == ["a"]
    assert await ask(database, "SELECT status::text, worker_id FROM procrastinate_jobs") == ("todo", None)


async def test_a_handler_that_ignores_cancellation_does_not_hold_up_the_stop(database: Database) -> None:
    release, began = asyncio.Event(), asyncio.Event()

    async def stubborn(name: str) -> None:
        began.set()
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    async with working(database, stubborn) as stop:
        await put(database, "a")
        await began.wait()
        stopped = time.monotonic()
        stop.set()
    assert time.monotonic() - stopped < 3.0
    runs = Runs()
    async with working(database, runs):
        assert await Queue(database.pool, database.url).rescue([]) == 1
        assert await runs.next() == "a"
    release.set()
    await asyncio.sleep(0.1)


async def test_a_job_whose_handler_raises_runs_again_a_second_later(database: Database) -> None:
    times: asyncio.Queue[float] = asyncio.Queue()

    async def failing(name: str) -> None:
        times.put_nowait(time.monotonic())
        if times.qsize() == 1:
            raise ValueError(name)

    async with working(database, failing):
        await put(database, "a")
        await empty(database)
    first, second = times.get_nowait(), times.get_nowait()
    assert 1.0 <= second - first < 1.0 + 1.5 * POLL_S


async def test_a_job_of_an_unknown_task_waits_for_a_worker_that_knows_it(database: Database) -> None:
    async with database.connection() as conn:
        await defer(conn, task="of a later version", lock="a", arguments={})
    async with working(database, Runs()):
        await until(database, "SELECT attempts = 1 AND status = 'todo' FROM procrastinate_jobs")


async def test_an_interrupted_job_is_cancelled_and_runs_again_at_once(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        await put(database, "a", lock="the lock")
        await runs.next()
        assert await ask(database, "SELECT launchbay_interrupt('another lock')") == (False,)
        assert await ask(database, "SELECT launchbay_interrupt('the lock')") == (True,)
        assert await runs.next(within_s=0.5) == "a"
        assert runs.cancelled == ["a"]
        runs.go.set()
        await empty(database)


async def test_a_killed_process_loses_its_jobs_to_the_rescuer(database: Database) -> None:
    script = f"""
import asyncio, psycopg_pool
from launchbay.engine.queue import Queue
async def handler(name):
    print("started", flush=True)
    await asyncio.sleep(60)
async def main():
    pool = psycopg_pool.AsyncConnectionPool({database.url!r}, open=False, min_size=1)
    async with pool:
        queue = Queue(pool, {database.url!r}, heartbeat_s=0.05)
        await queue.work({{"job": handler}}, concurrency=1, name="victim", stop=asyncio.Event())
asyncio.run(main())
"""
    await put(database, "a")
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"started\n"
    runs = Runs()
    rescuer = Rescuer(Queue(database.pool, database.url), SystemClock(), stalled_after_s=STALLED_AFTER_S)
    async with working(database, runs):
        for _ in range(10):  # the lease is over after eight looks
            await rescuer.check()
            await asyncio.sleep(rescuer.interval_s)
        assert runs.started.empty()
        process.kill()
        await process.wait()
        killed = time.monotonic()
        while runs.started.empty():
            await rescuer.check()
            await asyncio.sleep(rescuer.interval_s)
        assert await runs.next() == "a"
        assert 0.8 * STALLED_AFTER_S < time.monotonic() - killed < STALLED_AFTER_S + 1.5
        await empty(database)
        assert await ask(database, "SELECT count(*) FROM procrastinate_workers") == (1,)


async def test_a_worker_taken_for_dead_drops_its_handlers_and_works_on_as_a_new_one(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        await put(database, "a")
        await runs.next()
        async with database.connection() as conn:
            await conn.execute("DELETE FROM procrastinate_workers")
        assert await Queue(database.pool, database.url).rescue([]) == 1
        assert await runs.next(within_s=3.0) == "a"
        runs.go.set()
        await empty(database)
    assert runs.cancelled == ["a"]


async def test_a_worker_that_lost_a_job_cannot_end_the_claim_of_its_successor(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        number = await put(database, "a")
        await runs.next()
        for outcome in ("succeeded", "aborted", "failed"):
            await ask(database, f"SELECT launchbay_finish({number}, 0, 0, '{outcome}')")
        assert await ask(database, "SELECT status::text FROM procrastinate_jobs") == ("doing",)
        runs.go.set()
        await empty(database)


async def test_many_running_jobs_need_few_connections_and_installs_no_signal_handlers(database: Database) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    runs = Runs(holding=True)
    async with AsyncConnectionPool(database.url, min_size=1, max_size=2, open=False) as pool:
        stop = asyncio.Event()
        queue = Queue(pool, database.url)
        worker = asyncio.create_task(queue.work({"job": runs}, concurrency=250, name="test", stop=stop))
        async with database.connection() as conn:
            await conn.execute(
                "SELECT launchbay_defer('job', n::text, jsonb_build_object('name', n::text))"
                " FROM generate_series(1, 200) n"
            )
        for _ in range(200):
            await runs.next()
        assert {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} == before
        runs.go.set()
        await empty(database)
        stop.set()
        await worker
    assert runs.most == 200


async def test_depth_counts_what_could_run_now(database: Database) -> None:
    queue = Queue(database.pool, database.url)
    assert await queue.depth() == 0
    await put(database, "a")
    await put(database, "b", lock="a")
    async with database.connection() as conn:
        await conn.execute("SELECT launchbay_defer('job', 'c', '{}', now() + interval '1 hour')")
    assert await queue.depth() == 2


async def test_an_outcome_repeated_after_a_lost_answer_leaves_the_next_claim_alone(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        number = await put(database, "a", lock="a")
        await runs.next()
        await ask(database, "SELECT launchbay_interrupt('a')")
        await runs.next()
        for outcome in ("succeeded", "aborted", "failed"):
            await ask(database, f"SELECT launchbay_finish({number}, worker_id, 0, '{outcome}') FROM procrastinate_jobs")
        assert await ask(database, "SELECT status::text FROM procrastinate_jobs") == ("doing",)
        runs.go.set()
        await empty(database)


async def test_a_claim_whose_answer_was_lost_is_given_back_and_running_jobs_are_kept(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        await put(database, "running")
        await runs.next()
        async with database.connection() as conn:
            await conn.execute(
                "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, worker_id)"
                " SELECT 'launchbay', 'job', '{\"name\": \"lost\"}', 'doing', id FROM procrastinate_workers"
            )
        await cut_connections(database)
        assert await runs.next() == "lost"
        runs.go.set()
        await empty(database)
    assert runs.cancelled == []
    assert runs.started.empty()


async def test_a_worker_whose_connections_are_cut_goes_on(database: Database) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        await put(database, "a")
        await runs.next()
        await cut_connections(database)
        runs.go.set()
        await empty(database)
        await until(database, LISTENING)
        began = time.monotonic()
        await put(database, "b")
        assert await runs.next() == "b"
        assert time.monotonic() - began < POLL_S / 2  # it listens again
    assert runs.cancelled == []
