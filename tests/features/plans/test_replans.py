"""`onDifference: replan`: what stopped because it wasn't as approved is planned again, and waits for a person."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay import limits
from launchbay.features.plans import rows as plans
from launchbay.model.job import CANCELLED
from tests.support.databases import Databases
from tests.support.drift import applied, boxes, change_outside, planned, running_boxes
from tests.support.eventually import eventually
from tests.support.external_services import needs_tofu
from tests.support.service import Api, Caller, accepted, fresh_name, refused, running_api

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

    async def follow_up() -> Any:
        return (await api.read(f"change-sets/{change_set}"))["plan"][0]["followUp"] or {}

    return await eventually(follow_up, lambda found: found.get("changeSetId") or found.get("problem"), within_s=60)


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


async def test_without_the_key_nothing_follows(api: Api) -> None:
    instance = await running_boxes(api)
    first = await stopped(api, instance)
    assert accepted(await api.get(f"change-sets/{first['id']}"))["plan"][0]["followUp"] is None
    assert not await api.round_of("replans")


async def test_a_stopped_destruction_is_planned_again_and_destroys_only_what_is_allowed_anew(api: Api) -> None:
    instance = await running_boxes(api, replanned(boxes(more=DESTROY)))
    found = await change_set(api, api, act="destroy", ids=[instance])
    await change_outside(api, instance, box="nine")
    accepted(await api.post(f"change-sets/{found['id']}/apply", {"allowDeletes": ["*"]}))
    await api.settled(instance)

    again = await planned(api, (await followed(api, found["id"]))["changeSetId"])

    assert (again["act"], again["follows"]) == ("destroy", found["id"])
    refused(await api.post(f"change-sets/{again['id']}/apply"), 409, "DeletionsNotAllowed")
    accepted(await api.post(f"change-sets/{again['id']}/apply", {"allowDeletes": ["*"]}))
    assert (await api.settled(instance))["status"] == "Destroyed"


async def test_it_needs_the_approvals_of_the_first_one_and_replaces_a_follow_up_that_nobody_applied(api: Api) -> None:
    lab = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("lab")}))["id"]
    policy = {"approvals": 1, "roleId": None, "plansBeforeApproval": True}
    application = await api.application(replanned(boxes()))
    instance = await api.launch(application, environmentId=lab)
    await api.until(instance, "Running")
    accepted(await api.put(f"environments/{lab}/changePolicy", policy))
    approver = await api.member("Read: [/*]", "ApproveInstanceWorkflow: [/*]")
    found = await change_set(api, api, **resized(instance))
    accepted(await approver.post(f"change-sets/{found['id']}/approve"))
    await change_outside(api, instance, box="nine")
    job = (await applied(api, found["id"]))["plan"][0]["jobId"]

    first = await planned(api, (await followed(api, found["id"]))["changeSetId"])

    assert (first["status"], first["needed"], first["answers"]) == ("Pending", 1, [])
    refused(await api.post(f"change-sets/{first['id']}/apply"), 409, "ChangeSetPending")
    # What is resumed is held to the first plan, and stops for the same reason.
    accepted(await api.post(f"instances/{instance}/jobs/{job}/resume", {}))
    await api.settled(instance)
    second = await eventually(
        lambda: followed(api, found["id"]), lambda second: second["changeSetId"] != first["id"], within_s=60
    )
    former = accepted(await api.get(f"change-sets/{first['id']}"))
    assert former["status"] == "Expired"
    assert "Superseded by a newer plan" in former["comment"]
    assert (await planned(api, second["changeSetId"]))["follows"] == found["id"]


async def test_an_author_who_lost_the_permission_gets_none_and_everybody_sees_why(api: Api) -> None:
    instance = await running_boxes(api, replanned(boxes()))
    author = await api.member("Read: [/*]", "EditInstance: [/*]", "RunInstanceWorkflow: [/*]")
    found = await change_set(author, api, **resized(instance))
    await change_outside(api, instance, box="nine")
    for each in accepted(await api.get(f"organizations/{api.organization}/roles")):
        role = accepted(await api.get(f"roles/{each['id']}"))
        if each["canEdit"] and "- RunInstanceWorkflow: [/*]" in role["permissions"]:
            accepted(await api.put(f"roles/{each['id']}", {**role, "permissions": "- Read: [/*]\n"}))

    await applied(api, found["id"])

    follow_up = await followed(api, found["id"])
    assert follow_up["changeSetId"] is None
    assert "EditInstance" in follow_up["problem"]
    assert follow_up["problem"].endswith("create a change set of the instance with plans.")
    assert "The change isn't planned again" in (await api.get(f"instances/{instance}/log")).text
    assert not await api.round_of("replans"), "nobody tries again"


async def test_a_limit_that_may_pass_is_tried_again_and_then_it_is_over(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "REPLAN_TRIES", 3)
    monkeypatch.setattr(limits, "REPLAN_PAUSE_S", 0.0)
    instance = await running_boxes(api, replanned(boxes()))
    found = await change_set(api, api, **resized(instance))
    await change_outside(api, instance, box="nine")
    monkeypatch.setattr(limits, "CHANGE_SETS_OPEN", 0)

    await applied(api, found["id"])

    problem = (
        await eventually(
            lambda: followed(api, found["id"]), lambda found: "To plan again" in found["problem"], within_s=60
        )
    )["problem"]
    assert "open change sets" in problem
    statement = "SELECT tries, due_at FROM refused_jobs WHERE change_set_id = %s"
    async with api.database.connection() as connection:
        rows = await (await connection.execute(statement, [found["id"]])).fetchall()
    assert rows == [(2, None)]


async def test_nothing_follows_a_job_that_somebody_canceled(api: Api) -> None:
    instance = await running_boxes(api, boxes())
    first = await stopped(api, instance)
    job = first["plan"][0]["jobId"]
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET error_message = %s WHERE id = %s", [f"{CANCELLED}Ada.", job])
        await connection.execute("UPDATE refused_jobs SET due_at = now() WHERE job_id = %s", [job])

    await api.round_of("replans")

    assert (await api.read(f"change-sets/{first['id']}"))["plan"][0]["followUp"] is None
    async with api.database.connection() as connection:
        due = await connection.execute("SELECT due_at FROM refused_jobs WHERE job_id = %s", [job])
        assert await due.fetchall() == [(None,)]


async def test_a_crash_gives_the_reason_of_a_refused_step_to_no_other_one(api: Api) -> None:
    instance = await running_boxes(api, replanned(boxes()))
    first = await stopped(api, instance)
    job, other = first["plan"][0]["jobId"], "web#launch/other"
    async with api.database.transaction() as connection:
        statement = "SELECT launchbay_refuse_job(%s, %s, 1, %s, 'It has another reason.', true)"
        await connection.execute(statement, [job, first["id"], other])
        said = [
            await plans.get_of_job(connection, job_id=job, job_ids=[job], organization_id=api.organization, path=path)
            for path in ("web#launch/infra", other)
        ]
    [own, others] = [each and each.refused for each in said]
    assert own in first["plan"][0]["message"]
    assert others == "This step isn't what was approved either. Nothing was done."


async def test_two_servers_make_one_change_set(api: Api) -> None:
    async with running_api(str(api.settings.database_url), server_programs="opentofu") as other:
        instance = await running_boxes(api, replanned(boxes()))
        first = await stopped(api, instance, comment="twice")
        follow_up = await followed(other, first["id"])
        await asyncio.gather(api.round_of("replans"), other.round_of("replans"))
        rows = accepted(await api.get(f"organizations/{api.organization}/change-sets"))
    assert [each["id"] for each in rows if each["comment"] == "Plan again: twice"] == [follow_up["changeSetId"]]
