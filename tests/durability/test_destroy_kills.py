"""kill -9 while destroys wait for their grace time: each happens once, or is taken back once."""

from pathlib import Path

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

MANIFEST = """
launch: {steps: []}
stop: {steps: [{halt: {action: wait, parameters: {delay: "0.3"}}}]}
start: {steps: [{begin: {action: wait, parameters: {delay: "0.3"}}}]}
"""


@pytest.mark.faults
async def test_a_waiting_destroy_survives_kills_and_happens_once(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            brief = await _running(client, grace_ms=4_000)
            long = await _running(client, grace_ms=3_600_000)
            for instance in (brief, long):
                (await client.post(f"instances/{instance}/destroy", json={})).raise_for_status()
        server.kill()  # perhaps in the midst of a stop
        server.start()
        async with administrator_of(server) as client:
            lifetime = (await client.get(f"instances/{long}/lifetime")).json()
            assert lifetime["waitingDestroy"]["isStopped"]
            (await client.post(f"instances/{long}/lifetime/undo-destroy")).raise_for_status()
        server.kill()  # perhaps before the start has begun
        server.start()
        async with administrator_of(server) as client:
            assert await _jobs(client, brief, "Destroyed", 3) == ["launch", "stop", "destroy"]
            assert await _jobs(client, long, "Running", 3) == ["launch", "stop", "start"]
            assert (await client.get(f"instances/{long}/lifetime")).json()["waitingDestroy"] is None
    finally:
        server.end()


async def _running(client: httpx.AsyncClient, *, grace_ms: int) -> str:
    """Return a running instance of an application with this grace time."""
    [organization] = (await client.get("organizations")).json()
    created = await client.post(f"organizations/{organization['id']}/applications", json={"name": f"a {grace_ms}"})
    path = f"applications/{created.json()['id']}"
    (await client.put(f"{path}/manifest", content=MANIFEST, headers=YAML)).raise_for_status()
    (await client.put(f"{path}/lifetime", json={"graceMs": grace_ms})).raise_for_status()
    instance: str = (await client.post(f"{path}/launch", json={})).json()["id"]
    await _jobs(client, instance, "Running", 1)
    return instance


async def _jobs(client: httpx.AsyncClient, instance: str, status: str, count: int) -> list[str]:
    """Wait until the instance has this status and so many ended jobs, and return their names."""
    answer = await eventually(
        lambda: client.get(f"instances/{instance}"),
        lambda answer: (answer.json()["status"], len(answer.json()["workflowHistory"])) == (status, count),
        within_s=60,
    )
    found = answer.json()
    return [job["name"] for job in reversed(found["workflowHistory"])]
