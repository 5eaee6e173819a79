"""An approval covers the plans that were seen, and no others."""

import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from launchbay.features.plans.rules import PlannedStep, digest_of
from launchbay.model.effect import Effect
from tests.support.changes import Stage
from tests.support.databases import Databases
from tests.support.pages import ORIGIN, Page, browser, get
from tests.support.service import EMAIL, PASSWORD, Api, Caller, accepted, refused, running_api


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    """A service where only the tests make plans."""
    url = databases.create()
    async with running_api(url, engine=False) as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def instances(api: Api) -> list[str]:
    stage = Stage(api, None)  # type: ignore[arg-type]  # nothing here loads a manifest
    return [await stage.settled(), await stage.settled()]


async def begun(caller: Caller, api: Api, instances: list[str], **more: Any) -> Any:
    body = {"act": "destroy", "ids": instances, "plan": True, **more}
    return accepted(await caller.post(f"organizations/{api.organization}/change-sets", body))


async def finish(api: Api, change_set: str, place: int, *addresses: str) -> None:
    """Make the plan of an instance, as the engine would: it deletes these."""
    effects = [Effect(kind="delete", address=address) for address in addresses]
    steps = [PlannedStep(path="web#destroy/down", component="web", action="opentofu", effects=effects)]
    async with api.database.transaction() as connection:
        await connection.execute(
            "UPDATE plans SET status = 'Planned', result = %s, digest = %s WHERE change_set_id = %s AND place = %s",
            [msgspec.json.encode(steps).decode(), digest_of(steps), change_set, place],
        )


async def pressed(visitor: httpx.AsyncClient, path: str, page: Page, **fields: str) -> httpx.Response:
    hidden = {name: page.fields[name] for name in ("formToken", "planDigest")}
    return await visitor.post(path, data={**hidden, **fields}, headers={"Origin": ORIGIN})


@pytest.mark.parametrize("needs_person", [True, False], ids=["approve", "apply"])
async def test_a_plan_that_gets_ready_after_the_page_was_shown_is_not_agreed_to(
    api: Api, instances: list[str], needs_person: bool
) -> None:
    found = await begun(api, api, instances, confirm=needs_person)
    await finish(api, found["id"], 1, "seen")
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        path = f"/console/organizations/{api.organization}/changes/{found['id']}"
        page = await get(visitor, path)
        assert "Allow 1 deletion" in page.text
        assert "not planned yet" in page.text
        await finish(api, found["id"], 2, "unseen")
        target = f"{path}/answer" if needs_person else f"{path}/apply"

        answer = await pressed(visitor, target, page, do="approve", allowDeletes="1")

        assert "have changed since they were shown" in Page(answer).text
        again = await get(visitor, path)
        assert "Allow 2 deletions" in again.text
        refused_text = Page(await pressed(visitor, target, again, do="approve")).text
        assert "To allow that, check the box that allows it." in refused_text
        assert (await pressed(visitor, target, again, do="approve", allowDeletes="1")).status_code == 303


async def test_a_digest_of_other_plans_is_refused(api: Api, instances: list[str]) -> None:
    found = await begun(api, api, instances)
    await finish(api, found["id"], 1)
    seen = accepted(await api.get(f"change-sets/{found['id']}"))["planDigest"]
    await finish(api, found["id"], 2)
    apply = f"change-sets/{found['id']}/apply"
    refused(await api.post(apply, {"planDigest": seen}), 409, "PlanChanged")
    now = accepted(await api.get(f"change-sets/{found['id']}"))["planDigest"]
    assert now != seen
    accepted(await api.post(apply, {"planDigest": now, "allowDeletes": ["x*", "*"]}))
    assert '"allowDeletes":["x*","*"]' in (await api.get(f"organizations/{api.organization}/audit")).text


async def test_deletions_that_the_approver_may_not_read_are_not_agreed_to_with_those_on_the_page(
    api: Api, instances: list[str]
) -> None:
    visible = accepted(await api.get(f"instances/{instances[0]}"))["applicationId"]
    approver = await api.member(f"Read: [/applications/{visible}/*, /environments/*]", "ApproveInstanceWorkflow: [/*]")
    environment = accepted(await api.get(f"instances/{instances[0]}"))["environmentId"]
    policy = f"environments/{environment}/changePolicy"
    accepted(await api.put(policy, {"approvals": 1, "plansBeforeApproval": True}))
    found = await begun(api, api, instances)
    accepted(await api.put(policy, {"approvals": 0}))
    for place, address in enumerate(("seen", "unseen"), 1):
        await finish(api, found["id"], place, address)
    shown = accepted(await approver.get(f"change-sets/{found['id']}"))
    assert [each["effects"]["deletes"] for each in shown["plan"]] == [["seen"]]
    body = {"allowDeletes": ["seen"], "planDigest": shown["planDigest"]}

    text = refused(await approver.post(f"change-sets/{found['id']}/approve", body), 409, "DeletionsNotAllowed")

    assert "unseen" not in text
    assert "1 that aren't shown" in text


async def test_a_change_set_says_that_it_waits_for_its_plans_or_that_one_failed(api: Api, instances: list[str]) -> None:
    found, other = await begun(api, api, instances), await begun(api, api, instances)
    assert found["planDigest"] != other["planDigest"], "each stands for its own unmade plans"
    assert [(each["status"], each["effects"]["status"]) for each in found["plan"]] == [("Waiting", "Waiting")] * 2
    assert re.match(r"Waiting since \S+Z until 2 plans are made; it expires at ", found["waitingFor"])

    await finish(api, found["id"], 1)
    shown = accepted(await api.get(f"change-sets/{found['id']}"))
    assert " until 1 plan is made; " in shown["waitingFor"]
    await finish(api, found["id"], 2)
    shown = accepted(await api.get(f"change-sets/{found['id']}"))
    assert " for somebody who applies it; " in shown["waitingFor"]

    async with api.database.transaction() as connection:
        await connection.execute("UPDATE plans SET status = 'Failed' WHERE change_set_id = %s", [other["id"]])
    shown = accepted(await api.get(f"change-sets/{other['id']}"))
    assert {each["status"] for each in shown["plan"]} == {"NotPlanned"}
    assert shown["waitingFor"].startswith("Nobody can approve or apply it, since a plan failed; it expires at ")
