"""Signing in through an OpenID Connect provider: a real one on loopback, and a browser that goes there and back."""

import base64
import hashlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from launchbay.auth.openid import cookie_name
from launchbay.auth.secret_key import SecretKey, read_secret_key
from launchbay.errors import CannotStart
from launchbay.settings import Settings
from tests.support.databases import Databases
from tests.support.external_services import OPENID_CLIENT, Provider, begin, consent, query, sign_in
from tests.support.pages import ORIGIN, Page, browser, get, send
from tests.support.service import PERSON_PASSWORD, Api, accepted, basic, fresh_email, person, refused, running_api

UNVERIFIED: list[dict[str, Any]] = [{"email_verified": False}, {}, {"email_verified": "no"}]
# The provider's own library warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture(scope="module")
async def api(databases: Databases, provider: Provider) -> AsyncIterator[Api]:
    """A service where only who was added may sign in."""
    url = databases.create()
    async with running_api(
        url, engine=False, oidc_issuer=provider.issuer, oidc_name="Acme login", **OPENID_CLIENT
    ) as api:
        yield api
    databases.drop(url)


@pytest.fixture(scope="module")
async def open_api(databases: Databases, provider: Provider) -> AsyncIterator[Api]:
    """A service that makes accounts for people of one domain."""
    url = databases.create()
    settings: dict[str, Any] = {"oidc_allowed_domains": "example.org, Acme.Example", "oidc_new_user_roles": "Guest"}
    async with running_api(url, engine=False, oidc_issuer=provider.issuer, **OPENID_CLIENT, **settings) as api:
        yield api
    databases.drop(url)


async def member(api: Api, provider: Provider, subject: str, **claims: Any) -> Any:
    """Add somebody, whom the provider knows with the same address."""
    added = await person(api, "Guest")
    await provider.know(subject, email=added.email, email_verified=True, **claims)
    return added


async def account_of(api: Api, page: Page) -> Any:
    """Exchange the token on the page for a session, and return the organizations that it sees."""
    async with browser(api) as client:
        answer = await client.post("/refreshToken/jwtBearer", json={"refreshToken": page.token})
        session = accepted(answer)["jwtBearer"]
    caller = api.caller(f"Bearer {session}")
    return accepted(await caller.get("tokens"))


async def test_the_page_offers_the_provider_by_its_name(api: Api) -> None:
    async with browser(api) as client:
        page = await get(client, "/refreshToken")
        assert "Acme login" in page.text
        assert "/signIn/openid" in page.links


async def test_who_signs_in_at_the_provider_gets_a_token_that_works(api: Api, provider: Provider) -> None:
    anna = await member(api, provider, "anna")
    page = await sign_in(api, "anna")
    assert page.status == 200
    assert anna.email in page.text
    assert len(await account_of(api, page)) == 1


