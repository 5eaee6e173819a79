"""The database goes away, or answers get lost, under load: 503 with Retry-After, and nothing else (promise 12).

`make test-faults ARGS='tests/durability/test_database_faults.py -s'` shows the figures.
"""

import asyncio
import os
import time
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from launchbay.postgres import cluster
from tests.support.campaigns import Campaign, keep, under_load
from tests.support.eventually import eventually
from tests.support.load import WatchfulLoad
from tests.support.network import cutting_proxy
from tests.support.pooler import pooler, set_for_sessions
from tests.support.servers import Process, cut_power_of_postgres, healthy, join_postgres, remove_postgres
from tests.support.verdict import percentile

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]
STOPS = int(os.environ.get("LAUNCHBAY_DATABASE_STOPS", "50"))
CUTS = int(os.environ.get("LAUNCHBAY_DATABASE_CUTS", "200"))
POOLER_FAULTS = int(os.environ.get("LAUNCHBAY_POOLER_FAULTS", "9"))
HEALTHY_AGAIN_S = 5.0


async def healthy_again_s(data_dir: Path, port: int | None) -> tuple[float, float]:
    """Wait for the server; return how long PostgreSQL was away, and how long after its return the server answered."""
    begun = time.monotonic()
    postmaster = cluster.running(data_dir / "postgres")
    ended = None if postmaster is None else postmaster.pid
    returned = None
    async with asyncio.timeout(90):
        while True:
            postmaster = cluster.running(data_dir / "postgres")
            if returned is None and postmaster is not None and postmaster.ready and postmaster.pid != ended:
                returned = time.monotonic()
            if returned is not None and await healthy(port):
                return returned - begun, time.monotonic() - returned
            await asyncio.sleep(0.01)


async def test_postgresql_ended_at_once_again_and_again_costs_nothing_but_503(tmp_path: Path, seed: int) -> None:
    campaign = Campaign(tmp_path, seed)
    server = Process(["serve", "--data-dir", str(tmp_path), "--port", "0"], tmp_path)
    load = WatchfulLoad(lambda: server.port, seed)
    postgres, away_s, after_s = None, [], []
    try:
        await campaign.start(server)
        await load.set_up()
        async with load.going_on():
            for _ in range(STOPS):
                await asyncio.sleep(campaign.chance.uniform(0.3, 1.5))
                waiting = asyncio.create_task(healthy_again_s(tmp_path, server.port))
                await asyncio.sleep(0)  # it has seen the one that is ended now
                cut_power_of_postgres(tmp_path)
                away, after = await waiting
                away_s.append(away)
                after_s.append(after)
        postgres = await asyncio.to_thread(join_postgres, tmp_path)
        await campaign.judge(load, postgres.url)
    finally:
        await load.close()
        await asyncio.to_thread(server.end)
        if postgres is not None:
            await asyncio.to_thread(postgres.stop)
        remove_postgres(tmp_path)
    away_s.sort()
    after_s.sort()
    times = {
        "away_p50_s": percentile(away_s, 0.5),
        "away_most_s": away_s[-1],
        "healthy_after_p50_s": percentile(after_s, 0.5),
        "healthy_after_most_s": after_s[-1],
    }
    keep("PostgreSQL ended", campaign, stops=len(after_s), **times)
    assert campaign.broken == [], campaign.figures
    assert load.improper == []
    assert len(load.history.launched) > STOPS / 2, "the load went on between the stops"
    assert after_s[-1] <= HEALTHY_AGAIN_S, after_s


async def test_answers_that_get_lost_on_the_way_are_neither_lost_work_nor_double_work(
    tmp_path: Path, seed: int
) -> None:
    campaign = Campaign(tmp_path, seed)
    postgres = await asyncio.to_thread(join_postgres, tmp_path)
    sockets = Path(parse_qs(urlsplit(postgres.url).query)["host"][0])
    async with cutting_proxy(sockets, tmp_path / "p", seed) as proxy:
        server = Process(["serve", "--data-dir", str(tmp_path), "--database-url", proxy.url, "--port", "0"], tmp_path)
        load = WatchfulLoad(lambda: server.port, seed)
        try:
            await campaign.start(server)
            await load.set_up()
            async with load.going_on():
                proxy.share = 0.004
                await eventually(lambda: proxy.cuts >= CUTS, within_s=600)
                proxy.share = 0.0
                await asyncio.sleep(2.0)
            assert await healthy(server.port)
            await campaign.judge(load, postgres.url)
        finally:
            await load.close()
            await asyncio.to_thread(server.end)
            await asyncio.to_thread(postgres.stop)
            remove_postgres(tmp_path)
    keep("answers of PostgreSQL lost", campaign, cuts=proxy.cuts)
    assert campaign.broken == [], campaign.figures
    assert load.improper == []
    assert load.history.launched


@pytest.mark.parametrize(("mode", "sessions"), [("transaction", 6), ("session", 30)])
async def test_a_pooler_that_dies_or_hangs_and_workers_killed_behind_it_cost_no_job(
    tmp_path: Path, seed: int, mode: str, sessions: int
) -> None:
    campaign = Campaign(tmp_path, seed)
    postgres = await asyncio.to_thread(join_postgres, tmp_path)
    await asyncio.to_thread(set_for_sessions, postgres.url)
    settings = {"LAUNCHBAY_DATABASE_DIRECT_URL": postgres.url}
    try:
        with pooler(postgres.url, mode, sessions=sessions) as between:
            shared = ["--data-dir", str(tmp_path), "--database-url", between.url]
            server = Process(["serve", *shared, "--port", "0"], tmp_path, settings=settings)
            worker = Process(["worker", *shared], tmp_path, settings=settings)
            load = WatchfulLoad(lambda: server.port, seed)
            async with under_load(campaign, postgres.url, [server, worker], load):
                for number in range(POOLER_FAULTS):
                    await asyncio.sleep(campaign.chance.uniform(1.0, 4.0))
                    match number % 3:
                        case 0:
                            await campaign.kill(worker)
                            await campaign.start(worker)
                        case 1:
                            between.stop()
                            await asyncio.sleep(campaign.chance.uniform(0.0, 3.0))
                            await asyncio.to_thread(between.start)
                        case _:
                            between.freeze()
                            await asyncio.sleep(campaign.chance.uniform(1.0, 8.0))
                            between.thaw()
                await eventually(lambda: healthy(server.port), within_s=60)
                lives = server.lives()
    finally:
        await asyncio.to_thread(postgres.stop)
        remove_postgres(tmp_path)
    keep(f"pooler in {mode} mode killed and frozen", campaign)
    assert campaign.broken == [], campaign.figures
    assert load.improper == []
    assert lives, "nobody needed a restart"
    assert campaign.recoveries.times_s or campaign.repeated == 0
