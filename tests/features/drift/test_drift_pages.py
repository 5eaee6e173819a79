"""The page of an instance's drift, and where else it shows."""

import json
import re
from collections.abc import AsyncIterator

import httpx
import msgspec
import pytest
from msgspec.structs import replace

from launchbay.clock import to_ms
from launchbay.features.drift.rules import Finding
from tests.support.changes import FINDING
from tests.support.drift import find_by_hand, found_by_hand
from tests.support.families import CHILD, child_application, links, parent
from tests.support.pages import ORIGIN, browser, get, send, words_of
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person


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
        fields = {"cron": cron, "zone": "Europe/Berlin", "formToken": token}
        return (await posted(visitor, f"{path}/schedule/{scope}", fields)).status_code

    assert await sent("0 3 * * *") == 303
    assert accepted(await api.get(f"environments/{environment}/drift-schedule"))["cron"] == "0 3 * * *"
    assert "<code>0 3 * * *</code> (Europe/Berlin)" in (await visitor.get(path)).text
    assert await sent("often") == 400
    assert await sent("0 3 * * *", "planet") == 404
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


class TestRules:
    """The rules that put back are where schedules of checks are."""

    @pytest.fixture
    async def instance(self, api: Api) -> AsyncIterator[str]:
        """An instance, without a rule in its environment afterwards."""
        made = await found_by_hand(api, FINDING)
        yield made
        accepted(await api.put(f"environments/{await environment_of(api, made)}/put-back-rule", {"addresses": []}))

    async def sent(self, visitor: httpx.AsyncClient, instance: str, scope: str, **fields: str) -> httpx.Response:
        """Send the form of a rule as the page shows it, with some fields changed."""
        path = f"/console/instances/{instance}/drift"
        page = await get(visitor, path)
        form = page.answer.text.partition(f'action="{path}/put-back/{scope}"')[2]
        found = re.search(r'name="seen" value="(.*?)"', form)
        shown = {"do": "save", "mostPerDay": "3", "formToken": page.fields["formToken"]}
        shown |= {"seen": found[1]} if found else {}
        return await posted(visitor, f"{path}/put-back/{scope}", {**shown, **fields})

    async def test_one_is_added_at_each_place_and_ended_on_the_page(
        self, api: Api, visitor: httpx.AsyncClient, instance: str
    ) -> None:
        document = accepted(await api.get(f"instances/{instance}"))
        places = {
            "instance": f"instances/{instance}/drift",
            "application": f"applications/{document['applicationId']}",
            "environment": f"environments/{document['environmentId']}",
        }

        for scope, at in places.items():
            patterns = f"{scope}.*\r\n  \r\n<b> \r\n"
            await self.sent(visitor, instance, scope, addresses=patterns, allowDeletes="<b>", mostPerDay="2")

            rule = {"addresses": [f"{scope}.*", "<b>"], "allowDeletes": ["<b>"], "mostPerDay": 2}
            assert accepted(await api.get(f"{at}/put-back-rule")).items() >= rule.items()

        shown = await get(visitor, f"/console/instances/{instance}/drift")
        table = words_of(shown.answer.text.partition('id="rules"')[2].partition("</table>")[0])
        assert "instance.* , &lt;b&gt; May delete &lt;b&gt; . At most 2 times a day for each address." in table
        assert "In effect 0 put back within 24 h" in table
        assert table.count("Replaced here by a nearer rule") == 2
        for scope, at in places.items():
            await self.sent(visitor, instance, scope, do="end")
            assert accepted(await api.get(f"{at}/put-back-rule"))["addresses"] == []

    @pytest.mark.parametrize(
        ("field", "text", "problem"),
        [
            ("addresses", " \n ", "Give 1 to 100 patterns with 1 to 255 characters."),
            ("addresses", "a\n" * 101, "Give 1 to 100 patterns"),
            ("addresses", "a" * 256, "Give 1 to 100 patterns"),
            ("allowDeletes", "a" * 256, "Give 0 to 100 patterns"),
            ("mostPerDay", "often", "Give 1 to 24."),
            ("mostPerDay", "25", "Give 1 to 24."),
        ],
    )
    async def test_a_mistake_is_said_at_its_field_and_the_form_keeps_what_was_typed(
        self, api: Api, visitor: httpx.AsyncClient, instance: str, field: str, text: str, problem: str
    ) -> None:
        page = await self.sent(visitor, instance, "environment", **{"addresses": "dns.*", field: text})

        assert page.status_code == 400
        [[element, said]] = re.findall(r'<p class="field-error" id="(\S+)-error">(.*?)</p>', page.text)
        assert said.startswith(problem)
        form = page.text.partition(f'action="/console/instances/{instance}/drift/put-back/environment"')[2].partition(
            "</form>"
        )[0]
        assert f'id="{element}"' in form
        assert ("dns.*" in form) is (field != "addresses")
        path = f"environments/{await environment_of(api, instance)}/put-back-rule"
        assert accepted(await api.get(path))["addresses"] == []

    async def test_who_may_edit_one_place_has_the_forms_of_that_alone(self, api: Api, instance: str) -> None:
        environment = await environment_of(api, instance)
        role = {"name": fresh_name("place"), "permissions": "- Read: [/*]\n- EditEnvironment: [/*]\n"}
        accepted(await api.post(f"organizations/{api.organization}/roles", role))
        someone = await person(api, role["name"])
        async with browser(api) as other:
            await other.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
            page = (await get(other, f"/console/instances/{instance}/drift")).answer.text

            assert "/put-back/environment" in page
            assert "/put-back/instance" not in page
            assert "/schedule/environment" in page
            assert "/schedule/application" not in page
            refused = await self.sent(other, instance, "application", addresses="*")
            assert refused.status_code == 403
            saved = await self.sent(other, instance, "environment", addresses="dns.*")
            assert saved.status_code == 303
        assert accepted(await api.get(f"environments/{environment}/put-back-rule"))["addresses"] == ["dns.*"]

    async def test_it_says_how_often_one_acted_and_why_it_gave_up(
        self, api: Api, visitor: httpx.AsyncClient, instance: str
    ) -> None:
        accepted(
            await api.put(f"environments/{await environment_of(api, instance)}/put-back-rule", {"addresses": ["*"]})
        )
        now = to_ms(api.clock.now())
        done = [{"finding_id": FINDING.id, "at": each} for each in (now - 25 * 3_600_000, now - 1000, now)]
        async with api.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO put_backs (instance_id, organization_id, message, done) "
                "VALUES (%s, %s, 'Put back 3 times.', %s)",
                [instance, api.organization, json.dumps(done)],
            )

        page = words_of((await visitor.get(f"/console/instances/{instance}/drift")).text)

        assert "In effect 2 put back within 24 h, 1 instance waits for somebody" in page
        assert "The rule doesn't put this instance back. Put back 3 times." in page


