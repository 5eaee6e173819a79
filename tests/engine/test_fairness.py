"""A worker's places are shared between organizations, however much one of them asks for (`launchbay_claim`)."""

import asyncio
from collections import Counter
from typing import Any

from psycopg import AsyncConnection

from launchbay.engine.queue import defer
from launchbay.engine.queue_schema import apply_schema
from launchbay.store.database import Database
from tests.support.engine import Runs, ask, empty, until, working

PLACES = 10
DOING = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'doing' AND queue_name = '{}'"


async def put(database: Database, queue: str, count: int) -> None:
    async with database.transaction() as conn:
        for number in range(count):
            name = f"{queue}{number}"
            await defer(conn, task="job", lock=name, arguments={"name": name}, queue=queue)


async def test_whoever_comes_late_waits_for_one_place_and_not_for_the_backlog_of_others(database: Database) -> None:
    runs = Runs(holding=True)
    await put(database, "noisy", 60)
    async with working(database, runs, concurrency=PLACES):
        for _ in range(8):
            await runs.next()
        await put(database, "late", 1)
        assert await runs.next() == "late0"
        assert await ask(database, DOING.format("noisy")) == (8,)
        runs.go.set()
        await empty(database)


async def test_alone_an_organization_gets_four_fifths_of_the_places(database: Database) -> None:
    runs = Runs(holding=True)
    await put(database, "noisy", 60)
    async with working(database, runs, concurrency=PLACES):
        await until(database, f"SELECT ({DOING.format('noisy')}) = 8")
        await asyncio.sleep(0.3)
        assert runs.most == 8
        runs.go.set()
        await empty(database)


async def test_a_worker_of_one_place_works_for_everybody(database: Database) -> None:
    runs = Runs()
    await put(database, "a", 20)
    await put(database, "b", 20)
    async with working(database, runs, concurrency=1):
        names = [await runs.next() for _ in range(40)]
        await empty(database)
    assert runs.most == 1
    assert Counter(name[0] for name in names) == {"a": 20, "b": 20}
    assert Counter(name[0] for name in names[:20]).most_common()[-1][1] >= 2, "neither waits for the other's end"


async def test_a_large_backlog_and_a_small_one_run_side_by_side(database: Database) -> None:
    runs = Runs(holding=True)
    await put(database, "noisy", 60)
    await put(database, "modest", 60)
    async with working(database, runs, concurrency=PLACES):
        await until(database, f"SELECT ({DOING.format('noisy')}) + ({DOING.format('modest')}) = 9")
        places = {await ask(database, DOING.format(queue)) for queue in ("noisy", "modest")}
        assert places == {(4,), (5,)}
        runs.go.set()
        await empty(database)


async def test_within_an_organization_the_oldest_job_of_the_highest_priority_is_first(database: Database) -> None:
    runs = Runs()
    async with database.transaction() as conn:
        for name, priority in (("a", 0), ("b", 1), ("c", 0), ("d", 1)):
            await defer(conn, task="job", lock=name, arguments={"name": name}, priority=priority, queue="one")
    async with working(database, runs, concurrency=1):
        assert [await runs.next() for _ in range(4)] == ["b", "d", "a", "c"]
        await empty(database)


async def test_jobs_that_wait_for_their_lock_hold_up_no_other_organization(database: Database) -> None:
    runs = Runs(holding=True)
    async with database.transaction() as conn:
        for number in range(20):
            await defer(conn, task="job", lock="same", arguments={"name": f"{number}"}, queue="locked")
    async with working(database, runs, concurrency=PLACES):
        assert await runs.next() == "0"
        await put(database, "other", 1)
        assert await runs.next() == "other0"
        runs.go.set()
        await empty(database)


async def test_a_claim_costs_no_more_behind_a_large_backlog_of_another(empty_database_url: str) -> None:
    async with await AsyncConnection.connect(empty_database_url, autocommit=True) as conn:
        await apply_schema(conn)
        small = await _blocks_of_a_claim(conn, "few", 200)
        large = await _blocks_of_a_claim(conn, "many", 20_000)
    assert large < 3 * small + 100, (small, large)


async def _blocks_of_a_claim(conn: AsyncConnection[Any], queue: str, count: int) -> int:
    """Queue that many jobs of one queue and one of another, and return how much of the tables a claim reads."""
    statement = (
        "SELECT launchbay_defer('job', %(queue)s || n, '{}', queue => %(queue)s) FROM generate_series(1, %(n)s) n"
    )
    await conn.execute(statement, {"queue": queue, "n": count})
    await conn.execute("VACUUM ANALYZE procrastinate_jobs")
    await conn.execute("SELECT launchbay_claim(NULL, NULL, '{}', '{}', 100)")
    statement = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT launchbay_claim(NULL, NULL, '{}', '{}', 100)"
    [(plan,)] = await (await conn.execute(statement)).fetchall()
    return int(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
