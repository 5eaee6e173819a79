"""Odd values in requests about users, roles and tokens: never a 500, and nothing is half done (promise 11)."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.support.service import PERSON_PASSWORD, UNKNOWN, Api, accepted, fresh_email, fresh_name, person, refused

ODD: dict[str, Any] = {
    "null": None,
    "a boolean": True,
    "zero": 0,
    "a large number": 2**63,
    "a fraction": 0.5,
    "nothing": "",
    "white space": " \t\n ",
    "long": "x" * 70_000,
    "a line break": "a\nb",
    "a control character": "a\x01b",
    "an emoji": "👩‍🚀" * 10,
    "right to left": "\u202eabc",
    "quotes": "'; DROP TABLE users; --\"\\",
    "a format": "{0} %s %(x)s ${x}",
    "a list": [["x"]],
    "an object": {"x": {"y": []}},
    "names": ["Guest", "Guest", ""],
    "a number among names": ["Guest", 7],
    "many names": ["x"] * 5_000,
}
RAW = {
    "NUL": rb'"a\u0000b"',
    "half of a pair": rb'"\ud800"',
    "NaN": b"NaN",
    "deep": b"[" * 5_000,
}


def requests_of(api: Api, user: str, role: str) -> dict[str, tuple[str, str, Any]]:
    """Return what is sent when it is right, by name: method, path and body."""
    home = f"organizations/{api.organization}"
    password = {"currentPassword": "not the right one", "newPassword": "x"}
    new_role = {"name": fresh_name("role"), "permissions": "- Read: [/*]"}
    return {
        "create_organization": ("POST", "organizations", {"name": fresh_name()}),
        "rename_organization": ("PUT", home, {"name": fresh_name()}),
        "create_user": (
            "POST",
            f"{home}/users",
            {"email": fresh_email(), "name": "n", "password": PERSON_PASSWORD, "roles": []},
        ),
        "update_user": ("PUT", f"{home}/users/{user}", {"enabled": True}),
        "assign_roles": ("PUT", f"{home}/users/{user}/roles", ["Guest"]),
        "revoke_roles": ("DELETE", f"{home}/users/{user}/roles", ["Guest"]),
        "create_role": ("POST", f"{home}/roles", new_role),
        "update_role": ("PUT", f"roles/{role}", {**new_role, "name": fresh_name("role")}),
        "change_password": ("PUT", "users/me/password", password),
        "exchange_token": ("POST", "http://launchbay/refreshToken/jwtBearer", {"refreshToken": "lbr_x"}),
    }


def bodies(right: Any, odd: Any) -> list[Any]:
    """Return the body with the odd value in the place of each field, and of the whole."""
    if isinstance(right, list):
        return [odd, [odd]]
    return [odd, *({**right, name: odd} for name in right), {**right, "unknown": odd}]


async def all_answers(api: Api, send: Callable[[str, str, Any], Awaitable[httpx.Response]], odd: Any) -> None:
    who = await person(api)
    body = {"name": fresh_name("role"), "permissions": ""}
    role = accepted(await api.post(f"organizations/{api.organization}/roles", body))["id"]
    for name, (method, path, right) in requests_of(api, who.id, role).items():
        for body in bodies(right, odd):
            answer = await send(method, path, body)
            assert answer.status_code in {200, 400, 401, 413, 429}, (name, body, answer.status_code, answer.text)
            assert "detail" not in answer.text.lower(), "PostgreSQL says DETAIL"
            if answer.status_code != 200:
                refused(answer, answer.status_code)
    accepted(await who.get("organizations"))
    accepted(await api.delete(f"roles/{role}"))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
async def test_an_odd_value_in_any_field_is_taken_or_refused(api: Api, odd: str) -> None:
    async def send(method: str, path: str, body: Any) -> httpx.Response:
        return await api.client.request(method, path, json=body)

    await all_answers(api, send, ODD[odd])


@pytest.mark.parametrize("raw", RAW)
async def test_what_json_cannot_hold_is_refused_in_any_field(api: Api, raw: str) -> None:
    who = await person(api)
    for method, path, right in requests_of(api, who.id, UNKNOWN).values():
        template = right[0] if isinstance(right, list) else next(text for text in right.values() if text != [])
        whole = httpx.Request("POST", "http://x", json=right).content
        value = httpx.Request("POST", "http://x", json=template).content
        assert value in whole
        content = whole.replace(value, RAW[raw], 1)
        refused(await api.send(method, path, content, content_type="application/json"), 400)


@pytest.mark.parametrize(
    "odd_id", ["x", "0" * 23, "0" * 25, "G" * 24, "%00", "%ff", "é", "%2e%2e", "' OR 1=1", "A" * 24]
)
async def test_odd_ids_are_404_wherever_they_stand(api: Api, odd_id: str) -> None:
    home = f"organizations/{api.organization}"
    for method, path, body in (
        ("GET", f"organizations/{odd_id}/users", None),
        ("GET", f"{home}/users/{odd_id}", None),
        ("PUT", f"{home}/users/{odd_id}", {"enabled": True}),
        ("DELETE", f"{home}/users/{odd_id}", None),
        ("PUT", f"{home}/users/{odd_id}/roles", []),
        ("GET", f"roles/{odd_id}", None),
        ("PUT", f"roles/{odd_id}", {"name": "x", "permissions": ""}),
        ("DELETE", f"roles/{odd_id}", None),
        ("DELETE", f"tokens/{odd_id}", None),
        ("GET", f"organizations/{odd_id}/audit", None),
    ):
        answer = await api.client.request(method, path, json=body)
        assert answer.status_code == 404, (method, path, answer.status_code)


@pytest.mark.parametrize(
    "query", ["actor=%00", "object=%00", "actor=%ff", "limit=1e9", "after=%F0%9F%98%80", "actor=" + "x" * 9000]
)
async def test_odd_queries_of_the_audit_log_are_taken_or_refused(api: Api, query: str) -> None:
    answer = await api.get(f"organizations/{api.organization}/audit?{query}")
    assert answer.status_code in {200, 400}
