"""NATS dies, forgets, falls silent or hands its messages to a worker that does nothing: jobs are only slower (0108).

`make test-faults ARGS="tests/durability/test_nats_faults.py -s"` shows the figures. LAUNCHBAY_NATS_FAULTS=100 is
longer.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from launchbay.engine.jetstream import JetStreamWakeUps
from tests.support.campaigns import Campaign, Fault, keep, kill_either, pauses, two_workers
from tests.support.eventually import eventually
from tests.support.nats_server import NatsServer, dispatch_settings, nats_servers, url_of
from tests.support.network import tcp_proxy
from tests.support.servers import Process

FAULTS = int(os.environ.get("LAUNCHBAY_NATS_FAULTS") or 10)
STREAM = "launchbay"
pytestmark = [pytest.mark.faults, pytest.mark.timeout(600 + 15 * FAULTS)]


async def campaign_of(tmp_path: Path, seed: int, servers: list[NatsServer], fault: Fault, **settings: str) -> Campaign:
    """Two workers and a server without an engine, which hear of jobs through NATS."""
    return await two_workers(
        tmp_path,
        seed,
        pauses(seed, FAULTS),
        fault,
        are_apart=True,
        settings=dispatch_settings(servers),
        of_first_worker=settings,
    )


def check(kind: str, campaign: Campaign, *, logged: str) -> None:
    keep(kind, campaign)
    assert campaign.broken == [], campaign.figures
    logs = "".join(log.read_text("utf-8") for log in campaign.directory.glob("*.log"))
    assert "dispatch.connected" in logs
    assert logged in logs, "the fault reached nobody"


async def test_nats_that_dies_and_returns_again_and_again_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:

        async def die(campaign: Campaign, _: list[Process]) -> None:
            server.kill()
            await asyncio.sleep(campaign.chance.uniform(0.0, 4.0))
            server.start()

        check("NATS killed", await campaign_of(tmp_path, seed, [server], die), logged="dispatch.interrupted")


async def test_nats_and_a_worker_that_die_together_lose_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:

        async def die(campaign: Campaign, workers: list[Process]) -> None:
            server.kill()
            await kill_either(campaign, workers)
            server.start()

        check("NATS and a worker killed", await campaign_of(tmp_path, seed, [server], die), logged="dispatch.")


async def test_nats_that_hangs_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:

        async def hang(campaign: Campaign, _: list[Process]) -> None:
            server.freeze()
            await asyncio.sleep(campaign.chance.uniform(1.0, 8.0))
            server.thaw()

        check("NATS frozen", await campaign_of(tmp_path, seed, [server], hang), logged="dispatch.interrupted")


async def test_a_stream_that_is_deleted_again_and_again_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:
        async with member(server) as wake_ups:

            async def delete(_: Campaign, __: list[Process]) -> None:
                with suppress(Exception):  # it may be gone at the moment
                    assert wake_ups._client is not None
                    await wake_ups._client.jetstream().delete_stream(STREAM)

            campaign = await campaign_of(tmp_path, seed, [server], delete)
        check("stream deleted", campaign, logged="dispatch.connected")


@asynccontextmanager
async def member(server: NatsServer) -> AsyncIterator[JetStreamWakeUps]:
    """A further process of the installation, as far as NATS can tell."""
    wake_ups = JetStreamWakeUps(url_of([server]), stream=STREAM, replicas=1)
    running = asyncio.create_task(wake_ups.run())
    try:
        await eventually(lambda: wake_ups.is_up)
        yield wake_ups
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_worker_that_takes_messages_and_does_nothing_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:
        async with member(server) as wake_ups:
            taken = 0

            async def swallow() -> None:
                nonlocal taken
                while True:
                    taken += await wake_ups.take() is not None

            swallowing = asyncio.create_task(swallow())

            async def wait(_: Campaign, __: list[Process]) -> None:
                await asyncio.sleep(1.0)

            campaign = await campaign_of(tmp_path, seed, [server], wait)
            swallowing.cancel()
            assert taken > 0
        check("messages swallowed", campaign, logged="dispatch.connected")


async def test_a_worker_that_is_cut_off_from_nats_alone_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers() as [server]:
        async with tcp_proxy(server.port) as proxy:

            async def cut(campaign: Campaign, _: list[Process]) -> None:
                proxy.flowing.clear()
                await asyncio.sleep(campaign.chance.uniform(1.0, 8.0))
                proxy.flowing.set()

            url = f"nats://127.0.0.1:{proxy.port}"
            campaign = await campaign_of(tmp_path, seed, [server], cut, LAUNCHBAY_DISPATCH_URL=url)
        check("worker cut off from NATS", campaign, logged="dispatch.disconnected")


async def test_a_cluster_that_loses_one_server_after_the_other_loses_no_job(tmp_path: Path, seed: int) -> None:
    with nats_servers(3) as servers:

        async def kill_one(campaign: Campaign, _: list[Process]) -> None:
            server = campaign.chance.choice(servers)
            server.kill()
            await asyncio.sleep(campaign.chance.uniform(0.0, 6.0))
            server.start()
            await asyncio.sleep(
                campaign.chance.uniform(0.0, 6.0)
            )  # sometimes the next one goes before this one is back

        check(
            "one of three NATS servers killed", await campaign_of(tmp_path, seed, servers, kill_one), logged="dispatch."
        )


async def test_a_cluster_that_is_cut_off_from_one_server_after_the_other_loses_no_job(
    tmp_path: Path, seed: int
) -> None:
    """To clients and to the other two, a frozen server is one behind a network that drops packets."""
    with nats_servers(3) as servers:

        async def cut_one(campaign: Campaign, _: list[Process]) -> None:
            server = campaign.chance.choice(servers)
            server.freeze()
            await asyncio.sleep(campaign.chance.uniform(1.0, 12.0))  # the others elect a leader after some seconds
            server.thaw()
            await asyncio.sleep(campaign.chance.uniform(0.0, 4.0))

        campaign = await campaign_of(tmp_path, seed, servers, cut_one)
        check("one of three NATS servers cut off", campaign, logged="dispatch.")
