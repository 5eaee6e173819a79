"""Every list comes in pages to those who ask, and whole to those who do not (conformance.md, "Wire" 9)."""

import base64
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, get_args, get_origin

import httpx
import pytest

from launchbay.ids import new_id
from launchbay.store import users
from launchbay.web.routing import Endpoint
from tests.support.clock import HandClock
from tests.support.databases import Databases
from tests.support.manifests import WORKFLOWS
from tests.support.pages import browser, send
from tests.support.second_factors import protect
from tests.support.served import ENDPOINTS
from tests.support.service import (
    EMAIL,
    PASSWORD,
    Api,
    Caller,
    accepted,
    basic,
    fresh_name,
    person,
    refused,
    running_api,
)
from tests.support.service import PASSWORD as ADMINISTRATORS


async def account(api: Api, password: str, email: str | None = None) -> tuple[str, str, Caller]:
    """Make a member and return id, e-mail address and caller."""
    user_id, email = new_id(), email or f"{new_id()}@example.org"
    async with api.database.transaction() as connection:
        hashed = await api.passwords.hash(password)
        await users.insert(connection, id=user_id, email=email, name="Somebody", password_hash=hashed)
        await users.join_organization(connection, organization_id=api.organization, user_id=user_id)
    return user_id, email, api.caller(basic(email, password))


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        " ",
        "Basic",
        "Basic ",
        "Basic !!!",
        "Basic " + encoded("no colon"),
        "Basic " + encoded(":no email"),
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}") + "=",
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}").rstrip("=") + "x",
        "Basic " + base64.b64encode(b"\xff\xfe:\xff").decode(),
        "Basic " + encoded(f"{EMAIL}:{PASSWORD}\n"),
        "Basic " + encoded(f"{EMAIL}:"),
        "Basic " + encoded("nobody@example.org:x"),
        "Digest username=admin",
        "Bearer",
        "Bearer nonsense",
        "Bearer a.b.c",
        encoded(f"{EMAIL}:{PASSWORD}"),
        f"{EMAIL}:{PASSWORD}",
    ],
    ids=repr,
)
async def test_anything_but_good_credentials_is_401(api: Api, authorization: str | None) -> None:
    answer = await api.caller(authorization).get("organizations")
    text = refused(answer, 401, "NotAuthenticated")
    assert answer.headers["www-authenticate"] == 'Basic realm="Launchbay"'
    assert PASSWORD not in text


@pytest.mark.parametrize("scheme", ["Basic", "basic", "BASIC"])
async def test_the_scheme_is_written_as_one_likes(api: Api, scheme: str) -> None:
    accepted(await api.caller(f"{scheme} {encoded(f'{EMAIL}:{PASSWORD}')}").get("organizations"))


@pytest.mark.parametrize("password", ["with:colons::", "Ünï 🚀", " spaces ", "x" * 1000, '"quoted"'])
async def test_a_password_may_hold_what_it_likes(api: Api, password: str) -> None:
    _, _, caller = await account(api, password)
    accepted(await caller.get("organizations"))


async def test_the_email_address_is_compared_without_case(api: Api) -> None:
    _, email, _ = await account(api, "secret", f"Some.Body{new_id()}@Example.org")
    for spelling in (email, email.lower(), email.upper()):
        accepted(await api.caller(basic(spelling, "secret")).get("organizations"))


async def test_an_unknown_account_and_a_wrong_password_sound_the_same(api: Api) -> None:
    _, email, _ = await account(api, "secret")
    wrong = refused(await api.caller(basic(email, "wrong")).get("organizations"), 401, "NotAuthenticated")
    unknown = refused(await api.caller(basic(f"{new_id()}@example.org", "wrong")).get("organizations"), 401)
    assert wrong == unknown


async def test_a_disabled_account_is_401_at_the_next_request(api: Api) -> None:
    user_id, _, caller = await account(api, "secret")
    accepted(await caller.get("organizations"))
    async with api.database.transaction() as connection:
        await users.set_enabled(connection, id=user_id, enabled=False)
    refused(await caller.get("organizations"), 401, "NotAuthenticated")


