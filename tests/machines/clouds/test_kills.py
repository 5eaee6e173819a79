"""A real server is killed while its cloud works: after the restart the job comes to its end, and no machine is lost."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launchbay.machines.contract import INSTANCE
from tests.support.clouds import MANIFEST, REGION, Bay, Gate, bay, cloud_environment, loopback_subnet
from tests.support.machines import Hosts, needs_sshd
from tests.support.servers import PATIENCE_S, Process, calling, server_directory, serving
from tests.support.service import accepted

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300), needs_sshd]
NETWORK = 79
FIRST = 4  # the first address of a subnet that is a machine's
SETTINGS = {
    "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.0/8",
    "LAUNCHBAY_MACHINES_SWEEP": "off",  # the repeated step itself must leave nothing
}
LAUNCH = [
    ("ImportKeyPair", 1),
    ("DescribeInstances", 1),
    ("RunInstances", 1),
    ("RunInstances", 2),
    ("DescribeInstances", 2),
]


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    with Hosts.start(FIRST + 3, network=NETWORK) as started:
        yield started


@pytest.fixture
def lab(gate: Gate, tmp_path: Path) -> Bay:
    return bay(gate.url, tmp_path)


@pytest.fixture
def place() -> Iterator[Path]:
    with server_directory() as directory:
        yield directory


async def begun(server: Process, gate: Gate, hosts: Hosts) -> str:
    """Launch the manifest on the cloud and return the instance's id."""
    async with calling(server) as remote:
        environment = await cloud_environment(remote, gate.url, hosts)
        manifest = MANIFEST.replace("SUBNET", loopback_subnet(gate.upstream, REGION, NETWORK))
        return await remote.launch(manifest, environmentId=environment)


async def killed_in_the_midst(server: Process, reached: threading.Event, answer: threading.Event) -> None:
    """Kill the server when the cloud has done what it was asked, and start it again without the answer."""
    assert await asyncio.to_thread(reached.wait, PATIENCE_S)
    await asyncio.to_thread(server.kill)
    answer.set()
    await asyncio.to_thread(server.start)


async def finished_launch(server: Process, gate: Gate, hosts: Hosts, action: str, nth: int) -> tuple[str, Any]:
    reached, answer = gate.hold(action, nth)
    instance = await begun(server, gate, hosts)
    await killed_in_the_midst(server, reached, answer)
    async with calling(server) as remote:
        return instance, await remote.settled(instance)


@pytest.mark.parametrize(("action", "nth"), LAUNCH)
async def test_a_launch_that_is_killed_ends_with_its_machines_and_no_others(
    place: Path, gate: Gate, hosts: Hosts, lab: Bay, action: str, nth: int
) -> None:
    async with serving(place, SETTINGS) as server:
        instance, document = await finished_launch(server, gate, hosts, action, nth)
        assert document["status"] == "Running", document["errorMessage"]
        standing = await lab.marked({INSTANCE: instance})
        assert sorted(node.private_ip for node in standing) == sorted(document["returnValues"]["result.hosts"])
        assert len(standing) == 2
        async with calling(server) as remote:
            accepted(await remote.post(f"instances/{instance}/destroy", {}))
            assert (await remote.settled(instance))["status"] == "Destroyed"
        assert await lab.marked({INSTANCE: instance}) == []


async def test_a_destruction_that_is_killed_ends_without_machines(
    place: Path, gate: Gate, hosts: Hosts, lab: Bay
) -> None:
    async with serving(place, SETTINGS) as server:
        instance = await begun(server, gate, hosts)
        async with calling(server) as remote:
            assert (await remote.settled(instance))["status"] == "Running"
            reached, answer = gate.hold("TerminateInstances", 1)
            accepted(await remote.post(f"instances/{instance}/destroy", {}))
        await killed_in_the_midst(server, reached, answer)
        async with calling(server) as remote:
            assert (await remote.settled(instance))["status"] == "Destroyed"
        assert await lab.marked({INSTANCE: instance}) == []


async def test_the_kills_find_a_step_that_does_not_take_over_what_it_made(
    place: Path, gate: Gate, hosts: Hosts, lab: Bay
) -> None:
    async with serving(place, SETTINGS, "no-take-over") as server:
        instance, document = await finished_launch(server, gate, hosts, "RunInstances", 2)
        standing = await lab.marked({INSTANCE: instance})
        assert len(standing) > len(document["returnValues"].get("result.hosts", []))
