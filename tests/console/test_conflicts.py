"""Forms carry the state that they were made from: nobody's work is overwritten unseen, and nothing is lost."""

from typing import Any

import httpx
import pytest

from tests.support.pages import get
from tests.support.service import Api, accepted, fresh_name


async def opened(visitor: httpx.AsyncClient, page: str, part: str = "") -> dict[str, Any]:
    """Return the hidden fields of the form at a path of the page."""
    text = (await get(visitor, page)).answer.text
    form = text.partition(f'action="{page}{part}"')[2]
    return {name: form.partition(f'name="{name}" value="')[2].partition('"')[0] for name in ("formToken", "seen")}


async def test_a_role_that_somebody_else_has_saved_is_not_overwritten(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("role")
    body = {"name": name, "permissions": "- Read: [/applications/*]\n"}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))["id"]
    page = f"/console/roles/{role}"
    hidden = await opened(visitor, page)
    theirs = {"name": name, "permissions": "- Read: [/environments/*]\n"}
    accepted(await api.put(f"roles/{role}", theirs))
    mine = {**hidden, "name": name, "permissions": "- Read: [/services/*]\n"}
    refused = await visitor.post(page, data=mine)
    assert refused.status_code == 412
    assert "Somebody else has changed this" in refused.text
    assert "/services/*" in refused.text, "mine"
    assert "/environments/*" in refused.text, "theirs"
    assert accepted(await api.get(f"roles/{role}"))["permissions"] == theirs["permissions"]
    again = {**mine, "seen": refused.text.partition('name="seen" value="')[2].partition('"')[0]}
    assert (await visitor.post(page, data=again)).status_code == 303
    assert accepted(await api.get(f"roles/{role}"))["permissions"] == mine["permissions"]


async def test_another_mistake_does_not_make_a_conflict_unseen(api: Api, visitor: httpx.AsyncClient) -> None:
    name = fresh_name("role")
    role = accepted(
        await api.post(f"organizations/{api.organization}/roles", {"name": name, "permissions": "- Read: [/*]\n"})
    )["id"]
    page = f"/console/roles/{role}"
    hidden = await opened(visitor, page)
    wrong = await visitor.post(page, data={**hidden, "name": name, "permissions": "- Nothing: [/*]\n"})
    assert wrong.status_code == 400
    accepted(await api.put(f"roles/{role}", {"name": name, "permissions": "- Read: [/services/*]\n"}))
    seen = wrong.text.partition('name="seen" value="')[2].partition('"')[0]
    answer = await visitor.post(
        page, data={**hidden, "seen": seen, "name": name, "permissions": "- Read: [/roles/*]\n"}
    )
    assert answer.status_code == 412


@pytest.mark.parametrize(
    ("part", "theirs", "fields", "shown"),
    [
        ("markers", {"markers": [{"name": "theirs"}]}, {"markers": "mine"}, "mine"),
        (
            "properties",
            {"properties": [{"name": "theirs", "value": 1, "type": "int"}]},
            {"name": "mine", "type": "int", "value": "2"},
            'value="mine"',
        ),
    ],
)
async def test_the_parts_of_an_environment_are_not_overwritten(
    api: Api, visitor: httpx.AsyncClient, part: str, theirs: dict[str, Any], fields: dict[str, str], shown: str
) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    page = f"/console/environments/{environment}"
    hidden = await opened(visitor, page, f"/{part}")
    accepted(await api.put(f"environments/{environment}/{part}", theirs))
    refused = await visitor.post(f"{page}/{part}", data={**hidden, **fields})
    assert refused.status_code == 412
    assert shown in refused.text
    assert "theirs" in refused.text
    assert accepted(await api.get(f"environments/{environment}/{part}"))[part][0]["name"] == "theirs"
    current = await opened(visitor, page, f"/{part}")
    assert (await visitor.post(f"{page}/{part}", data={**current, **fields})).status_code == 303


async def test_policies_are_saved_when_nobody_else_was_faster(api: Api, visitor: httpx.AsyncClient) -> None:
    environment = accepted(
        await api.post(f"organizations/{api.organization}/environments", {"name": fresh_name("environment")})
    )["id"]
    page = f"/console/environments/{environment}"
    hidden = await opened(visitor, page, "/policies")
    policies = {**hidden, "policies": "policies:\n  a.b: 1\n"}
    assert (await visitor.post(f"{page}/policies", data=policies)).status_code == 303
    assert (await visitor.post(f"{page}/policies", data=policies)).status_code == 412
