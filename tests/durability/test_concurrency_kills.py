"""kill -9 while jobs queue for their places: no limit is broken, and no job is forgotten."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.servers import Remote, calling, killed, serving
from tests.support.service import accepted

COUNT = 10
MANIFEST = """
header: {concurrency: 2}
launch: {steps: []}
rest:
  steps:
    - rest: {action: wait, parameters: {delay: "0.6"}}
"""


@pytest.mark.faults
@pytest.mark.timeout(400)
async def test_a_limit_holds_and_nobody_waits_forever_though_its_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            application = await remote.application(MANIFEST)
            made = [accepted(await remote.post(f"applications/{application}/launch", {}))["id"] for _ in range(COUNT)]
            for instance in made:
                await remote.settled(instance)
            for instance in made:
                accepted(await remote.post(f"instances/{instance}/rest", {}))
            await _have_ended(remote, made, 1)
        for ended in (4, 7):
            async with killed(server) as remote:
                await _have_ended(remote, made, ended)
        async with killed(server) as remote:
            jobs = await _have_ended(remote, made, COUNT)
            spans = [(job["startedAt"], 1) for job in jobs] + [(job["finishedAt"], -1) for job in jobs]
            running = 0
            for _, change in sorted(spans):
                running += change
                assert running <= 2
            assert await remote.read(f"organizations/{remote.organization}/concurrency") == []


async def _have_ended(remote: Remote, instances: list[str], count: int) -> list[dict[str, int]]:
    """Wait until so many jobs have succeeded, and return them."""
    return await eventually(lambda: _ended(remote, instances), lambda found: len(found) >= count, within_s=90)


async def _ended(remote: Remote, instances: list[str]) -> list[dict[str, Any]]:
    """Return the jobs of `rest` that succeeded, of which an instance has one."""
    found = []
    for instance in instances:
        [job] = [job for job in await remote.read(f"instances/{instance}/jobs") if job["name"] == "rest"]
        if job["status"] == "Succeeded":
            found.append(await remote.read(f"instances/{instance}/jobs/{job['id']}"))
    return found
