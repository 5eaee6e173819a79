"""The page that shows a new refresh token once (reference §5; conformance.md, "Authentication")."""

import base64
import dataclasses
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from launchbay.usecases.sign_in import SignInLink
from launchbay.web.api.sign_in import routes
from launchbay.web.app import create_app
from launchbay.web.requests import ApiDeps
from tests.support.databases import Databases
from tests.support.pages import Page, browser, get, send
from tests.support.service import (
    EMAIL,
    PASSWORD,
    PERSON_PASSWORD,
    UNKNOWN,
    Api,
    Person,
    accepted,
    basic,
    person,
    refused,
    running_api,
)


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(api) as client:
        yield client


async def test_a_visitor_signs_in_and_sees_a_token_this_once(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api, "Guest")
    form = await get(visitor, "/refreshToken")
    assert (form.status, set(form.fields)) == (200, {"email", "password", "label"})
    shown = await send(visitor, "/refreshToken", email=f" {who.email} ", password=PERSON_PASSWORD, label="build server")
    assert shown.status == 200
    assert who.email in shown.text
    assert shown.token not in (await get(visitor, "/refreshToken")).answer.text
    [row] = accepted(await who.get("tokens"))
    assert set(row) == {"id", "label", "createdAt", "expiresAt", "lastUsedAt"}
    assert (row["label"], row["lastUsedAt"]) == ("build server", None)
    assert row["expiresAt"] > row["createdAt"] > 1_700_000_000_000
    assert shown.token not in str(row)


async def test_pages_have_no_scripts_and_a_policy_that_would_run_none(visitor: httpx.AsyncClient) -> None:
    page = await get(visitor, "/refreshToken")
    policy = page.answer.headers["content-security-policy"]
    [style] = re.findall(r"<style>(.*?)</style>", page.answer.text, re.DOTALL)
    style_hash = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
    assert "script" not in page.tags
    assert not {name for name in page.attributes if name.startswith("on") or name == "style"}
    assert page.answer.headers["cache-control"] == "no-store"
    assert page.answer.headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize(
    ("email", "password"), [("", ""), ("nobody@example.org", "x"), ("{own}", "wrong"), ("{own}", "")]
)
async def test_wrong_credentials_show_the_form_again(
    api: Api, visitor: httpx.AsyncClient, email: str, password: str
) -> None:
    who = await person(api)
    page = await send(visitor, "/refreshToken", email=email.format(own=who.email), password=password)
    assert page.status == 401
    assert "wrong" in page.text
    assert page.fields["password"] == ""
    assert not page.answer.headers["www-authenticate"].startswith("Basic")


async def test_what_a_visitor_types_is_shown_as_text(visitor: httpx.AsyncClient) -> None:
    evil = '"><script>alert(1)</script>'
    page = await send(visitor, "/refreshToken", email=evil, password="x", label=evil)
    assert "script" not in page.tags
    assert (page.fields["email"], page.fields["label"]) == (evil, evil)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://launchbay"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://launchbay"}, 200),
        ({}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://other.launchbay"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://launchbay:81"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://[launchbay"}, 403),
    ],
)
async def test_forms_that_another_site_sends_are_refused(
    api: Api, visitor: httpx.AsyncClient, headers: dict[str, str], status: int
) -> None:
    who = await person(api)
    page = await send(visitor, "/refreshToken", headers, email=who.email, password=PERSON_PASSWORD)
    assert page.status == status
    assert len(accepted(await who.get("tokens"))) == (1 if status == 200 else 0)


async def test_more_than_ten_tokens_an_hour_block_the_user_and_nobody_else(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    who, other = await person(api), await person(api)
    with capture_logs() as logs:
        for _ in range(10):
            assert (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).status == 200
        blocked = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)
    assert blocked.status == 429
    assert 890 <= int(blocked.answer.headers["retry-after"]) <= 900
    assert "lbr_" not in blocked.answer.text
    assert len(accepted(await who.get("tokens"))) == 10
    kinds = [line["kind"] for line in logs if line["event"] == "security_event.reported"]
    assert kinds == ["many refresh tokens"] * 5 + ["generation of refresh tokens blocked"]
    assert (await send(visitor, "/refreshToken", email=other.email, password=PERSON_PASSWORD)).status == 200


