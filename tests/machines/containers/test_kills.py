"""A real server is killed while it makes containers and runs commands in them: each command runs once, none is lost."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from launchbay.machines.containers.engine_api import ContainerShell, EngineApi
from launchbay.machines.contract import INSTANCE
from launchbay.machines.remote_commands import OutputBuffer
from tests.support.containers import IMAGE, Podman
from tests.support.eventually import eventually
from tests.support.servers import PATIENCE_S, calling, server_directory, serving
from tests.support.service import accepted

pytestmark = [pytest.mark.faults, pytest.mark.timeout(300)]

MANIFEST = f"""
launch:
  steps:
    - machines: {{action: provisionVms, parameters: {{roleName: web, quantity: 6, imageId: {IMAGE}}}}}
    - work:
        action: execrun
        precedingPhases: [machines]
        parameters:
          roles: [web]
          command: ["echo begin >>/tmp/ledger; until [ -e /tmp/go ]; do sleep 0.1; done; echo end >>/tmp/ledger"]
    - look:
        action: execrun
        precedingPhases: [work]
        parameters: {{roles: [web], command: [cat, /tmp/ledger]}}
        output: {{ledgers: stdout}}
  return: {{ledgers: {{value: "{{$.ledgers[*]}}"}}}}
"""


@pytest.fixture
def place() -> Iterator[Path]:
    with server_directory() as directory:
        yield directory


def settings(podman: Podman) -> dict[str, str]:
    return {
        "LAUNCHBAY_MACHINES": "container",
        "LAUNCHBAY_CONTAINER_SOCKET": str(podman.socket),
        "LAUNCHBAY_CONTAINER_NETWORKS": "none",
        "LAUNCHBAY_MACHINES_SWEEP": "off",  # the repeated step itself must leave nothing
    }


async def everywhere(engine: EngineApi, instance: str, so: Callable[[EngineApi, str], Awaitable[bool]]) -> bool:
    """Tell whether something is so of each container of the instance."""
    return all([await so(engine, each) for each in await standing(engine, instance)])


@pytest.mark.parametrize("made", [1, 4, 6])
async def test_a_launch_that_is_killed_ends_with_its_containers_and_each_command_ran_once(
    place: Path, engine: EngineApi, engine_of_session: Podman, made: int
) -> None:
    """The server dies when so many containers stand; the last time, when commands run in all of them."""
    async with serving(place, settings(engine_of_session)) as server:
        async with calling(server) as remote:
            instance = await remote.launch(MANIFEST)
        async with asyncio.timeout(PATIENCE_S):
            await eventually(lambda: standing(engine, instance), lambda found: len(found) >= made, within_s=PATIENCE_S)
            if made == 6:
                await eventually(lambda: everywhere(engine, instance, has_begun), within_s=PATIENCE_S)
        await asyncio.to_thread(server.kill)
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(PATIENCE_S):
            await eventually(lambda: everywhere(engine, instance, told_to_go), within_s=PATIENCE_S)
            async with calling(server) as remote:
                while (await remote.get(f"instances/{instance}")).json()["status"] in {"Requested", "Executing"}:
                    for each in await standing(engine, instance):
                        await told_to_go(engine, each)
                    await asyncio.sleep(0.1)
                document = await remote.settled(instance)
                assert document["status"] == "Running", document["errorMessage"]
                assert document["returnValues"]["ledgers"] == ["begin\nend"] * 6
                assert len(await standing(engine, instance)) == 6
                accepted(await remote.post(f"instances/{instance}/destroy", {}))
                assert (await remote.settled(instance))["status"] == "Destroyed"
        assert await standing(engine, instance) == []


async def standing(engine: EngineApi, instance: str) -> list[str]:
    return [each.id for each in await engine.labelled({INSTANCE: instance})]


async def has_begun(engine: EngineApi, container: str) -> bool:
    return await said(engine, container, "test -e /tmp/ledger")


async def told_to_go(engine: EngineApi, container: str) -> bool:
    return await said(engine, container, ": >/tmp/go")


async def said(engine: EngineApi, container: str, line: str) -> bool:
    try:
        return await ContainerShell(engine, container, container).script(line, OutputBuffer(0), OutputBuffer(0)) == 0
    except Exception:  # one that does not run yet
        return False
