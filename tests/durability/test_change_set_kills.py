"""kill -9 in the middle of applying change sets: all is changed once, and nothing twice or by half."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.eventually import eventually
from tests.support.servers import Process, Remote, calling, killed, killed_amid, serving
from tests.support.service import accepted

COUNT = 9
MANIFEST = """
application:
  configuration: {input.release: RELEASE}
  interfaces:
    input: {release: bind(worker#input.release)}
  components:
    worker:
      type: workflow.Instance
      interfaces:
        input: {release: configuration(int)}
      configuration:
        configuration.triggers: {input.release: update}
        configuration.workflows:
          launch: {steps: []}
          update: {steps: [{rest: {action: wait, parameters: {delay: "1"}}}]}
          destroy: {steps: []}
"""


async def _set_up(remote: Remote) -> list[str]:
    """Make an application whose newest version is 3; return instances of version 2."""
    application = await remote.application(MANIFEST.replace("RELEASE", "1"))
    made = [accepted(await remote.post(f"applications/{application}/launch", {}))["id"] for _ in range(COUNT)]
    for instance in made:
        await remote.settled(instance)
    accepted(await remote.put_yaml(f"applications/{application}/manifest", MANIFEST.replace("RELEASE", "2")))
    return made


async def _reconfigurations(remote: Remote, instance: str) -> list[Any]:
    return [job["id"] for job in await remote.read(f"instances/{instance}/jobs") if job["name"] == "reconfigure"]


async def _killed_while_applying(server: Process, body: dict[str, Any], after_s: float) -> tuple[str, bool]:
    """Make a change set, kill the server while it is applied, and return it and whether the server had answered."""
    async with calling(server) as remote:
        made = accepted(await remote.post(f"organizations/{remote.organization}/change-sets", body))["id"]
        [is_answered] = await killed_amid(server, remote.post(f"change-sets/{made}/apply"), after_s=after_s)
    return str(made), is_answered


@pytest.mark.faults
@pytest.mark.timeout(400)
async def test_a_change_set_is_applied_whole_or_not_at_all_though_its_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        async with calling(server) as remote:
            made = await _set_up(remote)
        for version, delay_s in ((3, 0.0), (2, 0.01), (3, 0.05), (2, 0.2)):
            body = {"act": "version", "ids": made, "version": version}
            change_set, acknowledged = await _killed_while_applying(server, body, delay_s)
            async with killed(server) as remote:
                document = await remote.read(f"change-sets/{change_set}")
                has_begun = document["status"] != "Ready"
                assert has_begun or not acknowledged
                if not has_begun:  # nothing has happened, so the same change set can be applied
                    assert {plan["jobId"] for plan in document["plan"]} == {None}
                    accepted(await remote.post(f"change-sets/{change_set}/apply"))
                document = await eventually(
                    partial(remote.read, f"change-sets/{change_set}"),
                    lambda found: found["finishedAt"] is not None,
                    within_s=90,
                )
                assert document["status"] == "Succeeded", document
                assert {tuple(plan["differences"]) for plan in document["plan"]} == {()}
                for plan in document["plan"]:
                    found = await _reconfigurations(remote, plan["instanceId"])
                    assert found[0] == plan["jobId"]
                    assert (await remote.read(f"instances/{plan['instanceId']}"))["version"] == version
        async with calling(server) as remote:
            assert {len(await _reconfigurations(remote, instance)) for instance in made} == {4}


@pytest.mark.faults
@pytest.mark.timeout(400)
async def test_a_directory_is_applied_whole_or_not_at_all_though_its_server_is_killed(tmp_path: Path) -> None:
    async with serving(tmp_path, {}) as server:
        for number, delay_s in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            names = [f"part {number} {place}" for place in range(20)]
            files = {f"environments/{name}.yaml": "markers: [blue]\n" for name in names}
            files |= {f"applications/{name}/manifest.yaml": MANIFEST.replace("RELEASE", "1") for name in names}
            body = {"act": "apply", "files": files}
            change_set, acknowledged = await _killed_while_applying(server, body, delay_s)
            async with killed(server) as remote:
                document = await remote.read(f"change-sets/{change_set}")
                assert document["status"] in ("Ready", "Succeeded")
                is_applied = document["status"] == "Succeeded"
                assert is_applied or not acknowledged
                for kind in ("environments", "applications"):
                    rows = await remote.read(f"organizations/{remote.organization}/{kind}")
                    assert {each["name"] for each in rows} & set(names) == (set(names) if is_applied else set())
                if not is_applied:  # nothing has happened, so the same change set can be applied
                    accepted(await remote.post(f"change-sets/{change_set}/apply"))
                    document = await remote.read(f"change-sets/{change_set}")
                assert (document["status"], document["directory"]["differences"]) == ("Succeeded", [])
