"""Second factors: set up in the console, asked for after the password, and demanded by organizations."""

import httpx
import pytest

from launchbay.store import users
from tests.support.pages import Page, browser, send
from tests.support.second_factors import Codes, application_of, post, protect, recovery_codes_of, shown
from tests.support.service import PERSON_PASSWORD, Api, Person, accepted, basic, person, refused

SIGN_IN = "/console/signIn"
SECOND = "/console/signIn/secondFactor"


async def password(client: httpx.AsyncClient, who: Person) -> Page:
    """Send the correct password, and return the page that asks for more."""
    return await shown(client, SIGN_IN, email=who.email, password=PERSON_PASSWORD)


async def is_signed_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/console/account")).status_code == 200


async def signs_in(api: Api, who: Person, code: str) -> bool:
    """Return whether the password and this code are enough."""
    async with browser(api) as client:
        page = await password(client, who)
        assert not await is_signed_in(client)
        await post(client, SECOND, token=page.fields["token"], code=code)
        return await is_signed_in(client)


async def factors(api: Api, who: Person, codes: Codes) -> list[str]:
    """Return the names of somebody's factors, as a program with a token sees them."""
    async with browser(api) as visitor:
        page = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
        page = await send(visitor, "/refreshToken/secondFactor", token=page.fields["token"], code=codes.recovery.pop())
        answer = await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": page.token})
    caller = api.caller(f"Bearer {accepted(answer)['jwtBearer']}")
    return [row["name"] for row in accepted(await caller.get("users/me/secondFactors"))]


async def audit_of(api: Api, user_id: str) -> list[str]:
    rows = accepted(await api.get(f"organizations/{api.organization}/audit?object=/users/{user_id}"))
    return [row["operation"] for row in rows]


