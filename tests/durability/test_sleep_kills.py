"""kill -9 at the bounds of sleep windows: each instance is stopped once and started once."""

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

INSTANCES = 8
MANIFEST = """
launch: {steps: []}
stop: {steps: [{halt: {action: wait, parameters: {delay: "0.3"}}}]}
start: {steps: [{begin: {action: wait, parameters: {delay: "0.3"}}}]}
"""
SOON = timedelta(seconds=6)


@pytest.mark.faults
async def test_sleep_windows_survive_kills_and_each_turn_happens_once(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            application, instances = await _running(client)
            asleep_at = datetime.now(UTC) + SOON
            await _set_window(client, application, asleep_at, asleep_at + timedelta(hours=1))
        await _until(asleep_at)
        server.kill()  # perhaps in the midst of the turns
        server.start()
        async with administrator_of(server) as client:
            await _wait(client, instances, lambda jobs: jobs["stop"] >= 1)
            awake_at = datetime.now(UTC) + SOON
            await _set_window(client, application, asleep_at, awake_at)
        server.kill()  # perhaps before the turns that find the new window, or while some still stop
        await _until(awake_at)  # a turn that nobody is there for
        server.start()
        async with administrator_of(server) as client:
            await _wait(client, instances[:3], lambda jobs: jobs["start"] >= 1)
        server.kill()
        server.start()
        async with administrator_of(server) as client:
            await _wait(client, instances, lambda jobs: jobs["start"] >= 1)
            for instance in instances:
                assert await _jobs(client, instance) == {"launch": 1, "stop": 1, "start": 1}
                found = (await client.get(f"instances/{instance}/sleep")).json()
                assert (found["isAsleep"], found["message"]) == (False, None)
    finally:
        server.end()


async def _running(client: httpx.AsyncClient) -> tuple[str, list[str]]:
    """Return an application with its running instances."""
    [organization] = (await client.get("organizations")).json()
    created = await client.post(f"organizations/{organization['id']}/applications", json={"name": "shop"})
    application: str = created.json()["id"]
    path = f"applications/{application}"
    (await client.put(f"{path}/manifest", content=MANIFEST, headers=YAML)).raise_for_status()
    launched = [(await client.post(f"{path}/launch", json={})).json()["id"] for _ in range(INSTANCES)]
    await _wait(client, launched, lambda jobs: jobs["launch"] == 1)
    return application, launched


async def _set_window(client: httpx.AsyncClient, application: str, begin: datetime, end: datetime) -> None:
    sleep_at, wake_at = (f"{at.second} {at.minute} {at.hour} * * *" for at in (begin, end))
    rule = {"windows": [{"sleepAt": sleep_at, "wakeAt": wake_at}]}
    (await client.put(f"applications/{application}/sleep", json=rule)).raise_for_status()


async def _until(at: datetime) -> None:
    """Wait for a time of day, which nothing tells."""
    await asyncio.sleep(max(0.0, (at - datetime.now(UTC)).total_seconds()))


async def _jobs(client: httpx.AsyncClient, instance: str) -> Counter[str]:
    """Return how many jobs of each name have succeeded."""
    document: Any = (await client.get(f"instances/{instance}")).json()
    assert not [job for job in document["workflowHistory"] if job["status"] == "Failed"]
    return Counter(job["name"] for job in document["workflowHistory"] if job["status"] == "Succeeded")


async def _wait(client: httpx.AsyncClient, instances: list[str], is_done: Any) -> None:
    """Wait until the jobs of all instances fulfill a condition."""
    async with asyncio.timeout(120):
        for instance in instances:
            while not is_done(await _jobs(client, instance)):
                await asyncio.sleep(0.1)
