"""Access tokens and service accounts through the API: what programs call it with."""

import asyncio
from typing import Any

import pytest

from launchbay.limits import ACCESS_TOKENS
from tests.support.databases import Databases
from tests.support.pages import browser, send
from tests.support.service import (
    EMAIL,
    PASSWORD,
    PERSON_PASSWORD,
    Api,
    Caller,
    Person,
    accepted,
    basic,
    fresh_name,
    person,
    refused,
    running_api,
)


def within(api: Api) -> str:
    return f"organizations/{api.organization}"


async def made(api: Api, caller: Caller, *scope: str, **more: Any) -> dict[str, Any]:
    body = {"name": "build server", **({"scope": list(scope)} if scope else {}), **more}
    return dict(accepted(await caller.post(f"{within(api)}/accessTokens", body)))


async def token(api: Api, caller: Caller, *scope: str, **more: Any) -> Caller:
    """Return a caller with a new access token of this one."""
    created = await made(api, caller, *scope, **more)
    return api.caller(f"Bearer {created['token']}")


async def role(api: Api, *entries: str) -> str:
    name = fresh_name("role")
    text = "".join(f"- {entry}\n" for entry in entries)
    accepted(await api.post(f"{within(api)}/roles", {"name": name, "permissions": text}))
    return name


async def service_account(api: Api, *roles: str) -> dict[str, Any]:
    body = {"name": fresh_name("Deployment"), "description": "Deploys", "roles": list(roles)}
    return dict(accepted(await api.post(f"{within(api)}/serviceAccounts", body)))


async def test_a_token_allows_what_its_scope_and_its_owner_allow_together(api: Api) -> None:
    who = await person(api, await role(api, "Read: [/*]", "CreateApplication: [/*]"))
    scoped = await token(api, who, "Read: [/*]", "ManageUsers: [/*]")
    accepted(await scoped.get(f"{within(api)}/applications"))
    accepted(await who.post(f"{within(api)}/applications", {"name": fresh_name("app")}))
    # Its owner may, its scope not.
    refused(await scoped.post(f"{within(api)}/applications", {"name": fresh_name("app")}), 403, "NotAllowed")
    # Its scope may, its owner not.
    refused(await scoped.post(f"{within(api)}/users", {"email": "x@example.org", "name": "X"}), 403, "NotAllowed")


@pytest.mark.parametrize("scope", [("Read: [/*]",), ()])
async def test_a_token_shows_but_never_replaces_the_saved_views_of_its_owner(api: Api, scope: tuple[str, ...]) -> None:
    who = await person(api, await role(api, "Read: [/*]"))
    path, view = f"{within(api)}/views", {"name": "Failed", "query": "status:failed", "of": "instances", "sort": ""}
    accepted(await who.put(path, {"views": [view]}))
    program = await token(api, who, *scope)
    refused(await program.put(path, {"views": []}), 403, "NotAllowed")
    assert accepted(await program.get(path)) == accepted(await who.get(path)) == {"views": [view]}


async def test_a_token_without_a_scope_allows_what_its_owner_may_do_now(api: Api) -> None:
    name = await role(api, "CreateApplication: [/*]")
    who = await person(api, name)
    program = await token(api, who)
    accepted(await program.post(f"{within(api)}/applications", {"name": fresh_name("app")}))
    accepted(await api.delete(f"{within(api)}/users/{who.id}/roles", [name]))
    refused(await program.post(f"{within(api)}/applications", {"name": fresh_name("app")}), 403, "NotAllowed")


async def test_a_field_that_tokens_do_not_have_is_refused(api: Api) -> None:
    body = {"name": "typed", "ownerId": api.organization}
    answer = await api.post(f"organizations/{api.organization}/accessTokens", body)
    assert "ownerId" in refused(answer, 400)


async def test_a_token_is_shown_once_and_listed_for_its_owner_and_administrators(api: Api) -> None:
    who, other = await person(api, "Guest"), await person(api, "Guest")
    created = await made(api, who, "Read: [/applications/*]", days=30)
    assert created["token"].startswith("lbt_")
    assert created["scope"] == ["Read: [/applications/*]"]
    for caller in (who, api):
        rows = accepted(await caller.get(f"{within(api)}/accessTokens"))
        [row] = [each for each in rows if each["id"] == created["id"]]
        assert row["owner"] == {"id": who.id, "name": "Person", "email": who.email, "isServiceAccount": False}
        assert row["expiresAt"] - row["createdAt"] == 30 * 86_400_000
        assert created["token"] not in str(rows)
    assert accepted(await other.get(f"{within(api)}/accessTokens")) == []
    refused(await other.delete(f"{within(api)}/accessTokens/{created['id']}"), 403, "NotAllowed")
    refused(await other.delete(f"{within(api)}/accessTokens/{other.id}"), 404, "NotFound")
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT t::text FROM access_tokens t")
        assert created["token"] not in str(await cursor.fetchall())