async def test_with_a_second_factor_the_password_alone_is_not_enough_anywhere(api: Api) -> None:
    who = await person(api, "Guest")
    accepted(await who.get("organizations"))
    codes = await protect(api, who)
    refused(await who.get("organizations"), 401, "SecondFactorRequired")
    async with browser(api) as client:
        page = await send(client, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
        assert "lbr_" not in page.answer.text
        assert (
            await send(client, "/refreshToken/secondFactor", token=page.fields["token"], code="000000")
        ).status == 401
    assert await signs_in(api, who, codes.next())
    assert await factors(api, who, codes) == ["Authenticator app"]


async def test_a_code_works_once_also_for_two_at_the_same_moment(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    code = codes.next()
    assert await signs_in(api, who, code)
    assert not await signs_in(api, who, code)


async def test_the_code_of_the_set_up_does_not_sign_in(api: Api) -> None:
    who = await person(api, "Guest")
    async with browser(api) as client:
        await client.post(SIGN_IN, data={"email": who.email, "password": PERSON_PASSWORD})
        page = await shown(client, "/console/account/secondFactors", currentPassword=PERSON_PASSWORD)
        code = application_of(page).next()
        await shown(client, "/console/account/secondFactors/setUp", token=page.fields["token"], code=code)
    assert not await signs_in(api, who, code)


async def test_a_recovery_code_signs_in_once(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    assert await signs_in(api, who, codes.recovery[0].upper())
    assert not await signs_in(api, who, codes.recovery[0])
    assert "use_recovery_code" in await audit_of(api, who.id)
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT code_hash FROM recovery_codes WHERE user_id = %s", (who.id,))
        stored = b"".join(row[0] for row in await cursor.fetchall())
    assert not any(code.encode() in stored for code in codes.recovery)


async def test_the_page_of_the_second_factor_works_once_and_not_after_a_change(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    async with browser(api) as client, browser(api) as other:
        token = (await password(client, who)).fields["token"]
        assert (await client.post(SECOND, data={"token": token, "code": codes.recovery[0]})).status_code == 303
        again = await shown(other, SECOND, token=token, code=codes.recovery[1])
        assert again.status == 401
        token = (await password(other, who)).fields["token"]
        accepted(await api.delete(f"organizations/{api.organization}/users/{who.id}/secondFactors"))
        assert (await shown(other, SECOND, token=token, code=codes.recovery[2])).status == 401
        assert not await is_signed_in(client)
        assert not await is_signed_in(other)


@pytest.mark.parametrize("token", ["", "x", "\u00e9", "a" * 500])
async def test_without_the_password_there_is_no_second_step(api: Api, token: str) -> None:
    async with browser(api) as client:
        assert (await shown(client, SECOND, token=token, code="000000")).status == 401
        assert (await shown(client, "/console/signIn/setUp", token=token, code="000000")).status == 401


async def test_guessing_codes_is_slowed_down_over_all_sign_ins(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    statuses = []
    for number in range(8):
        async with browser(api) as client:
            token = (await password(client, who)).fields["token"]
            statuses.append((await shown(client, SECOND, token=token, code=f"00000{number}")).status)
    assert statuses[:5] == [401] * 5
    assert statuses[5:] == [429] * 3
    assert not await signs_in(api, who, codes.recovery[0])


async def test_a_new_factor_ends_the_other_sessions_and_tokens_of_sessions(api: Api) -> None:
    who = await person(api, "Guest")
    async with browser(api) as other:
        await other.post(SIGN_IN, data={"email": who.email, "password": PERSON_PASSWORD})
        assert await is_signed_in(other)
        await protect(api, who)
        assert not await is_signed_in(other)


async def test_factors_are_changed_with_the_password_only(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    async with browser(api) as client:
        token = (await password(client, who)).fields["token"]
        await client.post(SECOND, data={"token": token, "code": codes.recovery[0]})
        account = (await client.get("/console/account")).text
        factor = account.partition("/console/account/secondFactors/")[2].partition("/")[0]
        for path in ("secondFactors", f"secondFactors/{factor}/remove", "recoveryCodes", "tokens"):
            page = await shown(client, f"/console/account/{path}", currentPassword="a wrong password")
            assert page.status == 400, path
        page = await shown(client, "/console/account/tokens", currentPassword=PERSON_PASSWORD, label="mine")
        assert page.token
        renewed = await shown(client, "/console/account/recoveryCodes", currentPassword=PERSON_PASSWORD)
        assert not await signs_in(api, who, codes.recovery[1])
        assert await signs_in(api, who, recovery_codes_of(renewed)[0])
        removed = await post(client, f"/console/account/secondFactors/{factor}/remove", currentPassword=PERSON_PASSWORD)
        assert isinstance(removed, httpx.Response)
        assert await is_signed_in(client)
    accepted(await who.get("organizations"))
    done = await audit_of(api, who.id)
    assert [each for each in done if "factor" in each or "codes" in each] == [
        *("add_second_factor", "renew_recovery_codes", "remove_second_factor")
    ]


async def test_an_administrator_resets_the_factors_of_who_lost_them(api: Api) -> None:
    who = await person(api, "Guest")
    await protect(api, who)
    stranger = await api.member("Read: [/*]")
    path = f"organizations/{api.organization}/users/{who.id}/secondFactors"
    refused(await stranger.delete(path), 403, "NotAllowed")
    accepted(await api.delete(path))
    accepted(await who.get("organizations"))
    assert "reset_second_factors" in await audit_of(api, who.id)


async def test_an_organization_demands_a_second_factor_and_takes_tokens_only(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    who = await person(api, "Guest", organization=organization, by=outsider)
    accepted(await who.get("organizations"))
    async with browser(api) as visitor:
        token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token
    policy = f"organizations/{organization}/signInPolicy"
    assert accepted(await who.get(policy)) == {"secondFactorRequired": False}
    refused(await who.put(policy, {"secondFactorRequired": True}), 403, "NotAllowed")
    accepted(await outsider.put(policy, {"secondFactorRequired": True}))
    refused(await who.get("organizations"), 401)  # what was verified before ends
    refused(await who.get("organizations"), 401, "SecondFactorRequired")
    async with browser(api) as visitor:
        page = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
        assert (page.status, "lbr_" in page.text) == (401, False)
        answer = accepted(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}))
        caller = api.caller(f"Bearer {answer['jwtBearer']}")
        assert accepted(await caller.get(policy)) == {"secondFactorRequired": True}
        # The first sign-in sets a factor up.
        page = await shown(visitor, SIGN_IN, email=who.email, password=PERSON_PASSWORD)
        codes = application_of(page)
        wrong = await shown(visitor, "/console/signIn/setUp", token=page.fields["token"], code="12345")
        assert (wrong.status, await is_signed_in(visitor)) == (401, False)
        done = await shown(visitor, "/console/signIn/setUp", token=page.fields["token"], code=codes.next())
        codes.recovery = recovery_codes_of(done)
        assert await is_signed_in(visitor)
        factor = (await visitor.get("/console/account")).text.partition("/console/account/secondFactors/")[2]
        path = f"/console/account/secondFactors/{factor.partition('/')[0]}/remove"
        kept = await shown(visitor, path, currentPassword=PERSON_PASSWORD)
        assert (kept.status, "this is the last one" in kept.text) == (400, True)
    assert await signs_in(api, who, codes.next())


async def test_who_joins_an_organization_that_demands_a_factor_needs_one_at_once(api: Api) -> None:
    outsider, organization, _ = await api.outsider()
    accepted(await outsider.put(f"organizations/{organization}/signInPolicy", {"secondFactorRequired": True}))
    who = await person(api, "Guest")
    accepted(await who.get("organizations"))
    async with api.database.transaction() as connection:
        await users.join_organization(connection, organization_id=organization, user_id=who.id)
    refused(await who.get("organizations"), 401)  # what was verified before ends
    refused(await who.get("organizations"), 401, "SecondFactorRequired")


async def test_a_secret_is_sealed_in_the_database(api: Api) -> None:
    who = await person(api, "Guest")
    codes = await protect(api, who)
    async with api.database.connection() as connection:
        cursor = await connection.execute("SELECT secret FROM second_factors WHERE user_id = %s", (who.id,))
        [(stored,)] = await cursor.fetchall()
    assert codes.secret not in bytes(stored)


async def test_a_wrong_password_says_nothing_about_second_factors(api: Api) -> None:
    who = await person(api, "Guest")
    await protect(api, who)
    refused(await api.caller(basic(who.email, "wrong")).get("organizations"), 401, "NotAuthenticated")
