"""kill -9 in the middle of adoptions and of what takes them over: all or nothing, and nothing twice."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.adoption import STEADY, applied, state_text
from tests.support.drift import boxes
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu
from tests.support.servers import Process, administrator_of
from tests.support.service import YAML, fresh_name

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(400)]


async def _application(client: httpx.AsyncClient, manifest: str) -> str:
    [organization] = (await client.get("organizations")).json()
    name = {"name": fresh_name("shop")}
    made = str((await client.post(f"organizations/{organization['id']}/applications", json=name)).json()["id"])
    (await client.put(f"applications/{made}/manifest", content=manifest, headers=YAML)).raise_for_status()
    return made


async def _instances(client: httpx.AsyncClient, application: str) -> list[str]:
    return [each["id"] for each in (await client.get(f"applications/{application}/instances")).json()]


async def _killed(server: Process, asking: "asyncio.Task[httpx.Response]", delay_s: float) -> bool:
    """Kill the server while it answers; return whether it said that it is done."""
    await asyncio.sleep(delay_s)
    server.kill()
    try:
        answer = await asking
    except httpx.HTTPError:
        return False
    assert answer.status_code == 200, answer.text
    return True


async def test_an_adoption_is_whole_or_nothing_though_its_server_is_killed(tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path)
    server.start()
    try:
        async with administrator_of(server) as client:
            application = await _application(client, boxes(STEADY))
        for number, delay_s in enumerate((0.0, 0.02, 0.1)):
            # Many resources take long enough to be interrupted.
            state = state_text(f"lineage {number}", *(f"box{place}" for place in range(500)))
            body = {"launch": {"instanceName": f"shop {number}"}, "states": [{"component": "web", "state": state}]}
            async with administrator_of(server) as client:
                before = await _instances(client, application)
                asking = asyncio.create_task(client.post(f"applications/{application}/adoptions", json=body))
                is_done = await _killed(server, asking, delay_s)
            server.start()
            async with administrator_of(server) as client:
                made = [each for each in await _instances(client, application) if each not in before]
                assert made or not is_done
                if not made:  # nothing is left that would refuse the same state
                    again = (await client.post(f"applications/{application}/adoptions", json=body)).json()
                    made = [again["instanceId"]]
                [instance] = made
                assert (await client.get(f"instances/{instance}")).json()["status"] == "Running"
                found = (await client.get(f"instances/{instance}/adoption")).json()
                assert (found["managed"], found["states"][0]["resourceCount"]) == ("observe", 500)
    finally:
        server.end()


async def _planned(client: httpx.AsyncClient, change_set: str) -> Any:
    answer = await eventually(
        lambda: client.get(f"change-sets/{change_set}"),
        lambda answer: answer.json()["plan"][0]["effects"]["status"] not in {"Waiting", "Planning"},
        within_s=90,
    )
    found = answer.json()
    assert found["plan"][0]["effects"]["status"] == "Planned", found
    return found


@needs_tofu
async def test_what_takes_over_does_it_once_or_says_that_it_did_not_though_its_server_is_killed(tmp_path: Path) -> None:
    settings = {"LAUNCHBAY_SERVER_PROGRAMS": "opentofu"}
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path / "data")], tmp_path, settings=settings)
    server.start()
    outcomes: set[str] = set()
    try:
        async with administrator_of(server) as client:
            [organization] = (await client.get("organizations")).json()
        for number, delay_s in enumerate((0.0, 0.05, 2.0)):
            ledger = tmp_path / f"ledger {number}"
            command = f"echo made >> '{ledger}'"
            made = f"""
resource "terraform_data" "made" {{
  provisioner "local-exec" {{ command = "{command}" }}
}}
"""
            body = {"states": [{"component": "web", "state": applied(tmp_path / f"world {number}")}]}
            async with administrator_of(server) as client:
                application = await _application(client, boxes(STEADY + made))
                answer = await client.post(f"applications/{application}/adoptions", json=body)
                instance = answer.json()["instanceId"]
                asked = {"act": "manage", "ids": [instance]}
                answer = await client.post(f"organizations/{organization['id']}/change-sets", json=asked)
                change_set = answer.json()["id"]
                await _planned(client, change_set)
                asking = asyncio.create_task(client.post(f"change-sets/{change_set}/apply"))
                is_done = await _killed(server, asking, delay_s)
            server.start()
            async with administrator_of(server) as client:
                found = (await client.get(f"change-sets/{change_set}")).json()
                managed = (await client.get(f"instances/{instance}/adoption")).json()["managed"]
                assert (found["status"], managed) == ("Ready", "observe") or managed == "full"
                if found["status"] == "Ready":  # nothing has happened, so the same change set can be applied
                    assert not is_done
                    assert not ledger.exists()
                    (await client.post(f"change-sets/{change_set}/apply")).raise_for_status()
                found = (
                    await eventually(
                        partial(client.get, f"change-sets/{change_set}"),
                        lambda found: found.json()["finishedAt"] is not None,
                        within_s=90,
                    )
                ).json()
                lines = ledger.read_text().splitlines() if ledger.exists() else []
                outcomes.add(found["status"])
                if found["status"] == "Succeeded":
                    assert lines == ["made"]
                else:
                    assert len(lines) <= 1
                    assert "approved" in found["plan"][0]["message"]
                assert (await client.get(f"instances/{instance}/adoption")).json()["managed"] == "full"
    finally:
        server.end()
    assert "Succeeded" in outcomes
