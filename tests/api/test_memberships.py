"""How people with an account join another organization and leave it, and what each organization sees of them."""

import asyncio
from typing import Any

import pytest

from tests.support.pages import ORIGIN, browser
from tests.support.service import (
    PERSON_PASSWORD,
    UNKNOWN,
    Api,
    Caller,
    Person,
    accepted,
    fresh_email,
    fresh_name,
    join,
    person,
    refused,
)

INVITATIONS = "users/me/invitations"


async def foreigner(api: Api) -> tuple[Person, Caller, str]:
    """Return somebody of another organization, its administrator, and that organization."""
    outsider, organization, _ = await api.outsider()
    return await person(api, "Guest", organization=organization, by=outsider), outsider, organization


async def invite(api: Api, who: Person, *roles: str) -> str:
    body = {"email": who.email, "name": "Ann as we know her", "roles": list(roles)}
    added = accepted(await api.post(f"organizations/{api.organization}/users", body))
    assert set(added) == {"id", "pending", "invitation", "invitationExpiresAt"}
    return str(added["invitation"])


async def test_a_membership_elsewhere_begins_when_the_person_accepts_it(api: Api) -> None:
    who, _, own = await foreigner(api)
    link = await invite(api, who, "Administrator")
    assert link.startswith("http://launchbay/console/invitations/")
    refused(await who.get(f"organizations/{api.organization}"), 403, "NotAllowed")
    assert who.id not in str(accepted(await api.get(f"organizations/{api.organization}/users")))
    [offered] = accepted(await who.get(INVITATIONS))
    assert offered.pop("expiresAt") > offered.pop("createdAt")
    name = accepted(await api.get(f"organizations/{api.organization}"))["name"]
    assert offered == {
        "id": offered["id"],
        "organizationId": api.organization,
        "organizationName": name,
        "roles": ["Administrator"],
    }
    assert accepted(await who.post(INVITATIONS, {"invitation": link})) == {"id": api.organization}
    assert {row["id"] for row in accepted(await who.get("organizations"))} == {own, api.organization}
    accepted(await who.get(f"organizations/{api.organization}/audit"))
    assert accepted(await who.get(INVITATIONS)) == []
    refused(await who.post(INVITATIONS, {"invitation": link}), 404, "InvalidInvitation")


async def test_who_made_an_account_in_advance_gains_nothing_when_its_address_is_invited(api: Api) -> None:
    """The administrator of another organization knows the password, and may even have changed it as that person."""
    impostor, _, own = await foreigner(api)
    await invite(api, impostor, "Administrator")
    changed = {"currentPassword": PERSON_PASSWORD, "newPassword": "chosen by the impostor"}
    accepted(await impostor.put("users/me/password", changed))
    impostor = Person(api, impostor.id, impostor.email, "chosen by the impostor")
    [offered] = accepted(await impostor.get(INVITATIONS))
    for guess in (offered["id"], offered["organizationId"], "", "x" * 200, "\u00e9"):
        refused(await impostor.post(INVITATIONS, {"invitation": guess}), 404, "InvalidInvitation")
    assert [row["id"] for row in accepted(await impostor.get("organizations"))] == [own]


