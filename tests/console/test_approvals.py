"""The views of approvals: those for the user, asked by the user, all open ones, and decided ones."""

import re

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    """The service; its engine runs jobs."""
    return working_service


async def test_each_view_shows_its_approvals(api: Api, visitor: httpx.AsyncClient) -> None:
    question = fresh_name("Raise the bridge")
    asks = f'{{steps: [{{sign: {{action: approval, parameters: {{text: "{question}?"}}}}}}]}}'
    instance = await api.running(f"launch: {{steps: []}}\nask: {asks}\n")
    accepted(await api.post(f"instances/{instance}/ask", {}))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    home = f"/console/organizations/{api.organization}/approvals"
    for view in ("mine", "asked", "open"):
        assert question in (await get(visitor, f"{home}?view={view}")).text, view
    assert question not in (await get(visitor, f"{home}?view=decided")).text
    to_answer = '#approvals">{}</a>'
    assert to_answer.format("Answer") in (await get(visitor, f"/console/instances/{instance}")).answer.text
    reader = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        assert to_answer.format("Show") in (await get(client, f"/console/instances/{instance}")).answer.text
        assert question not in (await get(client, home)).text
        assert question not in (await get(client, f"{home}?view=asked")).text
        seen = await get(client, f"{home}?view=open")
        assert question in seen.text
        assert "You aren't an approver" in seen.text
    accepted(await api.post(f"approvals/{asked[0]['id']}/reject", {"comment": "Low <b>tide</b>."}))
    decided = await get(visitor, f"{home}?view=decided")
    assert question in decided.text
    assert "Low <b>tide</b>." in decided.text
    assert question not in (await get(visitor, f"{home}?view=open")).text
    rows = accepted(await api.get(f"organizations/{api.organization}/approvals", status="decided"))
    assert [each["status"] for each in rows if each["id"] == asked[0]["id"]] == ["rejected"]
    first = accepted(await api.get(f"organizations/{api.organization}/approvals", status="decided", limit="1"))
    assert first == rows[:1]


async def test_who_may_only_approve_sees_what_waits_and_who_asked_by_name(api: Api, visitor: httpx.AsyncClient) -> None:
    question = fresh_name("Open the lock")
    asks = f'{{steps: [{{sign: {{action: approval, parameters: {{text: "{question}?"}}}}}}]}}'
    instance = await api.running(f"launch: {{steps: []}}\nask: {asks}\n")
    name = fresh_name("approvers")
    role = {"name": name, "permissions": "- ApproveInstanceWorkflow: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    approver = await person(api, name)
    accepted(await api.post(f"instances/{instance}/ask", {}))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    home = f"/console/organizations/{api.organization}"

    async def who_asked(client: httpx.AsyncClient) -> str:
        page = (await get(client, f"{home}/approvals")).answer.text.partition(f'id="approval-{asked[0]["id"]}"')[2]
        return page.partition("<dt>Asked by</dt>")[2].partition("</dd>")[0].partition(",")[0]

    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": approver.email, "password": PERSON_PASSWORD})
        assert await who_asked(client) == await who_asked(visitor) != ""
        overview = (await get(client, home)).answer.text
        assert question in overview.partition('id="h-wait"')[2]
    accepted(await api.post(f"approvals/{asked[0]['id']}/reject", {}))


async def test_an_instance_that_waits_for_an_approval_says_so_everywhere(api: Api, visitor: httpx.AsyncClient) -> None:
    asks = "{steps: [{sign: {action: approval, parameters: {text: 'Weigh anchor?'}}}]}"
    application = await api.application(f"launch: {{steps: []}}\nask: {asks}\n")
    name = fresh_name("Schooner").replace(" ", "-")
    instance = await api.launch(application, instanceName=name)
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/ask", {}))
    asked = await eventually(lambda: api.read(f"instances/{instance}/approvals"))
    listed = f"/console/organizations/{api.organization}/instances?q={name}"

    async def shown() -> dict[str, str]:
        rows = (await get(visitor, listed)).answer.text
        versions = (await get(visitor, f"/console/applications/{application}")).answer.text
        head = (await get(visitor, f"/console/instances/{instance}")).answer.text
        return {
            "list": rows.partition("<tbody>")[2].partition("</tbody>")[0],
            "application": versions.partition('data-label="Status">')[2].partition("</td>")[0],
            "head": head.partition('id="state"')[2].partition("</h")[0][:600],
        }

    assert re.search(r"<title>\(\d+\) Instances · Launchbay</title>", (await get(visitor, listed)).answer.text)
    for place, text in (await shown()).items():
        assert "Needs approval" in text, place
        assert "g-wait" in text, place
        assert "g-busy" not in text, place
        assert "In progress" not in text, place
    accepted(await api.post(f"approvals/{asked[0]['id']}/approve", {}))
    await api.settled(instance)
    for place, text in (await shown()).items():
        assert "Needs approval" not in text, place
        assert "g-ok" in text, place