async def posted(visitor: httpx.AsyncClient, path: str, fields: dict[str, str]) -> httpx.Response:
    """Send a form, as a browser does on a secure connection."""
    return await visitor.post(path, data=fields, headers={"Sec-Fetch-Site": "same-origin", "Origin": ORIGIN})


async def environment_of(api: Api, instance: str) -> str:
    return str(accepted(await api.get(f"instances/{instance}"))["environmentId"])


async def test_the_page_says_where_a_schedule_comes_from_and_pauses_it(api: Api, visitor: httpx.AsyncClient) -> None:
    instance = await api.running("header: {checks: {cron: 0 4 * * *}}\nlaunch: {steps: []}\n")
    await api.round_of("times of checks")
    path = f"/console/instances/{instance}/drift"
    page = await get(visitor, path)
    assert "<b>Its manifest</b>: <code>0 4 * * *</code> (UTC), next" in page.answer.text

    form = {"cron": "0 5 * * *", "zone": "UTC", "paused": "yes"}
    data = {**form, "formToken": page.fields["formToken"]}
    assert (await posted(visitor, f"{path}/schedule/instance", data)).status_code == 303

    assert "<b>This instance</b>: <code>0 5 * * *</code> (UTC), paused" in (await visitor.get(path)).text
    untimed = await posted(visitor, f"{path}/schedule/instance", {**data, "cron": ""})
    assert "paused: it needs `cron`" in untimed.text
    assert "(UTC), paused" in untimed.text


async def test_a_form_of_a_schedule_begins_with_what_is_set_and_keeps_the_rest(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    instance = await api.running("launch: {steps: []}\n")
    times = {"cron": "0 5 * * *", "zone": "Asia/Tokyo", "jitter": 60_000, "mail": True}
    accepted(await api.put(f"instances/{instance}/drift/check-schedule", times))
    path = f"/console/instances/{instance}/drift"
    page = await get(visitor, path)

    form = page.answer.text.partition('/schedule/instance"')[2].partition("</form>")[0]

    assert 'value="0 5 * * *"' in form
    assert 'value="Asia/Tokyo"' in form
    assert re.findall(r'name="(\w+)" value="yes" checked', form) == ["mail"]
    fields = {"cron": "0 6 * * *", "zone": "Asia/Tokyo", "formToken": page.fields["formToken"]}
    await posted(visitor, f"{path}/schedule/instance", fields)
    now = accepted(await api.get(f"instances/{instance}/drift/check-schedule"))
    assert now.items() >= {**times, "cron": "0 6 * * *", "mail": False}.items()
    wrong = await posted(visitor, f"{path}/schedule/instance", {**fields, "zone": "Mars/Base"})
    assert re.findall(r'class="field-error" id="(\S+)-error"', wrong.text) == ["zone-instance"]
