"""The page of roles."""

from typing import Any

import httpx

from tests.support.pages import browser, get
from tests.support.service import PERSON_PASSWORD, Api, accepted, fresh_name, person


async def save(client: httpx.AsyncClient, api: Api, group: str, *roles: str) -> httpx.Response:
    token = (await get(client, "/console/account")).fields["formToken"]
    form: dict[str, Any] = {"formToken": token, "group": group, "role": list(roles)}
    return await client.post(f"/console/organizations/{api.organization}/groupRoles", data=form)


async def mapped(api: Api) -> dict[str, list[str]]:
    rows = accepted(await api.get(f"organizations/{api.organization}/groupRoles"))
    return {row["group"]: row["roles"] for row in rows}


async def test_groups_of_the_identity_provider_are_mapped_one_by_one(api: Api, visitor: httpx.AsyncClient) -> None:
    page = f"/console/organizations/{api.organization}/roles"
    assert (await save(visitor, api, "developers", "Guest")).headers["location"] == page
    assert (await save(visitor, api, "platform", "Administrator", "Guest")).status_code == 303
    assert await mapped(api) == {"developers": ["Guest"], "platform": ["Administrator", "Guest"]}
    assert "platform: Administrator, Guest" in (await get(visitor, page)).text
    assert (await save(visitor, api, "platform", "Administrator")).status_code == 303
    assert (await save(visitor, api, "developers")).status_code == 303
    assert await mapped(api) == {"platform": ["Administrator"]}


async def test_what_is_wrong_with_a_group_is_shown_where_it_was_entered(api: Api, visitor: httpx.AsyncClient) -> None:
    before = await mapped(api)
    for group, role, problem in (("", "Guest", "1 to 255 characters"), ("staff", "Nobody", "no role named 'Nobody'")):
        answer = await save(visitor, api, group, role)
        assert (answer.status_code, problem in answer.text.replace("&#39;", "'")) == (400, True)
    assert 'value="staff"' in answer.text
    assert await mapped(api) == before


async def test_who_may_give_one_role_maps_groups_to_that_one_only(api: Api) -> None:
    given = accepted(
        await api.post(f"organizations/{api.organization}/roles", {"name": fresh_name("given"), "permissions": ""})
    )
    narrow = {"name": fresh_name("narrow"), "permissions": f"- ManageRoles: [/users/*, /roles/{given['id']}]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", narrow))
    names = {row["id"]: row["name"] for row in accepted(await api.get(f"organizations/{api.organization}/roles"))}
    someone = await person(api, narrow["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        assert (await save(client, api, "narrow", names[given["id"]])).status_code == 303
        assert (await save(client, api, "narrow", "Administrator")).status_code == 403
    assert (await mapped(api))["narrow"] == [names[given["id"]]]
