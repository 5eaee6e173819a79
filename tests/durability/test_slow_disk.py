"""A disk of PostgreSQL's that takes 50 to 300 ms for each flush, under load and kills: slow is neither away nor dead.

The flushes themselves are slowed, by a few lines of C in front of fdatasync, because that is what a slow disk does:
commits queue up behind each other's flush, while reading goes on. (Delaying all answers on the way would slow reading
too, and `commit_delay` is for 100 ms at the most and only for commits that meet others.)

`make test-faults ARGS='tests/durability/test_slow_disk.py -s'` shows the figures. Needs a C compiler.
"""

import asyncio
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.campaigns import Campaign, keep, kill_and_wait, under_load
from tests.support.load import WatchfulLoad
from tests.support.replicas import PostgresServer, own_address
from tests.support.servers import Process, healthy

pytestmark = [pytest.mark.faults, pytest.mark.timeout(600)]
KILLS = 3


@pytest.fixture
def slow(tmp_path: Path) -> dict[str, str]:
    """What makes the disk of a program slow, while there is a file `slow`."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler is installed (Debian package gcc)")
    library = tmp_path / "slow_disk.so"
    source = Path(__file__).with_name("slow_disk.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    library.chmod(0o755)
    return {"LD_PRELOAD": str(library), "SLOW_DISK": str(tmp_path / "slow")}


async def watch(server: Process, seen: list[bool]) -> None:
    """Ask again and again whether the server is ready."""
    while True:
        seen.append(await healthy(server.port))
        await asyncio.sleep(0.5)


def commit_s(postgres: PostgresServer) -> float:
    """Return how long a commit takes now."""
    begun = time.monotonic()
    postgres.rows("CREATE TABLE IF NOT EXISTS probe (n int); INSERT INTO probe VALUES (1)")
    return time.monotonic() - begun


async def test_a_disk_that_takes_300_ms_for_a_flush_costs_time_and_nothing_else(
    tmp_path: Path, seed: int, slow: dict[str, str]
) -> None:
    campaign = Campaign(tmp_path, seed)
    postgres = PostgresServer("d", tmp_path / "d", own_address(seed, 1), environment=slow)
    shared = ["--data-dir", str(tmp_path), "--database-url", postgres.url]
    server, worker = Process(["serve", *shared, "--port", "0"], tmp_path), Process(["worker", *shared], tmp_path)
    load = WatchfulLoad(lambda: server.port, seed)
    ready: list[bool] = []
    try:
        await asyncio.to_thread(postgres.create, {})
        async with under_load(campaign, postgres.url, [server, worker], load):
            watching = asyncio.create_task(watch(server, ready))
            (tmp_path / "slow").touch()
            commits_s = [commit_s(postgres) for _ in range(5)]
            for _ in range(KILLS):
                await asyncio.sleep(campaign.chance.uniform(8.0, 12.0))
                await kill_and_wait(campaign, [worker])
            await asyncio.sleep(5.0)
            (tmp_path / "slow").unlink()
            watching.cancel()
    finally:
        await asyncio.to_thread(postgres.end)
    logs = [log.read_text("utf-8") for log in tmp_path.glob("*.log")]
    dead = sum(log.count("worker.lease_lost") for log in logs)
    keep("slow disk", campaign)
    print(f"a commit took {min(commits_s):.2f} to {max(commits_s):.2f} s; ready {sum(ready)} of {len(ready)} times")
    assert min(commits_s) >= 0.05, "the disk was slow"
    assert campaign.broken == [], campaign.figures
    assert load.improper == []
    assert dead == 0, "nobody that lived was taken for dead"
    assert sum(ready) >= 0.9 * len(ready), "slow is not away"