async def test_a_changed_password_counts_for_the_next_request(api: Api) -> None:
    user_id, email, caller = await account(api, "old")
    accepted(await caller.get("organizations"))
    async with api.database.transaction() as connection:
        await users.set_password(connection, id=user_id, password_hash=await api.passwords.hash("new"))
    refused(await caller.get("organizations"), 401, "NotAuthenticated")
    accepted(await api.caller(basic(email, "new")).get("organizations"))


async def test_an_account_without_a_password_lets_nobody_in(api: Api) -> None:
    user_id, email = new_id(), f"{new_id()}@example.org"
    async with api.database.transaction() as connection:
        await users.insert(connection, id=user_id, email=email, name="Invited", password_hash=None)
    for password in ("", "None", "null"):
        refused(await api.caller(basic(email, password)).get("organizations"), 401, "NotAuthenticated")


async def test_many_wrong_attempts_are_slowed_down_without_harm_to_others(api: Api) -> None:
    _, email, _ = await account(api, "secret")
    statuses = [
        (await api.caller(basic(email, f"guess {number}")).get("organizations")).status_code for number in range(12)
    ]
    assert statuses == [401] * 10 + [429] * 2
    answer = await api.caller(basic(email, "guess")).get("organizations")
    refused(answer, 429, "TooManyRequests")
    assert int(answer.headers["retry-after"]) >= 1
    accepted(await api.get("organizations"))


async def test_a_bad_bearer_token_is_401_even_beside_good_basic_credentials(api: Api) -> None:
    both = f"{basic(EMAIL, PASSWORD)}, Bearer nonsense"
    refused(await api.caller(both).get("organizations"), 401, "NotAuthenticated")


_NEXT = re.compile(r'<([^>]+)>; rel="next"')


def lists_objects(row: Endpoint) -> bool:
    """Tell whether a call answers an array of objects that have ids."""
    kind = row.returns.type
    return (
        row.method == "GET" and get_origin(kind) is list and "id" in getattr(get_args(kind)[0], "__annotations__", {})
    )


LISTS = {row.operation_id: row for row in ENDPOINTS if lists_objects(row)}
# What a server knows from its start doesn't grow; schedules are listed by their times.
FIXED = {"list_service_types", "list_organization_schedules"}


@pytest.mark.parametrize("operation", sorted(LISTS.keys() - FIXED))
def test_a_list_of_objects_takes_limit_and_after(operation: str) -> None:
    query: Any = LISTS[operation].query
    assert query is not None
    assert {"limit", "after"} <= set(query.__struct_fields__)


async def followed(api: Api, path: str) -> list[str]:
    """Return the ids of a list, read one by one along its links."""
    ids: list[str] = []
    url: str | None = f"/api/1/{path}?limit=1"
    while url is not None:
        answer = await api.client.get(f"http://launchbay{url}")
        page = accepted(answer)
        assert len(page) <= 1
        ids += [item["id"] for item in page]
        link = _NEXT.fullmatch(answer.headers.get("link", ""))
        url = None if link is None else link[1]
    return ids


async def test_the_own_organizations_and_tokens_and_what_is_offered_come_in_pages(api: Api) -> None:
    for _ in range(2):
        accepted(await api.post("organizations", {"name": fresh_name("organization")}))
        async with browser(api) as visitor:
            await send(visitor, "/refreshToken", email=EMAIL, password=ADMINISTRATORS)
        instance = await api.running(WORKFLOWS, parameters={"label": "x"})
        accepted(await api.put(f"instances/{instance}/environments", {"environments": [api.environment]}))
    for path in ("organizations", "tokens", f"environments/{api.environment}/offers"):
        whole = [item["id"] for item in accepted(await api.get(path))]
        assert len(whole) >= 2
        assert await followed(api, path) == sorted(whole)


@pytest.fixture
async def limited(databases: Databases) -> AsyncIterator[tuple[Api, HandClock]]:
    url, clock = databases.create(), HandClock()
    settings: dict[str, Any] = {"rate_limit_address_per_s": 20, "rate_limit_user_per_s": 5, "rate_limit_burst_s": 1.0}
    async with running_api(url, clock, engine=False, **settings) as api:
        clock.advance(60)
        yield api, clock
    databases.drop(url)


async def statuses(caller: Caller, path: str, count: int) -> Counter[int]:
    return Counter([(await caller.get(path)).status_code for _ in range(count)])


