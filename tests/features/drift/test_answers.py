"""What people make of findings, with the real program: put back, take over."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.drift import (
    MODULE,
    applied,
    boxes,
    change_outside,
    checked,
    drift_of,
    open_findings,
    planned,
    running_boxes,
)
from tests.support.external_services import needs_tofu
from tests.support.service import Api, accepted, refused, running_api

pytestmark = [needs_tofu, pytest.mark.slow]
BOX = "terraform_data.box"
LOCK = "terraform_data.lock"


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, server_programs="opentofu") as api:
        yield api
    databases.drop(url)


async def drifted(api: Api, **changed: Any) -> tuple[str, Any]:
    """Return an instance with a baseline that somebody changed, and its drift."""
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, **changed)
    return instance, await checked(api, instance)


async def test_what_differs_is_put_back_by_a_change_set_with_its_plan(api: Api) -> None:
    instance, _ = await drifted(api, box=5)

    change_set = accepted(await api.post(f"instances/{instance}/drift/put-back"))["changeSetId"]

    found = await planned(api, change_set)
    assert (found["act"], found["comment"]) == ("relaunch", f"Put back: {BOX}")
    [effect] = [
        each for step in found["plan"][0]["effects"]["steps"] for each in step["effects"] if each["address"] == BOX
    ]
    assert (effect["kind"], effect["before"]["input"], effect["after"]["input"]) == ("change", 5, 1)
    assert open_findings(await drift_of(api, instance))[BOX]["changeSetId"] == change_set
    done = await applied(api, change_set)
    assert (done["status"], done["plan"][0]["differences"]) == ("Succeeded", [])
    after = await drift_of(api, instance)
    assert [(each["address"], each["state"]) for each in after["findings"]] == [(BOX, "put back")]
    assert open_findings(await checked(api, instance)) == {}


async def test_putting_back_stops_if_somebody_changes_more_after_the_plan(api: Api) -> None:
    instance, _ = await drifted(api, box=5)
    change_set = accepted(await api.post(f"instances/{instance}/drift/put-back"))["changeSetId"]
    await planned(api, change_set)
    await change_outside(api, instance, box=6)

    assert (await applied(api, change_set))["status"] == "Failed"

    assert open_findings(await drift_of(api, instance))[BOX]["to"] == {"input": 5}, "as of its time"


async def test_a_value_is_taken_over_by_the_parameter_that_decides_it(api: Api) -> None:
    instance, drift = await drifted(api, box=5)
    [finding] = drift["findings"]
    path = f"instances/{instance}/drift/findings/{finding['id']}/take-over"

    accepted(await api.post(path))

    change_set = open_findings(await drift_of(api, instance))[BOX]["changeSetId"]
    found = await planned(api, change_set)
    assert (found["act"], found["comment"]) == ("version", f"Take over: {BOX}")
    assert (await applied(api, change_set))["status"] == "Succeeded"
    assert accepted(await api.get(f"instances/{instance}"))["parameters"]["input.size"] == 5
    after = await drift_of(api, instance)
    assert [(each["address"], each["state"]) for each in after["findings"]] == [(BOX, "taken over")]
    assert open_findings(await checked(api, instance)) == {}
    refused(await api.post(path), 409, "FindingClosed")


NOISY = (
    MODULE.replace("{ input = var.size }", "{\n  input = var.size\n  triggers_replace = plantimestamp()\n}")
    + """
variable "depth" { default = 1 }
resource "terraform_data" "lid" { input = var.depth }
"""
)
TWO = (
    boxes(NOISY)
    .replace("bind(web#input.size) }", "bind(web#input.size), depth: bind(web#input.depth) }")
    .replace("configuration(int) }", "configuration(int), depth: configuration(int) }")
    .replace("input.size: 1 }", "input.size: 1, input.depth: 1 }")
    .replace("input.size: launch", "input.size: launch, input.depth: launch")
    .replace('size: "${size}"', 'size: "${size}", depth: "${depth}"')
)
LID = "terraform_data.lid"


async def test_two_values_are_taken_over_by_one_check_also_where_noise_is(api: Api) -> None:
    instance = await running_boxes(api, TWO)
    await change_outside(api, instance, box={"triggers_replace": "yesterday"})  # noise also in the second of the launch
    await checked(api, instance, baseline=True)
    await change_outside(api, instance, box=5, lid=7)
    found = open_findings(await checked(api, instance))
    assert {address: each["to"] for address, each in found.items()} == {BOX: {"input": 5}, LID: {"input": 7}}

    for finding in found.values():
        accepted(await api.post(f"instances/{instance}/drift/findings/{finding['id']}/take-over"))

    left = open_findings(await drift_of(api, instance))
    assert [each["remedy"] for each in left.values()] == ["", ""]
    made = [await planned(api, left[address]["changeSetId"]) for address in (BOX, LID)]
    also = "Its steps also put back what else differs in the component"
    assert [each["comment"] for each in made] == [
        f"Take over: {BOX}. {also}: {LID}",
        f"Take over: {LID}. {also}: {BOX}",
    ]


async def test_a_value_that_no_parameter_decides_says_where_it_is(api: Api) -> None:
    instance, drift = await drifted(api, lock="opened")
    [finding] = drift["findings"]

    accepted(await api.post(f"instances/{instance}/drift/findings/{finding['id']}/take-over"))

    left = open_findings(await drift_of(api, instance))[LOCK]
    assert left["changeSetId"] is None
    assert "No parameter of the instance decides it" in left["remedy"]
    assert "web#launch/infra in version 2 of the manifest, line 13" in left["remedy"]


async def test_nothing_is_put_back_where_nothing_differs(api: Api) -> None:
    instance = await running_boxes(api)
    await checked(api, instance, baseline=True)

    refused(await api.post(f"instances/{instance}/drift/put-back"), 409, "FindingClosed")
