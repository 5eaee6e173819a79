"""Wake-ups are not missed, in any of the ways that docs/decisions/0002-missed-wake-ups.md lists."""

import asyncio
import time
from typing import Any

import pytest
from procrastinate import App, PsycopgConnector
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool

from launchbay.engine.queue import QUEUE, Heartbeat
from launchbay.store.database import Database, conninfo
from tests.support.engine import POLL_S, Runs, cut_connections, empty, put, working

# A claim that takes its time between seeing the queue and answering, the moment in which wake-ups were lost.
SLOW_CLAIM = """
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) RENAME TO fetch_at_once;
CREATE FUNCTION procrastinate_fetch_job_v2(queues varchar[], worker bigint) RETURNS procrastinate_jobs
LANGUAGE plpgsql AS $$
DECLARE claimed procrastinate_jobs;
BEGIN
    claimed := fetch_at_once(queues, worker);
    PERFORM pg_sleep(0.3);
    RETURN claimed;
END
$$;
"""


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: workers listen to it."""
    return fresh_database


async def test_the_next_job_of_a_lock_starts_when_the_first_ends_without_waiting_for_the_poll(
    database: Database,
) -> None:
    runs = Runs(holding=True)
    async with working(database, runs):
        for _ in range(5):
            runs.go.clear()
            await put(database, "first", lock="same")
            assert await runs.next() == "first"
            await put(database, "second", lock="same")
            await asyncio.sleep(0.05)
            ended = time.monotonic()
            runs.go.set()
            assert await runs.next() == "second"
            assert time.monotonic() - ended < POLL_S / 4
            await empty(database)


async def test_a_job_announced_while_a_claim_is_under_way_starts_at_once(database: Database) -> None:
    runs = Runs()
    async with database.connection() as conn:
        await conn.execute(SLOW_CLAIM)
    async with working(database, runs):
        await asyncio.sleep(0.5)
        await put(database, "first")
        assert await runs.next() == "first"
        await asyncio.sleep(0.1)  # the claim after the first job has seen an empty queue and has not answered yet
        began = time.monotonic()
        await put(database, "second")
        assert await runs.next() == "second"
        assert time.monotonic() - began < 0.8  # two slow claims; the poll would come after more than a second


async def test_the_librarys_own_worker_misses_that_job(database: Database) -> None:
    """Shows that the test above can fail, and tells when the library has mended this itself."""
    runs = Runs()
    app = App(connector=PsycopgConnector())

    async def handler(name: str) -> None:
        await runs(name)

    app.task(name="job", queue=QUEUE)(handler)
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(database.url, open=False)
    async with database.connection() as conn:
        await conn.execute(SLOW_CLAIM)
    async with pool, app.open_async(pool):
        worker = asyncio.create_task(app.run_worker_async(queues=[QUEUE], install_signal_handlers=False))
        await asyncio.sleep(0.8)
        await put(database, "first")
        assert await runs.next() == "first"
        await asyncio.sleep(0.1)
        await put(database, "second")
        with pytest.raises(TimeoutError):
            await runs.next(within_s=1.5)
        worker.cancel()
        await asyncio.wait({worker})


async def test_a_job_queued_while_nobody_listens_starts_when_the_worker_listens_again(database: Database) -> None:
    runs = Runs()
    async with working(database, runs):
        await put(database, "just looked")
        await runs.next()
        began = time.monotonic()
        await cut_connections(database, "AND query ~ 'LISTEN|launchbay_beat'")
        await put(database, "a")
        assert await runs.next() == "a"
        assert time.monotonic() - began < 0.7  # the poll comes a second after the last look


async def test_a_first_host_that_takes_connections_and_says_nothing_is_passed_over(database: Database) -> None:
    async def silence(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)
        writer.close()

    silent = await asyncio.start_server(silence, "127.0.0.1", 0)
    real = conninfo_to_dict(database.url)
    beats: asyncio.Queue[int] = asyncio.Queue()

    async def beat(conn: AsyncConnection[Any]) -> None:
        beats.put_nowait(conn.info.backend_pid)

    async def hear(_: str) -> None:
        return

    port = silent.sockets[0].getsockname()[1]
    two = {**real, "host": f"127.0.0.1,{real['host']}", "port": f"{port},{real['port']}"}
    pulse = Heartbeat(
        conninfo(make_conninfo("", **two)), channel="any", on_heartbeat=beat, on_notification=hear, interval_s=0.1
    )
    beating = asyncio.create_task(pulse.run())
    async with asyncio.timeout(20):
        assert await beats.get() == await beats.get(), "it stays"
    beating.cancel()
    silent.close()
