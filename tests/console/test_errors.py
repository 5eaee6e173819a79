"""Pages of errors: who may help, what is near, and when to try again."""

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.pages import browser, get
from tests.support.service import (
    EMAIL,
    PASSWORD,
    PERSON_PASSWORD,
    Api,
    accepted,
    fresh_name,
    join,
    person,
    running_api,
)


@pytest.mark.features("webhooks")
async def test_a_page_that_is_not_allowed_names_who_may_help(api: Api) -> None:
    someone = await person(api, "Guest")
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/organizations/{api.organization}/webhooks")
        assert page.status == 403
        assert "Who may help" in page.text
        assert EMAIL in page.text
    stranger = await person(api)  # a member without any role may not know who else is one
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": stranger.email, "password": PERSON_PASSWORD})
        page = await get(client, f"/console/organizations/{api.organization}/webhooks")
        assert page.status == 403
        assert EMAIL not in page.text


async def test_a_page_that_is_missing_shows_what_is_near(api: Api) -> None:
    someone = await person(api, "Guest")
    home = f"/console/organizations/{api.organization}"
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        page = await get(client, "/console/instances/000000000000000000000000")
    assert page.status == 404
    assert {home, f"{home}/instances", f"{home}/runs"} <= set(page.links)
    assert f'action="{home}/instances"' in page.answer.text
    async with browser(api) as client:
        outside = await get(client, "/console/nothing")
        assert outside.status == 404
        assert home not in outside.answer.text


async def test_a_missing_page_leads_a_member_of_two_organizations_to_the_one_seen_last(api: Api) -> None:
    someone = await person(api, "Guest")
    elsewhere = accepted(await api.post("organizations", {"name": fresh_name("elsewhere")}))["id"]
    await join(api, elsewhere, someone)
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": someone.email, "password": PERSON_PASSWORD})
        home = f"/console/organizations/{api.organization}"
        assert (await get(client, home)).status == 200
        page = await get(client, "/console/instances/000000000000000000000000")
    assert page.status == 404
    assert {home, f"{home}/instances"} <= set(page.links)
    assert elsewhere not in page.answer.text


async def test_the_address_of_a_form_is_a_page_that_leads_on(api: Api, visitor: httpx.AsyncClient) -> None:
    home = f"/console/organizations/{api.organization}"
    nobody = "0" * 24
    page = await get(visitor, f"{home}/users/{nobody}/roles")
    assert page.status == 404
    assert "This address is that of a form." in page.text
    assert {home, f"{home}/instances", f"{home}/runs"} <= set(page.links)
    async with browser(api) as client:
        answer = await client.get(f"{home}/users/{nobody}/roles")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith("/console/signIn?next=")


async def test_a_page_without_a_database_tries_again_by_itself(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api, browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        path = f"/console/organizations/{api.organization}"
        assert (await get(client, path)).status == 200
        databases.drop(url)
        page = await get(client, path)
        assert page.status == 503
        assert '<meta http-equiv="refresh" content="5">' in page.answer.text
        assert path in page.links


@pytest.mark.parametrize(
    "page",
    ["audit?q=by:%00", "audit?actor=%00", "audit/export?q=on:%00", "instances?q=%00", "runs?q=%00", "runs?%00=x"],
)
async def test_a_query_with_a_nul_character_is_refused(api: Api, visitor: httpx.AsyncClient, page: str) -> None:
    shown = await get(visitor, f"/console/organizations/{api.organization}/{page}")
    assert shown.status == 400
    assert "contains a NUL character; remove it." in shown.text


@pytest.mark.parametrize(
    "page", ["instances/a%00b/jobs/b", "instances/a%00b/jobs/b/log", "instances/a/jobs/b%00/export"]
)
async def test_an_address_with_a_nul_character_is_that_of_no_page(visitor: httpx.AsyncClient, page: str) -> None:
    shown = await get(visitor, f"/console/{page}")
    assert shown.status == 404
    assert "Page not found." in shown.text
