"""Who signs out at the identity provider is signed out here (OpenID Connect Back-Channel Logout 1.0)."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from tests.support.databases import Databases
from tests.support.external_services import OPENID_CLIENT, Provider, consent
from tests.support.pages import browser
from tests.support.service import EMAIL, PASSWORD, Api, Person, accepted, person, refused, running_api

# The provider's own library warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
LOGOUT = "/signIn/openid/logout"


@pytest.fixture(scope="module")
async def api(databases: Databases, provider: Provider) -> AsyncIterator[Api]:
    url = databases.create()
    async with running_api(url, engine=False, oidc_issuer=provider.issuer, **OPENID_CLIENT) as api:
        yield api
    databases.drop(url)


@pytest.fixture
async def browsers(api: Api) -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as stack:
        yield stack


async def signed_in(api: Api, browsers: AsyncExitStack, subject: str) -> httpx.AsyncClient:
    """Return a browser that has a session of the console through the provider."""
    client = await browsers.enter_async_context(browser(api))
    begun = await client.get("/signIn/openid?to=console")
    back = await client.get(await consent(begun.headers["location"], subject))
    assert (back.status_code, back.headers["location"]) == (303, "/console")
    assert await is_signed_in(client)
    return client


async def is_signed_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/console/account")).status_code == 200


async def log_out(api: Api, token: str) -> httpx.Response:
    """Send a logout token, as the provider does: from elsewhere, without a cookie."""
    async with browser(api) as client:
        return await client.post(LOGOUT, data={"logout_token": token})


async def known(api: Api, provider: Provider, subject: str, **claims: Any) -> Person:
    added = await person(api, "Guest")
    await provider.know(subject, email=added.email, email_verified=True, **claims)
    return added


@pytest.mark.slow
async def test_a_logout_ends_the_sessions_of_its_session_at_the_provider_only(
    api: Api, provider: Provider, browsers: AsyncExitStack
) -> None:
    who = await known(api, provider, "lena", sid="first")
    first = await signed_in(api, browsers, "lena")
    await provider.know("lena", email=who.email, email_verified=True, sid="second")
    second = await signed_in(api, browsers, "lena")
    answer = await log_out(api, provider.logout_token(sid="first"))
    assert (answer.status_code, answer.json(), answer.headers["cache-control"]) == (200, {}, "no-store")
    assert (await is_signed_in(first), await is_signed_in(second)) == (False, True)


@pytest.mark.slow
async def test_a_logout_of_a_person_ends_all_sessions_through_the_provider_and_no_others(
    api: Api, provider: Provider, browsers: AsyncExitStack
) -> None:
    await provider.know("chief", email=EMAIL, email_verified=True, sid="third")
    await known(api, provider, "nils")
    mine = [await signed_in(api, browsers, "chief") for _ in range(2)]
    other = await signed_in(api, browsers, "nils")
    with_password = await browsers.enter_async_context(browser(api))
    await with_password.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
    assert (await log_out(api, provider.logout_token(sub="chief"))).status_code == 200
    assert [await is_signed_in(client) for client in (*mine, other, with_password)] == [False, False, True, True]
    rows = accepted(await api.get(f"organizations/{api.organization}/audit"))
    ends = [row for row in rows if row["after"] == {"by": "identity provider"}]
    assert [(row["operation"], row["actor"]["email"]) for row in ends][-1] == ("close_session", EMAIL)


async def test_sessions_that_the_provider_gave_no_id_end_with_their_person(
    api: Api, provider: Provider, browsers: AsyncExitStack
) -> None:
    await known(api, provider, "olga")
    client = await signed_in(api, browsers, "olga")
    assert (await log_out(api, provider.logout_token(sid="unknown"))).status_code == 200
    assert await is_signed_in(client)
    assert (await log_out(api, provider.logout_token(sid="unknown", sub="olga"))).status_code == 200
    assert not await is_signed_in(client)


async def test_tokens_of_programs_stay(api: Api, provider: Provider) -> None:
    await known(api, provider, "pia")
    async with browser(api) as client:
        begun = await client.get("/signIn/openid")
        shown = await client.get(await consent(begun.headers["location"], "pia"))
        token = next(word for word in shown.text.replace("<", " ").replace(">", " ").split() if word.startswith("lbr_"))
        assert (await log_out(api, provider.logout_token(sub="pia"))).status_code == 200
        accepted(await client.post("/refreshToken/jwtBearer", json={"refreshToken": token}))


NOW = int(time.time())
BROKEN: dict[str, dict[str, Any]] = {
    "of another provider": {"iss": "https://elsewhere.example"},
    "for another client": {"aud": "somebody-else"},
    "an ID token": {"nonce": "once"},
    "without the event": {"events": {"https://elsewhere.example/event": {}}},
    "with another form of events": {"events": ["http://schemas.openid.net/event/backchannel-logout"]},
    "with an event that isn't an object": {"events": {"http://schemas.openid.net/event/backchannel-logout": True}},
    "of nobody": {"sub": None},
    "of something that isn't a subject": {"sub": 7},
    "from the future": {"iat": NOW + 3_600, "exp": NOW + 7_200},
    "that has expired": {"iat": NOW - 3_600, "exp": NOW - 3_000},
    "that is old": {"iat": NOW - 3_600, "exp": NOW + 3_600},
    "without a time": {"iat": None},
}


@pytest.mark.parametrize("changes", BROKEN.values(), ids=BROKEN)
async def test_a_token_that_breaks_a_rule_ends_nothing(
    api: Api, provider: Provider, browsers: AsyncExitStack, changes: dict[str, Any]
) -> None:
    await known(api, provider, "rosa")
    client = await signed_in(api, browsers, "rosa")
    answer = await log_out(api, provider.logout_token(**{"sub": "rosa", **changes}))
    refused(answer, 400, "InvalidLogoutToken")
    assert await is_signed_in(client)


@pytest.mark.parametrize("change", ["", "x", "cut", "signature", "none"])
async def test_what_the_provider_has_not_signed_ends_nothing(api: Api, provider: Provider, change: str) -> None:
    head, body, signature = provider.logout_token(sub="rosa").split(".")
    token = {
        "cut": f"{head}.{body}",
        "signature": f"{head}.{body}.{signature[::-1]}",
        "none": f"eyJhbGciOiJub25lIn0.{body}.",
    }.get(change, change)
    refused(await log_out(api, token), 400, "InvalidLogoutToken")


async def test_an_old_logout_does_not_end_a_later_session(
    api: Api, provider: Provider, browsers: AsyncExitStack
) -> None:
    await known(api, provider, "sven")
    token = provider.logout_token(sub="sven", iat=int(time.time()) - 120)
    client = await signed_in(api, browsers, "sven")
    assert (await log_out(api, token)).status_code == 200
    assert await is_signed_in(client)


async def test_a_server_without_a_provider_takes_no_logouts(databases: Databases, provider: Provider) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api:
        refused(await log_out(api, provider.logout_token(sub="rosa")), 404, "NotFound")
    databases.drop(url)
