"""kill -9 in the middle of a bulk run: every instance gets its turn, and none gets two."""

import asyncio
from pathlib import Path

import pytest

from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

COUNT = 12
MANIFEST = """
launch: {steps: []}
rest:
  steps:
    - rest: {action: wait, parameters: {delay: "1"}}
"""


@pytest.mark.faults
async def test_a_bulk_run_does_each_instance_once_though_its_server_is_killed(tmp_path: Path) -> None:
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
            body = {"act": "run", "workflow": "rest", "ids": made, "maxParallel": 3}
            bulk = (await client.post(f"organizations/{organization['id']}/bulk", json=body)).json()["id"]
        for begun in (2, 7):
            async with administrator_of(server) as client, asyncio.timeout(60):
                while (await client.get(f"bulk/{bulk}")).json()["counts"]["waiting"] > COUNT - begun:
                    await asyncio.sleep(0.02)
            server.kill()
            server.start()
        async with administrator_of(server) as client:
            async with asyncio.timeout(90):
                while (document := (await client.get(f"bulk/{bulk}")).json())["finishedAt"] is None:
                    await asyncio.sleep(0.1)
            assert document["counts"]["succeeded"] == COUNT, document
            outcomes = (await client.get(f"bulk/{bulk}/instances")).json()
            for each in outcomes:
                jobs = (await client.get(f"instances/{each['instanceId']}/jobs")).json()
                assert [job["id"] for job in jobs if job["name"] == "rest"] == [each["jobId"]]
    finally:
        server.end()