async def test_the_last_use_of_a_token_is_written_at_most_once_a_minute(api: Api) -> None:
    who = await person(api, "Guest")
    created = await made(api, who)
    program = api.caller(f"Bearer {created['token']}")

    async def last_use() -> Any:
        return accepted(await who.get(f"{within(api)}/accessTokens"))[0]["lastUsedAt"]

    assert await last_use() is None
    accepted(await program.get("organizations"))
    first = await last_use()
    accepted(await program.get("organizations"))
    assert await last_use() == first
    async with api.database.connection() as connection:
        await connection.execute("UPDATE access_tokens SET last_used_at = last_used_at - interval '61 seconds'")
    accepted(await program.get("organizations"))
    assert await last_use() > first - 1000


async def test_a_revoked_token_ends_at_once_on_all_servers(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api, running_api(url, engine=False) as other:
        created = await made(api, api)
        header = f"Bearer {created['token']}"
        for server in (api, other):
            accepted(await server.caller(header).get("organizations"))
        accepted(await api.delete(f"{within(api)}/accessTokens/{created['id']}"))
        for server in (api, other):
            refused(await server.caller(header).get("organizations"), 401, "NotAuthenticated")
    databases.drop(url)


@pytest.mark.parametrize("ending", ["disabled", "password", "everywhere", "removed", "expired"])
async def test_what_ends_the_credentials_of_a_person_ends_the_tokens(api: Api, ending: str) -> None:
    who = await person(api, "Guest")
    program = await token(api, who)
    accepted(await program.get("organizations"))
    user = f"{within(api)}/users/{who.id}"
    if ending == "disabled":
        accepted(await api.put(user, {"enabled": False}))
        refused(await program.get("organizations"), 401, "NotAuthenticated")
        accepted(await api.put(user, {"enabled": True}))
    elif ending == "password":
        body = {"currentPassword": PERSON_PASSWORD, "newPassword": "lorry spanner violet 19"}
        accepted(await who.put("users/me/password", body))
    elif ending == "everywhere":
        accepted(await who.delete("users/me/sessions"))
    elif ending == "removed":
        accepted(await api.delete(user))
    else:
        async with api.database.connection() as connection:
            await connection.execute("UPDATE access_tokens SET expires_at = now() WHERE user_id = %s", [who.id])
    refused(await program.get("organizations"), 401, "NotAuthenticated")


async def test_a_token_is_of_one_organization_only(api: Api) -> None:
    outsider, away, _ = await api.outsider()
    program = await token(api, api)
    refused(await program.get(f"organizations/{away}/applications"), 403, "NotAllowed")
    accepted(await outsider.post(f"organizations/{away}/users", {"email": EMAIL, "name": "A", "roles": ["Guest"]}))
    refused(await program.get(f"organizations/{away}/applications"), 403, "NotAllowed")
    assert [row["id"] for row in accepted(await program.get("organizations"))] == [api.organization]


async def test_a_token_cannot_act_on_the_account_of_its_owner(api: Api) -> None:
    who = await person(api, "Administrator")
    program = await token(api, who)
    body = {"currentPassword": PERSON_PASSWORD, "newPassword": "lorry spanner violet 19"}
    refused(await program.put("users/me/password", body), 403, "NotAllowed")
    refused(await program.delete("users/me/sessions"), 403, "NotAllowed")
    refused(await program.get("tokens"), 403, "NotAllowed")
    refused(await program.post("organizations", {"name": fresh_name()}), 403, "NotAllowed")
    narrow = await token(api, who, "Read: [/*]")
    refused(await narrow.put(f"{within(api)}/users/{who.id}/roles", ["Guest"]), 403, "NotAllowed")
    accepted(await who.get("tokens"))


async def test_a_token_makes_tokens_within_its_scope_only_and_they_end_with_it(api: Api) -> None:
    parent = await made(api, api, "Read: [/applications/*]", "CreateInstance: [/*]", days=10)
    program = api.caller(f"Bearer {parent['token']}")
    path = f"{within(api)}/accessTokens"
    for wider in (None, ["Read: [/*]"], ["Read: [/environments/*]"], ["ManageUsers: [/applications/*]"]):
        refused(await program.post(path, {"scope": wider} if wider else {}), 403, "NotAllowed")
    created = accepted(await program.post(path, {"scope": ["CreateInstance: [/applications/*]"], "days": 300}))
    assert created["expiresAt"] <= parent["expiresAt"]
    child = api.caller(f"Bearer {created['token']}")
    accepted(await child.get("organizations"))
    refused(await child.delete(f"{path}/{parent['id']}"), 403, "NotAllowed")
    accepted(await program.delete(f"{path}/{parent['id']}"))
    for each in (program, child):
        refused(await each.get("organizations"), 401, "NotAuthenticated")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"scope": ["Reed: [/*]"]}, "InvalidRole"),
        ({"scope": ["Read: [applications]"]}, "InvalidRole"),
        ({"scope": []}, "InvalidRole"),
        ({"days": 0}, "BadRequest"),
        ({"days": 367}, "BadRequest"),
        ({"name": " "}, "InvalidName"),
    ],
)
async def test_what_is_wrong_with_a_token_is_said(api: Api, body: dict[str, Any], code: str) -> None:
    refused(await api.post(f"{within(api)}/accessTokens", body), 400, code)


