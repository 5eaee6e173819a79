"""Who is taken for dead, and who is not. No clock of the database has a say in it (decision 0081)."""

import pytest

from launchbay.engine.queue import Queue
from launchbay.engine.rescuer import Rescuer
from launchbay.store.database import Database
from tests.support.clock import HandClock
from tests.support.engine import ask

LEASE_S = 4.0


class Watch:
    """A rescuer whose time stands still between the steps of a test, and a worker that beats when told."""

    def __init__(self, database: Database) -> None:
        self.clock = HandClock()
        self.database = database
        self.rescuer = Rescuer(Queue(database.pool, database.url), self.clock, LEASE_S)

    async def looks(self, seconds: float) -> None:
        """Look at the usual interval for so long."""
        for _ in range(round(seconds / self.rescuer.interval_s)):
            self.clock.advance(self.rescuer.interval_s)
            await self.rescuer.check()

    async def beat(self) -> None:
        """Let every worker in the table beat."""
        await self.sql("UPDATE procrastinate_workers SET last_heartbeat = clock_timestamp()")

    async def sql(self, statement: str) -> None:
        async with self.database.connection() as conn:
            await conn.execute(statement.encode())

    async def workers(self) -> int:
        found = await ask(self.database, "SELECT count(*) FROM procrastinate_workers")
        assert found is not None
        return int(found[0])


@pytest.fixture
async def watch(database: Database) -> Watch:
    made = Watch(database)
    await made.sql("INSERT INTO procrastinate_workers DEFAULT VALUES")
    return made


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
    await watch.sql(f"UPDATE procrastinate_workers SET last_heartbeat = last_heartbeat + interval '{jump}'")
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


async def test_a_beat_between_the_look_and_the_rescue_saves_the_worker(watch: Watch, database: Database) -> None:
    queue = Queue(database.pool, database.url)
    seen = await queue.heartbeats()
    await watch.beat()
    await queue.rescue(seen)
    assert await watch.workers() == 1
    await queue.rescue(await queue.heartbeats())
    assert await watch.workers() == 0


async def test_jobs_without_a_worker_are_free_at_the_first_look(watch: Watch, database: Database) -> None:
    await watch.sql(
        "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status)"
        " VALUES ('launchbay', 'job', '{}', 'doing')"
    )
    await watch.looks(0.5)
    assert await ask(database, "SELECT status::text FROM procrastinate_jobs") == ("todo",)
