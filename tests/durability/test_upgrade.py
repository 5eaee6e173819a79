"""A newer version starts beside an older one, under load: no promise breaks, whoever does the work (promise 13)."""

import asyncio
import itertools
import os
import random
from pathlib import Path

import pytest

from launchbay.store.schema import OLDEST_COMPATIBLE as OLDEST_SCHEMA
from tests.support.campaigns import Campaign
from tests.support.databases import migrate_to
from tests.support.load import Load
from tests.support.servers import Process, join_postgres, remove_postgres
from tests.support.versions import OLDEST_BESIDE, old_source

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
PHASE_S = 8.0


@pytest.fixture
def seed() -> int:
    return int(os.environ.get("LAUNCHBAY_FAULT_SEED") or random.SystemRandom().randrange(1_000_000))


async def test_an_old_version_and_a_new_one_work_side_by_side(tmp_path: Path, seed: int) -> None:
    source = old_source(OLDEST_BESIDE, tmp_path)
    campaign = Campaign(tmp_path, seed)
    postgres = await asyncio.to_thread(join_postgres, tmp_path)
    await asyncio.to_thread(migrate_to, postgres.url, OLDEST_SCHEMA)  # it would need Alembic to do so itself
    shared = ["--data-dir", str(tmp_path), "--database-url", postgres.url]
    old_server = Process(["serve", *shared, "--port", "0"], tmp_path, name="old-server", source=source)
    old_worker = Process(["worker", *shared], tmp_path, name="old-worker", source=source)
    new_servers = [Process(["serve", *shared, "--port", "0"], tmp_path, name=f"new-{each}") for each in "ab"]
    processes = [old_server, old_worker, *new_servers]
    in_turn = itertools.count()
    asked = [old_server]
    load = Load(lambda: asked[next(in_turn) % len(asked)].port, seed)
    try:
        await campaign.start(old_server)
        await campaign.start(old_worker)
        await load.set_up()
        async with load.going_on():
            await asyncio.sleep(PHASE_S)  # long enough for everything to be prepared on the old one's connections
            await asyncio.gather(*(campaign.start(each) for each in new_servers))
            asked.extend(new_servers)
            await asyncio.sleep(PHASE_S)
            await campaign.kill(old_worker)
            await asyncio.sleep(PHASE_S)
            asked.remove(old_server)
            await asyncio.to_thread(old_server.end)
            await asyncio.sleep(PHASE_S / 2)
        await campaign.judge(load, postgres.url)
        print(f"\n{campaign.figures}")
        assert campaign.broken == [], campaign.figures
        assert load.history.failures == [], campaign.figures
        assert _complaints(old_server) == []
        assert await asyncio.to_thread(_refusal, old_worker)
    finally:
        await load.close()
        for process in processes:
            await asyncio.to_thread(process.end)
        await asyncio.to_thread(postgres.stop)
        remove_postgres(tmp_path)


def _complaints(process: Process) -> list[str]:
    lines = (
        line for log in process.directory.glob(f"{process.name}-*.log") for line in log.read_text("utf-8").splitlines()
    )
    return [line for line in lines if "[error" in line or "[warning" in line or "Traceback" in line]


def _refusal(process: Process) -> str:
    """Start a version that is too old by now; return what it says."""
    with pytest.raises(AssertionError, match="written by a newer version") as refused:
        process.start()
    return str(refused.value)
