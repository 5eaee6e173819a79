"""From a refresh token to a session token, and calls with it (reference §5)."""

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.api.pages import browser, send
from tests.api.people import PASSWORD, Person, person
from tests.api.running import UNKNOWN, Api, accepted, basic, refused, running_api
from tests.databases import Databases

EXCHANGE = "/refreshToken/jwtBearer"


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[httpx.AsyncClient]:
    async with browser(api) as client:
        yield client


async def refresh_token(visitor: httpx.AsyncClient, who: Person) -> str:
    return (await send(visitor, "/refreshToken", email=who.email, password=PASSWORD)).token


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
    good_basic = basic(bob.email, PASSWORD)
    jwt = await session(visitor, await refresh_token(visitor, ann))
    mine = accepted(await ann.get("tokens"))
    for header in (f"{good_basic}, Bearer {jwt}", f"Bearer {jwt}, {good_basic}", f"Bearer {jwt}, Basic bad"):
        assert accepted(await api.caller(header).get("tokens"))[0]["id"] == mine[0]["id"]
    for bad in ("x", jwt + "x", jwt.rpartition(".")[0] + ".", f"{jwt}, Bearer {jwt}"):
        refused(await api.caller(f"{good_basic}, Bearer {bad}").get("tokens"), 401, "NotAuthenticated")
    refresh = await refresh_token(visitor, ann)
    refused(await api.caller(f"Bearer {refresh}").get("tokens"), 401, "NotAuthenticated")


async def test_wrong_tokens_from_one_address_are_slowed_down_in_the_end(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api, browser(api) as visitor:
        statuses = {(await visitor.post(EXCHANGE, json={"refreshToken": "guess"})).status_code for _ in range(100)}
        assert statuses == {401}
        for _ in range(3):
            answer = await visitor.post(EXCHANGE, json={"refreshToken": "guess"})
        refused(answer, 429, "TooManyRequests")
        assert int(answer.headers["retry-after"]) >= 1
    databases.drop(url)


async def test_a_session_of_one_server_is_good_at_another_of_the_same_database(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as here:
        secret = str(here.settings.data_dir / "secret.key")
        async with running_api(url, secret_key_file=secret) as there, browser(here) as visitor:
            who = await person(here)
            jwt = await session(visitor, await refresh_token(visitor, who))
            accepted(await there.caller(f"Bearer {jwt}").get("organizations"))
            accepted(await here.delete(f"organizations/{here.organization}/users/{who.id}"))
            refused(await there.caller(f"Bearer {jwt}").get("organizations"), 401, "NotAuthenticated")
    databases.drop(url)
