"""The page of an instance's drift, and where else it shows."""

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from launchbay.features.drift.rules import Finding
from tests.support.changes import FINDING
from tests.support.drift import find_by_hand, found_by_hand
from tests.support.families import CHILD, child_application, links, parent
from tests.support.pages import ORIGIN, get, send
from tests.support.service import Api, accepted


@pytest.fixture(scope="module")
def api(working_service: Api) -> Api:
    return working_service


async def test_a_finding_shows_both_values_and_is_ignored_from_the_page(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await found_by_hand(api, FINDING)
    path = f"/console/instances/{instance}/drift"

    page = await get(visitor, path)

    assert page.answer.status_code == 200
    for text in ("terraform_data.box", "web#launch/infra", ">1</code>", ">5</code>", "Take over"):
        assert text in page.answer.text
    token = page.fields["formToken"]
    reason = {"do": "ignore", "reason": "<b>Autoscaler</b>", "days": "30", "formToken": token}
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}
    assert (await visitor.post(f"{path}/{FINDING.id}", data=reason, headers=headers)).status_code == 303
    ignored = (await visitor.get(path)).text
    assert "&lt;b&gt;Autoscaler&lt;/b&gt;" in ignored
    refused = await send(visitor, f"{path}/{FINDING.id}", do="ignore", reason=" ", days="30", formToken=token)
    assert refused.answer.status_code == 400


async def test_the_overview_says_it_next_to_the_status(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await found_by_hand(api, FINDING)
    other = await api.running("launch: {steps: []}\n")

    head = (await visitor.get(f"/console/instances/{instance}")).text.partition('class="head"')[2].partition("</h1>")[2]

    status, _, after = head.partition(f'<a class="chip line" href="/console/instances/{instance}/drift">')
    assert "Running" in status
    assert after.startswith("Changed outside</a>")
    assert "Changed outside" not in (await visitor.get(f"/console/instances/{other}")).text


async def test_the_overview_of_a_parent_says_it_of_a_submodule(api: Api, visitor: httpx.AsyncClient) -> None:
    child = await child_application(api, CHILD)
    application = await api.application(parent({"db": child}))
    instance = await api.launch(application)
    await api.settled(instance)
    inner = links(await api.document(instance))["db"]
    await find_by_hand(api, inner, FINDING)

    page = (await visitor.get(f"/console/instances/{instance}")).text

    row = page.partition(f'id="relative-{inner}"')[2].partition("</li>")[0]
    assert "Running" in row
    assert f'href="/console/instances/{inner}/drift">Changed outside</a>' in row


async def test_checks_by_schedule_are_set_and_ended_on_the_page(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await found_by_hand(api, FINDING)
    path = f"/console/instances/{instance}/drift"
    environment = accepted(await api.get(f"instances/{instance}"))["environmentId"]
    token = (await get(visitor, path)).fields["formToken"]

    async def sent(cron: str, scope: str = "environment") -> int:
        fields = {"do": "schedule", "scope": scope, "cron": cron, "zone": "Europe/Berlin", "formToken": token}
        headers = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}
        return (await visitor.post(path, data=fields, headers=headers)).status_code

    assert await sent("0 3 * * *") == 303
    assert accepted(await api.get(f"environments/{environment}/drift-schedule"))["cron"] == "0 3 * * *"
    assert "<code>0 3 * * *</code> (Europe/Berlin)" in (await visitor.get(path)).text
    assert await sent("often") == 400
    assert await sent("0 3 * * *", "planet") == 400
    assert await sent("") == 303
    assert accepted(await api.get(f"environments/{environment}/drift-schedule"))["cron"] is None


async def test_lists_know_who_has_drifted_and_a_webhook_hears_it(api: Api, visitor: httpx.AsyncClient) -> None:
    hook = {"url": "https://hooks.example.com/launchbay", "events": ["drift"]}
    accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))

    instance = await found_by_hand(api, FINDING)

    page = await visitor.get(f"/console/organizations/{api.organization}/instances?q=drift:new")
    assert f"/console/instances/{instance}/drift" in page.text
    listed = accepted(await api.get(f"organizations/{api.organization}/instances?drifted=true"))
    assert all(each["isDrifted"] for each in listed)
    assert instance in {each["id"] for each in listed}
    assert accepted(await api.get(f"instances/{instance}"))["status"] == "Running"
    async with api.database.connection() as connection:
        statement = "SELECT body::json FROM webhook_deliveries WHERE event = 'drift' AND body::json ->> 'instance' = %s"
        [[told]] = await (await connection.execute(statement, [instance])).fetchall()
    assert told["drift"] == {"new": 1}


async def test_a_webhook_hears_of_a_new_finding_while_another_is_gone_but_once(api: Api) -> None:
    body = {"url": "https://hooks.example.com/launchbay", "events": ["drift"]}
    hook = accepted(await api.post(f"organizations/{api.organization}/webhooks", body))["id"]
    instance = await found_by_hand(api, FINDING)
    other = replace(FINDING, difference=replace(FINDING.difference, address="terraform_data.other"))
    gone = replace(FINDING, state="gone")
    async with api.database.transaction() as connection:

        async def posted_after(*findings: Finding) -> int:
            noted = "UPDATE drift_reports SET findings = %s, new_findings = 1 WHERE instance_id = %s"
            await connection.execute(noted, [msgspec.json.encode(findings).decode(), instance])
            posted = "SELECT count(*) FROM webhook_deliveries WHERE webhook_id = %s"
            [[count]] = await (await connection.execute(posted, [hook])).fetchall()
            return int(count)

        assert await posted_after(FINDING) == 1
        assert await posted_after(other, gone) == 2
        assert await posted_after(replace(other, last_seen=other.last_seen + 1), gone) == 2
    accepted(await api.delete(f"webhooks/{hook}"))


async def test_the_page_shows_the_rule_that_puts_back(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await found_by_hand(api, FINDING)
    rule = {"addresses": ["*.box"], "allowDeletes": ["<b>"], "mostPerDay": 2}
    accepted(await api.put(f"instances/{instance}/drift/put-back-rule", rule))

    shown = (await visitor.get(f"/console/instances/{instance}/drift")).text

    for text in ("Put back by a rule", '<code class="wrap">*.box</code>', "at most 2 times a day", "&lt;b&gt;"):
        assert text in shown


async def test_the_page_says_where_a_schedule_comes_from_and_pauses_it(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running("header: {checks: {cron: 0 4 * * *}}\nlaunch: {steps: []}\n")
    await api.round_of("times of checks")
    path = f"/console/instances/{instance}/drift"
    page = await get(visitor, path)
    assert "<b>Its manifest</b>: <code>0 4 * * *</code> (UTC), next" in page.answer.text

    form = {"do": "schedule", "scope": "instance", "cron": "0 5 * * *", "zone": "UTC", "paused": "yes"}
    headers = {"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN}
    data = {**form, "formToken": page.fields["formToken"]}
    assert (await visitor.post(path, data=data, headers=headers)).status_code == 303

    assert "<b>This instance</b>: <code>0 5 * * *</code> (UTC), paused" in (await visitor.get(path)).text
    untimed = await visitor.post(path, data={**data, "cron": ""}, headers=headers)
    assert "paused: it needs `cron`" in untimed.text
    assert "(UTC), paused" in untimed.text
