"""A forgotten password is replaced on the server's machine, beside the running server."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from click.testing import CliRunner, Result

from launchbay.cli.main import main
from launchbay.store import users
from tests.support.pages import browser, send
from tests.support.second_factors import protect
from tests.support.service import (
    PERSON_PASSWORD,
    Api,
    Person,
    accepted,
    basic,
    fresh_email,
    person,
    refused,
)

GIVEN = "seven patient lighthouses"
OWN = "thirteen quiet ferries"


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(api) as client:
        yield client


async def reset(api: Api, email: str, *options: str, typed: str = GIVEN) -> Result:
    """Run the command beside the server, with a password on its standard input."""
    command = ["reset-password", email, "--database-url", api.database.url, "--password-stdin", *options]
    return await asyncio.to_thread(CliRunner().invoke, main, command, input=f"{typed}\n")


async def succeeded(api: Api, email: str, *options: str) -> str:
    result = await reset(api, email, *options)
    assert result.exit_code == 0, result.output
    return result.stdout


async def failed(api: Api, email: str, *options: str, typed: str = GIVEN) -> str:
    result = await reset(api, email, *options, typed=typed)
    assert (result.exit_code, result.stdout) == (1, "")
    return result.stderr


@pytest.mark.slow
async def test_the_new_password_leads_to_an_own_one_and_ends_all_that_was_signed_in(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    who, other = await person(api, "Guest"), await person(api, "Guest")
    token = (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token
    await visitor.post("/console/signIn", data={"email": who.email, "password": PERSON_PASSWORD})
    assert (await visitor.get("/console/account")).status_code == 200
    accepted(await who.get("organizations"))

    printed = await succeeded(api, who.email.upper())
    assert f"Replaced the password of {who.email}, and ended all sessions and tokens" in printed
    assert "The next sign-in must be within 7 days." in printed
    assert GIVEN not in printed

    refused(await who.get("organizations"), 401, "NotAuthenticated")
    assert (await visitor.get("/console/account")).status_code == 303
    refused(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}), 401)
    accepted(await other.get("organizations"))

    page = await send(visitor, "/console/signIn", email=who.email, password=GIVEN)
    assert (page.status, page.fields["newPassword"]) == (403, "")
    form = {"email": who.email, "currentPassword": GIVEN, "newPassword": OWN, "repeatedPassword": OWN}
    chosen = await visitor.post("/console/newPassword", data=form, headers={"Sec-Fetch-Site": "same-origin"})
    assert chosen.status_code == 303
    signed_in = await visitor.post("/console/signIn", data={"email": who.email, "password": OWN})
    assert (signed_in.status_code, "signIn" in signed_in.headers["location"]) == (303, False)


async def test_the_audit_log_names_the_command_line_of_the_server(api: Api) -> None:
    who = await person(api, "Guest")
    await succeeded(api, who.email)
    path = f"organizations/{api.organization}/audit?object={who.id}"
    [entry] = [each for each in accepted(await api.get(path)) if each["operation"] == "reset_password"]
    assert (entry["actor"]["id"], entry["actor"]["email"]) == ("operator", "the server's command line")
    assert entry["after"] == {"removesSecondFactors": False}


async def test_who_was_blocked_by_wrong_passwords_signs_in_with_the_new_one(api: Api) -> None:
    who = await person(api, "Guest")
    for number in range(11):
        answer = await api.caller(basic(who.email, f"guess {number}")).get("organizations")
    refused(answer, 429, "TooManyRequests")
    await succeeded(api, who.email)
    accepted(await api.caller(basic(who.email, GIVEN)).get("organizations"))


@pytest.mark.slow
async def test_second_factors_go_only_when_asked(api: Api) -> None:
    who = await person(api, "Guest")
    await protect(api, who)
    again = Person(api, who.id, who.email, GIVEN)
    assert "The second factors stay. If they are lost, add --remove-second-factors." in await succeeded(api, who.email)
    refused(await again.get("organizations"), 401, "SecondFactorRequired")
    assert "Removed the second factors" in await succeeded(api, who.email, "--remove-second-factors")
    accepted(await again.get("organizations"))
    log = accepted(await api.get(f"organizations/{api.organization}/audit?object={who.id}"))
    resets = [entry["after"]["removesSecondFactors"] for entry in log if entry["operation"] == "reset_password"]
    assert sorted(resets) == [False, True]


async def test_a_disabled_account_stays_disabled(api: Api) -> None:
    who = await person(api, "Guest")
    path = f"organizations/{api.organization}/users/{who.id}"
    accepted(await api.put(path, {"enabled": False}))
    assert "The account is disabled, and stays so." in await succeeded(api, who.email)
    refused(await api.caller(basic(who.email, GIVEN)).get("organizations"), 401)
    accepted(await api.put(path, {"enabled": True}))
    accepted(await api.caller(basic(who.email, GIVEN)).get("organizations"))


async def test_a_weak_password_is_refused_and_changes_nothing(api: Api) -> None:
    who = await person(api, "Guest")
    assert "at least" in await failed(api, who.email, typed="short")
    assert "is the email address of the account" in await failed(api, who.email, typed=who.email)
    accepted(await who.get("organizations"))


async def test_an_address_that_has_no_password_here_is_a_sentence(api: Api) -> None:
    unknown, invited = fresh_email(), fresh_email()
    assert f"No account has the email address {unknown}" in await failed(api, unknown)
    assert "Invalid email address" in await failed(api, "nobody")
    created = accepted(await api.post(f"organizations/{api.organization}/users", {"email": invited, "name": "Ann"}))
    assert "has no password yet" in await failed(api, invited)
    async with api.database.transaction() as connection:
        await users.insert_identity(
            connection, issuer="https://login.example.org", subject=invited, user_id=created["id"]
        )
    assert "signs in through the identity provider" in await failed(api, invited)


async def test_it_asks_for_the_password_twice_and_only_for_a_known_account(api: Api) -> None:
    who = await person(api, "Guest")
    command = ["reset-password", who.email, "--database-url", api.database.url]
    typed = f"{GIVEN}\nanother one\n{GIVEN}\n{GIVEN}\n"
    result = await asyncio.to_thread(CliRunner().invoke, main, command, input=typed)
    assert (result.exit_code, result.output.count("New password")) == (0, 2)
    assert "do not match" in result.output
    assert GIVEN not in result.output
    accepted(await api.caller(basic(who.email, GIVEN)).get("organizations"))
    unknown = await asyncio.to_thread(CliRunner().invoke, main, ["reset-password", fresh_email(), *command[2:]])
    assert (unknown.exit_code, "New password" in unknown.output) == (1, False)
