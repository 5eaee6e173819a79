"""What answers without authentication: each is listed with its bound, and costs what the page says."""

import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import httpx
import pytest

from launchbay import limits
from tests.support.documentation import DOCS
from tests.support.pages import browser
from tests.support.served import ENDPOINTS, PAGES
from tests.support.service import Api

PAGE = DOCS / "reference" / "unauthenticated.md"
_ROW = re.compile(r"^\| (?:`([^`]+)`|(any other path)) \| (\d+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
_ROUNDS = 5
_ATTEMPTS = 4
_LONG = "x" * 8_000


class Row(NamedTuple):
    """What the page says about a request."""

    cost: float
    bound: str


def rows() -> dict[str, Row]:
    """Return the rows of the page by request."""
    text = PAGE.read_text("utf-8")
    found = {name or other: Row(float(cost), bound) for name, other, cost, bound, _ in _ROW.findall(text)}
    assert len(found) == text.count("\n| `") + 1, "a row has another form"
    return found


class Worst(NamedTuple):
    """The most expensive request without credentials that is known for a row of the page."""

    path: str
    options: Mapping[str, Any] = MappingProxyType({})


def form(**fields: str) -> dict[str, Any]:
    return {"data": fields}


_CREDENTIALS = form(
    email="a" * 200 + "@example.com", password="p" * 1_000, user="u" * 200, username="u" * 200, label="x" * 100
)
_WORDS = " ".join(f"word{number}" for number in range(1_500))
WORST: dict[str, Worst] = {
    "POST /api/1/git-sources/{sourceId}/events": Worst(
        "/api/1/git-sources/5f0000000000000000000001/events",
        {"content": b"x" * (limits.GIT_EVENT_BYTES - 1), "headers": {"Content-Type": "application/json"}},
    ),
    "POST /refreshToken/jwtBearer": Worst("/refreshToken/jwtBearer", {"json": {"refreshToken": "x" * 900_000}}),
    "GET /refreshToken": Worst("/refreshToken"),
    "POST /signIn": Worst("/signIn", _CREDENTIALS),
    "POST /refreshToken": Worst("/refreshToken", _CREDENTIALS),
    "POST /refreshToken/secondFactor": Worst("/refreshToken/secondFactor", form(token=_LONG, code="1" * 100)),
    "GET /invitation/{token}": Worst("/invitation/" + "x" * 43),
    "POST /invitation/{token}": Worst("/invitation/" + "x" * 43, form(password="p" * 1_000, password2="p" * 1_000)),
    "GET /signIn/openid": Worst("/signIn/openid"),
    "GET /signIn/openid/callback": Worst(f"/signIn/openid/callback?state={_LONG}&code={_LONG}"),
    "POST /signIn/openid/logout": Worst("/signIn/openid/logout", form(logout_token="x" * 15_000)),
    "GET /health/live": Worst("/health/live"),
    "GET /health/ready": Worst("/health/ready"),
    "GET /metrics": Worst("/metrics"),
    "GET /.well-known/openid-configuration": Worst("/.well-known/openid-configuration"),
    "GET /.well-known/jwks.json": Worst("/.well-known/jwks.json"),
    "GET /api/1/openapi.json": Worst("/api/1/openapi.json"),
    "GET /docs": Worst("/docs"),
    "GET /docs/api/{operation}": Worst("/docs/api/launch_application"),
    "GET /docs/search": Worst("/docs/search", {"params": {"q": _WORDS}}),
    "GET /docs/codes/{name}": Worst(f"/docs/codes/{_LONG}"),
    "GET /docs/{path:path}": Worst("/docs/reference/manifest/index"),
    "GET /console/signIn": Worst("/console/signIn", {"params": {"next": "/console/" + _LONG}}),
    "POST /console/signIn": Worst("/console/signIn", _CREDENTIALS),
    "POST /console/signIn/secondFactor": Worst("/console/signIn/secondFactor", form(token=_LONG, code="1" * 100)),
    "POST /console/signIn/setUp": Worst("/console/signIn/setUp", form(token=_LONG, code="1" * 100)),
    "GET /console/newPassword": Worst("/console/newPassword"),
    "POST /console/newPassword": Worst("/console/newPassword", form(token=_LONG, password="p" * 1_000)),
    "POST /console/theme": Worst("/console/theme", form(theme="dark", back="/" + _LONG)),
    "GET /": Worst("/"),
    "GET /console/assets/{name}": Worst("/console/assets/console.css"),
    "any other path": Worst("/" + "a/" * 500),
}


@pytest.mark.features("documentation", "git_sources")
def test_everything_that_answers_without_authentication_has_an_entry_on_the_page() -> None:
    endpoints = {f"{each.method} {each.path}" for each in ENDPOINTS if each.public}
    pages = {f"{each.method} {each.path}" for each in PAGES if each.public}
    assert rows().keys() == endpoints | pages | {"GET /", "GET /console/assets/{name}", "any other path"}
    assert rows().keys() == WORST.keys()


def test_an_endpoint_without_a_rate_limit_says_so_on_the_page() -> None:
    without = {f"{each.method} {each.path}" for each in ENDPOINTS if each.public and each.unlimited}
    without |= {"GET /", "GET /console/assets/{name}", "any other path"}
    assert {name for name, row in rows().items() if row.bound.startswith("No limit")} == without
    assert all(row.bound.startswith(("No limit", "Address")) for row in rows().values())


async def _cost_ns(client: httpx.AsyncClient, name: str, worst: Worst) -> float:
    method = name.partition(" ")[0] if name in WORST and name != "any other path" else "GET"
    options = dict(worst.options)
    headers = {"Origin": str(client.base_url), "Sec-Fetch-Site": "same-origin", **options.pop("headers", {})}
    found = []
    for _ in range(_ROUNDS):
        begun = time.process_time_ns()
        await client.request(method, worst.path, headers=headers if method == "POST" else {}, **options)
        found.append(time.process_time_ns() - begun)
    return min(found)


@pytest.mark.parametrize("name", WORST)
async def test_no_request_without_authentication_costs_more_than_the_page_says(api: Api, name: str) -> None:
    async with browser(api) as client:
        for _ in range(_ATTEMPTS):  # other programs may have come between
            live = await _cost_ns(client, "GET /health/live", WORST["GET /health/live"])
            cost = await _cost_ns(client, name, WORST[name]) / live
            if cost <= rows()[name].cost + 1:
                break
        assert cost <= rows()[name].cost + 1
