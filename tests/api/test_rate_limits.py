"""Too many requests are refused with 429 and Retry-After, before anything is done for them."""

from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.api.running import Api, Caller, refused, running_api
from tests.clocks import HandClock
from tests.databases import Databases


@pytest.fixture
async def limited(databases: Databases) -> AsyncIterator[tuple[Api, HandClock]]:
    url, clock = databases.create(), HandClock()
    settings = {"rate_limit_address_per_s": 20, "rate_limit_user_per_s": 5, "rate_limit_burst_s": 1.0}
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