async def test_a_user_gets_so_many_answers_and_then_429_until_time_has_passed(limited: tuple[Api, HandClock]) -> None:
    api, clock = limited
    assert await statuses(api, "organizations", 8) == {200: 5, 429: 3}
    answer = await api.get("organizations")
    assert "this account" in refused(answer, 429, "TooManyRequests")
    assert answer.headers["retry-after"] == "1"
    clock.advance(0.4)
    assert await statuses(api, "organizations", 4) == {200: 2, 429: 2}


async def test_an_address_is_limited_before_its_credentials_are_looked_at(limited: tuple[Api, HandClock]) -> None:
    api, _ = limited
    stranger = api.caller(None)
    assert await statuses(stranger, "organizations", 25) == {401: 20, 429: 5}
    assert "this address" in refused(await stranger.get("organizations"), 429, "TooManyRequests")
    assert "this address" in refused(await api.get("organizations"), 429, "TooManyRequests")


async def test_a_refused_request_counts_for_nobody_else(limited: tuple[Api, HandClock]) -> None:
    api, clock = limited
    member = await api.member("Read: [/*]")
    await statuses(api, "organizations", 10)
    assert await statuses(member, "organizations", 4) == {200: 4}
    clock.advance(10)
    assert await statuses(api, "organizations", 5) == {200: 5}


async def test_health_is_never_refused(limited: tuple[Api, HandClock]) -> None:
    api, _ = limited
    await statuses(api.caller(None), "organizations", 30)
    transport = httpx.ASGITransport(api.parts.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://launchbay") as client:
        for path in ("/health/live", "/health/ready"):
            answers = [(await client.get(path)).status_code for _ in range(30)]
            assert set(answers) == {200}


async def form_sign_in(api: Api, email: str, password: str, **headers: str) -> httpx.Response:
    async with browser(api) as client:
        return await client.post("/signIn", data={"email": email, "password": password}, headers=headers)


async def test_the_form_of_older_clients_opens_a_session_under_both_names(api: Api) -> None:
    _, email, _ = await account(api, "secret")
    answer = await form_sign_in(api, f" {email} ", "secret")
    assert accepted(answer) == {}
    cookies = {name: answer.cookies[name] for name in ("PLAY_SESSION", "launchbay_session")}
    assert len(set(cookies.values())) == 1
    for line in answer.headers.get_list("set-cookie"):
        assert "; Path=/; Max-Age=" in line
        assert line.endswith("; HttpOnly; SameSite=Lax")
    async with browser(api) as client:
        client.cookies.set("launchbay_session", cookies["launchbay_session"])
        assert (await client.get("/console/account")).status_code == 200
    async with browser(api) as client:
        client.cookies.set("PLAY_SESSION", cookies["PLAY_SESSION"])
        assert (await client.get("/console/account")).status_code == 303, "only our own name counts"
        refused(await client.get("/api/1/organizations"), 401)


@pytest.mark.parametrize(("known", "password"), [(True, "wrong"), (True, ""), (False, "secret")])
async def test_the_form_refuses_wrong_credentials_with_401_and_no_cookie(api: Api, known: bool, password: str) -> None:
    _, email, _ = await account(api, "secret")
    answer = await form_sign_in(api, email if known else "nobody@example.org", password)
    refused(answer, 401)
    assert "set-cookie" not in answer.headers


async def test_the_form_refuses_a_password_that_alone_is_not_enough_with_401(api: Api) -> None:
    someone = await person(api)
    await protect(api, someone)
    answer = await form_sign_in(api, someone.email, someone.password)
    refused(answer, 401, "SecondFactorRequired")
    assert "set-cookie" not in answer.headers


async def test_the_form_of_another_site_opens_no_session(api: Api) -> None:
    answer = await form_sign_in(api, EMAIL, PASSWORD, origin="https://evil.example")
    refused(answer, 403, "CrossOrigin")
    assert "set-cookie" not in answer.headers


async def test_the_form_must_be_a_form(api: Api) -> None:
    async with browser(api) as client:
        refused(await client.post("/signIn", json={"email": EMAIL, "password": PASSWORD}), 400)
        refused(await client.post("/signIn", data={"email": EMAIL}), 400)
