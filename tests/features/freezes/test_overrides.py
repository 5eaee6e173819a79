"""A change during a freeze by one's own hand, with a reason, a permission, and marks that nobody overlooks."""

from html import unescape
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.pages import get, words_of
from tests.support.service import Api, Caller, accepted, fresh_name, refused

MANIFEST = "greet:\n  steps: []\nlaunch:\n  steps: []\ndestroy:\n  steps: []\n"
WHY = "The fix of incident 4711, Ärger inclusive."
HEADER = {"Launchbay-Override-Freeze": quote(WHY)}


async def frozen(api: Api) -> tuple[str, str, str]:
    """Return a frozen environment, an application, and a running instance."""
    environment, application = await api.offer(), await api.application(MANIFEST)
    instance = await api.launch(application, environmentId=environment)
    await api.settled(instance)
    accepted(await api.put(f"environments/{environment}/freeze", {"reason": "Incident."}))
    return environment, application, instance


async def overriding(by: Caller, path: str, body: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    return await by.client.post(path, json=body or {}, headers={**HEADER, **headers})


async def entries(api: Api, object_id: str) -> list[dict[str, Any]]:
    path = f"organizations/{api.organization}/audit?object={object_id}&action=override_freeze"
    return list(accepted(await api.get(path)))


async def test_an_administrator_overrides_with_a_reason_which_is_marked(api: Api) -> None:
    _, application, instance = await frozen(api)
    refused(await api.post(f"instances/{instance}/greet", {}), 403, "EnvironmentFrozen")
    assert await entries(api, instance) == []
    accepted(await overriding(api, f"instances/{instance}/greet"))
    await api.settled(instance)
    [entry] = await entries(api, instance)
    assert (entry["after"]["reason"], entry["after"]["operation"]) == (WHY, "run_workflow")
    assert "Incident." in entry["after"]["freeze"]
    # The next change without the header is refused as before.
    refused(await api.post(f"instances/{instance}/greet", {}), 403, "EnvironmentFrozen")
    body = {"environmentId": (await api.document(instance))["environmentId"]}
    launched = accepted(await overriding(api, f"applications/{application}/launch", body))["id"]
    [entry] = await entries(api, launched)
    assert entry["after"]["operation"] == "launch_application"


async def test_a_frozen_application_is_overridden_too_and_each_freeze_is_marked(api: Api) -> None:
    _, application, instance = await frozen(api)
    accepted(await api.put(f"applications/{application}/freeze", {"reason": "Release."}))
    accepted(await overriding(api, f"instances/{instance}/greet"))
    await api.settled(instance)
    [entry] = await entries(api, instance)
    assert "Release." in entry["after"]["freeze"]
    assert "Incident." in entry["after"]["freeze"]


async def test_who_may_change_but_not_override_is_refused(api: Api) -> None:
    environment, application, instance = await frozen(api)
    member = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]")
    answer = await overriding(member, f"instances/{instance}/greet")
    assert "OverrideFreeze" in refused(answer, 403, "NotAllowed")
    allowed = await api.member(
        f"Read: [/*]\n- RunInstanceWorkflow: [/*]\n- OverrideFreeze: [/environments/{environment}]"
    )
    accepted(await overriding(allowed, f"instances/{instance}/greet"))
    await api.settled(instance)
    accepted(await api.put(f"applications/{application}/freeze", {"reason": "Release."}))
    refused(await overriding(allowed, f"instances/{instance}/greet"), 403, "NotAllowed")
    assert len(await entries(api, instance)) == 1


async def test_a_program_cannot_override(api: Api) -> None:
    _, _, instance = await frozen(api)
    tokens = f"organizations/{api.organization}/accessTokens"
    token = accepted(await api.post(tokens, {"name": fresh_name("bot"), "days": 1}))["token"]
    answer = await overriding(api.caller(f"Bearer {token}"), f"instances/{instance}/greet")
    assert "access token can't override" in refused(answer, 403, "NotAllowed")
    assert await entries(api, instance) == []


@pytest.mark.features("bulk")
async def test_what_somebody_begins_with_an_override_waits_all_the_same(api: Api) -> None:
    environment, _, instance = await frozen(api)
    body = {"act": "run", "workflow": "greet", "ids": [instance]}
    bulk = accepted(await overriding(api, f"organizations/{api.organization}/bulk", body))["id"]
    await eventually(lambda: api.get(f"bulk/{bulk}/instances"), lambda found: "Incident." in found.text)
    assert await entries(api, instance) == []
    accepted(await api.delete(f"environments/{environment}/freeze"))


@pytest.mark.parametrize("reason", ["", " ", "x" * 2_001, "a%00b", "caf%E9"])
async def test_an_override_has_a_reason(api: Api, reason: str) -> None:
    _, _, instance = await frozen(api)
    headers = {"Launchbay-Override-Freeze": reason}
    answer = await api.client.post(f"instances/{instance}/greet", json={}, headers=headers)
    refused(answer, 400, "InvalidOverride")


async def test_an_override_changes_nothing_where_nothing_is_frozen_or_another_rule_refuses(api: Api) -> None:
    environment, _, instance = await frozen(api)
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 1}))
    refused(await overriding(api, f"instances/{instance}/destroy"), 403, "ChangeSetRequired")
    accepted(await api.put(f"environments/{environment}/changePolicy", {"approvals": 0}))
    accepted(await api.delete(f"environments/{environment}/freeze"))
    accepted(await overriding(api, f"instances/{instance}/greet"))
    assert await entries(api, instance) == []


async def test_webhooks_hear_of_an_override(api: Api) -> None:
    _, _, instance = await frozen(api)
    hook = {"url": "https://hooks.example.com/x", "events": ["override"]}
    made = accepted(await api.post(f"organizations/{api.organization}/webhooks", hook))["id"]
    accepted(await overriding(api, f"instances/{instance}/greet"))
    [delivery] = accepted(await api.get(f"webhooks/{made}/deliveries"))
    shown = accepted(await api.get(f"webhooks/{made}/deliveries/{delivery['id']}"))
    assert (delivery["event"], WHY in str(shown)) == ("override", True)


async def test_the_console_overrides_for_some_minutes_and_says_so_on_each_page(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    _, _, instance = await frozen(api)
    page = f"/console/instances/{instance}"
    shown = await get(visitor, page)
    assert "Override the freeze" in unescape(words_of(shown.answer.text))
    token = shown.fields["formToken"]
    run = {"formToken": token, "workflow": "greet"}
    assert (await visitor.post(f"{page}/run", data=run)).status_code == 403
    form = {"formToken": token, "back": page, "reason": WHY}
    done = await visitor.post("/console/account/override-freeze", data=form)
    assert (done.status_code, done.headers["location"]) == (303, page)
    assert WHY in unescape(words_of((await visitor.get("/console/account")).text))
    assert (await visitor.post(f"{page}/run", data=run)).status_code == 303
    await api.settled(instance)
    words = unescape(words_of((await visitor.get(page)).text))
    assert "changed this during a freeze" in words
    end = {"formToken": token, "back": page, "do": "end"}
    assert (await visitor.post("/console/account/override-freeze", data=end)).status_code == 303
    assert (await visitor.post(f"{page}/run", data=run)).status_code == 403
