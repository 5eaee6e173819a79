"""Schedules of the manifest: listed, moved, cancelled and resumed (conformance.md, "States")."""

from typing import Any

import pytest

from launchbay.clock import to_ms
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.manifests import HOURLY
from tests.support.service import Api, accepted, refused, running_api

EACH_SECOND = HOURLY.replace("0 0 * * * ?", "* * * * * ?")


async def schedules(api: Api, instance: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    return found


async def cancel(api: Api, instance: str, schedule: str) -> Any:
    return accepted(await api.post(f"instances/{instance}/{schedule}/reschedule", {"interval": "0"}))


async def me(api: Api) -> str:
    return str((await api.document(await api.running(None)))["ownerId"])


@pytest.mark.parametrize("by_name", [True, False])
async def test_a_cancelled_one_stays_in_the_list_with_who_and_when(api: Api, by_name: bool) -> None:
    instance = await api.running(HOURLY)
    [entry] = await schedules(api, instance)
    assert set(entry) == {"id", "name", "timestamp", "component"}
    assert (entry["name"], entry["component"]) == ("tick", "web")
    before = to_ms(api.clock.now())
    assert await cancel(api, instance, "tick" if by_name else entry["id"]) == {}
    [cancelled] = await schedules(api, instance)
    assert cancelled == {**entry, "cancelledAt": cancelled["cancelledAt"], "cancelledBy": await me(api)}
    assert before - 1000 <= cancelled["cancelledAt"] <= to_ms(api.clock.now()) + 1000


async def test_it_is_cancelled_once(api: Api) -> None:
    instance = await api.running(HOURLY)
    await cancel(api, instance, "tick")
    [cancelled] = await schedules(api, instance)
    await cancel(api, instance, "tick")
    assert await schedules(api, instance) == [cancelled]


@pytest.mark.slow
async def test_one_that_fires_each_second_fires_no_more_even_after_a_restart(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api:
        instance = await api.running(EACH_SECOND)
        [entry] = await schedules(api, instance)
        await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= 2)
        assert (await schedules(api, instance))[0]["id"] == entry["id"], "it keeps its id from run to run"
        await cancel(api, instance, entry["id"])
        runs = len((await api.settled(instance))["workflowHistory"])
    async with running_api(url) as api:
        # Something that is due later has run, so that the other one would have run, too.
        later = await api.running(EACH_SECOND)
        await eventually(lambda: api.document(later), lambda found: len(found["workflowHistory"]) >= 3)
        assert len((await api.document(instance))["workflowHistory"]) == runs
        [entry] = await schedules(api, instance)
        assert "cancelledAt" in entry
    databases.drop(url)


async def test_a_reconfiguration_starts_it_again(api: Api) -> None:
    instance = await api.running(HOURLY)
    await cancel(api, instance, "tick")
    accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": 2}}))
    await api.settled(instance)
    [entry] = await schedules(api, instance)
    assert "cancelledAt" not in entry


async def test_a_repeated_launch_starts_it_again_and_another_workflow_does_not(api: Api) -> None:
    command = HOURLY.replace("{input: {size:", "{actions: {tick: bind(web#actions.tick)}, input: {size:")
    instance = await api.running(command)
    await cancel(api, instance, "tick")
    await api.run(instance, "actions.tick")
    [entry] = await schedules(api, instance)
    assert "cancelledAt" in entry
    await api.run(instance, "launch")
    [entry] = await schedules(api, instance)
    assert "cancelledAt" not in entry


async def test_moving_it_resumes_it_at_that_time(api: Api) -> None:
    instance = await api.running(HOURLY)
    await cancel(api, instance, "tick")
    [cancelled] = await schedules(api, instance)
    path = f"instances/{instance}/{cancelled['id']}/reschedule"
    sentences = refused(await api.post(path, {"interval": 20, "parameters": {"a": "1"}}), 400, "UnknownParameter")
    assert "without parameters" in sentences
    assert accepted(await api.post(path, {"interval": 20})) == {"id": cancelled["id"]}
    await eventually(lambda: api.document(instance), lambda found: len(found["workflowHistory"]) >= 2)
    document = await api.settled(instance)
    assert document["returnValues"] == {"result.count": 1}
    [entry] = await schedules(api, instance)
    assert "cancelledAt" not in entry
    assert entry["timestamp"] > to_ms(api.clock.now()), "then it keeps to the manifest's times"


async def test_a_pending_schedule_wins_over_a_cancelled_one_of_its_name(api: Api) -> None:
    manifest = "launch: {steps: []}\ntick: {steps: []}\n"
    both = HOURLY.replace("{input: {size:", "{tick: {tick: bind(web#actions.tick)}, input: {size:")
    instance = await api.running(both)
    await cancel(api, instance, "tick")
    accepted(await api.post(f"instances/{instance}/tick.tick/schedule", {"interval": 600_000}))
    assert [("cancelledAt" in entry, entry["name"]) for entry in await schedules(api, instance)] == [
        (False, "tick.tick"),
        (True, "tick"),
    ]
    plain = await api.running(manifest)
    accepted(await api.post(f"instances/{plain}/tick/schedule", {"interval": 600_000}))
    await cancel(api, plain, "tick")
    assert await schedules(api, plain) == []


async def test_a_destroyed_instance_has_none(api: Api) -> None:
    instance = await api.running(HOURLY)
    await cancel(api, instance, "tick")
    await api.run(instance, "destroy")
    assert await schedules(api, instance) == []
