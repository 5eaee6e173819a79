"""The static resource pool through the API: atomic, fair, and safe to ask twice (manifest-language §8)."""

import asyncio
import time
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name


async def pool(api: Api, resources: Any) -> str:
    body = {
        "name": fresh_name("pool"),
        "typeId": "builtin:static_resource_pool",
        "parameters": {"configuration.resources": resources},
    }
    return str(accepted(await api.post(f"organizations/{api.organization}/services", body))["id"])


async def acquire(api: Api, service: str, holder: str, timeout: int = 0) -> httpx.Response:
    body = {"arguments": {"holder": holder, "timeout": timeout}}
    return await api.post(f"services/{service}/acquire", body)


async def acquired(api: Api, service: str, holder: str, timeout: int = 0) -> str:
    [result] = accepted(await acquire(api, service, holder, timeout))
    return str(result["id"])


async def release(api: Api, service: str, holder: str) -> bool:
    [result] = accepted(await api.post(f"services/{service}/release", {"arguments": {"holder": holder}}))
    return bool(result["released"])


async def listed(api: Api, service: str) -> dict[str, Any]:
    [result] = accepted(await api.post(f"services/{service}/list"))
    return dict(result)


async def holders(api: Api, service: str) -> dict[str, Any]:
    return {entry["id"]: entry["holder"] for entry in (await listed(api, service))["resources"]}


async def waiting(api: Api, service: str, count: int) -> None:
    await eventually(lambda: listed(api, service), lambda found: found["waiting"] == count)


@pytest.mark.parametrize(("written", "kept"), [("1.10", "1.10"), ("1e3", "1e3"), ("-0", "-0"), ('"7"', "7"), ("7", 7)])
async def test_a_login_and_a_key_pair_are_texts_however_they_are_written(api: Api, written: str, kept: Any) -> None:
    service = await pool(api, ["a"])
    host = f'{{"user": {written}, "keyPair": {written}, "jump": [{{"address": "b", "user": {written}}}]}}'
    body = f'{{"parameters": {{"configuration.resources": {{"a": {host}, "c": {{"weight": 1.10}}}}}}}}'
    accepted(await api.client.put(f"services/{service}", content=body, headers={"content-type": "application/json"}))
    stored = accepted(await api.get(f"services/{service}"))["parameters"]["configuration.resources"]
    assert stored["a"] == {"user": kept, "keyPair": kept, "jump": [{"address": "b", "user": kept}]}
    assert stored["c"] == {"weight": 1.1}


@pytest.mark.parametrize(
    ("resources", "first"),
    [
        (["a", "b"], {"id": "a", "resource": "a"}),
        ([{"id": "a", "ip": "10.0.0.1"}], {"id": "a", "resource": {"id": "a", "ip": "10.0.0.1"}}),
        ({"a": {"ip": "10.0.0.1"}, "b": None}, {"id": "a", "resource": {"ip": "10.0.0.1"}}),
    ],
)
async def test_resources_may_be_given_as_a_list_or_a_map(api: Api, resources: Any, first: dict[str, Any]) -> None:
    service = await pool(api, resources)
    assert accepted(await acquire(api, service, "me")) == [first]


@pytest.mark.parametrize(
    "resources",
    ["a", 5, None, [5], [{"ip": 1}], [{"id": 5}], ["a", {"id": "a"}], [""], {" ": 1}, ["x" * 256], ["a"] * 1001],
)
async def test_a_pool_that_cannot_be_is_refused(api: Api, resources: Any) -> None:
    body = {"name": "p", "typeId": "builtin:static_resource_pool", "parameters": {"configuration.resources": resources}}
    answer = await api.post(f"organizations/{api.organization}/services", body)
    assert answer.status_code == 400
    assert answer.json()["errors"][0].startswith("configuration.resources: ")
    service = await pool(api, ["a"])
    answer = await api.put(f"services/{service}", {"parameters": body["parameters"]})
    assert list(answer.json()) == ["configuration.resources"]


async def test_each_resource_has_one_holder_at_a_time_and_the_list_tells_who(api: Api) -> None:
    service = await pool(api, ["a", "b"])
    before = time.time() * 1000
    assert [await acquired(api, service, holder) for holder in ("x", "y")] == ["a", "b"]
    entries = (await listed(api, service))["resources"]
    assert [(entry["id"], entry["resource"], entry["holder"]) for entry in entries] == [
        ("a", "a", "x"),
        ("b", "b", "y"),
    ]
    assert all(before - 1000 <= entry["since"] <= before + 60_000 for entry in entries)
    answer = await acquire(api, service, "z")
    assert answer.status_code == 409
    assert "No resource became free within 0 seconds" in answer.json()["errors"][0]
    assert (await listed(api, service))["waiting"] == 0
    assert await release(api, service, "x") is True
    assert await holders(api, service) == {"a": None, "b": "y"}
    assert await acquired(api, service, "z") == "a"


async def test_who_holds_a_resource_gets_the_same_again(api: Api) -> None:
    service = await pool(api, ["a", "b"])
    assert {await acquired(api, service, "x") for _ in range(3)} == {"a"}
    at_once = await asyncio.gather(*(acquired(api, service, "y", timeout=5) for _ in range(5)))
    assert set(at_once) == {"b"}
    assert await holders(api, service) == {"a": "x", "b": "y"}


