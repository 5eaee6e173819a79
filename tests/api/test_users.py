"""The users of an organization through the API (reference §2, User; conformance.md, "Beyond the reference")."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from tests.support.databases import Databases
from tests.support.pages import ORIGIN, browser, get, send
from tests.support.service import (
    EMAIL,
    PASSWORD,
    PERSON_PASSWORD,
    UNKNOWN,
    Api,
    Caller,
    accepted,
    basic,
    fresh_email,
    fresh_name,
    join,
    person,
    refused,
    running_api,
    user_named,
)


def users(organization: str) -> str:
    return f"organizations/{organization}/users"


async def test_a_list_shows_exactly_the_fields_of_the_reference(api: Api) -> None:
    who = await person(api, "Guest")
    rows = accepted(await api.get(users(api.organization)))
    assert all(set(row) == {"id", "name", "email", "roles", "canEvict", "canManageRoles"} for row in rows)
    assert await user_named(api, who.id) == {
        "id": who.id,
        "name": "Person",
        "email": who.email,
        "roles": ["Guest"],
        "canEvict": True,
        "canManageRoles": True,
    }


async def test_what_the_caller_may_do_to_a_user_follows_from_two_permissions(api: Api) -> None:
    who = await person(api)
    for entries, evict, manage in (
        (["Read: [/*]"], False, False),
        (["Read: [/*]", "ManageUsers: [/users/*]"], True, False),
        (["Read: [/*]", f"ManageRoles: [/users/{who.id}]"], False, True),
    ):
        caller = await api.member(*entries)
        [row] = [row for row in accepted(await caller.get(users(api.organization))) if row["id"] == who.id]
        assert (row["canEvict"], row["canManageRoles"]) == (evict, manage)


async def test_only_users_that_the_caller_may_read_are_listed(api: Api) -> None:
    who = await person(api)
    one = await api.member(f"Read: [/users/{who.id}]")
    assert [row["id"] for row in accepted(await one.get(users(api.organization)))] == [who.id]
    assert accepted(await (await api.member()).get(users(api.organization))) == []
    refused(await one.get(f"{users(api.organization)}/{UNKNOWN}"), 404, "NotFound")


async def test_lists_come_in_pages_when_asked(api: Api) -> None:
    for _ in range(3):
        await person(api)
    seen: list[str] = []
    path = f"{users(api.organization)}?limit=2"
    while True:
        answer = await api.get(path)
        page = accepted(answer)
        assert len(page) <= 2
        seen += [row["id"] for row in page]
        if "link" not in answer.headers:
            break
        path = answer.headers["link"].partition(">")[0].removeprefix("</api/1/")
    assert seen == sorted(row["id"] for row in accepted(await api.get(users(api.organization))))


async def test_one_user_is_read_in_full(api: Api) -> None:
    who = await person(api, "Guest")
    document = accepted(await api.get(f"{users(api.organization)}/{who.id}"))
    assert document.pop("createdAt") > 1_700_000_000_000
    assert document == {**await user_named(api, who.id), "enabled": True, "invited": False}


async def test_a_user_with_a_password_signs_in_at_once(api: Api) -> None:
    """As programs do, whose accounts are made with a password."""
    email = fresh_email()
    body = {"email": email, "name": "Program", "password": PERSON_PASSWORD, "roles": ["Guest"]}
    assert set(accepted(await api.post(users(api.organization), body))) == {"id"}
    program = api.caller(basic(email, PERSON_PASSWORD))
    assert [row["id"] for row in accepted(await program.get("organizations"))] == [api.organization]


async def test_a_password_that_somebody_else_chose_only_leads_to_an_own_one(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    outsider, organization, _ = await api.outsider()
    email, own = fresh_email(), "thirteen quiet ferries"
    body = {"email": email, "name": "Ann", "password": PERSON_PASSWORD}
    accepted(await outsider.post(users(organization), body))
    invited = accepted(await api.post(users(api.organization), {"email": email, "name": "Ann"}))["invitation"]
    given = api.caller(basic(email, PERSON_PASSWORD))
    refused(await given.post("users/me/invitations", {"invitation": invited}), 403, "PasswordChangeRequired")
    assert (await send(visitor, "/refreshToken", email=email, password=PERSON_PASSWORD)).status == 403
    page = await send(visitor, "/console/signIn", email=email, password=PERSON_PASSWORD, next="/console/account")
    assert (page.status, page.fields["email"], page.fields["newPassword"]) == (403, email, "")
    assert "launchbay_session" not in page.answer.headers.get("set-cookie", "")

    async def choose(new: str, repeated: str, current: str = PERSON_PASSWORD) -> httpx.Response:
        form = {"email": email, "next": "/console/account", "currentPassword": current}
        form |= {"newPassword": new, "repeatedPassword": repeated}
        return await visitor.post("/console/newPassword", data=form, headers={"Sec-Fetch-Site": "same-origin"})

    for new, repeated in ((own, "another"), (PERSON_PASSWORD, PERSON_PASSWORD), ("short", "short")):
        assert (await choose(new, repeated)).status_code == 400
    assert (await choose(own, own, "wrong")).status_code == 401
    done = await choose(own, own)
    assert (done.status_code, done.headers["location"]) == (303, "/console/signIn?next=/console/account")
    refused(await given.get("organizations"), 401, "NotAuthenticated")
    signed_in = await visitor.post("/console/signIn", data={"email": email, "password": own})
    assert signed_in.status_code == 303
    accepted(await api.caller(basic(email, own)).post("users/me/invitations", {"invitation": invited}))


async def test_a_password_that_somebody_else_chose_expires(api: Api, visitor: httpx.AsyncClient) -> None:
    email, own = fresh_email(), "thirteen quiet ferries"
    body = {"email": email, "name": "Ann", "password": PERSON_PASSWORD}
    user_id = accepted(await api.post(users(api.organization), body))["id"]
    async with api.database.connection() as connection:
        row = await connection.execute(
            "UPDATE users SET password_expires_at = now() WHERE id = %s"
            " AND password_expires_at BETWEEN now() + interval '6 days' AND now() + interval '8 days'",
            [user_id],
        )
        assert row.rowcount == 1
    given = api.caller(basic(email, PERSON_PASSWORD))
    answer = await given.get("organizations")
    assert "launchbay reset-password" in refused(answer, 401, "PasswordExpired")
    page = await send(visitor, "/console/signIn", email=email, password=PERSON_PASSWORD)
    assert (page.status, "launchbay_session" in page.answer.headers.get("set-cookie", "")) == (401, False)
    form = {"email": email, "currentPassword": PERSON_PASSWORD, "newPassword": own, "repeatedPassword": own}
    same_origin = {"Sec-Fetch-Site": "same-origin"}
    assert (await visitor.post("/console/newPassword", data=form, headers=same_origin)).status_code == 401
    refused(await api.caller(basic(email, "another one")).get("organizations"), 401, "NotAuthenticated")
    accepted(await api.delete(f"{users(api.organization)}/{user_id}"))
    accepted(await api.post(users(api.organization), body))
    accepted(await given.get("organizations"))


async def test_the_password_of_an_account_for_a_program_never_expires(api: Api) -> None:
    email = fresh_email()
    body = {"email": email, "name": "Builds", "password": PERSON_PASSWORD, "isForProgram": True}
    user_id = accepted(await api.post(users(api.organization), body))["id"]
    async with api.database.connection() as connection:
        row = await connection.execute(
            "UPDATE users SET password_expires_at = now() WHERE id = %s AND password_expires_at IS NOT NULL", [user_id]
        )
        assert row.rowcount == 0
    accepted(await api.caller(basic(email, PERSON_PASSWORD)).get("organizations"))
    rows = accepted(await api.get(f"organizations/{api.organization}/audit", object=user_id))
    assert [each for row in rows for each in row["changes"] if each["field"] == "isForProgram"]
    without = {"email": fresh_email(), "name": "Builds", "isForProgram": True}
    assert "needs a password" in refused(await api.post(users(api.organization), without), 400, "InvalidField")


async def test_a_password_of_ones_own_does_not_expire(api: Api) -> None:
    who = await person(api, "Guest")
    async with api.database.connection() as connection:
        await connection.execute("UPDATE users SET password_expires_at = now() WHERE id = %s", [who.id])
    accepted(await who.get("organizations"))


async def test_a_user_without_a_password_gets_a_link_and_cannot_sign_in(api: Api) -> None:
    email = fresh_email()
    created = accepted(await api.post(users(api.organization), {"email": email, "name": "Ann"}))
    assert set(created) == {"id", "invitation", "invitationExpiresAt"}
    assert created["invitation"].startswith("http://launchbay/invitation/")
    document = accepted(await api.get(f"{users(api.organization)}/{created['id']}"))
    assert (document["invited"], document["enabled"], document["roles"]) == (True, True, [])
    for password in ("", "x"):
        refused(await api.caller(basic(email, password)).get("organizations"), 401, "NotAuthenticated")


@pytest.mark.parametrize(("letter", "alike"), [("i", "\u0130"), ("k", "\u212a"), ("s", "\u017f")])
async def test_an_address_of_other_letters_is_nobody_elses(api: Api, letter: str, alike: str) -> None:
    """PostgreSQL and Python disagree on which letters become these in lower case."""
    email = f"{letter}{fresh_email()}"
    body = {"email": email.upper(), "name": "Ann", "password": PERSON_PASSWORD}
    created = accepted(await api.post(users(api.organization), body))
    assert accepted(await api.get(f"{users(api.organization)}/{created['id']}"))["email"] == email
    for own in (email, email.upper(), f" {email} "):
        accepted(await api.caller(basic(own, PERSON_PASSWORD)).get("organizations"))
    for other in (alike + email[1:], email.replace("example", "example\u200b")):
        answer = await api.caller(basic(other, PERSON_PASSWORD)).get("organizations")
        assert "printable ASCII" in refused(answer, 401, "NotAuthenticated")
        refused(await api.post(users(api.organization), {**body, "email": other}), 400, "InvalidEmail")


async def test_the_account_of_another_organization_is_invited_as_it_is(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, "Guest", organization=organization, by=outsider)
    body = {"email": who.email.upper(), "name": "Somebody else", "roles": ["Guest"]}
    refused(await api.post(users(api.organization), {**body, "password": "taken over by him"}), 400, "AccountExists")
    assert {row["id"] for row in accepted(await who.get("organizations"))} == {organization}
    added = accepted(await api.post(users(api.organization), body))
    assert (added["id"], added["pending"]) == (who.id, True)
    assert {row["id"] for row in accepted(await who.get("organizations"))} == {organization}
    assert "Person" not in str(accepted(await api.get(f"{users(api.organization)}/{who.id}")))
    accepted(await who.post("users/me/invitations", {"invitation": added["invitation"]}))
    assert {row["id"] for row in accepted(await who.get("organizations"))} == {organization, api.organization}
    assert (await user_named(api, who.id))["name"] == "Person"
    refused(await api.post(users(api.organization), body), 400, "AlreadyMember")
    refused(await api.caller(basic(who.email, "taken over by him")).get("organizations"), 401)


@pytest.mark.parametrize(
    "email", ["", "ann", "@", "ann@", "a b@example.org", "a:b@example.org", "x" * 251 + "@a.b", "a@b@c", "\u212aim@a.b"]
)
async def test_what_is_no_address_is_refused(api: Api, email: str) -> None:
    refused(
        await api.post(users(api.organization), {"email": email, "name": "Ann", "password": "x"}), 400, "InvalidEmail"
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": " "}, "InvalidName"),
        ({"password": ""}, "WeakPassword"),
        ({"password": "x" * 1025}, "WeakPassword"),
        ({"password": "password12"}, "WeakPassword"),
        ({"roles": ["Guest", "Pilot"]}, "UnknownRole"),
        ({"roles": "Guest"}, "WrongField"),
        ({"email": None}, "WrongField"),
    ],
)
async def test_a_refused_user_is_not_made(api: Api, change: dict[str, Any], code: str) -> None:
    email = fresh_email()
    body = {"email": email, "name": "Ann", "password": PERSON_PASSWORD, **change}
    answer = await api.post(users(api.organization), body)
    refused(answer, 400, code)
    assert "xxxx" not in answer.text
    assert email not in [row["email"] for row in accepted(await api.get(users(api.organization)))]


async def test_who_manages_users_needs_the_permission_for_roles_to_give_roles(api: Api) -> None:
    manager = await api.member("ManageUsers: [/users/*]", "Read: [/*]")
    body = {"email": fresh_email(), "name": "Ann", "password": PERSON_PASSWORD, "roles": ["Administrator"]}
    refused(await manager.post(users(api.organization), body), 403, "NotAllowed")
    refused(await api.caller(basic(str(body["email"]), PERSON_PASSWORD)).get("organizations"), 401)
    accepted(await manager.post(users(api.organization), {**body, "roles": []}))


async def test_two_requests_for_the_same_new_address_make_one_account(api: Api) -> None:
    for _ in range(3):
        body = {"email": fresh_email(), "name": "Twin", "password": PERSON_PASSWORD}
        answers = await asyncio.gather(*(api.post(users(api.organization), body) for _ in range(3)))
        assert sorted(answer.status_code for answer in answers) == [200, 400, 400]


async def test_a_removed_user_loses_the_organization_and_an_account_without_any_is_gone(api: Api) -> None:
    who = await person(api, "Guest")
    assert accepted(await api.delete(f"{users(api.organization)}/{who.id}")) == {}
    refused(await who.get("organizations"), 401, "NotAuthenticated")
    refused(await api.delete(f"{users(api.organization)}/{who.id}"), 404, "NotFound")
    again = accepted(await api.post(users(api.organization), {"email": who.email, "name": "New"}))
    assert again["id"] != who.id
    assert "invitation" in again


async def test_a_removed_user_who_belongs_elsewhere_keeps_the_account_but_no_roles(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, "Guest", organization=organization, by=outsider)
    await join(api, api.organization, who, "Administrator")
    accepted(await api.delete(f"{users(api.organization)}/{who.id}"))
    assert [row["id"] for row in accepted(await who.get("organizations"))] == [organization]
    refused(await who.get(users(api.organization)), 403, "NotAllowed")
    await join(api, api.organization, who)
    assert (await user_named(api, who.id))["roles"] == []


async def test_a_disabled_user_is_nobody_until_enabled_again(api: Api) -> None:
    who = await person(api, "Guest")
    accepted(await who.get("organizations"))
    path = f"{users(api.organization)}/{who.id}"
    for _ in range(2):
        assert accepted(await api.put(path, {"enabled": False})) == {}
    refused(await who.get("organizations"), 401, "NotAuthenticated")
    assert accepted(await api.get(path))["enabled"] is False
    accepted(await api.put(path, {"enabled": True}))
    accepted(await who.get("organizations"))
    for body in ({}, {"enabled": "no"}, {"enabled": None}):
        refused(await api.put(path, body), 400, "WrongField")


async def test_an_account_of_two_organizations_is_disabled_by_the_one_that_made_it(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, "Guest", organization=organization, by=outsider)
    await join(api, api.organization, who, "Administrator")
    refused(await api.put(f"{users(api.organization)}/{who.id}", {"enabled": False}), 403, "NotAllowed")
    accepted(await who.get("organizations"))
    accepted(await outsider.put(f"{users(organization)}/{who.id}", {"enabled": False}))
    refused(await who.get("organizations"), 401, "NotAuthenticated")
    accepted(await outsider.put(f"{users(organization)}/{who.id}", {"enabled": True}))
    accepted(await api.delete(f"{users(api.organization)}/{who.id}"))


async def test_nobody_escapes_disabling_by_an_organization_of_their_own(api: Api) -> None:
    who = await person(api, "Administrator")
    accepted(await who.post("organizations", {"name": fresh_name()}))
    accepted(await api.put(f"{users(api.organization)}/{who.id}", {"enabled": False}))
    refused(await who.get("organizations"), 401, "NotAuthenticated")


async def test_users_of_a_foreign_organization_stay_untouched(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, organization=organization, by=outsider)
    path = f"{users(organization)}/{who.id}"
    refused(await api.get(path), 403, "NotAllowed")
    refused(await api.put(path, {"enabled": False}), 403, "NotAllowed")
    refused(await api.delete(path), 403, "NotAllowed")
    refused(await api.post(users(organization), {"email": fresh_email(), "name": "Spy"}), 403, "NotAllowed")
    refused(await api.delete(f"{users(api.organization)}/{who.id}"), 404, "NotFound")
    accepted(await who.get("organizations"))


async def test_a_password_is_changed_by_who_knows_it(api: Api) -> None:
    who = await person(api, "Guest")
    body = {"currentPassword": PERSON_PASSWORD, "newPassword": "another one of theirs"}
    refused(await who.put("users/me/password", {**body, "currentPassword": "wrong"}), 400, "WrongPassword")
    for weak in ("", "too short", who.email, "1234567890"):
        refused(await who.put("users/me/password", {**body, "newPassword": weak}), 400, "WeakPassword")
    accepted(await who.get("organizations"))
    assert accepted(await who.put("users/me/password", body)) == {}
    refused(await who.get("organizations"), 401, "NotAuthenticated")
    accepted(await api.caller(basic(who.email, "another one of theirs")).get("organizations"))


async def test_guessing_the_current_password_is_slowed_down(api: Api) -> None:
    who = await person(api)
    bodies = [{"currentPassword": f"guess {number}", "newPassword": "mine"} for number in range(12)]
    statuses = [(await who.put("users/me/password", body)).status_code for body in bodies]
    assert statuses[0] == 400
    assert statuses[-1] == 429


async def test_a_request_without_credentials_is_401(api: Api) -> None:
    nobody = api.caller(None)
    for answer in (
        await nobody.get(users(api.organization)),
        await nobody.put("users/me/password", {"currentPassword": "a", "newPassword": "b"}),
        await nobody.get("tokens"),
        await nobody.post("organizations", {"name": fresh_name()}),
    ):
        refused(answer, 401, "NotAuthenticated")


CHOSEN = "chosen by ann"


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(api) as client:
        yield client


async def invite(api: Api) -> tuple[str, str, str]:
    """Return id, e-mail address and link of a new user."""
    email = fresh_email()
    body = {"email": email, "name": "Ann", "roles": ["Guest"]}
    created = accepted(await api.post(f"organizations/{api.organization}/users", body))
    return created["id"], email, created["invitation"]


def signed_in(api: Api, email: str, password: str = CHOSEN) -> Caller:
    return api.caller(basic(email, password))


async def test_an_invited_user_sets_a_password_and_signs_in_with_the_roles_given(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    user, email, link = await invite(api)
    page = await get(visitor, link)
    assert page.status == 200
    assert email in page.text
    done = await send(visitor, link, password=CHOSEN, repeated=CHOSEN)
    assert done.status == 200
    assert [httpx.URL(link).join(each).path for each in done.links] == ["/console/signIn", "/refreshToken"]
    [organization] = accepted(await signed_in(api, email).get("organizations"))
    assert organization["id"] == api.organization
    document = accepted(await api.get(f"organizations/{api.organization}/users/{user}"))
    assert (document["invited"], document["roles"]) == (False, ["Guest"])


async def test_a_link_works_once_also_for_two_at_the_same_moment(api: Api, visitor: httpx.AsyncClient) -> None:
    _, email, link = await invite(api)
    chosen = ("the first of the two", "the second of the two")
    pages = await asyncio.gather(*(send(visitor, link, password=p, repeated=p) for p in chosen))
    assert sorted(page.status for page in pages) == [200, 404]
    winner = chosen[[page.status for page in pages].index(200)]
    accepted(await signed_in(api, email, winner).get("organizations"))
    again = await send(visitor, link, password=CHOSEN, repeated=CHOSEN)
    assert again.status == 404
    assert (await get(visitor, link)).status == 404
    assert "Ask who invited you" in again.text


async def test_two_different_passwords_are_refused_and_the_link_stays_good(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    _, email, link = await invite(api)
    for password, repeated in ((CHOSEN, "other"), ("", ""), ("x" * 2000, "x" * 2000), ("password12", "password12")):
        page = await send(visitor, link, password=password, repeated=repeated)
        assert (page.status, page.fields["password"], page.fields["repeated"]) == (400, "", "")
        assert email in page.text
    assert (await send(visitor, link, password=CHOSEN, repeated=CHOSEN)).status == 200


async def test_another_site_cannot_send_the_form(api: Api, visitor: httpx.AsyncClient) -> None:
    _, email, link = await invite(api)
    page = await send(visitor, link, {"Origin": "http://evil.example"}, password=CHOSEN, repeated=CHOSEN)
    assert page.status == 403
    refused(await signed_in(api, email).get("organizations"), 401)


@pytest.mark.parametrize("token", ["x", "%C3%A9", "a" * 500, "%00", "..%2f..", "%f0%9f%98%80"])
async def test_a_link_that_never_was_is_404(visitor: httpx.AsyncClient, token: str) -> None:
    answer = await visitor.get(f"/invitation/{token}")
    assert answer.status_code == 404
    answer = await visitor.post(f"/invitation/{token}", data={"password": "x", "repeated": "x"})
    assert answer.status_code == 404


async def test_a_link_ends_after_some_days_with_the_account_and_with_disabling(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    user, _, link = await invite(api)
    async with api.database.connection() as connection:
        await connection.execute("UPDATE invitations SET expires_at = now() WHERE user_id = %s", [user])
    assert (await get(visitor, link)).status == 404
    assert (await send(visitor, link, password=CHOSEN, repeated=CHOSEN)).status == 404
    user, _, link = await invite(api)
    path = f"organizations/{api.organization}/users/{user}"
    accepted(await api.put(path, {"enabled": False}))
    assert (await get(visitor, link)).status == 404
    accepted(await api.put(path, {"enabled": True}))
    assert (await get(visitor, link)).status == 200
    accepted(await api.delete(path))
    assert (await get(visitor, link)).status == 404


async def test_neither_the_database_nor_the_log_has_the_secret_of_a_link(api: Api, visitor: httpx.AsyncClient) -> None:
    with capture_logs() as logs:
        user, _, link = await invite(api)
        secret = link.rpartition("/")[2]
        await visitor.get(link)
        await visitor.head(link)
        await visitor.request("PATCH", link)
        await visitor.get(f"/prefix/invitation/{secret}")
        await send(visitor, link, password=CHOSEN, repeated="other")
    assert len([line for line in logs if line["event"] == "http.request"]) == 6
    assert secret not in str(logs)
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT i::text FROM invitations i WHERE user_id = %s", [user])
        ((row,),) = await cursor.fetchall()
    assert secret not in row


async def test_links_lead_to_the_base_address_that_is_set(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, base_url="https://orchestra.example/bay/") as api:
        _, _, link = await invite(api)
        assert link.startswith("https://orchestra.example/bay/invitation/")
    databases.drop(url)


async def test_an_administrator_sees_and_lifts_a_block(api: Api) -> None:
    who = await person(api, "Guest")
    stranger = await api.member("ManageUsers: [/users/none]")
    blocks = f"organizations/{api.organization}/signInBlocks"
    for number in range(11):
        answer = await api.caller(basic(who.email, f"guess {number}")).get("organizations")
    refused(answer, 429, "TooManyRequests")
    [block] = [row for row in accepted(await api.get(blocks)) if row["id"] == who.id]
    assert 0 < block.pop("seconds") <= 60
    assert block == {"id": who.id, "name": "Person", "email": who.email}
    assert accepted(await stranger.get(blocks)) == []
    path = f"{users(api.organization)}/{who.id}/signInBlock"
    refused(await stranger.delete(path), 403, "NotAllowed")
    accepted(await api.delete(path))
    refused(await api.delete(path), 404, "NotFound")
    assert who.id not in {row["id"] for row in accepted(await api.get(blocks))}
    refused(await api.caller(basic(who.email, "another guess")).get("organizations"), 401, "NotAuthenticated")
    accepted(await api.caller(basic(who.email, PERSON_PASSWORD)).get("organizations"))
    log = accepted(await api.get(f"organizations/{api.organization}/audit?object={who.id}"))
    assert {"block_sign_in", "lift_sign_in_block"} <= {entry["operation"] for entry in log}


async def test_the_page_of_a_user_shows_and_lifts_a_block(api: Api) -> None:
    who = await person(api, "Guest")
    page = f"/console/organizations/{api.organization}/users/{who.id}"
    async with browser(api) as administrator:
        await administrator.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        assert "Lift the block" not in (await administrator.get(page)).text
        for number in range(10):
            await api.caller(basic(who.email, f"guess {number}")).get("organizations")
        shown = await get(administrator, page)
        assert "Lift the block" in shown.text
        fields = {"formToken": shown.fields["formToken"]}
        lifted = await administrator.post(f"{page}/unblock", data=fields, headers={"Origin": ORIGIN})
        assert lifted.status_code == 303
        assert "Lift the block" not in (await administrator.get(page)).text