async def test_guessing_on_the_page_is_slowed_down(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    pages = [await send(visitor, "/refreshToken", email=who.email, password=f"guess {n}") for n in range(12)]
    assert pages[0].status == 401
    assert pages[-1].status == 429
    assert int(pages[-1].answer.headers["retry-after"]) >= 1


async def test_a_disabled_account_gets_no_token(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    accepted(await api.put(f"organizations/{api.organization}/users/{who.id}", {"enabled": False}))
    assert (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).status == 401


async def test_labels_are_short_and_printable(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    for label in ("x" * 101, "a\nb"):
        page = await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD, label=label)
        assert page.status == 400
    assert accepted(await who.get("tokens")) == []


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (b"email=a", "application/x-www-form-urlencoded"),
        (b"", "application/x-www-form-urlencoded"),
        (b"email=%ff&password=x", "application/x-www-form-urlencoded"),
        (b"email=%00&password=x", "application/x-www-form-urlencoded"),
        (b"\xff=", "application/x-www-form-urlencoded"),
        (b"&".join(b"f%d=" % number for number in range(200)), "application/x-www-form-urlencoded"),
        (b"email=a&password=b", "text/plain"),
        (b"{}", "application/json"),
    ],
)
async def test_what_is_no_form_is_400(visitor: httpx.AsyncClient, content: bytes, media_type: str) -> None:
    answer = await visitor.post("/refreshToken", content=content, headers={"Content-Type": media_type})
    refused(answer, 400)


async def test_an_endless_form_is_413(visitor: httpx.AsyncClient) -> None:
    content = b"email=" + b"a" * 20_000
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    refused(await visitor.post("/refreshToken", content=content, headers=headers), 413, "TooLarge")


async def test_the_page_offers_every_way_to_sign_in_that_is_set_up(api: Api) -> None:
    ways = (SignInLink("Company account", "signIn/company"),)
    reached = {field.name: None for field in dataclasses.fields(ApiDeps)}
    services = ApiDeps(**{**reached, "base_url": "", "sign_in_links": ways})  # type: ignore[arg-type] # only the ways
    app = create_app(routes, None, services)  # type: ignore[arg-type] # every page is public
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://launchbay") as client:
        page = Page(await client.get("/refreshToken"))
    assert list(page.links) == ["signIn/company"]
    assert "Company account" in page.text


async def test_no_page_needs_credentials_and_every_page_is_described(visitor: httpx.AsyncClient) -> None:
    paths = accepted(await visitor.get("/api/1/openapi.json"))["paths"]
    assert {row.path for row in routes} <= set(paths)
    assert all(row.public for row in routes)


EXCHANGE = "/refreshToken/jwtBearer"


async def refresh_token(visitor: httpx.AsyncClient, who: Person) -> str:
    return (await send(visitor, "/refreshToken", email=who.email, password=PERSON_PASSWORD)).token


async def session(visitor: httpx.AsyncClient, token: str) -> str:
    return str(accepted(await visitor.post(EXCHANGE, json={"refreshToken": token}))["jwtBearer"])


def claims_of(jwt: str) -> Any:
    part = jwt.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


async def test_a_refresh_token_is_exchanged_for_a_session_token(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api, "Guest")
    token = await refresh_token(visitor, who)
    answer = accepted(await visitor.post(EXCHANGE, json={"refreshToken": token}))
    assert set(answer) == {"jwtBearer", "expiresIn"}
    assert answer["expiresIn"] == 36_000
    claims = claims_of(answer["jwtBearer"])
    assert claims["sub"] == who.id
    assert claims["exp"] - claims["iat"] == 36_000
    caller = api.caller(f"Bearer {answer['jwtBearer']}")
    assert [row["id"] for row in accepted(await caller.get("organizations"))] == [api.organization]
    assert accepted(await who.get("tokens"))[0]["lastUsedAt"] is not None


