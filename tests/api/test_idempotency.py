"""Idempotency-Key: the same request under the same key does its work once, whatever happens in between."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from launchbay.engine.retention import Cleaner
from launchbay.ids import new_id
from launchbay.store import audit
from launchbay.store.database import OutcomeUnknown, _Transaction
from tests.support.databases import Databases
from tests.support.manifests import WORKFLOWS
from tests.support.service import (
    JSON,
    PERSON_PASSWORD,
    Api,
    Caller,
    accepted,
    fresh_email,
    fresh_name,
    person,
    refused,
    running_api,
)


async def send(caller: Caller, path: str, body: Any, key: str) -> httpx.Response:
    return await caller.client.post(path, json=body, headers={"Idempotency-Key": key})


async def instances_of(api: Api, application: str) -> list[str]:
    return [row["id"] for row in accepted(await api.get(f"applications/{application}/instances"))]


@pytest.fixture
async def application(api: Api) -> str:
    return await api.application(WORKFLOWS)


@pytest.fixture
def launching(application: str) -> tuple[str, dict[str, Any]]:
    return f"applications/{application}/launch", {"parameters": {"label": "x"}}


Launching = tuple[str, dict[str, Any]]


async def test_the_same_launch_under_the_same_key_gives_the_first_answer_again(
    api: Api, application: str, launching: Launching
) -> None:
    key = new_id()
    first = await send(api, *launching, key)
    again = await send(api, *launching, key)
    assert accepted(first) == accepted(again)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert await instances_of(api, application) == [first.json()["id"]]


async def test_of_the_same_launches_at_the_same_moment_one_runs(
    api: Api, application: str, launching: Launching
) -> None:
    key = new_id()
    answers = await asyncio.gather(*(send(api, *launching, key) for _ in range(20)))
    assert len({accepted(answer)["id"] for answer in answers}) == 1
    assert sum("idempotency-replayed" not in answer.headers for answer in answers) == 1
    assert len(await instances_of(api, application)) == 1


async def test_servers_of_one_database_do_the_work_once_between_them(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as one, running_api(url, engine=False) as two:
        application = await one.application(WORKFLOWS)
        path, body, key = f"applications/{application}/launch", {"parameters": {"label": "x"}}, new_id()
        sent = [send(caller, path, body, key) for _ in range(6) for caller in (one, two)]
        answers = await asyncio.gather(*sent)
        assert len({accepted(answer)["id"] for answer in answers}) == 1
        assert len(await instances_of(one, application)) == 1
    databases.drop(url)


async def test_another_request_under_the_same_key_is_refused(api: Api, application: str, launching: Launching) -> None:
    path, body = launching
    key = new_id()
    accepted(await send(api, path, body, key))
    sentence = refused(await send(api, path, {**body, "instanceName": "other"}, key), 400, "IdempotencyKeyReused")
    assert key in sentence
    assert "new key" in sentence
    refused(await send(api, f"applications/{await api.application()}/launch", body, key), 400, "IdempotencyKeyReused")
    assert len(await instances_of(api, application)) == 1


async def test_other_white_space_and_order_is_still_the_same_request(api: Api, application: str) -> None:
    path, key = f"applications/{application}/launch", new_id()
    bodies = [
        b'{"instanceName": "a", "parameters": {"label": "x", "size": "1"}}',
        b'{ "parameters":{"size":"1","label":"x"},"instanceName":"a" }',
    ]
    answers = [await api.client.post(path, content=body, headers={**JSON, "Idempotency-Key": key}) for body in bodies]
    assert accepted(answers[0]) == accepted(answers[1])


async def test_keys_of_two_users_have_nothing_to_do_with_each_other(
    api: Api, application: str, launching: Launching
) -> None:
    member = await api.member("Read: [/*]", "CreateInstance: [/applications/*]")
    key = new_id()
    assert accepted(await send(api, *launching, key)) != accepted(await send(member, *launching, key))
    assert len(await instances_of(api, application)) == 2


async def test_a_refused_request_leaves_its_key_free(api: Api, launching: Launching) -> None:
    instance = accepted(await api.post(*launching))["id"]
    await api.settled(instance)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "0.5"}))
    key = new_id()
    refused(await send(api, f"instances/{instance}/echo", {"text": "a"}, key), 409, "InstanceBusy")
    await api.settled(instance)
    answer = await send(api, f"instances/{instance}/echo", {"text": "a"}, key)
    assert accepted(answer) == {"id": instance}
    assert "idempotency-replayed" not in answer.headers
    await api.settled(instance)


async def test_runs_schedules_clones_and_creations_take_keys(api: Api, launching: Launching) -> None:
    instance = accepted(await api.post(*launching))["id"]
    await api.settled(instance)
    name = fresh_name("made")
    requests: list[tuple[str, Any]] = [
        (f"instances/{instance}/echo", {"text": "a"}),
        (f"instances/{instance}/echo/schedule", {"interval": "600000"}),
        (f"environments/{api.environment}/clone", {"name": name}),
        (f"organizations/{api.organization}/applications", {"name": name}),
        (f"organizations/{api.organization}/environments", {"name": fresh_name("made")}),
        (f"organizations/{api.organization}/roles", {"name": name, "permissions": "- Read: [/*]"}),
    ]
    for path, body in requests:
        key = new_id()
        first, again = await send(api, path, body, key), await send(api, path, body, key)
        assert accepted(first) == accepted(again), path
        assert again.headers.get("idempotency-replayed") == "true", path
        await api.settled(instance)
    assert [job["name"] for job in (await api.document(instance))["workflowHistory"]] == ["echo", "launch"]
    assert len(accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]) == 1


async def test_rows_that_take_no_key_ignore_it(api: Api, launching: Launching) -> None:
    instance = accepted(await api.post(*launching))["id"]
    key = new_id()
    for ticket in ("1", "2"):
        answer = await api.client.put(
            f"instances/{instance}/userData", json={"ticket": ticket}, headers={"Idempotency-Key": key}
        )
        accepted(answer)
    assert (await api.document(instance))["userData"] == {"ticket": "2"}


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there", "é", " "])
async def test_a_key_of_another_form_is_400(api: Api, application: str, launching: Launching, key: str) -> None:
    path, body = launching
    headers = [(b"Content-Type", b"application/json"), (b"Idempotency-Key", key.encode("latin-1"))]
    answer = await api.client.post(path, content=json.dumps(body).encode(), headers=headers)
    refused(answer, 400, "InvalidIdempotencyKey")
    assert await instances_of(api, application) == []


async def test_the_longest_key_is_taken(api: Api, launching: Launching) -> None:
    accepted(await send(api, *launching, "k" * 255))


async def test_after_a_day_the_key_is_a_new_one(api: Api, application: str, launching: Launching) -> None:
    key = new_id()
    first = accepted(await send(api, *launching, key))
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE idempotency_keys SET created_at = now() - interval '23 hours 59 minutes' WHERE key = %s", [key]
        )
    assert accepted(await send(api, *launching, key)) == first
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE idempotency_keys SET created_at = now() - interval '24 hours 1 minute' WHERE key = %s", [key]
        )
    second = accepted(await send(api, *launching, key))
    assert second != first
    assert accepted(await send(api, *launching, key)) == second
    assert len(await instances_of(api, application)) == 2


async def test_old_keys_are_cleaned_away_and_young_ones_stay(api: Api, launching: Launching) -> None:
    old, young = new_id(), new_id()
    for key in (old, young):
        accepted(await send(api, *launching, key))
    async with api.database.connection() as connection:
        await connection.execute(
            "UPDATE idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = %s", [old]
        )
    assert await Cleaner(api.database).clean() is False
    async with api.database.connection() as connection:
        rows = await (await connection.execute("SELECT key FROM idempotency_keys")).fetchall()
    assert old not in {key for (key,) in rows}
    assert young in {key for (key,) in rows}


async def test_a_failure_before_the_commit_leaves_no_change_and_no_key(
    api: Api, application: str, launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any, **__: Any) -> int:
        raise RuntimeError("the process dies here")

    key = new_id()
    with monkeypatch.context() as patch:
        patch.setattr(audit, "set_idempotent_answer", broken)
        refused(await send(api, *launching, key), 500)
    assert await instances_of(api, application) == []
    answer = await send(api, *launching, key)
    assert await instances_of(api, application) == [accepted(answer)["id"]]


async def test_a_lost_answer_to_the_commit_is_found_again_with_the_key(
    api: Api, application: str, launching: Launching, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = _Transaction._commit

    async def commit_and_lose(self: Any) -> None:
        await commit(self)
        raise OutcomeUnknown("The connection broke.")

    key = new_id()
    with monkeypatch.context() as patch:
        patch.setattr(_Transaction, "_commit", commit_and_lose)
        refused(await send(api, *launching, key), 503, "OutcomeUnknown")
    [launched] = await instances_of(api, application)
    answer = await send(api, *launching, key)
    assert accepted(answer) == {"id": launched}
    assert answer.headers["idempotency-replayed"] == "true"
    assert await instances_of(api, application) == [launched]


async def test_who_has_no_account_any_more_gets_no_old_answer(api: Api) -> None:
    member = await person(api, "Administrator")
    path, body, key = f"organizations/{api.organization}/applications", {"name": fresh_name("app")}, new_id()
    accepted(await send(member, path, body, key))
    async with api.database.connection() as connection:
        await connection.execute("UPDATE users SET enabled = false WHERE id = %s", [member.id])
    refused(await send(member, path, body, key), 401, "NotAuthenticated")


async def test_an_answer_that_holds_a_secret_is_not_kept_in_clear(api: Api) -> None:
    path, key = f"organizations/{api.organization}/users", new_id()
    body = {"email": fresh_email(), "name": "New", "roles": []}
    first = await send(api, path, body, key)
    document = accepted(first)
    assert accepted(await send(api, path, body, key)) == document
    secret = max((value for name, value in document.items() if name != "id"), key=lambda value: len(str(value)))
    async with api.database.connection() as connection:
        row = await (await connection.execute("SELECT answer FROM idempotency_keys WHERE key = %s", [key])).fetchone()
    assert row is not None
    assert secret[-12:].encode() not in bytes(row[0])
    assert PERSON_PASSWORD not in first.text
