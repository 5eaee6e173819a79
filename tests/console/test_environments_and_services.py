"""The pages of environments and services: what they give, where they differ, and who uses and holds what."""

import re

import httpx

from launchbay.console.pages.environments import Row, differences
from launchbay.console.pages.overview import Health
from tests.support.pages import get
from tests.support.second_factors import post
from tests.support.service import Api, accepted, fresh_name


def row(name: str, **properties: object) -> Row:
    return Row(name, name, False, Health(), properties, {}, ())


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
