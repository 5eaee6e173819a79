"""kill -9 while destroys wait for their grace time: each happens once, or is taken back once."""

from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.servers import Remote, calling, killed, serving
from tests.support.service import accepted

MANIFEST = """
launch: {steps: []}
stop: {steps: [{halt: {action: wait, parameters: {delay: "0.3"}}}]}
start: {steps: [{begin: {action: wait, parameters: {delay: "0.3"}}}]}
"""


@pytest.mark.faults
async def test_a_waiting_destroy_survives_kills_and_happens_once(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            brief = await _running(remote, grace_ms=4_000)
            long = await _running(remote, grace_ms=3_600_000)
            for instance in (brief, long):
                accepted(await remote.post(f"instances/{instance}/destroy", {}))
        async with killed(server) as remote:  # perhaps in the midst of a stop
            assert (await remote.read(f"instances/{long}/lifetime"))["waitingDestroy"]["isStopped"]
            accepted(await remote.post(f"instances/{long}/lifetime/undo-destroy"))
        async with killed(server) as remote:  # perhaps before the start has begun
            assert await _jobs(remote, brief, "Destroyed", 3) == ["launch", "stop", "destroy"]
            assert await _jobs(remote, long, "Running", 3) == ["launch", "stop", "start"]
            assert (await remote.read(f"instances/{long}/lifetime"))["waitingDestroy"] is None


async def _running(remote: Remote, *, grace_ms: int) -> str:
    """Return a running instance of an application with this grace time."""
    path = f"applications/{await remote.application(MANIFEST, f'a {grace_ms}')}"
    accepted(await remote.put(f"{path}/lifetime", {"graceMs": grace_ms}))
    instance: str = accepted(await remote.post(f"{path}/launch", {}))["id"]
    await _jobs(remote, instance, "Running", 1)
    return instance


async def _jobs(remote: Remote, instance: str, status: str, count: int) -> list[str]:
    """Wait until the instance has this status and so many ended jobs, and return their names."""
    found = await eventually(
        lambda: remote.read(f"instances/{instance}"),
        lambda found: (found["status"], len(found["workflowHistory"])) == (status, count),
        within_s=60,
    )
    return [job["name"] for job in reversed(found["workflowHistory"])]