async def test_the_endpoint_has_no_version_prefix(visitor: httpx.AsyncClient) -> None:
    refused(await visitor.post(f"/api/1{EXCHANGE}", json={"refreshToken": "x"}), 404, "UnknownPath")


@pytest.mark.parametrize("body", [b"", b"{", b"{}", b"[]", b'{"refreshToken": 1}', b'{"refreshToken": null}'])
async def test_a_malformed_exchange_is_400(visitor: httpx.AsyncClient, body: bytes) -> None:
    refused(await visitor.post(EXCHANGE, content=body, headers={"Content-Type": "application/json"}), 400)


async def test_another_content_type_is_400(visitor: httpx.AsyncClient) -> None:
    refused(await visitor.post(EXCHANGE, data={"refreshToken": "x"}), 400, "WrongContentType")


@pytest.mark.parametrize("token", ["", "x", "lbr_" + "A" * 43, "lbr_é", "lbr_" + "x" * 5000])
async def test_a_token_that_nobody_has_is_401(visitor: httpx.AsyncClient, token: str) -> None:
    refused(await visitor.post(EXCHANGE, json={"refreshToken": token}), 401, "NotAuthenticated")


async def test_a_revoked_token_is_exchanged_no_more(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    first, second = await refresh_token(visitor, who), await refresh_token(visitor, who)
    newest, oldest = accepted(await who.get("tokens"))
    assert newest["createdAt"] >= oldest["createdAt"]
    assert accepted(await who.delete(f"tokens/{oldest['id']}")) == {}
    refused(await visitor.post(EXCHANGE, json={"refreshToken": first}), 401, "NotAuthenticated")
    await session(visitor, second)
    refused(await who.delete(f"tokens/{oldest['id']}"), 404, "NotFound")
    assert [row["id"] for row in accepted(await who.get("tokens"))] == [newest["id"]]


async def test_nobody_sees_or_revokes_somebody_elses_tokens(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    token = await refresh_token(visitor, who)
    [row] = accepted(await who.get("tokens"))
    assert accepted(await (await person(api, "Administrator")).get("tokens")) == []
    refused(await api.delete(f"tokens/{row['id']}"), 404, "NotFound")
    refused(await api.delete(f"tokens/{UNKNOWN}"), 404, "NotFound")
    refused(await api.delete("tokens/nonsense"), 404, "NotFound")
    await session(visitor, token)


async def test_a_disabled_user_exchanges_nothing_and_their_session_ends(api: Api, visitor: httpx.AsyncClient) -> None:
    who = await person(api)
    token = await refresh_token(visitor, who)
    caller = api.caller(f"Bearer {await session(visitor, token)}")
    accepted(await caller.get("organizations"))
    accepted(await api.put(f"organizations/{api.organization}/users/{who.id}", {"enabled": False}))
    refused(await visitor.post(EXCHANGE, json={"refreshToken": token}), 401, "NotAuthenticated")
    refused(await caller.get("organizations"), 401, "NotAuthenticated")


async def test_the_token_decides_when_both_schemes_are_sent(api: Api, visitor: httpx.AsyncClient) -> None:
    ann, bob = await person(api), await person(api)
    good_basic = basic(bob.email, PERSON_PASSWORD)
    jwt = await session(visitor, await refresh_token(visitor, ann))
    mine = accepted(await ann.get("tokens"))
    for header in (f"{good_basic}, Bearer {jwt}", f"Bearer {jwt}, {good_basic}", f"Bearer {jwt}, Basic bad"):
        assert accepted(await api.caller(header).get("tokens"))[0]["id"] == mine[0]["id"]
    for bad in ("x", jwt + "x", jwt.rpartition(".")[0] + ".", f"{jwt}, Bearer {jwt}"):
        refused(await api.caller(f"{good_basic}, Bearer {bad}").get("tokens"), 401, "NotAuthenticated")
    refresh = await refresh_token(visitor, ann)
    refused(await api.caller(f"Bearer {refresh}").get("tokens"), 401, "NotAuthenticated")


@pytest.mark.slow
async def test_wrong_tokens_from_one_address_are_slowed_down_in_the_end(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api, browser(api) as visitor:
        same = {(await visitor.post(EXCHANGE, json={"refreshToken": "old"})).status_code for _ in range(150)}
        statuses = [
            (await visitor.post(EXCHANGE, json={"refreshToken": f"guess {number}"})).status_code
            for number in range(120)
        ]
        assert (same, set(statuses[:95]), statuses[-1]) == ({401}, {401}, 429)
        good = await refresh_token(visitor, await person(api, "Guest"))
        accepted(await visitor.post(EXCHANGE, json={"refreshToken": good}))
        answer = await visitor.post(EXCHANGE, json={"refreshToken": "another guess"})
        refused(answer, 429, "TooManyRequests")
        assert int(answer.headers["retry-after"]) >= 1
    databases.drop(url)


async def test_a_session_of_one_server_is_good_at_another_of_the_same_database(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as here, running_api(url) as there, browser(here) as visitor:
        who = await person(here)
        jwt = await session(visitor, await refresh_token(visitor, who))
        accepted(await there.caller(f"Bearer {jwt}").get("organizations"))
        accepted(await here.delete(f"organizations/{here.organization}/users/{who.id}"))
        refused(await there.caller(f"Bearer {jwt}").get("organizations"), 401, "NotAuthenticated")
    databases.drop(url)


async def change_the_password(api: Api, who: Person) -> None:
    body = {"currentPassword": PERSON_PASSWORD, "newPassword": "seven green bottles"}
    accepted(await who.put("users/me/password", body))


async def sign_out_everywhere(api: Api, who: Person) -> None:
    accepted(await who.delete("users/me/sessions"))


async def disable_and_enable(api: Api, who: Person) -> None:
    for enabled in (False, True):
        accepted(await api.put(f"organizations/{api.organization}/users/{who.id}", {"enabled": enabled}))


@pytest.mark.parametrize("end", [change_the_password, sign_out_everywhere, disable_and_enable])
async def test_what_somebody_is_signed_in_with_ends_at_once(
    api: Api, visitor: httpx.AsyncClient, end: Callable[[Api, Person], Awaitable[None]]
) -> None:
    who, other = await person(api, "Guest"), await person(api, "Guest")
    token, others = await refresh_token(visitor, who), await refresh_token(visitor, other)
    caller, bystander = [api.caller(f"Bearer {await session(visitor, each)}") for each in (token, others)]
    async with browser(api) as console:
        await console.post("/console/signIn", data={"email": who.email, "password": PERSON_PASSWORD})
        assert (await console.get("/console/account")).status_code == 200
        accepted(await caller.get("organizations"))
        await end(api, who)
        assert (await console.get("/console/account")).status_code == 303
    refused(await caller.get("organizations"), 401, "NotAuthenticated")
    refused(await visitor.post(EXCHANGE, json={"refreshToken": token}), 401)
    accepted(await bystander.get("organizations"))
    await session(visitor, others)


async def test_a_revoked_token_ends_the_sessions_made_from_it_and_no_others(
    api: Api, visitor: httpx.AsyncClient
) -> None:
    who = await person(api, "Guest")
    revoked, kept = await refresh_token(visitor, who), await refresh_token(visitor, who)
    ended, going_on = [api.caller(f"Bearer {await session(visitor, token)}") for token in (revoked, kept)]
    accepted(await ended.get("organizations"))
    newest, oldest = accepted(await who.get("tokens"))
    assert newest["createdAt"] >= oldest["createdAt"]
    accepted(await ended.delete(f"tokens/{oldest['id']}"))
    refused(await ended.get("organizations"), 401, "NotAuthenticated")
    accepted(await going_on.get("organizations"))
    accepted(await who.get("organizations"))


async def test_a_console_session_ends_when_it_is_not_used(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False, session_idle_s=100) as api, browser(api) as console:
        await console.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})

        async def rest(seconds: int) -> int:
            async with api.database.connection() as connection:
                await connection.execute(
                    "UPDATE console_sessions SET last_seen_at = last_seen_at - %s * interval '1 second'", [seconds]
                )
            return (await console.get("/console/account")).status_code

        assert [await rest(90), await rest(90), await rest(101)] == [200, 200, 303]
    databases.drop(url)
