"""kill -9 while jobs queue for their places: no limit is broken, and no job is forgotten."""

from pathlib import Path

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

COUNT = 10
MANIFEST = """
header: {concurrency: 2}
launch: {steps: []}
rest:
  steps:
    - rest: {action: wait, parameters: {delay: "0.6"}}
"""


@pytest.mark.faults
async def test_a_limit_holds_and_nobody_waits_forever_though_its_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            [organization] = (await client.get("organizations")).json()
            created = await client.post(f"organizations/{organization['id']}/applications", json={"name": "a"})
            path = f"applications/{created.json()['id']}"
            (await client.put(f"{path}/manifest", content=MANIFEST, headers=YAML)).raise_for_status()
            made = [(await client.post(f"{path}/launch", json={})).json()["id"] for _ in range(COUNT)]
            for instance in made:
                (await client.get(f"instances/{instance}?wait=30")).raise_for_status()
            for instance in made:
                (await client.post(f"instances/{instance}/rest", json={})).raise_for_status()
        for ended in (1, 4, 7):
            async with administrator_of(server) as client:
                await _have_ended(client, made, ended)
            server.kill()
            server.start()
        async with administrator_of(server) as client:
            jobs = await _have_ended(client, made, COUNT)
            spans = [(job["startedAt"], 1) for job in jobs] + [(job["finishedAt"], -1) for job in jobs]
            running = 0
            for _, change in sorted(spans):
                running += change
                assert running <= 2
            assert (await client.get(f"organizations/{organization['id']}/concurrency")).json() == []
    finally:
        server.end()


async def _have_ended(client: httpx.AsyncClient, instances: list[str], count: int) -> list[dict[str, int]]:
    """Wait until so many jobs have succeeded, and return them."""
    return await eventually(
        lambda: _runs(client, instances, "Succeeded"), lambda found: len(found) >= count, within_s=90
    )


async def _runs(client: httpx.AsyncClient, instances: list[str], status: str) -> list[dict[str, int]]:
    """Return the jobs of `rest` with this status, of which an instance has one."""
    found = []
    for instance in instances:
        jobs = [job for job in (await client.get(f"instances/{instance}/jobs")).json() if job["name"] == "rest"]
        assert len(jobs) == 1
        if jobs[0]["status"] == status:
            found.append((await client.get(f"instances/{instance}/jobs/{jobs[0]['id']}")).json())
    return found
