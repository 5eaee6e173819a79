"""Every list comes in pages to those who ask, and whole to those who do not (api-decisions, "Wire" 9)."""

import re
from typing import Any, get_args, get_origin

import pytest

from launchbay.web.endpoints import ENDPOINTS
from launchbay.web.routing import Endpoint
from tests.api.manifests import WORKFLOWS
from tests.api.pages import browser, send
from tests.api.running import EMAIL, Api, accepted, fresh_name
from tests.api.running import PASSWORD as ADMINISTRATORS

_NEXT = re.compile(r'<([^>]+)>; rel="next"')


def lists_objects(row: Endpoint) -> bool:
    """Tell whether a call answers an array of objects that have ids."""
    kind = row.returns.type
    return (
        row.method == "GET" and get_origin(kind) is list and "id" in getattr(get_args(kind)[0], "__annotations__", {})
    )


LISTS = {row.operation_id: row for row in ENDPOINTS if lists_objects(row)}
# What a server knows from its start is no list that grows.
FIXED = {"list_service_types"}


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
