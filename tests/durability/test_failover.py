"""A PostgreSQL that fails over to its replica, under load: nothing answered is lost, nobody restarts (promises 1, 12).

`make test-faults ARGS='tests/durability/test_failover.py -s'` shows the figures.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.campaigns import failovers
from tests.support.load import Load
from tests.support.network import stream
from tests.support.replicas import Pair
from tests.support.servers import EMAIL, PASSWORD, Process
from tests.support.service import basic

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]


async def test_a_database_that_fails_over_there_and_back_loses_nothing_that_was_answered(
    tmp_path: Path, seed: int
) -> None:
    run = await failovers(tmp_path, seed, ["kill", "quit", "kill"])
    run.keep("PostgreSQL failed over")
    assert run.campaign.broken == [], run.figures
    assert run.load.improper == []
    assert run.died == [], "nobody needed a restart"
    assert len(run.load.history.launched) > 10, "there was load"


async def test_a_primary_that_hangs_is_left_for_the_one_that_took_its_place(tmp_path: Path, seed: int) -> None:
    run = await failovers(tmp_path, seed, ["hang", "hang"])
    run.keep("PostgreSQL hung and was replaced")
    assert run.campaign.broken == [], run.figures
    assert run.load.improper == []
    assert run.died == [], "nobody needed a restart"


async def heard(port: int | None, instance: str, job: str) -> None:
    """Listen to the events of an instance as a browser does, again after each break, until one tells of this job."""
    last: int | None = None
    while True:
        with suppress(httpx.HTTPError, TimeoutError):
            async with stream(port or 0, instance, last, basic(EMAIL, PASSWORD)) as events:
                while event := await events.next(30.0):
                    last = events.last_id
                    if event.name == "job" and event.data["name"] == job:
                        return
        await asyncio.sleep(0.2)


async def test_events_are_told_again_after_a_failover(tmp_path: Path, seed: int) -> None:
    pair = await asyncio.to_thread(Pair.start, tmp_path, seed)
    server = Process(["serve", "--data-dir", str(tmp_path), "--database-url", pair.url, "--port", "0"], tmp_path)
    load = Load(lambda: server.port, seed)
    try:
        await asyncio.to_thread(server.start)
        await load.set_up()
        instance = await load.make_instance()
        listening = asyncio.create_task(heard(server.port, instance, "due0"))
        await asyncio.sleep(2.0)
        await asyncio.to_thread(pair.end_primary, "kill")
        await asyncio.to_thread(pair.promote)
        async with asyncio.timeout(120):
            while not listening.done():
                await load.run_workflow(instance, "due0")  # refused while the database is away, or one is under way
                await asyncio.sleep(1.0)
        await listening
    finally:
        await load.close()
        await asyncio.to_thread(server.end)
        await asyncio.to_thread(pair.stop)


async def test_a_replica_that_commits_do_not_wait_for_loses_answers(tmp_path: Path) -> None:
    run = await failovers(tmp_path, 1, ["kill"], asynchronous=True, unseen_s=3.0)
    assert [each for each in run.campaign.broken if each.startswith("lost: ")], (run.figures, run.campaign.broken[:5])