async def test_the_request_has_state_nonce_and_a_challenge_that_the_exchange_answers(
    api: Api, provider: Provider
) -> None:
    await member(api, provider, "pkce")
    async with browser(api) as client:
        url = await begin(client)
        sent = query(url)
        assert url.startswith(f"{provider.issuer}/oauth2/authorize?")
        assert sent["response_type"] == "code"
        assert sent["client_id"] == "launchbay"
        assert sent["redirect_uri"] == f"{ORIGIN}/signIn/openid/callback"
        assert set(sent["scope"].split()) == {"openid", "email", "profile"}
        assert len(sent["state"]) >= 32
        assert len(sent["nonce"]) >= 32
        assert sent["code_challenge_method"] == "S256"
        assert Page(await client.get(await consent(url, "pkce"))).status == 200
    asked = provider.token_requests()[-1]
    digest = hashlib.sha256(asked.form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == sent["code_challenge"]
    assert asked.headers["authorization"] == "Basic " + base64.b64encode(b"launchbay:client-secret").decode()


async def test_the_cookie_is_for_this_server_alone_and_tells_nothing(api: Api) -> None:
    async with browser(api) as client:
        answer = await client.get("/signIn/openid")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert "Path=/signIn/openid;" in cookie
        sent = query(answer.headers["location"])
        assert sent["state"] not in cookie
        assert sent["nonce"] not in cookie


async def test_the_provider_leads_back_below_the_path_of_the_base_url(databases: Databases, provider: Provider) -> None:
    url = databases.create()
    settings = {**OPENID_CLIENT, "base_url": f"{ORIGIN}/launchbay"}
    async with running_api(url, engine=False, oidc_issuer=provider.issuer, **settings) as api:
        await member(api, provider, "paul")
        async with browser(api) as client:
            begun = await client.get("/launchbay/signIn/openid?to=console")
            assert "Path=/launchbay/signIn/openid;" in begun.headers["set-cookie"]
            back = await consent(begun.headers["location"], "paul")
            assert back.startswith(f"{ORIGIN}/launchbay/signIn/openid/callback?")
            ended = await client.get(back)
            assert (ended.status_code, ended.headers["location"]) == (303, "/launchbay/console")
            assert (await client.get("/launchbay/console", follow_redirects=True)).status_code == 200
    databases.drop(url)


@pytest.mark.slow
async def test_an_account_stays_with_its_identity_when_addresses_change(api: Api, provider: Provider) -> None:
    first = await member(api, provider, "bea")
    await sign_in(api, "bea")
    await provider.know("bea", email=fresh_email(), email_verified=True)
    assert first.email in (await sign_in(api, "bea")).text
    # Somebody else gets the old address, and not the account.
    await provider.know("bert", email=first.email, email_verified=True)
    page = await sign_in(api, "bert")
    assert page.status == 403
    assert "somebody else" in page.text


@pytest.mark.slow
async def test_an_address_that_the_provider_has_not_verified_opens_nothing(api: Api, provider: Provider) -> None:
    added = await person(api, "Guest")
    for number, claims in enumerate(UNVERIFIED):
        await provider.know(f"carl{number}", email=added.email, **claims)
        page = await sign_in(api, f"carl{number}")
        assert page.status == 403
        assert "hasn't verified your email address" in page.text
    await provider.know("carl9")
    assert (await sign_in(api, "carl9")).status == 403


@pytest.mark.parametrize("is_replaced", [True, False])
async def test_linking_ends_what_whoever_made_the_account_may_know(
    api: Api, provider: Provider, *, is_replaced: bool
) -> None:
    """Also a password that they chose as that person, and the tokens made with it."""
    email, password, token = fresh_email(), PERSON_PASSWORD, ""
    body = {"email": email, "name": "Ann", "password": password, "roles": ["Guest"]}
    accepted(await api.post(f"organizations/{api.organization}/users", body))
    caller = api.caller(basic(email, password))
    async with browser(api) as visitor:
        if is_replaced:
            body = {"currentPassword": password, "newPassword": "thirteen quiet ferries"}
            accepted(await caller.put("users/me/password", body))
            caller = api.caller(basic(email, "thirteen quiet ferries"))
            token = (await send(visitor, "/refreshToken", email=email, password="thirteen quiet ferries")).token
        accepted(await caller.get("organizations"))
        subject = f"linked-{is_replaced}"
        await provider.know(subject, email=email, email_verified=True)
        assert (await sign_in(api, subject)).status == 200
        refused(await caller.get("organizations"), 401, "NotAuthenticated")
        refused(await visitor.post("/refreshToken/jwtBearer", json={"refreshToken": token}), 401)


async def test_addresses_are_compared_without_regard_to_case(api: Api, provider: Provider) -> None:
    added = await person(api, "Guest")
    await provider.know("dora", email=added.email.upper(), email_verified=True)
    assert added.email in (await sign_in(api, "dora")).text


async def test_an_address_of_other_letters_from_the_provider_is_nobodys(api: Api, provider: Provider) -> None:
    email = f"k{fresh_email()}"
    accepted(await api.post(f"organizations/{api.organization}/users", {"email": email, "name": "Kim"}))
    await provider.know("kelvin", email="\u212a" + email[1:], email_verified=True)
    page = await sign_in(api, "kelvin")
    assert page.status == 400
    assert "only printable ASCII" in page.text


async def test_who_has_no_account_is_not_let_in_unless_accounts_are_made(api: Api, provider: Provider) -> None:
    email = fresh_email()
    await provider.know("emil", email=email, email_verified=True)
    page = await sign_in(api, "emil")
    assert page.status == 403
    assert f"no account for {email}" in page.text


async def test_a_new_person_gets_an_account_with_the_roles_that_are_set(open_api: Api, provider: Provider) -> None:
    email = fresh_email()
    await provider.know("fred", email=email, email_verified=True, name="Fred Freed")
    for _ in range(2):
        assert email in (await sign_in(open_api, "fred")).text
    users = accepted(await open_api.get(f"organizations/{open_api.organization}/users"))
    [fred] = [user for user in users if user["email"] == email]
    assert (fred["name"], fred["roles"]) == ("Fred Freed", ["Guest"])
    rows = accepted(await open_api.get(f"organizations/{open_api.organization}/audit", object=fred["id"]))
    operations = [row["operation"] for row in rows]
    assert operations.count("create_user") == 1
    assert operations.count("link_identity") == 1


@pytest.mark.slow
async def test_only_people_of_the_allowed_domains_come_in(open_api: Api, provider: Provider) -> None:
    await provider.know("gina", email="gina@acme.example", email_verified=True)
    assert (await sign_in(open_api, "gina")).status == 200
    for number, email in enumerate(("gus@elsewhere.example", "gus@example.org.evil.example", "gus@sub.example.org")):
        await provider.know(f"gus{number}", email=email, email_verified=True)
        page = await sign_in(open_api, f"gus{number}")
        assert page.status == 403
        assert "domain" in page.text
    # Who leaves the domain may not come in any more, account or not.
    await provider.know("gina", email="gina@elsewhere.example", email_verified=True)
    assert (await sign_in(open_api, "gina")).status == 403


async def test_a_disabled_account_is_refused(api: Api, provider: Provider) -> None:
    added = await member(api, provider, "hans")
    await sign_in(api, "hans")
    async with api.database.connection() as connection:
        await connection.execute("UPDATE users SET enabled = false WHERE id = %s", [added.id])
    page = await sign_in(api, "hans")
    assert page.status == 401
    assert "disabled" in page.text


async def test_an_answer_to_another_attempt_is_refused(api: Api, provider: Provider) -> None:
    await member(api, provider, "ida")
    async with browser(api) as victim, browser(api) as attacker:
        back = await consent(await begin(attacker), "ida")
        await begin(victim)
        page = Page(await victim.get(back))
        assert page.status == 401
        assert "begun no sign-in" in page.text
    async with browser(api) as fresh:
        assert Page(await fresh.get(back)).status == 401
    assert "lbr_" not in page.answer.text


async def test_two_tabs_of_a_browser_sign_in_in_any_order(api: Api, provider: Provider) -> None:
    await member(api, provider, "two-tabs")
    async with browser(api) as client:
        first, second = await begin(client), await begin(client)
        assert len(client.cookies) == 2
        # A link to the callback that somebody sends ends no attempt.
        assert (await client.get("/signIn/openid/callback?state=foreign&code=x")).status_code == 401
        assert len(client.cookies) == 2
        backs = [await consent(each, "two-tabs") for each in (second, first)]
        assert Page(await client.get(backs[0])).status == 200
        assert list(client.cookies) == [cookie_name(query(first)["state"])]
        assert Page(await client.get(backs[1])).status == 200
        assert not dict(client.cookies)


async def test_a_browser_keeps_some_attempts_and_the_oldest_go(api: Api, provider: Provider) -> None:
    await member(api, provider, "many-tabs")
    async with browser(api) as client:
        begun = [await begin(client) for _ in range(7)]
        names = [cookie_name(query(each)["state"]) for each in begun]
        assert set(client.cookies) == set(names[-5:])
        assert Page(await client.get(await consent(begun[0], "many-tabs"))).status == 401
        assert Page(await client.get(await consent(begun[-5], "many-tabs"))).status == 200


async def test_a_code_works_once(api: Api, provider: Provider) -> None:
    await member(api, provider, "jan")
    async with browser(api) as client:
        back = await consent(await begin(client), "jan")
        cookies = dict(client.cookies)
        assert Page(await client.get(back)).status == 200
        assert not dict(client.cookies), "the attempt is over"
        page = Page(await client.get(back, headers={"Cookie": "; ".join(f"{k}={v}" for k, v in cookies.items())}))
        assert page.status == 401
        assert "used already" in page.text


@pytest.mark.parametrize(
    "answer",
    ["", "?code=x", "?state=x&code=y", "?error=access_denied", "?code=x&state=" + "s" * 5000, "?state=%00&code=%00"],
)
async def test_an_answer_that_is_none_is_refused(api: Api, answer: str) -> None:
    async with browser(api) as client:
        await begin(client)
        reply = await client.get(f"/signIn/openid/callback{answer}")
        assert reply.status_code in {400, 401}
        assert "lbr_" not in reply.text


async def test_who_says_no_at_the_provider_is_told_so(api: Api, provider: Provider) -> None:
    async with browser(api) as client:
        url = await begin(client)
        back = await consent(url, "kim", action="deny")
        state = query(url)["state"]
        reply = await client.get(f"{back}&state={state}" if "state=" not in back else back)
        page = Page(reply)
        assert page.status == 401
        assert "refused" in page.text


async def test_what_the_provider_says_is_shown_as_text(api: Api) -> None:
    async with browser(api) as client:
        state = query(await begin(client))["state"]
        evil = "<script>alert(1)</script>"
        reply = await client.get(
            "/signIn/openid/callback", params={"error": "x", "error_description": evil, "state": state}
        )
        assert reply.status_code == 401
        assert evil not in reply.text
        assert "&lt;script&gt;" in reply.text


def secret_key(api: Api) -> SecretKey:
    return read_secret_key(api.settings.key_file())


async def change_attempt(api: Api, client: httpx.AsyncClient, **changes: Any) -> dict[str, str]:
    """Return the browser's cookie with something changed, sealed as only the server can."""
    [(name, value)] = client.cookies.items()
    key = secret_key(api)
    attempt = json.loads(key.open(base64.urlsafe_b64decode(value), "openid sign-in"))
    sealed = key.seal(json.dumps({**attempt, **changes}).encode(), "openid sign-in")
    client.cookies.clear()
    return {"Cookie": f"{name}={base64.urlsafe_b64encode(sealed).decode()}"}


async def test_an_id_token_for_another_nonce_is_refused(api: Api, provider: Provider) -> None:
    await member(api, provider, "lea")
    async with browser(api) as client:
        back = await consent(await begin(client), "lea")
        page = Page(await client.get(back, headers=await change_attempt(api, client, nonce="another")))
        assert page.status == 401
        assert "cannot be trusted" in page.text


async def test_an_attempt_ends_after_its_time(api: Api, provider: Provider) -> None:
    await member(api, provider, "max")
    async with browser(api) as client:
        back = await consent(await begin(client), "max")
        page = Page(await client.get(back, headers=await change_attempt(api, client, until_s=time.time() - 1)))
        assert page.status == 401
        assert "10 minutes" in page.text


async def test_a_cookie_that_nobody_sealed_is_refused(api: Api, provider: Provider) -> None:
    async with browser(api) as client:
        state = query(await begin(client))["state"]
        client.cookies.clear()
        for value in ("", "AAAA", "é", base64.urlsafe_b64encode(b"\x01" * 80).decode()):
            headers = {"Cookie": f"{cookie_name(state)}={value}".encode("latin-1")}
            reply = await client.get(f"/signIn/openid/callback?state={state}&code=x", headers=headers)  # type: ignore[arg-type] # bytes are taken
            assert reply.status_code == 401


async def test_a_provider_that_is_away_makes_503_and_the_local_password_still_works(databases: Databases) -> None:
    url = databases.create()
    async with (
        running_api(url, engine=False, oidc_issuer="http://localhost:9", **OPENID_CLIENT) as api,
        browser(api) as client,
    ):
        page = await get(client, "/signIn/openid")
        assert page.status == 503
        assert page.answer.headers["retry-after"]
        assert (await get(client, "/refreshToken")).status == 200
    databases.drop(url)


async def test_a_provider_that_calls_itself_otherwise_is_not_used(databases: Databases, provider: Provider) -> None:
    url = databases.create()
    issuer = f"http://localhost:{provider.port}/"
    async with running_api(url, engine=False, oidc_issuer=issuer, **OPENID_CLIENT) as api, browser(api) as client:
        assert (await get(client, "/signIn/openid")).status == 503
    databases.drop(url)


async def test_naming_a_provider_opens_its_address_to_no_workflow(databases: Databases, provider: Provider) -> None:
    url = databases.create()
    async with running_api(url, oidc_issuer=provider.issuer, **OPENID_CLIENT) as api:
        step = {"action": "restcall", "parameters": {"command": f"{provider.issuer}/jwks"}}
        instance = await api.launch(await api.application(json.dumps({"launch": {"steps": [{"call": step}]}})))
        document = await api.settled(instance)
        assert document["status"] == "Failed"
        assert "refused" in document["errorMessage"]
    databases.drop(url)


async def test_without_a_provider_there_is_no_such_way(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as api, browser(api) as client:
        assert (await get(client, "/signIn/openid")).status == 404
        assert (await get(client, "/signIn/openid/callback?code=x")).status == 404
        assert "/signIn/openid" not in (await get(client, "/refreshToken")).links
        refused(await api.get("signIn/openid"), 404)
    databases.drop(url)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"oidc_issuer": "http://login.example.org"}, "https"),
        ({"oidc_issuer": "nonsense"}, "https"),
        ({"oidc_issuer": "https://login.example.org", "oidc_client_id": ""}, "OIDC_CLIENT_ID"),
        ({"oidc_issuer": "https://login.example.org", "base_url": ""}, "BASE_URL"),
        ({"oidc_issuer": "https://login.example.org", "oidc_scopes": "email"}, "openid"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_the_start(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(CannotStart, match=sentence):
        Settings(**{**OPENID_CLIENT, **given})


def test_the_client_secret_is_not_shown_with_the_settings() -> None:
    assert "client-secret" not in repr(Settings(**OPENID_CLIENT))
