"""The pages of services by their type: what they hold, who uses them, secrets masked, and changes shown first."""

import re
from typing import Any

import httpx
import pytest

from tests.support.pages import browser, get
from tests.support.second_factors import post, shown
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person
from tests.support.services import POOLED, service

SECRET = "salty-tide-7741"


async def _service(api: Api, kind: str, **parameters: Any) -> str:
    body = {"name": fresh_name("service"), "typeId": f"builtin:{kind}", "parameters": parameters}
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


async def _run(api: Api, service: str, command: str, **arguments: str) -> Any:
    return accepted(await api.post(f"services/{service}/{command}", {"arguments": arguments}))


async def test_a_vault_masks_its_secrets_and_shows_one_for_a_reason_that_the_log_keeps(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    vault = await _service(api, "cobalt_secure_store")
    here = f"/console/services/{vault}"
    assert "No secrets yet" in (await get(visitor, here)).text
    sent = {"argument:set-secret:name": "mail", "argument:set-secret:value": SECRET}
    assert (await shown(visitor, f"{here}/command", command="set-secret", **sent)).status == 200
    await _run(api, vault, "generate-keypair", name="deploy")
    page = await get(visitor, here)
    assert "mail" in page.text
    assert "SHA256:" in page.text
    assert 'aria-label="Hidden value of mail"' in page.answer.text
    assert SECRET not in page.answer.text
    # Commands that return secrets are no buttons: the page asks for a reason.
    assert "Run get-secret" not in page.text
    without = await shown(visitor, f"{here}/secrets", kind="secret", name="mail", reason=" ")
    assert without.status == 400
    assert SECRET not in without.answer.text
    asked = await shown(visitor, f"{here}/secrets", kind="secret", name="mail", reason="The relay asks for it")
    assert SECRET in asked.text
    told = await get(visitor, here)
    assert "revealed mail" in told.text
    assert "The relay asks for it" in told.text
    name = accepted(await api.get(f"services/{vault}"))["name"]
    accepted(await api.put(f"services/{vault}", {"name": f"{name} of the quay"}))
    [changed] = re.findall(r"<li>(?:(?!</li>).)*changed it.*?</li>", (await get(visitor, here)).answer.text, re.DOTALL)
    assert "<b>Administrator</b>" in changed
    assert f"name: {name} → {name} of the quay" in changed


async def test_a_secret_of_a_vault_is_revealed_through_the_api_and_to_nobody_without_the_permission(api: Api) -> None:
    vault = await _service(api, "cobalt_secure_store")
    await _run(api, vault, "set-secret", name="mail", value=SECRET)
    body = {"name": "mail", "reason": "To compare it"}
    assert accepted(await api.post(f"services/{vault}/secrets/reveal", body))["value"] == SECRET
    missing = await api.post(f"services/{vault}/secrets/reveal", {**body, "name": "post"})
    assert missing.status_code == 404
    role = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", role))
    someone = await person(api, role["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/services/{vault}")
        assert page.status == 200
        assert "mail" not in page.text.partition("Secrets")[2].partition("Key pairs")[0]
        refused = await shown(client, f"/console/services/{vault}/secrets", kind="secret", **body)
        assert refused.status == 403
        assert SECRET not in refused.answer.text


async def test_a_cloud_account_says_of_each_region_what_the_sign_in_answered(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    account = await _service(
        api,
        "cloud_account",
        **{
            "configuration.provider": "dummy",
            "configuration.identity": "me",
            "configuration.credential": SECRET,
            "configuration.legacy-regions": "north",
        },
    )
    here = f"/console/services/{account}"
    page = await get(visitor, here)
    assert "Check now" in page.text
    assert SECRET not in page.answer.text
    checked = await shown(visitor, f"{here}/command", command="check")
    assert checked.status == 200
    assert "Not run since" not in checked.text
    place = {"name": fresh_name("harbor")}
    environment = accepted(await api.post(f"organizations/{api.organization}/environments", place))["id"]
    around = f"/console/environments/{environment}"
    assert f"{here}/command" not in (await get(visitor, around)).answer.text
    accepted(await api.put(f"environments/{environment}/services", {"services": [account]}))
    offers = await get(visitor, around)
    assert f'action="{here}/command"' in offers.answer.text
    assert "A check signs in to each region" in offers.text


async def test_a_catalog_shares_an_instance_and_stops_sharing_it(api: Api, visitor: httpx.AsyncClient) -> None:
    catalog = await _service(api, "shared_instances_catalog")
    application = await api.application("launch: {steps: []}\n")
    instance = await api.launch(application, instanceName="Common ground")
    body = {"name": "steady", "instanceId": instance}
    revision = accepted(await api.post(f"applications/{application}/revisions", body))["id"]
    here = f"/console/services/{catalog}"
    assert "Nothing is shared yet" in (await get(visitor, here)).text
    sent = {"argument:add:revisionId": revision, "argument:add:instanceId": "nothing"}
    wrong = await shown(visitor, f"{here}/command", command="add", **sent)
    assert "The organization has no instance" in wrong.text
    await shown(visitor, f"{here}/command", command="add", **{**sent, "argument:add:instanceId": instance})
    page = await get(visitor, here)
    assert "Common ground" in page.text
    assert "steady of" in page.text
    await shown(visitor, f"{here}/command", command="remove", **{"argument:remove:revisionId": revision})
    assert "Nothing is shared yet" in (await get(visitor, here)).text


async def test_the_page_names_the_instances_that_use_the_service_and_what_a_change_means_for_them(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    where = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("dock")}))
    pool = await service(api, "builtin:static_resource_pool", {"configuration.resources": ["a"]}, where=where["id"])
    application = await api.application(POOLED)
    instance = await api.launch(application, environmentId=where["id"], instanceName="Holder of a crane")
    page = await get(visitor, f"/console/services/{pool}")
    assert "Holder of a crane" in page.text
    assert "1 instance uses it" in page.text
    sent = {"name": "Cranes", "parameter:configuration.resources": '["b"]', "do": "preview"}
    preview = await shown(visitor, f"/console/services/{pool}", **sent)
    assert "1 instance changes" in preview.text
    assert f'href="/console/instances/{instance}"' in preview.answer.text


@pytest.mark.parametrize("do", ["preview", ""])
async def test_a_change_of_parameters_is_shown_before_it_is_made(api: Api, visitor: httpx.AsyncClient, do: str) -> None:
    pool = await _service(api, "static_resource_pool", **{"configuration.resources": {"crane-1": {}}})
    sent = {"name": "Cranes", "parameter:configuration.resources": '{"crane-2": {}}', "do": do}
    answer = await post(visitor, f"/console/services/{pool}", **sent)
    now = accepted(await api.get(f"services/{pool}"))["parameters"]["configuration.resources"]
    if do:
        assert not isinstance(answer, httpx.Response)
        assert "No instance uses what changes." in answer.text
        assert "crane-2" in answer.answer.text
        assert now == {"crane-1": {}}
    else:
        assert isinstance(answer, httpx.Response)
        assert now == {"crane-2": {}}


async def test_the_page_of_a_pool_hides_holders_that_the_viewer_may_not_read(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    where = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("dock")}))
    pool = await service(
        api, "builtin:static_resource_pool", {"configuration.resources": ["a", "b"]}, where=where["id"]
    )
    application = await api.application(POOLED)
    held = await api.launch(application, environmentId=where["id"], instanceName="Holder of a crane")
    await _run(api, pool, "acquire", holder=f"{held}:main")
    page = await get(visitor, f"/console/services/{pool}")
    assert "held by Holder of a crane" in page.answer.text
    assert "Free: b" in page.text
    name, text = fresh_name("pools"), f"- Read: [/services/{pool}]\n"
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": text}))
    viewer = await person(api, name)
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": viewer.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/services/{pool}")
    assert "held by an instance that you can" in page.answer.text
    assert "Holder of a crane" not in page.answer.text
    assert held not in page.answer.text
