"""The pages of environments and services: what they give, where they differ, and who uses and holds what."""

import asyncio
import html
import re

import httpx
import pytest

from launchbay.pages.environments import Row, differences
from launchbay.pages.overview import Health
from tests.support.applications import SPEAKER, offered
from tests.support.eventually import eventually
from tests.support.pages import Page, browser, get, words_of
from tests.support.second_factors import post, shown
from tests.support.service import EMAIL, PASSWORD, PERSON_PASSWORD, Api, accepted, fresh_name, person

READS_REGION = """\
application:
  bindings: [[main, needs]]
  components:
    needs: {type: reference.Service, interfaces: {properties: {region: publish-signal(string)}}}
    main:
      type: workflow.Instance
      required: [properties]
      interfaces: {properties: {region: consume-signal(string)}}
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""
SPEAKS_BADLY = SPEAKER.replace(
    "say: {steps: []", 'say: {steps: [{call: {action: restcall, parameters: {command: "not a URL"}}}]'
)
MAY_SEE_ACTIVITY = "- Read: [/*]\n- ViewAudit: [/*]\n"


def row(name: str, **properties: object) -> Row:
    return Row(name, name, False, Health(), properties, {}, ())


async def test_an_offered_instance_whose_last_run_failed_is_degraded(working_service: Api) -> None:
    instance, where = await offered(working_service, SPEAKS_BADLY)
    await working_service.run(instance, "orders.say", word="ahoy")
    async with browser(working_service) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await get(client, f"/console/environments/{where}")
    assert "Degraded" in page.text.partition("Instances offered as services")[2].partition("</section>")[0]


def test_values_that_are_the_same_everywhere_are_no_difference_and_secrets_stay_covered() -> None:
    one = row("one", region="north", size=1, password="hidden-here")
    other = row("other", region="north", size=2)
    assert differences([one, other]) == [("size", ["1", "2"]), ("password", ["********", None])]
    assert differences([one]) == []


async def test_the_list_shows_what_environments_give_and_where_they_differ(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    name = fresh_name("A quayside")  # the first by name are compared
    made = accepted(await api.post(f"organizations/{api.organization}/environments", {"name": name}))["id"]
    properties = [{"name": "region", "type": "string", "value": "eu-north"}]
    accepted(await api.put(f"environments/{made}/properties", {"properties": properties}))
    page = await get(visitor, f"/console/organizations/{api.organization}/environments")
    assert re.search(rf"{name}</a>.*?1 property<", page.answer.text, re.DOTALL)
    assert "Where they differ" in page.text
    assert "eu-north" in page.text
    own = await get(visitor, f"/console/environments/{made}")
    assert f"/console/environments/{made}/settings" in own.links
    settings = await get(visitor, f"/console/environments/{made}/settings")
    assert "Copy environment" in settings.text
    assert "Save policies" not in settings.text


@pytest.mark.features("lifetimes")
async def test_the_list_of_environments_shows_rules_and_who_changed_them(api: Api, visitor: httpx.AsyncClient) -> None:
    within = f"organizations/{api.organization}"
    made = accepted(await api.post(f"{within}/environments", {"name": (name := fresh_name("Wharf"))}))["id"]
    accepted(await api.put(f"environments/{made}/lifetime", {"defaultMs": 8 * 3_600_000, "greatestMs": 7 * 86_400_000}))
    accepted(await api.put(f"environments/{made}/changePolicy", {"approvals": 2}))
    row = table_row(await get(visitor, f"/console/{within}/environments"), name)
    assert "8 hours, at most 7 days 2 people" in row
    assert row.endswith((" ago", " just now"))


@pytest.mark.features("identities")
async def test_audiences_are_shown_and_changed_on_the_settings_of_an_environment(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    environment = await api.offer()
    page, path = f"/console/environments/{environment}", f"environments/{environment}/audiences"
    await post(visitor, f"{page}/audiences", audiences="vault\nhttps://sts.example.org\n")
    assert accepted(await api.get(path))["audiences"] == ["vault", "https://sts.example.org"]
    assert "https://sts.example.org" in (await visitor.get(f"{page}/settings")).text
    answer = await shown(visitor, f"{page}/audiences", audiences="ä")
    assert "printable ASCII" in answer.text
    assert accepted(await api.get(path))["audiences"] == ["vault", "https://sts.example.org"]
    await post(visitor, f"{page}/audiences", audiences="")
    assert accepted(await api.get(path))["audiences"] == []


async def test_a_change_of_an_environment_is_shown_before_it_is_made(api: Api, visitor: httpx.AsyncClient) -> None:
    within = f"organizations/{api.organization}"
    place = accepted(await api.post(f"{within}/environments", {"name": fresh_name("Slip")}))["id"]
    properties = [{"name": "region", "type": "string", "value": "north"}]
    accepted(await api.put(f"environments/{place}/properties", {"properties": properties}))
    name = fresh_name("Sloop")
    await api.launch(await api.application(READS_REGION), environmentId=place, instanceName=name)
    sent = {"name": "region", "type": "string", "value": "south", "do": "preview"}
    page = await shown(visitor, f"/console/environments/{place}/properties", **sent)
    told = words_of(page.answer.text.partition('id="impact"')[2].partition("</section>")[0])
    assert "1 instance changes" in told
    assert name in told
    assert 'property region "north" → "south"' in html.unescape(told)
    assert 'value="south"' in page.answer.text
    assert accepted(await api.get(f"environments/{place}/properties"))["properties"] == properties
    secret = {"name": "password", "type": "string", "value": "quay-4412", "do": "preview"}
    page = await shown(visitor, f"/console/environments/{place}/properties", **secret)
    assert "Enter the new secrets once more" in page.text
    assert "quay-4412" not in page.answer.text
    policies = "policies:\n  restcall.retryCount: 2\n"
    same = await shown(visitor, f"/console/environments/{place}/policies", policies=policies, do="preview")
    assert "0 instances change, 1 stays as it is" in words_of(same.answer.text)
    assert "restcall.retryCount: 2" in same.answer.text


async def test_a_secret_that_was_typed_never_comes_back_with_a_page(api: Api, visitor: httpx.AsyncClient) -> None:
    services = f"/console/organizations/{api.organization}/services"
    typed = {"parameter:configuration.secret-id": "typed-quay-4413", "parameter:configuration.address": "no URL"}
    typed |= {"type": "builtin:openbao", "name": "vault", "parameter:configuration.sign-in": "approle"}
    answer = (await shown(visitor, services, **typed)).answer.text
    assert "typed-quay-4413" not in answer
    assert 'value="no URL"' in answer
    for method in ("jwt", "approle", "kubernetes"):
        assert f'<option value="{method}">' in answer
    assert answer.count("Type it again: a page never shows a secret.") == 1
    body = {"name": fresh_name("Vault"), "typeId": "builtin:cobalt_secure_store", "parameters": {}}
    vault = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    for command, secret in (("set-secret", "value"), ("import-keypair", "privateKey")):
        given = {f"argument:{command}:{secret}": "typed-quay-4413\nof two lines", f"argument:{command}:name": ""}
        refused = await shown(visitor, f"/console/services/{vault}/command", command=command, **given)
        assert "typed-quay-4413" not in refused.answer.text
        assert "Type it again" in refused.answer.text


async def test_lists_say_who_changed_what_to_those_who_may_see_the_activity(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    within, name = f"organizations/{api.organization}", fresh_name("Buoy")
    role = accepted(await api.post(f"{within}/roles", {"name": name, "permissions": MAY_SEE_ACTIVITY}))
    application = await api.application("launch: {steps: []}\n", name)
    page = await get(visitor, f"/console/{within}/roles?q={name}")
    assert re.search(r" 0 people 0 2 .*(ago|just now) , Administrator$", table_row(page, name))
    assert f"/console/{within}/audit?object={role['id']}" in page.links
    row = table_row(await get(visitor, f"/console/{within}/applications?q={name}"), name)
    assert re.search(r"(ago|just now) , Administrator", row)
    accepted(await api.post(f"{within}/roles", {"name": (sees := fresh_name("sees")), "permissions": "- Read: [/*]\n"}))
    reader = await person(api, sees)
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        for path in ("roles", "applications", "environments", "services"):
            shown = await get(client, f"/console/{within}/{path}?q={name if path == 'applications' else ''}")
            assert "Changed" not in shown.text, path
            assert application in shown.answer.text or path != "applications"


def table_row(page: Page, name: str) -> str:
    """Return the text of the row of a table that has this name."""
    [row] = [each for each in re.findall(r"<tr>.*?</tr>", page.answer.text, re.DOTALL) if f">{name}</a>" in each]
    return words_of(row)


async def test_the_page_of_a_pool_shows_its_resources_and_their_holders(api: Api, visitor: httpx.AsyncClient) -> None:
    body = {
        "name": fresh_name("cranes"),
        "typeId": "builtin:static_resource_pool",
        "parameters": {"configuration.resources": {"crane-1": {}, "crane-2": {}}},
    }
    made = accepted(await api.post(f"organizations/{api.organization}/services", body))["id"]
    page = await get(visitor, f"/console/services/{made}")
    assert "0 of 2 taken" in page.text
    assert 'aria-label="crane-1: free"' in page.answer.text
    await post(visitor, f"/console/services/{made}/command", command="acquire", **{"argument:acquire:holder": "Ann"})
    page = await get(visitor, f"/console/services/{made}")
    assert "1 of 2 taken" in page.text
    assert ": held by Ann" in page.answer.text
    acquire = f"services/{made}/acquire"
    accepted(await api.post(acquire, {"arguments": {"holder": "Ben"}}))
    waits = asyncio.create_task(api.post(acquire, {"arguments": {"holder": "Cleo", "timeout": 30}}))
    text = words_of(
        (
            await eventually(
                lambda: get(visitor, f"/console/services/{made}"),
                lambda found: "Waiting 1" in words_of(found.answer.text),
            )
        ).answer.text
    )
    assert "Waiting 1 the first gets the next free resource Cleo 1" in text
    accepted(await api.post(f"services/{made}/release", {"arguments": {"holder": "Ann"}}))
    accepted(await waits)
    assert "Waiting 1" not in (await get(visitor, f"/console/services/{made}")).text
    other = await get(visitor, f"/console/organizations/{api.organization}/services")
    assert re.search(rf"{body['name']}.*?nobody", other.text, re.DOTALL)


async def test_a_pinned_key_is_shown_and_forgotten(api: Api, visitor: httpx.AsyncClient) -> None:
    async with api.database.connection() as connection:
        statement = "INSERT INTO host_keys (organization_id, host, public_key) VALUES (%s, %s, 'ssh-ed25519 AAAA')"
        await connection.execute(statement, [api.organization, "192.0.2.7:22"])
    path = f"/console/organizations/{api.organization}"
    assert "192.0.2.7:22" in (await get(visitor, f"{path}/services")).text
    await post(visitor, f"{path}/hostKeys/forget", host="192.0.2.7:22")
    assert "Pinned host keys" not in (await get(visitor, f"{path}/services")).text


@pytest.mark.parametrize("value", ["[" * 3_000, '{"a": "\\u0000"}'])
async def test_properties_beyond_the_limits_of_json_are_refused_after_the_permission(
    api: Api, visitor: httpx.AsyncClient, value: str
) -> None:
    within = f"organizations/{api.organization}"
    place = accepted(await api.post(f"{within}/environments", {"name": fresh_name("Slip")}))["id"]
    path, sent = (
        f"/console/environments/{place}/properties",
        {"name": "x", "type": "map<string,string>", "value": value},
    )
    assert (await shown(visitor, path, **sent)).status == 400
    reader = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": reader.email, "password": PERSON_PASSWORD})
        assert (await shown(client, path, **sent)).status == 403
