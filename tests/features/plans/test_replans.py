"""`onDifference: replan`: what stopped because it wasn't as approved is planned again, and waits for a person."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.drift import applied, boxes, change_outside, planned, running_boxes
from tests.support.external_services import needs_tofu
from tests.support.service import Api, Caller, accepted, running_api

pytestmark = [needs_tofu, pytest.mark.slow]
DESTROY = """\
          destroy: {steps: [{down: {action: opentofu, parameters: {name: shop, operation: destroy}}}]}
"""


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


def replanned(manifest: str) -> str:
    return manifest.replace("application:\n", "application:\n  onDifference: replan\n")


async def change_set(caller: Api | Caller, api: Api, **body: Any) -> Any:
    """Make a change set with plans, and return it when they are made."""
    made = accepted(await caller.post(f"organizations/{api.organization}/change-sets", {"plan": True, **body}))
    return await planned(api, made["id"])


def resized(instance: str) -> dict[str, Any]:
    return {"act": "reconfigure", "ids": [instance], "configuration": {"parameters": {"input.size": 2}}}


async def followed(api: Api, change_set: str) -> Any:
    """Return what follows the only instance of a change set that stopped."""
    async with asyncio.timeout(60):
        while True:
            [found] = accepted(await api.get(f"change-sets/{change_set}"))["plan"]
            if found["followUp"] is not None and (found["followUp"]["changeSetId"] or found["followUp"]["problem"]):
                return found["followUp"]
            await asyncio.sleep(0.05)


async def stopped(api: Api, instance: str, **more: Any) -> Any:
    """Apply a change after somebody has changed the same outside, and return it."""
    found = await change_set(api, api, **{**resized(instance), **more})
    await change_outside(api, instance, box="nine")
    ended = await applied(api, found["id"])
    assert ended["status"] == "Failed", ended["plan"][0]
    assert "isn't what was approved" in ended["plan"][0]["message"]
    return ended


async def test_a_reconfiguration_that_stopped_is_planned_again_and_waits_until_somebody_applies_it(api: Api) -> None:
    instance = await running_boxes(api, replanned(boxes()))

    first = await stopped(api, instance, comment="OPS-17")

    follow_up = await followed(api, first["id"])
    assert follow_up["problem"] is None
    again = await planned(api, follow_up["changeSetId"])
    assert (again["follows"], again["status"], again["ownerEmail"]) == (first["id"], "Ready", first["ownerEmail"])
    assert again["comment"] == "Plan again: OPS-17"
    [step] = again["plan"][0]["effects"]["steps"]
    [box] = [each for each in step["effects"] if each["address"] == "terraform_data.box"]
    assert (box["before"]["input"], box["after"]["input"]) == ("nine", 2)
    assert f"The change set {again['id']} waits" in (await api.get(f"instances/{instance}/log")).text
    entries = accepted(await api.get(f"organizations/{api.organization}/audit?action=replan_change_set"))
    assert entries[0]["after"] == {"changeSet": again["id"], "job": first["plan"][0]["jobId"]}
    assert (await applied(api, again["id"]))["status"] == "Succeeded"
