"""A worker that is asked to stop: what has begun comes to its end there, and everything else goes to others at once.

The grace is far longer than any of these tests waits, so nothing here is handed over because of it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from launchbay.clock import SystemClock
from launchbay.engine.worker import Looks, PeriodicTask, run_periodically
from launchbay.errors import Unavailable
from launchbay.features.bulk import rows as bulk
from launchbay.features.recurring import rows as recurring
from launchbay.store import dispatch
from launchbay.store.database import Database
from tests.support.clock import without_waiting
from tests.support.engine import Bay


async def attended(round_: Callable[[], Awaitable[object]], for_s: float, interval_s: float = 0.01) -> float:
    """Attend a duty for a time and return how long its end took."""
    stop = asyncio.Event()
    attending = asyncio.create_task(run_periodically(PeriodicTask("test", interval_s, round_), stop))
    await asyncio.sleep(for_s)
    stop.set()
    begun = asyncio.get_running_loop().time()
    await asyncio.wait_for(attending, 2)
    return asyncio.get_running_loop().time() - begun


@without_waiting
async def test_a_round_that_fails_is_followed_by_the_next() -> None:
    rounds: list[int] = []

    async def fail() -> None:
        rounds.append(1)
        raise (Unavailable("away"), ValueError("a defect"))[len(rounds) % 2]

    await attended(fail, 1)
    assert len(rounds) > 4


@without_waiting
async def test_a_round_that_found_work_is_followed_by_the_next_at_once() -> None:
    rounds: list[int] = []

    async def work() -> bool:
        rounds.append(1)
        return len(rounds) < 50

    await attended(work, 0.1, interval_s=60)
    assert len(rounds) == 50


async def test_a_duty_with_endless_work_still_stops() -> None:
    async def endless() -> bool:
        return True

    assert await attended(endless, 0.05) < 0.5


@without_waiting
async def test_a_stop_does_not_wait_for_the_interval() -> None:
    async def nothing() -> None:
        return None

    assert await attended(nothing, 0.05, interval_s=60) < 0.5


async def test_a_task_has_a_round_only_when_a_look_finds_work_for_it(bay: Bay) -> None:
    rounds: list[str] = []
    began = asyncio.Event()

    async def work() -> None:
        rounds.append("worked")
        began.set()

    async def rest() -> None:
        rounds.append("rested")

    busy = PeriodicTask("busy", 60, work, due=(bulk.list_open, dispatch.list_workers))
    idle = PeriodicTask("idle", 60, rest, due=(bulk.list_open, recurring.list_due))
    async with bay.database.connection() as connection:
        await dispatch.register(connection, name="a worker")
    looks = Looks(bay.database, SystemClock(), [busy, idle])
    stop = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        for task in (busy, idle):
            tasks.create_task(run_periodically(task, stop, looks.due[task.name]))
        await looks.look()
        await began.wait()
        await looks.look()
        stop.set()
    assert rounds == ["worked"]


GRACE_S = 300.0
PATIENCE_S = 30.0
EFFECTS = """
    launch:
      steps:
        - first: {action: effect, parameters: {seconds: 0.5}}
        - second: {action: effect, precedingPhases: [first]}
"""
WAITS = "launch: {steps: [{rest: {action: wait, parameters: {delay: 3600}}}]}"
RETRIES = "launch: {steps: [{s: {action: effect, parameters: {fail: 9, retryCount: 3}}}]}"
BESIDE_EACH_OTHER = """
    launch:
      steps:
        - rest: {action: wait, parameters: {delay: 3600}}
        - begun: {action: effect, parameters: {seconds: 0.5}}
        - later: {action: effect, precedingPhases: [begun]}
"""


async def stopped_amid(bay: Bay, manifest: str, begun: int = 1, **settings: Any) -> str:
    """Launch, stop the worker when so many steps have begun, and return the job once the worker has ended."""
    async with asyncio.timeout(PATIENCE_S), bay.working(stop_grace_s=GRACE_S, **settings) as stop:
        job = await bay.launch(await bay.instance(manifest))
        await bay.until(f"SELECT count(*) = {begun} FROM steps WHERE job_id = %s AND status = 'Executing'", job)
        stop.set()
    return job


async def steps(bay: Bay, job: str) -> dict[str, str]:
    async with bay.database.connection() as connection:
        cursor = await connection.execute("SELECT path, status FROM steps WHERE job_id = %s", [job])
        return {path.rpartition("/")[2]: status for path, status in await cursor.fetchall()}


@pytest.mark.slow
async def test_the_step_under_way_ends_where_it_began_and_the_next_one_begins_elsewhere(bay: Bay) -> None:
    job = await stopped_amid(bay, EFFECTS)
    assert await steps(bay, job) == {"first": "Succeeded"}
    async with bay.working():
        assert await bay.ended(job) == ("Succeeded", None)
    assert bay.world.paths() == ["workflow#launch/first", "workflow#launch/second"]


async def test_a_job_that_only_waits_goes_at_once(bay: Bay) -> None:
    job = await stopped_amid(bay, WAITS)
    assert await bay.one("SELECT status FROM jobs WHERE id = %s", job) == "Executing"
    assert await bay.one("SELECT count(*) FROM ready") == 1


async def test_a_job_that_pauses_before_another_attempt_goes_at_once(bay: Bay) -> None:
    job = await stopped_amid(bay, RETRIES, step_retry_first_s=3600.0, step_retry_longest_s=3600.0)
    assert await bay.one("SELECT status FROM jobs WHERE id = %s", job) == "Executing"


@pytest.mark.slow
async def test_a_wait_does_not_cut_the_effect_beside_it_in_two(bay: Bay) -> None:
    job = await stopped_amid(bay, BESIDE_EACH_OTHER, begun=2)
    assert await steps(bay, job) == {"rest": "Executing", "begun": "Succeeded"}
    assert bay.world.paths() == ["workflow#launch/begun"]


@pytest.mark.slow
async def test_another_worker_takes_what_was_handed_over_while_the_first_one_still_works(bay: Bay) -> None:
    async with asyncio.timeout(PATIENCE_S), bay.working(stop_grace_s=GRACE_S) as stop:
        long = await bay.launch(await bay.instance(EFFECTS.replace("0.5", "3600")))
        short = await bay.launch(await bay.instance(EFFECTS))
        await bay.until("SELECT count(*) = 2 FROM steps WHERE status = 'Executing'")
        stop.set()
        async with bay.working():
            assert await bay.ended(short) == ("Succeeded", None)
            assert await bay.one("SELECT fence FROM jobs WHERE id = %s", long) == 1
            # The first worker is taken for dead now, and does not hold on to what others have.
            await bay.change("DELETE FROM workers WHERE id = (SELECT min(id) FROM workers)")
            await bay.until("SELECT fence > 1 FROM jobs WHERE id = %s", long)


async def test_a_look_for_room_on_the_disk_rests_until_the_next_one(database: Database) -> None:
    rounds, stop = 0, asyncio.Event()
    look: Callable[[], Awaitable[object]] = database.look_for_room

    async def counted() -> object:
        nonlocal rounds
        rounds += 1
        return await look()

    attending = asyncio.create_task(run_periodically(PeriodicTask("room", 60, counted), stop))
    for _ in range(20):
        await asyncio.sleep(0)
    stop.set()
    await attending
    assert rounds == 1
