"""kill -9 while a release is adopted, with the real Helm: an instance has it, or nobody does, and it stays as it is."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.helm_cluster import helm_cluster
from tests.support.network import answer, loopback_server
from tests.support.releases import CHART, TOOLS, Kubectl, fresh_release, manifest_of
from tests.support.servers import Process, administrator_of, fault_directory
from tests.support.service import YAML

pytestmark = [pytest.mark.faults, pytest.mark.slow]


class Bench:
    """A server, and a release that somebody installed."""

    def __init__(self, server: Process, hand: Kubectl, chart: str) -> None:
        self.server = server
        self.hand = hand
        self.chart = chart
        self.release = fresh_release()

    async def application(self, client: httpx.AsyncClient) -> str:
        [organization] = (await client.get("organizations")).json()
        made = await client.post(f"organizations/{organization['id']}/applications", json={"name": self.release})
        path = f"applications/{made.json()['id']}"
        text = manifest_of(self.hand.cluster, self.chart, self.release)
        (await client.put(f"{path}/manifest", content=text, headers=YAML)).raise_for_status()
        return path

    @staticmethod
    async def adopt(client: httpx.AsyncClient, path: str) -> Any:
        answer = await client.post(f"{path}/adoptions", json={"releases": [{"component": "web"}]})
        assert answer.is_success, answer.text
        return answer.json()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    binary = TOOLS / "helm"
    if not binary.exists():
        pytest.skip("Helm is not installed (requirements/chart)")
    async with AsyncExitStack() as stack:
        directory = stack.enter_context(fault_directory())
        (directory / "bin").mkdir()
        (directory / "bin" / "helm").symlink_to(binary)
        settings = {
            "LAUNCHBAY_SERVER_PROGRAMS": "helm",
            "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1",
            "PATH": f"{directory}/bin{os.pathsep}{os.environ['PATH']}",
        }
        cluster = stack.enter_context(helm_cluster())
        charts = await stack.enter_async_context(loopback_server())
        charts.routes["/shop.tgz"] = answer(body=CHART)
        server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
        server.start()
        stack.callback(server.end)
        found = Bench(server, Kubectl(binary, cluster, directory), charts.url("/shop.tgz"))
        found.hand.install(found.release, "--set", "size=2")
        yield found


async def test_a_server_that_is_killed_while_it_reads_the_release_leaves_nothing(bench: Bench) -> None:
    cluster = bench.hand.cluster
    async with administrator_of(bench.server) as client:
        path = await bench.application(client)
        cluster.holds_reads = True
        cluster.hold.set()
        asking = asyncio.create_task(bench.adopt(client, path))
        assert await asyncio.to_thread(cluster.held.wait, 30), "Helm reads the release"
        bench.server.kill()
        await asyncio.wait({asking})
        assert asking.exception() is not None
    cluster.hold.clear()
    bench.server.start()

    async with administrator_of(bench.server) as client:
        assert (await client.get(f"{path}/instances")).json() == []
        made = await bench.adopt(client, path)
        [listed] = (await client.get(f"{path}/instances")).json()
    assert listed["id"] == made["instanceId"]
    assert bench.hand.revisions(bench.release) == 1


async def test_what_was_answered_is_there_after_a_kill_and_is_still_only_forgotten(bench: Bench) -> None:
    async with administrator_of(bench.server) as client:
        path = await bench.application(client)
        made = await bench.adopt(client, path)
        bench.server.kill()
    bench.server.start()

    instance = f"instances/{made['instanceId']}"
    async with administrator_of(bench.server) as client:
        found = (await client.get(f"{instance}/adoption")).json()
        assert (found["managed"], found["releases"]) == ("observe", made["releases"])
        (await client.post(f"{instance}/destroy", json={})).raise_for_status()
        await eventually(lambda: client.get(instance), lambda found: found.json()["status"] == "Destroyed", within_s=40)
    assert bench.hand.revisions(bench.release) == 1
