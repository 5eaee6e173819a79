"""The page of roles."""

import gzip
import re
from html import unescape
from typing import Any

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.forms import open_form
from tests.support.pages import browser, get
from tests.support.service import EMAIL, PASSWORD, PERSON_PASSWORD, Api, accepted, fresh_name, person, running_api


async def save(client: httpx.AsyncClient, api: Api, group: str, *roles: str) -> httpx.Response:
    token = (await get(client, "/console/account")).fields["formToken"]
    form: dict[str, Any] = {"formToken": token, "group": group, "role": list(roles)}
    return await client.post(f"/console/organizations/{api.organization}/groupRoles", data=form)


async def mapped(api: Api) -> dict[str, list[str]]:
    rows = accepted(await api.get(f"organizations/{api.organization}/groupRoles"))
    return {row["group"]: row["roles"] for row in rows}


@pytest.mark.slow
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


async def checked(client: httpx.AsyncClient, path: str, text: str) -> httpx.Response:
    token = (await get(client, "/console/account")).fields["formToken"]
    return await client.post(path, data={"formToken": token, "name": "x", "permissions": text, "do": "check"})


async def test_who_gains_and_loses_what_is_shown_before_a_role_is_saved(api: Api, visitor: httpx.AsyncClient) -> None:
    body = {"name": fresh_name("crew"), "permissions": "- EditService: [/services/*]\n"}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))
    await person(api, role["name"])
    path = f"/console/roles/{role['id']}"
    assert "Held by Person" in (await get(visitor, path)).text
    answer = await checked(visitor, path, f"- CreateInstance: [/applications/*, /environments/{api.environment}]\n")
    assert answer.status_code == 200
    check = answer.text.partition('id="role-check"')[2].partition("</section>")[0]
    assert "Person" in check
    places = accepted(await api.get(f"organizations/{api.organization}/environments"))
    [place] = [row["name"] for row in places if row["id"] == api.environment]
    assert f"launch, on /applications/*, /environments/{place}" in check
    assert "change services, on /services/*" in check
    assert accepted(await api.get(f"roles/{role['id']}"))["permissions"] == body["permissions"]
    answer = await checked(visitor, path, "- Fly: [/*]\n")
    assert answer.text.count("Line 1, column 3") == 1
    form = await open_form(visitor, path, path)
    refused = await form.fill("permissions", "- Fly: [/*]\n").send(visitor)
    assert (refused.status_code, refused.text.count("Line 1, column 3")) == (400, 1)
    assert "1  - Fly: [/*]\n     ^" in unescape(refused.text)


async def test_the_text_of_a_new_role_is_checked_too(api: Api, visitor: httpx.AsyncClient) -> None:
    path = f"/console/organizations/{api.organization}/roles"
    answer = await checked(visitor, path, "- Read: [/applications/000000000000000000000000]\n")
    assert "nothing has the ID 000000000000000000000000" in answer.text
    assert "nobody gains or loses anything" in answer.text


