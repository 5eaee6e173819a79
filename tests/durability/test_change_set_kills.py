"""kill -9 in the middle of applying change sets: all is changed once, and nothing twice or by half."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.servers import Process, administrator_of
from tests.support.service import YAML

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


async def _set_up(client: httpx.AsyncClient) -> tuple[str, str, list[str]]:
    """Return the organization, an application whose newest version is 3, and instances of version 2."""
    [organization] = (await client.get("organizations")).json()
    created = await client.post(f"organizations/{organization['id']}/applications", json={"name": "shop"})
    path = f"applications/{created.json()['id']}"
    text = MANIFEST.replace("RELEASE", "1")
    (await client.put(f"{path}/manifest", content=text, headers=YAML)).raise_for_status()
    made = [(await client.post(f"{path}/launch", json={})).json()["id"] for _ in range(COUNT)]
    for instance in made:
        (await client.get(f"instances/{instance}?wait=30")).raise_for_status()
    text = MANIFEST.replace("RELEASE", "2")
    (await client.put(f"{path}/manifest", content=text, headers=YAML)).raise_for_status()
    return organization["id"], created.json()["id"], made


async def _reconfigurations(client: httpx.AsyncClient, instance: str) -> list[Any]:
    jobs = (await client.get(f"instances/{instance}/jobs")).json()
    return [job["id"] for job in jobs if job["name"] == "reconfigure"]


@pytest.mark.faults
async def test_a_change_set_is_applied_whole_or_not_at_all_though_its_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            organization, _, made = await _set_up(client)
        for version, delay_s in ((3, 0.0), (2, 0.01), (3, 0.05), (2, 0.2)):
            async with administrator_of(server) as client:
                body = {"act": "version", "ids": made, "version": version}
                answer = await client.post(f"organizations/{organization}/change-sets", json=body)
                answer.raise_for_status()
                change_set = answer.json()["id"]
                acknowledged = await _killed_while_applying(server, client, change_set, delay_s)
            server.start()
            async with administrator_of(server) as client:
                document = (await client.get(f"change-sets/{change_set}")).json()
                has_begun = document["status"] != "Ready"
                assert has_begun or not acknowledged
                if not has_begun:  # nothing has happened, so the same change set can be applied
                    assert {plan["jobId"] for plan in document["plan"]} == {None}
                    (await client.post(f"change-sets/{change_set}/apply")).raise_for_status()
                document = (
                    await eventually(
                        partial(client.get, f"change-sets/{change_set}"),
                        lambda found: found.json()["finishedAt"] is not None,
                        within_s=90,
                    )
                ).json()
                assert document["status"] == "Succeeded", document
                assert {tuple(plan["differences"]) for plan in document["plan"]} == {()}
                for plan in document["plan"]:
                    found = await _reconfigurations(client, plan["instanceId"])
                    assert found[0] == plan["jobId"]
                    assert (await client.get(f"instances/{plan['instanceId']}")).json()["version"] == version
        async with administrator_of(server) as client:
            assert {len(await _reconfigurations(client, instance)) for instance in made} == {4}
    finally:
        server.end()


@pytest.mark.faults
async def test_a_directory_is_applied_whole_or_not_at_all_though_its_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            [organization] = (await client.get("organizations")).json()
        at = f"organizations/{organization['id']}"
        for number, delay_s in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
            names = [f"part {number} {place}" for place in range(20)]
            files = {f"environments/{name}.yaml": "markers: [blue]\n" for name in names}
            files |= {f"applications/{name}/manifest.yaml": MANIFEST.replace("RELEASE", "1") for name in names}
            async with administrator_of(server) as client:
                answer = await client.post(f"{at}/change-sets", json={"act": "apply", "files": files})
                answer.raise_for_status()
                change_set = answer.json()["id"]
                acknowledged = await _killed_while_applying(server, client, change_set, delay_s)
            server.start()
            async with administrator_of(server) as client:
                document = (await client.get(f"change-sets/{change_set}")).json()
                assert document["status"] in ("Ready", "Succeeded")
                is_applied = document["status"] == "Succeeded"
                assert is_applied or not acknowledged
                for kind in ("environments", "applications"):
                    found = {each["name"] for each in (await client.get(f"{at}/{kind}")).json()} & set(names)
                    assert found == (set(names) if is_applied else set())
                if not is_applied:  # nothing has happened, so the same change set can be applied
                    (await client.post(f"change-sets/{change_set}/apply")).raise_for_status()
                    document = (await client.get(f"change-sets/{change_set}")).json()
                assert (document["status"], document["directory"]["differences"]) == ("Succeeded", [])
    finally:
        server.end()


async def _killed_while_applying(server: Process, client: httpx.AsyncClient, change_set: str, delay_s: float) -> bool:
    """Kill the server some time after a change set began to be applied; return whether it had answered."""
    applying = asyncio.create_task(client.post(f"change-sets/{change_set}/apply"))
    await asyncio.sleep(delay_s)
    server.kill()
    try:
        return (await applying).status_code == 200
    except httpx.HTTPError:
        return False
