"""The settings of an organization: usage, sign-in policy, export, import."""

import json
import re

import httpx

from tests.support.databases import Databases
from tests.support.pages import browser, get
from tests.support.service import EMAIL, PASSWORD, Api, accepted, fresh_name, person, running_api


async def sent(client: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    token = (await get(client, "/console/account")).fields["formToken"]
    return await client.post(path, data={"formToken": token, **fields})


async def test_an_export_is_a_file_that_an_import_shows_before_it_makes_an_organization(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    organization = accepted(await api.post("organizations", {"name": fresh_name("small")}))["id"]
    accepted(await api.post(f"organizations/{organization}/applications", {"name": fresh_name("app")}))
    answer = await visitor.get(f"/console/organizations/{organization}/archive")
    assert answer.headers["content-disposition"].startswith("attachment; filename=")
    archive = answer.text
    assert json.loads(archive)["format"] == "launchbay organization"
    name = fresh_name("copy")
    planned = await sent(visitor, "/console/archives", archive=archive, archiveName=name, do="plan")
    assert "Nothing is written yet" in planned.text
    assert name not in [row["name"] for row in accepted(await api.get("organizations"))]
    made = await sent(visitor, "/console/archives", archive=archive, archiveName=name, do="import")
    assert made.status_code == 303
    assert name in [row["name"] for row in accepted(await api.get("organizations"))]


async def test_what_is_wrong_with_an_archive_is_shown_with_its_text(visitor: httpx.AsyncClient) -> None:
    answer = await sent(visitor, "/console/archives", archive='{"no": "archive"}', do="plan")
    assert answer.status_code == 400
    assert "isn&#39;t an archive of an organization" in answer.text
    assert "&#34;no&#34;: &#34;archive&#34;" in answer.text


async def test_pages_show_who_created_an_organization_and_how_many_more_are_allowed(databases: Databases) -> None:
    url = databases.create()
    async with (
        running_api(url, engine=False, quota_organizations=2) as api,
        browser(api) as visitor,
        browser(api) as page,
    ):
        await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        before = (await get(visitor, "/console/organizations")).text
        assert "You created 1 of 2 organizations" in before  # with that of the first start
        assert "New organization" in before
        made = await sent(visitor, "/console/organizations", name=fresh_name("made"))
        after = (await get(visitor, "/console/organizations")).text
        assert "You created 2 of 2 organizations" in after
        assert "New organization" not in after
        assert (await sent(visitor, "/console/organizations", name=fresh_name("more"))).status_code == 400
        usage = f"{made.headers['location']}/usage"
        assert re.search(r"Created by\s*Administrator", (await get(visitor, usage)).text)
        guest = await person(api, organization=made.headers["location"].rpartition("/")[2])
        await page.post("/console/signIn", data={"email": guest.email, "password": guest.password})
        assert "Created by" not in (await get(page, usage)).text
        assert "New organization" not in (await get(page, "/console/organizations")).text
    databases.drop(url)


async def test_usage_names_each_quota_with_what_is_allowed(api: Api, visitor: httpx.AsyncClient) -> None:
    text = (await get(visitor, f"/console/organizations/{api.organization}/usage")).text
    for row in accepted(await api.get(f"organizations/{api.organization}/usage")):
        if row["allowed"] is not None and not row["id"].endswith("Bytes"):
            assert f"of {row['allowed']:,}" in text, row