async def test_the_page_of_a_user_shows_what_they_may_do_in_each_environment(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    organization = accepted(await api.post("organizations", {"name": fresh_name("small")}))["id"]
    place = accepted(await api.post(f"organizations/{organization}/environments", {"name": "aaa-first"}))["id"]
    text = f"- Read: [/*]\n- CreateInstance: [/applications/*, /environments/{place}]\n"
    role = accepted(
        await api.post(f"organizations/{organization}/roles", {"name": fresh_name("crew"), "permissions": text})
    )
    someone = await person(api, role["name"], organization=organization)
    page = await get(visitor, f"/console/organizations/{organization}/users/{someone.id}")
    rows = {
        re.sub(r"<[^>]+>", "", row.partition("</th>")[0]): re.findall(r"Everywhere|>some<|–", row.partition("</th>")[2])
        for row in page.answer.text.partition("Permissions by environment")[2]
        .partition("</tbody>")[0]
        .split("<tr>")[2:]
    }
    places = [row["name"] for row in accepted(await api.get(f"organizations/{organization}/environments"))]
    at = places.index("aaa-first")
    assert set(rows["See"]) == {"Everywhere"}
    assert rows["Launch"][at] == "Everywhere"
    assert {each for index, each in enumerate(rows["Launch"]) if index != at} <= {"–"}
    assert set(rows["Delete"]) == {"–"}


async def test_users_are_filtered_by_name_role_and_second_factor(api: Api, visitor: httpx.AsyncClient) -> None:
    someone = await person(api, "Guest")
    page = f"/console/organizations/{api.organization}/users"
    for query, is_found in (
        (someone.email, True),
        ("role:guest", True),
        ("role:administrator", False),
        ("factor:none", True),
        ("factor:passkey", False),
        ("is:disabled", False),
        (f"nobody {someone.email}", False),
    ):
        assert (someone.email in (await get(visitor, f"{page}?q={query}")).text) is is_found, query


async def test_who_manages_one_user_learns_how_nobody_else_signs_in(api: Api) -> None:
    known, other = await person(api), await person(api)
    name = fresh_name("desk")
    entries = f"- Read: ['/users/*']\n- ManageUsers: ['/users/{known.id}']\n"
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": entries}))
    caller = await person(api, name)
    for someone in (known, other):
        accepted(await api.put(f"organizations/{api.organization}/users/{someone.id}", {"enabled": False}))
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": caller.email, "password": PERSON_PASSWORD})
        page = f"/console/organizations/{api.organization}/users"
        for query in ("is:disabled", "factor:none"):
            text = (await get(client, f"{page}?q={query} {fresh_name('')[:1]}")).text
            assert other.email not in text
        found = (await get(client, f"{page}?q=is:disabled")).text
        assert (known.email in found, other.email in found) == (True, False)
        assert other.email in (await get(client, f"{page}?q={other.email}")).text


async def test_a_question_names_its_user_by_address(api: Api, visitor: httpx.AsyncClient) -> None:
    someone = await person(api, "Guest")
    page = f"/console/organizations/{api.organization}/roles"
    asked = {"permission": "Read", "path": f"/users/{someone.id}"}
    text = (await visitor.get(page, params={**asked, "user": someone.email.upper()})).text
    assert "Allowed." in text
    assert (await visitor.get(page, params={**asked, "user": someone.id})).text.count("Allowed.") == 1
    missing = (await visitor.get(page, params={**asked, "user": "nobody@elsewhere.example"})).text
    assert "No user that you can see has the address nobody@elsewhere.example" in missing


async def test_a_role_names_its_first_holders_and_counts_all(api: Api, visitor: httpx.AsyncClient) -> None:
    role = accepted(
        await api.post(
            f"organizations/{api.organization}/roles", {"name": fresh_name("crew"), "permissions": "- Read: [/*]\n"}
        )
    )["id"]
    async with api.database.transaction() as connection:
        await connection.execute(
            "WITH made AS (INSERT INTO users (id, email, name)"
            " SELECT substr(md5('crew' || n), 1, 24), 'crew' || n || '@example.org', 'Crew ' || lpad(n::text, 2, '0')"
            " FROM generate_series(1, 30) AS n RETURNING id), joined AS ("
            " INSERT INTO memberships (organization_id, user_id) SELECT %s, id FROM made)"
            " INSERT INTO role_assignments (role_id, user_id) SELECT %s, id FROM made",
            [api.organization, role],
        )
    text = (await get(visitor, f"/console/roles/{role}")).text.partition("Who may")[0]
    assert "Crew 05 and 25 more" in text
    assert ("Crew 20" in text, "Crew 21" in text) == (True, False)


async def test_a_role_tells_who_reads_only_newer_ids_of_no_other_holders(api: Api) -> None:
    role = accepted(
        await api.post(
            f"organizations/{api.organization}/roles", {"name": fresh_name("crew"), "permissions": "- Read: [/*]\n"}
        )
    )
    async with api.database.transaction() as connection:
        await connection.execute(
            "WITH made AS (INSERT INTO users (id, email, name)"
            " SELECT '0' || substr(md5('old' || n), 2, 23), 'old' || n || '@example.org', 'Zed ' || n"
            " FROM generate_series(1, 30) AS n RETURNING id), joined AS ("
            " INSERT INTO memberships (organization_id, user_id) SELECT %s, id FROM made)"
            " INSERT INTO role_assignments (role_id, user_id) SELECT %s, id FROM made",
            [api.organization, role["id"]],
        )
    reader = await person(api, role["name"])
    narrow = {"name": fresh_name("narrow"), "permissions": f"- Read: ['/users/{reader.id[0]}*', /roles/*]\n"}
    accepted(await api.post(f"organizations/{api.organization}/roles", narrow))
    caller = await person(api, narrow["name"])
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": caller.email, "password": PERSON_PASSWORD})
        text = (await get(client, f"/console/roles/{role['id']}")).text
    assert "Held by Person." in text
    assert "more." not in text.partition("Who may")[0]


async def test_many_users_are_on_several_pages(api: Api, visitor: httpx.AsyncClient) -> None:
    island = accepted(await api.post("organizations", {"name": fresh_name("crowd")}))
    async with api.database.transaction() as connection:
        await connection.execute(
            "WITH made AS (INSERT INTO users (id, email, name)"
            " SELECT substr(md5('crowd' || n), 1, 24), 'crowd' || n || '@example.org', 'Crowd ' || n"
            " FROM generate_series(1, 120) AS n RETURNING id)"
            " INSERT INTO memberships (organization_id, user_id) SELECT %s, id FROM made",
            [island["id"]],
        )
    path, found, pages = f"/console/organizations/{island['id']}/users?q=crowd", list[str](), 0
    while path:
        text = (await get(visitor, path)).answer.text
        found += re.findall(r"crowd\d+@example\.org", text)
        pages += 1
        following = re.search(r'rel="next" href="([^"]*)"', text)
        path = unescape(following[1]) if following else ""
    assert (len(found), len(set(found)), pages) == (120, 120, 3)


async def test_a_role_leads_to_who_changed_it(api: Api, visitor: httpx.AsyncClient) -> None:
    role = {"name": fresh_name("Pilots"), "permissions": "- Read: [/*]"}
    made = accepted(await api.post(f"organizations/{api.organization}/roles", role))["id"]
    page = await get(visitor, f"/console/roles/{made}")
    activity = f"/console/organizations/{api.organization}/audit?object=/roles/{made}"
    assert activity in page.links
    assert f"created role {role['name']}" in " ".join((await get(visitor, activity)).text.split())


async def test_the_page_of_a_user_tells_their_activity_in_sentences(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("Lugger <i>")
    application = await api.application("launch: {steps: []}\n", name)
    entries = accepted(await api.get(f"organizations/{api.organization}/audit", object=application))
    path = f"/console/organizations/{api.organization}/users/{entries[0]['actor']['id']}"
    page = await get(visitor, path)
    recent = " ".join(page.answer.text.partition('id="h-activity"')[2].partition("</section>")[0].split())
    link = f'<a href="/console/applications/{application}">{name.replace("<i>", "&lt;i&gt;")}</a>'
    assert f"<span>Saved a version of {link}" in recent
    assert f"<span>Created application {link}" in recent
    assert "/applications/" not in page.text


async def test_many_groups_have_pages_and_a_search_and_show_their_own_roles_only(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    before = await mapped(api)
    groups = [f"crew {number:02}" for number in range(60)]
    rows = [
        {"group": group, "roles": roles} for group, roles in {**before, **{each: ["Guest"] for each in groups}}.items()
    ]
    accepted(await api.put(f"organizations/{api.organization}/groupRoles", rows))
    path = f"/console/organizations/{api.organization}/roles"
    first = (await get(visitor, path)).answer.text
    assert (first.count('name="role" value="Guest"') <= 50, "Next groups" in first) == (True, True)
    assert "crew 59: Guest" not in first
    found = (await get(visitor, f"{path}?groups=CREW+59")).text
    assert "crew 59: Guest" in found
    assert "crew 58: Guest" not in found
    token = (await get(visitor, "/console/account")).fields["formToken"]
    form = {"formToken": token, "group": "crew 59", "add": "Administrator"}
    assert (await visitor.post(path.replace("/roles", "/groupRoles"), data=form)).status_code == 303
    assert (await mapped(api))["crew 59"] == ["Administrator", "Guest"]
    accepted(
        await api.put(
            f"organizations/{api.organization}/groupRoles", [{"group": g, "roles": r} for g, r in before.items()]
        )
    )


@pytest.mark.slow
async def test_a_thousand_roles_and_a_thousand_groups_fit_the_page_and_saving_one_loses_no_other(
    databases: Databases,
) -> None:
    url = databases.create()
    async with running_api(url) as api, browser(api) as visitor:
        assert (await visitor.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})).status_code == 303
        names = [f"keeper of quay {number:03}" for number in range(1_000)]
        for name in names:
            body = {"name": name, "permissions": "- Read: [/applications/*]\n"}
            accepted(await api.post(f"organizations/{api.organization}/roles", body))
        wanted = {f"crew {number:03}": [name] for number, name in enumerate(names)}
        rows = [{"group": group, "roles": roles} for group, roles in wanted.items()]
        accepted(await api.put(f"organizations/{api.organization}/groupRoles", rows))
        path = f"/console/organizations/{api.organization}/roles"

        page = await get(visitor, path)
        assert (len(gzip.compress(page.answer.content, 9)) <= 12 * 1024, len(page.tags) <= 5_000) == (True, True)
        shown: list[str] = []
        address = path
        while address:
            page = await get(visitor, address)
            shown += re.findall(r"<summary>(crew \d+): ", page.answer.text)
            address = next((each for each in page.links if "groupsAfter=" in each), "").partition("#")[0]
        assert shown == list(wanted)

        found = await get(visitor, f"{path}?groups=CREW+777")
        assert re.findall(r"<summary>(crew \d+: .*?)</summary>", found.answer.text) == ["crew 777: keeper of quay 777"]
        form = found.answer.text.partition("<summary>crew 777:")[2].partition("</form>")[0]
        hidden = {name: re.findall(rf'name="{name}" value="(.*?)"', form)[0] for name in ("formToken", "seen", "group")}
        saved = await visitor.post(path.replace("/roles", "/groupRoles"), data={**hidden, "role": "Guest"})
        assert saved.status_code == 303
        assert await mapped(api) == {**wanted, "crew 777": ["Guest"]}
    databases.drop(url)