async def test_what_is_not_held_can_be_released_without_effect(api: Api) -> None:
    service = await pool(api, ["a"])
    assert await release(api, service, "nobody") is False
    await acquired(api, service, "x")
    assert await release(api, service, "nobody") is False
    assert await release(api, service, "x") is True
    assert await release(api, service, "x") is False
    assert await holders(api, service) == {"a": None}


async def test_the_resource_that_rested_longest_is_handed_out(api: Api) -> None:
    service = await pool(api, ["a", "b", "c"])
    order = []
    for number in range(7):
        order.append(await acquired(api, service, f"h{number}"))
        assert await release(api, service, f"h{number}")
    assert order == ["a", "b", "c", "a", "b", "c", "a"]


async def test_of_many_at_once_exactly_as_many_get_one_as_there_are(api: Api) -> None:
    service = await pool(api, [str(number) for number in range(5)])
    answers = await asyncio.gather(*(acquire(api, service, f"h{number}") for number in range(30)))
    got = [answer.json()[0]["id"] for answer in answers if answer.status_code == 200]
    assert sorted(got) == ["0", "1", "2", "3", "4"]
    assert {answer.status_code for answer in answers} == {200, 409}


async def test_who_waits_is_served_in_the_order_of_asking_and_nobody_overtakes(api: Api) -> None:
    service = await pool(api, ["a"])
    await acquired(api, service, "h0")
    tasks = []
    for number in range(1, 5):
        tasks.append(asyncio.create_task(acquired(api, service, f"h{number}", timeout=20)))
        await waiting(api, service, number)
    served = []
    for number in range(4):
        assert await release(api, service, f"h{number}")
        assert (await acquire(api, service, "hasty")).status_code == 409
        async with asyncio.timeout(10):
            while (holder := (await holders(api, service))["a"]) is None:
                assert (await acquire(api, service, "hasty")).status_code == 409
        served.append(holder)
    assert served == ["h1", "h2", "h3", "h4"]
    assert await asyncio.gather(*tasks) == ["a"] * 4


@pytest.mark.slow
async def test_waiting_ends_with_the_timeout_and_tells_how_many_were_before(api: Api) -> None:
    service = await pool(api, ["a"])
    await acquired(api, service, "h0")
    first = asyncio.create_task(acquire(api, service, "h1", timeout=3))
    await waiting(api, service, 1)
    started = time.monotonic()
    answer = await acquire(api, service, "h2", timeout=1)
    assert 0.9 < time.monotonic() - started < 2.5
    assert answer.status_code == 409
    assert "within 1 seconds. 1 others are ahead in the queue" in answer.json()["errors"][0]
    assert (await first).status_code == 409
    assert (await listed(api, service))["waiting"] == 0


async def test_who_has_stopped_asking_loses_the_place(api: Api) -> None:
    service = await pool(api, ["a"])
    async with api.database.transaction() as connection:  # the request of a server that was killed
        await connection.execute(
            "INSERT INTO pool_tickets (service_id, holder, asked_at) VALUES (%s, 'ghost', now() - interval '6 s')",
            [service],
        )
    assert await acquired(api, service, "x") == "a"


async def test_a_place_is_kept_from_one_try_to_the_next_only_while_somebody_waits(api: Api) -> None:
    service = await pool(api, ["a"])
    await acquired(api, service, "h0")
    assert (await acquire(api, service, "h1")).status_code == 409
    assert await release(api, service, "h0")
    assert await acquired(api, service, "h2") == "a"


async def test_progress_of_waiting_is_told_as_intermediate_results(api: Api) -> None:
    service = await pool(api, ["a"])
    body = {"arguments": {"holder": "x"}, "includeIntermediate": True}
    assert accepted(await api.post(f"services/{service}/acquire", body)) == [
        {"ahead": 0},
        {"id": "a", "resource": "a"},
    ]


async def test_a_resource_taken_out_of_the_pool_stays_held_and_does_not_come_back(api: Api) -> None:
    service = await pool(api, ["a", "b"])
    await acquired(api, service, "x")
    accepted(await api.put(f"services/{service}", {"parameters": {"configuration.resources": ["b"]}}))
    assert await holders(api, service) == {"b": None, "a": "x"}
    assert await acquired(api, service, "x") == "a"
    assert await release(api, service, "x")
    assert await holders(api, service) == {"b": None}
    assert await acquired(api, service, "y") == "b"


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "holder"),
        ({"holder": ""}, "holder"),
        ({"holder": "  "}, "holder"),
        ({"holder": "x" * 256}, "holder"),
        ({"holder": ["x"]}, "holder"),
        ({"holder": "x", "timeout": -1}, "timeout"),
        ({"holder": "x", "timeout": 301}, "timeout"),
        ({"holder": "x", "timeout": "soon"}, "timeout"),
        ({"holder": "x", "quantity": 2}, "quantity"),
    ],
)
async def test_wrong_arguments_are_refused_by_name(api: Api, arguments: dict[str, Any], field: str) -> None:
    service = await pool(api, ["a"])
    answer = await api.post(f"services/{service}/acquire", {"arguments": arguments})
    assert answer.status_code == 400
    assert list(answer.json()) == [field]
    assert await holders(api, service) == {"a": None}


async def test_a_pool_deleted_while_somebody_waits_ends_the_waiting(api: Api) -> None:
    service = await pool(api, ["a"])
    await acquired(api, service, "h0")
    task = asyncio.create_task(acquire(api, service, "h1", timeout=20))
    await waiting(api, service, 1)
    accepted(await api.delete(f"services/{service}"))
    async with asyncio.timeout(5):
        assert (await task).status_code == 409