async def test_a_link_is_good_for_its_person_only_once_and_some_days(api: Api) -> None:
    who, other = (await foreigner(api))[0], await person(api, "Guest")
    link = await invite(api, who)
    refused(await other.post(INVITATIONS, {"invitation": link}), 404, "InvalidInvitation")
    newer = await invite(api, who)
    refused(await who.post(INVITATIONS, {"invitation": link}), 404, "InvalidInvitation")
    async with api.database.connection() as connection:
        await connection.execute("UPDATE pending_memberships SET expires_at = now() WHERE user_id = %s", [who.id])
    assert accepted(await who.get(INVITATIONS)) == []
    refused(await who.post(INVITATIONS, {"invitation": newer}), 404, "InvalidInvitation")
    newest = await invite(api, who)
    answers = await asyncio.gather(*(who.post(INVITATIONS, {"invitation": newest}) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 404, 404]


async def test_an_invitation_is_declined(api: Api) -> None:
    who, other = (await foreigner(api))[0], await person(api, "Guest")
    link = await invite(api, who)
    [offered] = accepted(await who.get(INVITATIONS))
    for caller, id_ in ((other, offered["id"]), (who, UNKNOWN)):
        refused(await caller.delete(f"{INVITATIONS}/{id_}"), 404, "InvalidInvitation")
    assert accepted(await who.delete(f"{INVITATIONS}/{offered['id']}")) == {}
    refused(await who.post(INVITATIONS, {"invitation": link}), 404, "InvalidInvitation")
    [entry] = [each for each in await entries(api) if each["actor"]["id"] == who.id]
    assert (entry["operation"], entry["address"]) == ("decline_membership", "")


async def test_an_administrator_sees_changes_and_withdraws_an_invitation(api: Api) -> None:
    who, _, _ = await foreigner(api)
    link = await invite(api, who, "Guest")
    home, path = f"organizations/{api.organization}", f"organizations/{api.organization}/users/{who.id}"
    pending = {row["id"]: row for row in accepted(await api.get(f"{home}/invitations"))}[who.id]
    assert (pending["name"], pending["email"], pending["roles"]) == ("Ann as we know her", who.email, ["Guest"])
    shown = accepted(await api.get(path))
    assert (shown["pending"], shown["name"], shown["roles"]) == (True, "Ann as we know her", ["Guest"])
    accepted(await api.put(f"{path}/roles", ["Administrator"]))
    accepted(await api.delete(f"{path}/roles", ["Guest"]))
    assert accepted(await api.get(path))["roles"] == ["Administrator"]
    guest = await person(api, "Guest")
    refused(await guest.get(f"{home}/invitations"), 403, "NotAllowed")
    for refusal in (guest.put(f"{path}/roles", ["Guest"]), guest.delete(path)):
        refused(await refusal, 403, "NotAllowed")
    refused(await api.put(path, {"enabled": False}), 404, "NotFound")
    assert accepted(await api.delete(path)) == {}
    refused(await who.post(INVITATIONS, {"invitation": link}), 404, "InvalidInvitation")
    refused(await api.get(path), 404, "NotFound")


async def test_a_role_that_was_deleted_meanwhile_is_not_given(api: Api) -> None:
    who, _, _ = await foreigner(api)
    body = {"name": fresh_name("role"), "permissions": "- Read: [/*]\n"}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))
    link = await invite(api, who, "Guest", role["name"])
    accepted(await api.delete(f"roles/{role['id']}"))
    accepted(await who.post(INVITATIONS, {"invitation": link}))
    assert accepted(await api.get(f"organizations/{api.organization}/users/{who.id}"))["roles"] == ["Guest"]


async def test_who_cannot_give_a_role_cannot_offer_it(api: Api) -> None:
    who, _, _ = await foreigner(api)
    manager = await api.member("ManageUsers: [/users/*]", "Read: [/*]")
    body = {"email": who.email, "name": "Ann", "roles": ["Administrator"]}
    refused(await manager.post(f"organizations/{api.organization}/users", body), 403, "NotAllowed")
    assert accepted(await who.get(INVITATIONS)) == []


async def test_people_leave_an_organization_but_not_as_its_last_administrator(api: Api) -> None:
    who, outsider, own = await foreigner(api)
    await join(api, api.organization, who, "Administrator")
    assert accepted(await who.delete(f"users/me/organizations/{api.organization}")) == {}
    assert [row["id"] for row in accepted(await who.get("organizations"))] == [own]
    refused(await who.delete(f"users/me/organizations/{api.organization}"), 403, "NotAllowed")
    refused(await who.delete(f"users/me/organizations/{UNKNOWN}"), 404, "NotFound")
    refused(await outsider.delete(f"users/me/organizations/{own}"), 400, "LastAdministrator")
    accepted(await who.delete(f"users/me/organizations/{own}"))
    refused(await who.get("organizations"), 401, "NotAuthenticated")
    left = [each for each in await entries(api) if each["operation"] == "leave_organization"][-1]
    assert (left["actor"]["id"], left["before"]["roles"]) == (who.id, ["Administrator"])


