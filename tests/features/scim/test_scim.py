"""SCIM 2.0 over HTTP: people and groups as an identity provider sends them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from click.testing import CliRunner
from httpx2 import Client

from launchbay.cli.main import main
from tests.support.databases import Databases
from tests.support.scim import GROUP, PATCH, ROOT, USER, Provider, done, provider_of, refused
from tests.support.service import Api, Caller, accepted, fresh_email, fresh_name, join, person, running_api, served

pytestmark = pytest.mark.features("scim")


@pytest.fixture(scope="module")
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
async def provider(api: Api) -> Provider:
    return await provider_of(api)


async def members(api: Api, organization: str = "", by: Caller | None = None) -> dict[str, list[str]]:
    """Return the roles of members by address."""
    rows = accepted(await (by or api).get(f"organizations/{organization or api.organization}/users"))
    return {row["email"]: row["roles"] for row in rows}


async def map_groups(api: Api, **roles: list[str]) -> None:
    body = [{"group": group, "roles": names} for group, names in roles.items()]
    accepted(await api.put(f"organizations/{api.organization}/groupRoles", body))


@pytest.mark.slow  # some hundred requests
async def test_a_server_passes_the_compliance_check(api: Api, provider: Provider) -> None:
    # Imported here: they take two seconds, in each process that collects this file.
    from scim2_client.engines.httpx2 import SyncSCIMClient
    from scim2_tester import Status, check_server

    async with served(api) as port:
        headers = {"Authorization": f"Bearer {provider.token}", "Host": "launchbay"}

        def check() -> list[Any]:
            with Client(base_url=f"http://127.0.0.1:{port}/scim/v2", headers=headers) as client:
                return check_server(SyncSCIMClient(client))

        results = await asyncio.to_thread(check)
    wrong = [f"{each.title}: {each.reason}" for each in results if each.status in {Status.ERROR, Status.CRITICAL}]
    assert wrong == [], "\n".join(wrong)
    assert sum(each.status == Status.SUCCESS for each in results) > 40


# Users


async def test_a_new_person_becomes_a_member_and_an_inactive_one_leaves(api: Api, provider: Provider) -> None:
    email = fresh_email()
    made = await provider.user(email, externalId="e1", displayName="Ann", active=True)
    assert (made["userName"], made["active"], made["externalId"]) == (email, True, "e1")
    assert made["emails"] == [{"value": email, "type": "work", "primary": True}]
    assert (await members(api))[email] == []
    left = done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": False}))
    assert (left["active"], left["displayName"]) == (False, "Ann")
    assert email not in await members(api)
    back = done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": True}))
    assert (back["id"], back["active"]) == (made["id"], True)
    assert email in await members(api)
    assert (await provider.send("DELETE", f"/Users/{made['id']}")).status_code == 204
    assert email not in await members(api)
    refused(await provider.send("GET", f"/Users/{made['id']}"), 404)


async def test_members_that_were_there_before_are_found_and_become_the_providers(api: Api, provider: Provider) -> None:
    who = await person(api, "Guest")
    found = done(await provider.send("GET", f'/Users?filter=userName eq "{who.email.upper()}"'))
    made = await provider.user(who.email, displayName="Linked")
    assert [each["id"] for each in found["Resources"]] == [made["id"]]
    assert (await members(api))[who.email] == ["Guest"]
    detail = refused(
        await provider.send("POST", "/Users", {"schemas": [USER], "userName": who.email}), 409, "uniqueness"
    )
    assert who.email in detail


async def test_an_account_elsewhere_is_invited_and_keeps_all_that_is_elsewhere(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, organization=organization, by=outsider)
    made = await provider.user(who.email, displayName="Another name", active=True)
    assert made["active"] is True
    assert who.email not in await members(api)
    invited = accepted(await api.get(f"organizations/{api.organization}/invitations"))
    assert who.email in [each["email"] for each in invited]
    await join(api, api.organization, who)
    assert who.email in await members(api)
    done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": False}))
    assert who.email not in await members(api)
    # The account, its name and its membership there are as they were.
    rows = accepted(await outsider.get(f"organizations/{organization}/users/{who.id}"))
    assert (rows["name"], rows["enabled"]) == ("Person", True)


async def test_another_organization_that_knows_a_person_takes_nothing_from_this_one(
    api: Api, provider: Provider
) -> None:
    outsider, organization, _ = await api.outsider()
    other = await provider_of(api, organization, outsider)
    who = await person(api)
    # The other one invites the person before this provider has made anything of them.
    invited = {"email": who.email, "name": "Theirs", "roles": []}
    accepted(await outsider.post(f"organizations/{organization}/users", invited))
    theirs = await other.user(who.email, externalId="theirs")
    [ours] = done(await provider.send("GET", f'/Users?filter=userName eq "{who.email}"'))["Resources"]
    assert ours["id"] != theirs["id"]
    group = await provider.group("", ours["id"])
    assert [each["value"] for each in group["members"]] == [ours["id"]]
    refused(await provider.send("GET", f"/Users/{theirs['id']}"), 404)
    left = done(await provider.patch(f"/Users/{ours['id']}", {"op": "replace", "path": "active", "value": False}))
    assert left["active"] is False
    assert who.email not in await members(api)
    kept = done(await other.send("GET", f"/Users/{theirs['id']}"))
    assert kept["externalId"] == "theirs"


async def test_a_person_in_two_organizations_is_stored_by_both_providers(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    other = await provider_of(api, organization, outsider)
    who = await person(api, organization=organization, by=outsider)
    await join(api, api.organization, who)
    for each, name in ((provider, "one"), (other, "two")):
        await each.user(who.email, externalId=name, displayName=name)
        [found] = done(await each.send("GET", f'/Users?filter=externalId eq "{name}"'))["Resources"]
        assert (found["displayName"], found["active"]) == (name, True)


async def test_the_record_of_who_left_does_nothing_to_who_came_back(api: Api, provider: Provider) -> None:
    off = {"op": "replace", "path": "active", "value": False}
    for is_elsewhere in (False, True):
        email = fresh_email()
        if is_elsewhere:
            outsider, organization, _ = await api.outsider()
            email = (await person(api, organization=organization, by=outsider)).email
        old = await provider.user(fresh_name("old"), emails=[{"value": email}])
        done(await provider.patch(f"/Users/{old['id']}", off))
        new = await provider.user(fresh_name("new"), emails=[{"value": email}])
        assert done(await provider.patch(f"/Users/{old['id']}", off))["active"] is False
        assert done(await provider.send("GET", f"/Users/{new['id']}"))["active"] is True
        refused(
            await provider.patch(f"/Users/{old['id']}", {"op": "replace", "path": "active", "value": True}),
            409,
            "uniqueness",
        )
        assert (await provider.send("DELETE", f"/Users/{old['id']}")).status_code == 204
        assert done(await provider.send("GET", f"/Users/{new['id']}"))["active"] is True


async def test_the_address_of_somebody_else_in_an_inactive_record_removes_nobody(api: Api, provider: Provider) -> None:
    admin = await person(api, "Administrator")
    made = await provider.user()
    off = {"op": "replace", "path": "active", "value": False}
    done(await provider.patch(f"/Users/{made['id']}", off))
    address = {"op": "replace", "path": "emails", "value": [{"value": admin.email, "primary": True}]}
    assert done(await provider.patch(f"/Users/{made['id']}", address))["active"] is False
    done(await provider.patch(f"/Users/{made['id']}", off))
    assert (await members(api))[admin.email] == ["Administrator"]
    assert (await provider.send("DELETE", f"/Users/{made['id']}")).status_code == 204
    assert (await members(api))[admin.email] == ["Administrator"]


async def test_who_was_added_by_hand_again_stays_until_the_provider_says_active(api: Api, provider: Provider) -> None:
    email = fresh_email()
    made = await provider.user(email)
    path, off = f"/Users/{made['id']}", {"op": "replace", "path": "active", "value": False}
    done(await provider.patch(path, off))
    accepted(await api.post(f"organizations/{api.organization}/users", {"email": email, "name": "Again", "roles": []}))
    assert done(await provider.patch(path, off))["active"] is False
    assert email in await members(api)
    assert done(await provider.patch(path, {**off, "value": True}))["active"] is True
    done(await provider.patch(path, off))
    assert email not in await members(api)


async def test_tokens_and_schedules_end_with_the_membership_and_do_not_come_back(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, organization=organization, by=outsider)
    await join(api, api.organization, who, "Administrator")
    made = accepted(await who.post(f"organizations/{api.organization}/accessTokens", {"name": "mine"}))
    program = api.caller(f"Bearer {made['token']}")
    accepted(await program.get(f"organizations/{api.organization}/users"))
    schedule = {"name": "Daily", "cron": "0 7 * * *", "applicationId": await api.application("launch: {steps: []}\n")}
    made = accepted(await who.post(f"organizations/{api.organization}/recurring-schedules", schedule))["id"]
    accepted(await api.get(f"recurring-schedules/{made}"))
    found = done(await provider.send("GET", f'/Users?filter=userName eq "{who.email}"'))["Resources"][0]
    done(await provider.patch(f"/Users/{found['id']}", {"op": "replace", "value": {"active": False}}))
    assert (await program.get(f"organizations/{api.organization}/users")).status_code == 401
    assert (await api.get(f"recurring-schedules/{made}")).status_code == 404
    assert (await who.get(f"organizations/{api.organization}/users")).status_code == 403
    done(await provider.patch(f"/Users/{found['id']}", {"op": "replace", "value": {"active": True}}))
    await join(api, api.organization, who, "Administrator")
    assert (await program.get(f"organizations/{api.organization}/users")).status_code == 401


async def test_the_last_administrator_stays(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    provider = await provider_of(api, organization, outsider)
    [admin] = done(await provider.send("GET", "/Users"))["Resources"]
    patched = await provider.patch(f"/Users/{admin['id']}", {"op": "replace", "path": "active", "value": False})
    assert "last administrator" in refused(patched, 409)
    assert "last administrator" in refused(await provider.send("DELETE", f"/Users/{admin['id']}"), 409)
    accepted(await outsider.get(f"organizations/{organization}/users"))


@pytest.mark.parametrize("value", ["False", "false", False])
async def test_entra_sends_capitals_and_text_for_booleans(api: Api, provider: Provider, value: Any) -> None:
    made = await provider.user()
    left = done(await provider.patch(f"/Users/{made['id']}", {"op": "Replace", "path": "active", "value": value}))
    assert left["active"] is False


async def test_entra_sends_paths_with_filters_and_attributes_of_extensions(provider: Provider) -> None:
    made = await provider.user()
    manager = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager"
    changed = done(
        await provider.patch(
            f"/Users/{made['id']}",
            {"op": "Add", "path": 'emails[type eq "home"].value', "value": "home@example.org"},
            {"op": "Replace", "path": "name.givenName", "value": "Ada"},
            {"op": "Add", "path": manager, "value": "1234"},
            {"op": "Add", "value": {"name.familyName": "L", 'emails[type eq "other"].value': "other@example.org"}},
            {"op": "Add", "path": "title", "value": "Countess"},
        )
    )
    assert changed["name"] == {"givenName": "Ada", "familyName": "L"}
    assert [each["value"] for each in changed["emails"]][1:] == ["home@example.org", "other@example.org"]
    assert "title" not in changed


async def test_okta_sends_values_without_a_path_and_the_id_with_a_group(provider: Provider) -> None:
    made = await provider.user()
    left = done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "value": {"active": False}}))
    assert left["active"] is False
    group = await provider.group()
    name = fresh_name("group")
    renamed = done(
        await provider.patch(
            f"/Groups/{group['id']}", {"op": "replace", "value": {"id": group["id"], "displayName": name}}
        )
    )
    assert renamed["displayName"] == name


async def test_a_replaced_user_keeps_what_the_request_leaves_out_of_the_membership(
    api: Api, provider: Provider
) -> None:
    email = fresh_email()
    made = await provider.user(email, displayName="Before", name={"givenName": "A"})
    body = {"schemas": [USER], "id": made["id"], "userName": "new name", "emails": [{"value": email}]}
    changed = done(await provider.send("PUT", f"/Users/{made['id']}", body))
    assert (changed["userName"], changed["active"]) == ("new name", True)
    assert {"displayName", "name"}.isdisjoint(changed)
    assert email in await members(api)


# Lists


async def test_filters_compare_names_without_case_and_refuse_what_they_cannot(provider: Provider) -> None:
    email = fresh_email()
    made = await provider.user(email, externalId="Ext-7", displayName="Filtered One")
    for text in (
        f'USERNAME eq "{email.upper()}"',
        'externalId eq "Ext-7"',
        f'displayName EQ "filtered one" and userName eq "{email}" and active eq true',
        f'id eq "{made["id"]}"',
    ):
        found = done(await provider.send("GET", f"/Users?filter={text}"))
        assert [each["id"] for each in found["Resources"]] == [made["id"]], text
    assert done(await provider.send("GET", '/Users?filter=externalId eq "ext-7"'))["totalResults"] == 0
    for text in ('userName co "a"', 'userName eq "a" or id eq "b"', "nothing eq 1", "userName eq", 'title eq "x"'):
        refused(await provider.send("GET", f"/Users?filter={text}"), 400, "invalidFilter")
    deep = "(" * 400 + 'userName eq "a"' + ")" * 400
    refused(await provider.send("GET", f"/Users?filter={deep}"), 400, "invalidFilter")
    refused(await provider.send("GET", "/Users?filter=" + "a" * 2000), 400, "invalidFilter")


async def test_pages_count_from_one_and_say_how_many_there_are(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    provider = await provider_of(api, organization, outsider)
    made = {(await provider.user())["id"] for _ in range(4)}
    seen: list[str] = []
    for start in (1, 3, 5):
        page = done(await provider.send("GET", f"/Users?startIndex={start}&count=2"))
        assert (page["totalResults"], page["startIndex"]) == (5, start)
        seen += [each["id"] for each in page["Resources"]]
    assert len(seen) == len(set(seen)) == 5
    assert made < set(seen)
    beyond = done(await provider.send("GET", "/Users?startIndex=99"))
    assert (beyond["totalResults"], beyond["Resources"]) == (5, [])
    assert done(await provider.send("GET", "/Users?count=0"))["totalResults"] == 5
    assert done(await provider.send("GET", "/Users?startIndex=-3&count=-1"))["Resources"] == []
    refused(await provider.send("GET", "/Users?startIndex=first"), 400, "invalidValue")
    search = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], "count": 1}
    assert len(done(await provider.send("POST", "/Users/.search", search))["Resources"]) == 1


async def test_answers_have_the_attributes_that_were_asked_for(provider: Provider) -> None:
    made = await provider.user(displayName="Shown")
    shown = done(await provider.send("GET", f"/Users/{made['id']}?attributes=DISPLAYNAME"))
    assert set(shown) == {"schemas", "id", "displayName"}
    without = done(await provider.send("GET", f"/Users/{made['id']}?excludedAttributes=emails,id"))
    assert "emails" not in without
    assert without["id"] == made["id"]
    group = await provider.group("", made["id"])
    [listed] = done(await provider.send("GET", f'/Groups?excludedAttributes=members&filter=id eq "{group["id"]}"'))[
        "Resources"
    ]
    assert "members" not in listed
    assert done(await provider.send("GET", f"/Users/{made['id']}"))["groups"][0]["value"] == group["id"]


async def test_a_page_of_groups_with_members_is_small_and_one_without_is_not(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    provider = await provider_of(api, organization, outsider)
    made = {(await provider.group())["id"] for _ in range(12)}
    page = done(await provider.send("GET", "/Groups?count=12"))
    assert (page["totalResults"], page["itemsPerPage"], len(page["Resources"])) == (12, 10, 10)
    rest = done(await provider.send("GET", "/Groups?startIndex=11"))
    assert {each["id"] for each in (*page["Resources"], *rest["Resources"])} == made
    assert len(done(await provider.send("GET", "/Groups?excludedAttributes=members"))["Resources"]) == 12


async def test_a_group_without_its_members_has_no_version(provider: Provider) -> None:
    user = await provider.user()
    group = await provider.group("", user["id"])
    path = f"/Groups/{group['id']}"
    answer = await provider.send("GET", f"{path}?excludedAttributes=members", **{"If-None-Match": "*"})
    assert set(done(answer)["meta"]) == {"resourceType", "created", "lastModified", "location"}
    assert "etag" not in answer.headers
    asked = f'/Groups?excludedAttributes=members&filter=id eq "{group["id"]}"'
    [listed] = done(await provider.send("GET", asked))["Resources"]
    assert "version" not in listed["meta"]
    whole = await provider.send("GET", path)
    assert whole.headers["etag"] == done(whole)["meta"]["version"]
    rename = {"op": "replace", "path": "displayName", "value": fresh_name("renamed")}
    body = {"schemas": [PATCH], "Operations": [rename]}
    done(await provider.send("PATCH", path, body, **{"If-Match": whole.headers["etag"]}))


async def test_a_change_of_another_state_is_refused(provider: Provider) -> None:
    made = await provider.user()
    path, tag = f"/Users/{made['id']}", made["meta"]["version"]
    read = await provider.send("GET", path)
    assert read.headers["etag"] == tag
    assert (await provider.send("GET", path, **{"If-None-Match": tag})).status_code == 304
    operations = {"schemas": [PATCH], "Operations": [{"op": "add", "path": "displayName", "value": "X"}]}
    done(await provider.send("PATCH", path, operations, **{"If-Match": tag}))
    refused(await provider.send("PATCH", path, operations, **{"If-Match": tag}), 412)
    refused(await provider.send("DELETE", path, **{"If-Match": tag}), 412)


# Groups


async def test_members_have_the_roles_of_their_groups(api: Api, provider: Provider) -> None:
    name, email = fresh_name("group"), fresh_email()
    made = await provider.user(email)
    group = await provider.group(name, made["id"])
    assert (await members(api))[email] == []
    await map_groups(api, **{name: ["Guest"]})  # at once, and not at the next sign-in
    assert (await members(api))[email] == ["Guest"]
    remove = {"op": "Remove", "path": "members", "value": [{"value": made["id"]}]}
    assert "members" not in done(await provider.patch(f"/Groups/{group['id']}", remove))
    assert (await members(api))[email] == []
    done(
        await provider.patch(
            f"/Groups/{group['id']}", {"op": "add", "path": "members", "value": [{"value": made["id"]}]}
        )
    )
    assert (await members(api))[email] == ["Guest"]
    done(
        await provider.patch(f"/Groups/{group['id']}", {"op": "replace", "path": "displayName", "value": f"not {name}"})
    )
    assert (await members(api))[email] == []
    done(await provider.patch(f"/Groups/{group['id']}", {"op": "replace", "path": "displayName", "value": name}))
    assert (await members(api))[email] == ["Guest"]
    assert (await provider.send("DELETE", f"/Groups/{group['id']}")).status_code == 204
    assert (await members(api))[email] == []
    rows = accepted(await api.get(f"organizations/{api.organization}/audit?action=synchronize_roles"))
    assert {"lost": ["Guest"]} in [row["before"] for row in rows]


async def test_entra_removes_some_members_and_okta_by_a_filter(provider: Provider) -> None:
    people = [(await provider.user())["id"] for _ in range(4)]
    group = await provider.group("", *people)
    path = f"/Groups/{group['id']}"
    left = done(await provider.patch(path, {"op": "Remove", "path": "members", "value": [{"value": people[0]}]}))
    assert [each["value"] for each in left["members"]] == sorted(people[1:])
    left = done(await provider.patch(path, {"op": "remove", "path": f'members[value eq "{people[1]}"]'}))
    assert [each["value"] for each in left["members"]] == sorted(people[2:])
    left = done(await provider.patch(path, {"op": "replace", "path": "members", "value": [{"value": people[0]}]}))
    assert [each["value"] for each in left["members"]] == [people[0]]
    found = done(await provider.send("GET", f'/Groups?filter=id eq "{group["id"]}" and members eq "{people[0]}"'))
    assert found["totalResults"] == 1
    assert "members" not in done(await provider.patch(path, {"op": "remove", "path": "members"}))


async def test_roles_given_by_hand_stay_and_roles_come_back_with_the_person(api: Api, provider: Provider) -> None:
    name = fresh_name("group")
    who = await person(api, "Guest")
    made = await provider.user(who.email)
    group = await provider.group(name, made["id"])
    role = fresh_name("role")
    accepted(await api.post(f"organizations/{api.organization}/roles", {"name": role, "permissions": ""}))
    await map_groups(api, **{name: ["Guest", role]})
    assert (await members(api))[who.email] == sorted(["Guest", role])
    done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "value": {"active": False}}))
    done(await provider.patch(f"/Users/{made['id']}", {"op": "replace", "value": {"active": True}}))
    assert (await members(api))[who.email] == sorted(["Guest", role])
    assert (await provider.send("DELETE", f"/Groups/{group['id']}")).status_code == 204
    assert (await members(api))[who.email] == []


async def test_groups_that_make_the_only_administrator_are_not_emptied(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    provider = await provider_of(api, organization, outsider)
    await outsider.put(f"organizations/{organization}/groupRoles", [{"group": "admins", "roles": ["Administrator"]}])
    made = await provider.user()
    group = await provider.group("admins", made["id"])
    [first] = done(await provider.send("GET", '/Users?filter=displayName eq "Outsider"'))["Resources"]
    assert (await provider.send("DELETE", f"/Users/{first['id']}")).status_code == 204
    assert "Administrator" in refused(await provider.send("DELETE", f"/Groups/{group['id']}"), 409)
    assert done(await provider.send("GET", f"/Groups/{group['id']}"))["members"][0]["value"] == made["id"]


async def test_groups_have_users_of_the_organization_and_names_of_their_own(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    foreign = await person(api, organization=organization, by=outsider)
    group = await provider.group()
    for value in (foreign.id, group["id"], "nobody"):
        add = {"op": "add", "path": "members", "value": [{"value": value}]}
        refused(await provider.patch(f"/Groups/{group['id']}", add), 400, "invalidValue")
    body = {"schemas": [GROUP], "displayName": group["displayName"]}
    refused(await provider.send("POST", "/Groups", body), 409, "uniqueness")


# Who may


async def test_a_member_whose_name_an_inactive_user_has_is_not_added_to_a_group(api: Api, provider: Provider) -> None:
    email = fresh_email()
    old = await provider.user(email)
    done(await provider.patch(f"/Users/{old['id']}", {"op": "replace", "path": "active", "value": False}))
    accepted(await api.post(f"organizations/{api.organization}/users", {"email": email, "name": "Again", "roles": []}))
    listed = done(await provider.send("GET", f'/Users?filter=userName eq "{email}"'))["Resources"]
    [by_hand] = [each["id"] for each in listed if each["id"] != old["id"]]
    body = {"schemas": [GROUP], "displayName": fresh_name("group"), "members": [{"value": by_hand}]}
    detail = refused(await provider.send("POST", "/Groups", body), 409, "uniqueness")
    assert f"another user has the name '{email}' already" in detail
    assert (await provider.send("DELETE", f"/Users/{old['id']}")).status_code == 204
    done(await provider.send("POST", "/Groups", body), 201)


async def test_a_provider_reaches_its_own_organization_alone(api: Api, provider: Provider) -> None:
    outsider, organization, _ = await api.outsider()
    other = await provider_of(api, organization, outsider)
    user, group = await other.user(externalId="foreign"), await other.group()
    assert user["id"] not in [each["id"] for each in done(await provider.send("GET", "/Users"))["Resources"]]
    assert done(await provider.send("GET", '/Users?filter=externalId eq "foreign"'))["totalResults"] == 0
    body: dict[str, Any] = {"schemas": [USER], "userName": user["userName"]}
    for path in (f"/Users/{user['id']}", f"/Groups/{group['id']}"):
        refused(await provider.send("GET", path), 404)
        refused(
            await provider.send(
                "PUT", path, {**body, "schemas": [USER if "Users" in path else GROUP], "displayName": "x"}
            ),
            404,
        )
        refused(await provider.patch(path, {"op": "replace", "path": "displayName", "value": "x"}), 404)
        refused(await provider.send("DELETE", path), 404)
    assert done(await other.send("GET", f"/Users/{user['id']}"))["active"] is True


async def test_only_a_service_account_with_the_permission_provisions(api: Api, provider: Provider) -> None:
    anonymous = api.caller(None).client
    answer = await anonymous.get(f"{ROOT}/Users")
    refused(answer, 401)
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "service account" in refused(await api.client.get(f"{ROOT}/Users"), 403)
    own = accepted(await api.post(f"organizations/{api.organization}/accessTokens", {"name": "mine"}))["token"]
    assert "service account" in refused(await Provider(api, own).send("GET", "/Users"), 403)
    body = {"name": fresh_name("account"), "roles": ["Guest"]}
    account = accepted(await api.post(f"organizations/{api.organization}/serviceAccounts", body))["id"]
    token = accepted(await api.post(f"organizations/{api.organization}/accessTokens", {"name": "t", "owner": account}))[
        "token"
    ]
    assert "ProvisionUsers" in refused(await Provider(api, token).send("GET", "/Users"), 403)
    # And with the permission nothing else of the API.
    program = api.caller(f"Bearer {provider.token}")
    for path in ("users", "roles", "serviceAccounts", "audit", "applications"):
        found = await program.get(f"organizations/{api.organization}/{path}")
        assert found.status_code == 403 or found.json() == [], path
    body = {"email": fresh_email(), "name": "Nobody", "roles": []}
    assert (await program.post(f"organizations/{api.organization}/users", body)).status_code == 403


# Errors


async def test_every_error_has_the_form_of_scim(provider: Provider) -> None:
    made = await provider.user()
    path = f"/Users/{made['id']}"
    text = {"Content-Type": "application/scim+json"}
    for content, headers, status, scim_type in (
        (b"{", text, 400, "invalidSyntax"),
        (b"[]", text, 400, "invalidSyntax"),
        (b'{"a":1,"a":2}', text, 400, "invalidSyntax"),
        (b"<user/>", {"Content-Type": "text/xml"}, 415, None),
        (b"{}", {}, 415, None),
        (b'{"schemas":[],"userName":"\\u0000"}', text, 400, "invalidSyntax"),
        (b"x" * 40_000_000, text, 413, None),
    ):
        sent = await provider.client.request("POST", f"{ROOT}/Users", content=content, headers=headers)
        refused(sent, status, scim_type)
    for answer, status, scim_type in (
        (await provider.send("GET", "/Users/nobody"), 404, None),
        (await provider.send("GET", "/Users/%00"), 404, None),
        (await provider.send("GET", "/Nothing"), 404, None),
        (await provider.send("PUT", "/Users", {}), 405, None),
        (await provider.send("GET", "/Me"), 501, None),
        (await provider.send("POST", "/Bulk", {}), 501, None),
        (await provider.send("POST", "/Users", {"schemas": [USER]}), 400, "invalidValue"),
        (await provider.send("POST", "/Users", {"schemas": [USER], "userName": "no address"}), 400, "invalidValue"),
        (await provider.patch(path), 400, "invalidValue"),
        (await provider.patch(path, {"op": "move", "path": "active"}), 400, "invalidValue"),
        (await provider.patch(path, {"op": "remove"}), 400, "noTarget"),
        (await provider.patch(path, {"op": "remove", "path": "userName"}), 400, "mutability"),
        (await provider.patch(path, {"op": "add", "path": "a[[", "value": 1}), 400, "invalidPath"),
        (await provider.patch(path, {"op": "replace", "path": "active", "value": "perhaps"}), 400, "invalidValue"),
        (await provider.patch(path, {"op": "replace", "path": "id", "value": "x"}), 400, "mutability"),
        (await provider.patch(path, {"op": "replace", "path": "(" * 5000, "value": "x"}), 400, "invalidPath"),
        (await provider.patch(path, "nonsense"), 400, "invalidValue"),
    ):
        refused(answer, status, scim_type)
    assert done(await provider.send("GET", path)) == made  # nothing was half done


# Bounds


async def test_a_patch_is_bounded_before_it_is_applied(provider: Provider) -> None:
    made = await provider.user()
    path = f"/Users/{made['id']}"
    rename = {"op": "add", "path": "displayName", "value": "X"}
    refused(await provider.patch(path, *[rename] * 101), 400, "tooMany")
    keys = {f'emails[type eq "t{n}"].value': "a@example.org" for n in range(101)}
    refused(await provider.patch(path, {"op": "add", "value": keys}), 400, "tooMany")
    refused(await provider.patch(path, {"op": "add", "value": {f"a{n}": 1 for n in range(501)}}), 400, "tooMany")
    filtered = {"op": "add", "path": "emails[" + " and ".join(["value pr"] * 20) + "].value", "value": "b@example.org"}
    refused(await provider.patch(path, *[filtered] * 11), 400, "tooMany")
    for text in ("a" * 1001, " and ".join(['value eq "a"'] * 22), "(" * 22 + 'value eq "a"' + ")" * 22):
        detail = refused(
            await provider.patch(path, {"op": "add", "path": f"emails[{text}].value", "value": "b@example.org"}),
            400,
            "invalidPath",
        )
        assert "at most" in detail
    assert done(await provider.send("GET", path)) == made
    done(await provider.patch(path, *[rename] * 100))


async def test_a_user_has_twenty_addresses_however_they_come(provider: Provider) -> None:
    email = fresh_email()
    emails = [{"value": email, "primary": True}, *({"value": f"{n}@example.org"} for n in range(20))]
    body = {"schemas": [USER], "userName": email, "emails": emails}
    assert "at most 20" in refused(await provider.send("POST", "/Users", body), 400, "invalidValue")
    made = await provider.user(email, emails=emails[:20])
    path = f"/Users/{made['id']}"
    refused(await provider.send("PUT", path, body), 400, "invalidValue")
    one = {"op": "add", "path": 'emails[type eq "other"].value', "value": "one@example.org"}
    refused(await provider.patch(path, one), 400, "invalidValue")
    assert len(done(await provider.send("GET", path))["emails"]) == 20


async def test_filters_are_bounded_in_searches_too(provider: Provider) -> None:
    search = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"]}
    for text in ('userName eq "' + "a" * 1000 + '"', " and ".join(['userName eq "a"'] * 22)):
        refused(await provider.send("POST", "/Users/.search", {**search, "filter": text}), 400, "invalidFilter")
        refused(await provider.send("GET", f"/Users?filter={text}"), 400, "invalidFilter")
    many = {**search, "attributes": ["userName"] * 500}
    refused(await provider.send("POST", "/Users/.search", many), 400, "invalidValue")
    for start in (2**31 + 1, 2**64, 10**30):
        detail = refused(await provider.send("GET", f"/Users?startIndex={start}"), 400, "invalidValue")
        assert "startIndex" in detail
    refused(await provider.send("POST", "/Users/.search", {**search, "startIndex": 2**40}), 400, "invalidValue")


# Texts


@pytest.mark.parametrize("text", [r"a\u0000b", r"\ud800", r"\udc00x"])
async def test_what_cannot_be_stored_is_refused_in_filters_and_paths(provider: Provider, text: str) -> None:
    made = await provider.user()
    path = f"/Users/{made['id']}"
    emails = {"op": "replace", "path": f'emails[display eq "{text}"].value', "value": "z@example.org"}
    refused(await provider.patch(path, emails), 400, "invalidPath")
    key = {"op": "replace", "value": {emails["path"]: "z@example.org"}}
    refused(await provider.patch(path, key), 400, "invalidPath")
    refused(await provider.send("GET", f'/Users?filter=displayName eq "{text}"'), 400, "invalidFilter")
    search = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], "filter": f'id eq "{text}"'}
    refused(await provider.send("POST", "/Users/.search", search), 400, "invalidFilter")
    group = await provider.group()
    remove = {"op": "remove", "path": f'members[value eq "{text}"]'}
    refused(await provider.patch(f"/Groups/{group['id']}", remove), 400, "invalidPath")
    assert done(await provider.send("GET", path)) == made
    done(await provider.send("GET", '/Users?filter=displayName eq "nobody"'))


async def test_a_refused_value_is_named_in_one_sentence(provider: Provider) -> None:
    made = await provider.user()
    path = f"/Users/{made['id']}"
    for answer, name in (
        (await provider.patch(path, {"op": "replace", "path": "active", "value": "perhaps"}), "active"),
        (await provider.patch(path, {"op": "replace", "path": "name", "value": {"givenName": [1]}}), "givenName"),
        (await provider.patch(path, {"op": "replace", "path": "displayName", "value": {"a": 1}}), "displayName"),
        (await provider.patch(path, {"op": "add", "path": "emails", "value": [{"value": 5}]}), "value"),
        (await provider.send("POST", "/Users", {"schemas": [USER], "userName": ["a"], "emails": []}), "userName"),
        (await provider.send("GET", "/Users?startIndex=first"), "startIndex"),
        (await provider.patch(path, {"op": "replace", "path": "schemas", "value": [GROUP]}), "schemas"),
    ):
        detail = refused(answer, 400, "invalidValue")
        assert name.lower() in detail.lower(), detail
        assert "\n" not in detail
        assert "validation error" not in detail
        assert "pydantic" not in detail, detail


async def test_paths_to_nothing_are_refused_and_those_that_are_not_kept_ignored(provider: Provider) -> None:
    made = await provider.user()
    path = f"/Users/{made['id']}"
    core = USER + ":"
    for unknown in ("nothing", "name.nothing", 'emails[type eq "work"].nothing', core + "nothing"):
        detail = refused(await provider.patch(path, {"op": "add", "path": unknown, "value": "x"}), 400, "invalidPath")
        assert unknown in detail or unknown.removeprefix(core) in detail
    enterprise = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:department"
    for ignored in (enterprise, "title", 'addresses[type eq "work"].locality', core + "title"):
        changed = done(await provider.patch(path, {"op": "Add", "path": ignored, "value": "x"}))
        assert changed["userName"] == made["userName"]
    group = await provider.group()
    refused(
        await provider.patch(f"/Groups/{group['id']}", {"op": "add", "path": "nothing", "value": "x"}),
        400,
        "invalidPath",
    )


async def test_members_change_in_the_order_of_the_operations(provider: Provider) -> None:
    one, two, three = [(await provider.user())["id"] for _ in range(3)]
    group = await provider.group("", one)
    path = f"/Groups/{group['id']}"
    changed = done(
        await provider.patch(
            path,
            {"op": "Add", "value": {"members": [{"value": two}], "externalId": "e"}},
            {"op": "remove", "path": f'members[value eq "{one}" or value eq "{two}"]'},
            {"op": "add", "path": GROUP + ":members", "value": {"value": three, "$ref": "x"}},
            {"op": "remove", "path": "members", "value": []},
            {"op": "add", "path": "members", "value": [{"VALUE": one.upper()}]},
        )
    )
    assert [each["value"] for each in changed["members"]] == sorted([one, three])
    assert changed["externalId"] == "e"
    for operation in (
        {"op": "add", "path": "members"},
        {"op": "add", "path": "members", "value": ["x"]},
        {"op": "add", "path": "members", "value": [{"display": "x"}]},
    ):
        refused(await provider.patch(path, operation), 400, "invalidValue")
    assert done(await provider.send("GET", path)) == changed
    emptied = done(await provider.patch(path, {"op": "replace", "path": "members", "value": []}))
    assert "members" not in emptied


async def test_an_empty_user_name_is_refused_and_nothing_waits_for_it(provider: Provider) -> None:
    made = await provider.user()
    path, email = f"/Users/{made['id']}", {"value": fresh_email(), "primary": True}
    async with asyncio.timeout(30):
        for answer in (
            await provider.send("POST", "/Users", {"schemas": [USER], "userName": " ", "emails": [email]}),
            await provider.patch(
                path,
                {"op": "replace", "path": "userName", "value": " "},
                {"op": "replace", "path": "emails", "value": [email]},
            ),
        ):
            assert "userName" in refused(answer, 400, "invalidValue")
        assert done(await provider.send("GET", path)) == made


async def test_a_line_break_in_the_id_of_a_member_names_nobody(provider: Provider) -> None:
    who = await provider.user()
    group = await provider.group("", who["id"])
    remove = {"op": "remove", "path": 'members[value eq "a\nb"]'}
    left = done(await provider.patch(f"/Groups/{group['id']}", remove))
    assert left["members"] == group["members"]


@pytest.mark.parametrize("name", ["Ann\nAdministrator", "Ann\u202e"])
async def test_the_name_of_an_account_cannot_break_or_turn_a_line(api: Api, provider: Provider, name: str) -> None:
    email = fresh_email()
    body = {"schemas": [USER], "userName": email, "displayName": name}
    assert "displayName" in refused(await provider.send("POST", "/Users", body), 400, "invalidValue")
    assert email not in await members(api)
    outsider, organization, _ = await api.outsider()
    elsewhere = await person(api, organization=organization, by=outsider)
    refused(await provider.send("POST", "/Users", {**body, "userName": elsewhere.email}), 400, "invalidValue")


async def test_an_address_that_is_only_an_external_id_is_erased_with_the_record(api: Api, provider: Provider) -> None:
    email = fresh_email()
    left = await provider.user(email)
    assert (await provider.send("DELETE", f"/Users/{left['id']}")).status_code == 204
    made = await provider.user(externalId=email)

    command = ["erase-person", email, "--database-url", api.database.url, "--yes"]
    erased = await asyncio.to_thread(CliRunner().invoke, main, command)

    assert erased.exit_code == 0, erased.output
    assert done(await provider.send("GET", f'/Users?filter=externalId eq "{email}"'))["totalResults"] == 0
    refused(await provider.send("GET", f"/Users/{made['id']}"), 404)