@pytest.mark.slow
async def test_the_number_of_tokens_of_an_owner_is_bounded(api: Api) -> None:
    who = await person(api, "Guest")
    for _ in range(ACCESS_TOKENS - 1):
        await made(api, who)
    answers = await asyncio.gather(*(who.post(f"{within(api)}/accessTokens", {}) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 400, 400]


async def test_the_audit_log_says_which_token_acted(api: Api) -> None:
    created = await made(api, api, name="night build")
    program = api.caller(f"Bearer {created['token']}")
    application = accepted(await program.post(f"{within(api)}/applications", {"name": fresh_name("app")}))["id"]
    log = accepted(await api.get(f"{within(api)}/audit?object={application}"))
    [entry] = [each for each in log if each["operation"] == "create_application"]
    assert entry["actor"]["method"] == "accessToken"
    assert entry["actor"]["email"] == EMAIL
    assert entry["actor"]["token"] == {"id": created["id"], "name": "night build"}
    [making] = accepted(await api.get(f"{within(api)}/audit?object={created['id']}"))
    assert making["operation"] == "create_access_token"
    assert created["token"] not in str(making)
    assert "token" not in making["actor"]
    async with browser(api) as client:
        await client.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        page = await client.get(f"/console/organizations/{api.organization}/audit?object={application}")
        assert "token night build" in page.text


async def test_an_explanation_names_the_scope(api: Api) -> None:
    program = await token(api, api, "Read: [/applications/*]", name="night build")
    path = f"/applications/{await api.application()}"
    explain = "permissions/explain?permission={}&path={}"
    assert accepted(await program.get(explain.format("Read", path)))["allowed"] is True
    denied = accepted(await program.get(explain.format("EditApplication", path)))
    assert denied["allowed"] is False
    assert "'night build'" in denied["reason"]
    assert accepted(await api.get(explain.format("EditApplication", path)))["allowed"] is True


@pytest.mark.slow
async def test_wrong_tokens_count_at_their_address_and_right_ones_still_work(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        program = await token(api, api)
        for _ in range(120):
            refused(await api.caller("Bearer lbt_old").get("organizations"), 401, "NotAuthenticated")
        statuses = [
            (await api.caller(f"Bearer lbt_{number}").get("organizations")).status_code for number in range(120)
        ]
        assert (set(statuses[:95]), statuses[-1]) == ({401}, 429)
        accepted(await program.get("organizations"))
    databases.drop(url)


async def test_an_idempotency_key_of_another_token_gets_no_answer(api: Api) -> None:
    one, other = await token(api, api), await token(api, api)
    path, body = f"{within(api)}/applications", {"name": fresh_name("app")}
    headers = {"Idempotency-Key": fresh_name("key").replace(" ", "-")}
    first = await one.client.post(path, json=body, headers=headers)
    assert first.status_code == 200
    again = await one.client.post(path, json=body, headers=headers)
    assert again.json() == first.json()
    refused(await other.client.post(path, json=body, headers=headers), 400, "IdempotencyKeyReused")


async def test_a_service_account_works_by_token_and_signs_in_nowhere(api: Api) -> None:
    account = await service_account(api, await role(api, "CreateApplication: [/*]"))
    program = await token(api, api, owner=account["id"])
    application = accepted(await program.post(f"{within(api)}/applications", {"name": fresh_name("app")}))["id"]
    log = accepted(await api.get(f"{within(api)}/audit?object={application}"))
    assert log[0]["actor"]["email"] == account["email"]
    refused(await program.post(f"{within(api)}/environments", {"name": fresh_name("e")}), 403, "NotAllowed")
    for password in ("", "None", PASSWORD):
        refused(await api.caller(basic(account["email"], password)).get("organizations"), 401, "NotAuthenticated")
    async with browser(api) as visitor:
        page = await send(visitor, "/console/signIn", email=account["email"], password="password")
        assert "wrong" in page.text
    user = {"email": account["email"], "name": "X", "password": "lorry spanner violet 19"}
    answer = await api.post(f"{within(api)}/users", user)
    assert answer.status_code in {400, 409}
    people = accepted(await api.get(f"{within(api)}/users"))
    assert account["id"] not in {row["id"] for row in people}


async def test_a_service_account_is_changed_disabled_and_deleted(api: Api) -> None:
    account = await service_account(api, "Guest")
    path = f"{within(api)}/serviceAccounts/{account['id']}"
    program = await token(api, api, owner=account["id"])
    accepted(await api.put(path, {"name": "Renamed", "description": "New"}))
    assert accepted(await api.get(path)) == {**account, "name": "Renamed", "description": "New"}
    accepted(await program.get("organizations"))
    accepted(await api.put(path, {"enabled": False}))
    refused(await program.get("organizations"), 401, "NotAuthenticated")
    accepted(await api.put(path, {"enabled": True}))
    refused(await program.get("organizations"), 401, "NotAuthenticated")
    rows = accepted(await api.get(f"{within(api)}/serviceAccounts"))
    assert account["id"] in {row["id"] for row in rows}
    accepted(await api.delete(path))
    refused(await api.get(path), 404, "NotFound")


async def test_a_new_name_does_not_enable_a_service_account_that_is_being_disabled(api: Api) -> None:
    account = await service_account(api)
    path = f"{within(api)}/serviceAccounts/{account['id']}"
    for number in range(5):
        accepted(await api.put(path, {"enabled": True}))
        changes: list[dict[str, Any]] = [{"name": f"robot {number}.{each}"} for each in range(8)]
        changes.insert(4, {"enabled": False})
        for answer in await asyncio.gather(*(api.put(path, each) for each in changes)):
            accepted(answer)
        assert accepted(await api.get(path))["enabled"] is False


async def test_only_who_may_assign_its_roles_makes_tokens_for_a_service_account(api: Api) -> None:
    strong, weak = await service_account(api, "Administrator"), await service_account(api, "Guest")
    rows = accepted(await api.get(f"{within(api)}/roles"))
    guest = next(row["id"] for row in rows if row["name"] == "Guest")
    entry = f"ManageRoles: [/users/*, /roles/{guest}]"
    manager: Person = await person(api, await role(api, entry, "ManageUsers: [/*]", "Read: [/*]"))
    await made(api, manager, owner=weak["id"])
    path = f"{within(api)}/accessTokens"
    refused(await manager.post(path, {"owner": strong["id"]}), 403, "NotAllowed")
    # Nobody makes tokens of other people, whatever the role.
    refused(await api.post(path, {"owner": manager.id}), 403, "NotAllowed")
    # Nor does a token make one for an account that may do more than its scope.
    narrow = await token(api, api, "ManageRoles: [/*]")
    refused(await narrow.post(path, {"owner": strong["id"]}), 403, "BeyondOwnRights")


async def test_a_service_account_is_no_administrator_whom_an_organization_could_be_left_to(api: Api) -> None:
    outsider, away, _ = await api.outsider()
    body = {"name": "Robot", "roles": ["Administrator"]}
    accepted(await outsider.post(f"organizations/{away}/serviceAccounts", body))
    [me] = accepted(await outsider.get(f"organizations/{away}/users"))
    answer = await outsider.delete(f"organizations/{away}/users/{me['id']}/roles", ["Administrator"])
    refused(answer, 400, "LastAdministrator")