async def test_an_organization_sees_of_its_guests_only_what_they_do_in_it(api: Api) -> None:
    who, outsider, own = await foreigner(api)
    await join(api, api.organization, who, "Administrator")
    async with browser(api) as visitor:
        form = {"email": who.email, "password": PERSON_PASSWORD}
        assert (await visitor.post("/console/signIn", data=form)).status_code == 303
        assert (await visitor.post("/refreshToken", data=form, headers={"Origin": ORIGIN})).status_code == 200
    accepted(await who.post(f"organizations/{api.organization}/applications", {"name": fresh_name()}))
    seen = {each["operation"] for each in await entries(api) if each["actor"]["id"] == who.id}
    assert seen == {"accept_membership", "create_application"}
    at_home = accepted(await outsider.get(f"organizations/{own}/audit?actor={who.id}"))
    assert {each["operation"] for each in at_home} == {"accept_invitation", "open_session", "generate_token"}


async def test_who_has_left_home_is_seen_and_disabled_by_nobody(api: Api) -> None:
    who, outsider, own = await foreigner(api)
    await join(api, api.organization, who)
    accepted(await outsider.delete(f"organizations/{own}/users/{who.id}"))
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": who.email, "password": PERSON_PASSWORD})
    for audit in (await entries(api), accepted(await outsider.get(f"organizations/{own}/audit"))):
        assert not [each for each in audit if each["operation"] == "open_session" and each["actor"]["id"] == who.id]


@pytest.mark.parametrize("is_in_home", [True, False])
async def test_an_invitation_is_answered_in_the_console(api: Api, *, is_in_home: bool) -> None:
    """The link leads through the sign-in to a page with the two answers."""
    who = (await foreigner(api))[0]
    link = await invite(api, who, "Guest")
    path = link.removeprefix("http://launchbay")
    async with browser(api) as visitor:
        answer = await visitor.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, f"/console/signIn?next={path}")
        form = {"email": who.email, "password": PERSON_PASSWORD, "next": path}
        signed_in = await visitor.post("/console/signIn", data=form)
        assert signed_in.headers["location"] == path
        page = (await visitor.get(path)).text
        assert "Accept" in page
        assert "Guest" in page
        token = page.split('name="formToken" value="')[1].split('"')[0]
        [offered] = accepted(await who.get(INVITATIONS))
        target = f"{path}/accept" if is_in_home else f"/console/account/invitations/{offered['id']}/decline"
        answered = await visitor.post(target, data={"formToken": token})
        assert answered.status_code == 303
        joined = {row["id"] for row in accepted(await who.get("organizations"))}
        assert (api.organization in joined) == is_in_home
        account = (await visitor.get("/console/account")).text
        assert "Leave an organization" in account
        again = await visitor.post(f"{path}/accept", data={"formToken": token})
        assert again.status_code == 404
        if is_in_home:
            left = await visitor.post(
                f"/console/account/organizations/{api.organization}/leave", data={"formToken": token}
            )
            assert left.status_code == 303
            assert api.organization not in str(accepted(await who.get("organizations")))


async def test_the_console_lists_who_is_invited(api: Api) -> None:
    who = (await foreigner(api))[0]
    administrator = await person(api, "Administrator")
    users = f"/console/organizations/{api.organization}/users"
    async with browser(api) as visitor:
        await visitor.post("/console/signIn", data={"email": administrator.email, "password": PERSON_PASSWORD})
        token = (await visitor.get(users)).text.split('name="formToken" value="')[1].split('"')[0]
        form = {"formToken": token, "email": who.email, "name": "Ann as we know her", "role": "Guest"}
        assert "/console/invitations/" in (await visitor.post(users, data=form)).text
        assert who.email in (await visitor.get(users)).text
        assert "Has not accepted yet" in (await visitor.get(f"{users}/{who.id}")).text
        withdrawn = await visitor.post(f"{users}/{who.id}/remove", data={"formToken": token})
        assert withdrawn.status_code == 303
        assert who.email not in (await visitor.get(users)).text
    assert accepted(await who.get(INVITATIONS)) == []


async def entries(api: Api) -> list[Any]:
    found: list[Any] = accepted(await api.get(f"organizations/{api.organization}/audit"))
    return found


async def test_an_address_without_an_account_is_no_invitation_of_this_kind(api: Api) -> None:
    body = {"email": fresh_email(), "name": "New"}
    added = accepted(await api.post(f"organizations/{api.organization}/users", body))
    assert "pending" not in added
    invited = accepted(await api.get(f"organizations/{api.organization}/invitations"))
    assert added["id"] not in [row["id"] for row in invited]
