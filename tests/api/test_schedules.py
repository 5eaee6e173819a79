"""Scheduled workflows (reference §4, schedule, reschedule, schedules; api-decisions "States")."""

import asyncio
import itertools
import time
from typing import Any

import pytest

from launchbay import limits
from launchbay.ids import is_id
from tests.api.manifests import TYPED, WORKFLOWS
from tests.api.running import UNKNOWN, Api, accepted, refused

HOUR_MS = 3_600_000


@pytest.fixture
async def instance(api: Api) -> str:
    return await api.running(WORKFLOWS, parameters={"label": "x"})


async def schedules(api: Api, instance: str) -> list[dict[str, Any]]:
    document = accepted(await api.get(f"instances/{instance}/schedules"))
    assert set(document) == {"schedules"}
    entries: list[dict[str, Any]] = document["schedules"]
    return entries


async def schedule(api: Api, instance: str, interval: object, workflow: str = "echo", **body: Any) -> str:
    document = accepted(await api.post(f"instances/{instance}/{workflow}/schedule", {"interval": interval, **body}))
    assert set(document) == {"id"}
    assert is_id(document["id"])
    made: str = document["id"]
    return made


@pytest.mark.parametrize("interval", [HOUR_MS, str(HOUR_MS), float(HOUR_MS), "03600000"])
async def test_a_schedule_is_listed_in_exactly_the_fields_of_the_reference(
    api: Api, instance: str, interval: object
) -> None:
    before_ms = time.time() * 1000
    made = await schedule(api, instance, interval)
    [entry] = await schedules(api, instance)
    assert set(entry) == {"id", "name", "timestamp"}
    assert (entry["id"], entry["name"]) == (made, "echo")
    assert before_ms - 2 <= entry["timestamp"] - HOUR_MS <= time.time() * 1000 + 2
    assert isinstance(entry["timestamp"], int)


async def test_schedules_are_listed_with_the_next_one_first(api: Api, instance: str) -> None:
    later, soon = await schedule(api, instance, 2 * HOUR_MS), await schedule(api, instance, HOUR_MS, "pause")
    assert [entry["id"] for entry in await schedules(api, instance)] == [soon, later]


@pytest.mark.parametrize("interval", [0, "0", 0.0, "000"])
async def test_interval_0_runs_at_once_and_answers_no_id(api: Api, instance: str, interval: object) -> None:
    path = f"instances/{instance}/echo/schedule"
    assert accepted(await api.post(path, {"interval": interval, "parameters": {"text": "now"}})) == {}
    assert (await api.settled(instance))["returnValues"] == {"shown": "now"}
    assert await schedules(api, instance) == []


async def test_interval_0_on_a_busy_instance_is_409(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    refused(await api.post(f"instances/{instance}/echo/schedule", {"interval": 0}), 409, "InstanceBusy")
    accepted(await api.delete(f"instances/{instance}?force=1"))


@pytest.mark.parametrize(
    "interval",
    [-1, "-1", "soon", "", " 5", "1e3", "0x10", "١٢", 1.5, True, None, [5], {}, limits.INTERVAL_LONGEST_MS + 1, 2**62],
    ids=repr,
)
async def test_any_other_interval_is_400(api: Api, instance: str, interval: object) -> None:
    sentences = refused(await api.post(f"instances/{instance}/echo/schedule", {"interval": interval}), 400)
    assert "interval" in sentences
    made = await schedule(api, instance, HOUR_MS)
    path = f"instances/{instance}/{made}/reschedule"
    refused(await api.post(path, {"interval": interval}), 400)
    assert [entry["id"] for entry in await schedules(api, instance)] == [made]


@pytest.mark.parametrize("operation", ["schedule", "reschedule"])
async def test_a_missing_interval_is_400(api: Api, instance: str, operation: str) -> None:
    await schedule(api, instance, HOUR_MS)
    bodies: list[dict[str, Any]] = [{}, {"parameters": {}}]
    for body in bodies:
        assert "interval" in refused(await api.post(f"instances/{instance}/echo/{operation}", body), 400, "WrongField")
    refused(await api.post(f"instances/{instance}/echo/{operation}"), 400, "WrongContentType")


async def test_a_schedule_fires_once_with_its_parameters_and_not_early(api: Api, instance: str) -> None:
    await schedule(api, instance, "600", parameters={"text": "later"})
    [entry] = await schedules(api, instance)
    async with asyncio.timeout(10):
        while len((document := await api.document(instance))["workflowHistory"]) < 2:
            await asyncio.sleep(0.01)
    document = await api.settled(instance)
    [echo, _] = document["workflowHistory"]
    assert entry["timestamp"] <= echo["startedAt"] < entry["timestamp"] + 2_000
    assert document["returnValues"] == {"shown": "later"}
    assert await schedules(api, instance) == []
    await asyncio.sleep(0.3)
    assert len((await api.document(instance))["workflowHistory"]) == 2


async def test_a_schedule_behind_a_running_job_waits_for_its_end(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "1.2"}))
    await schedule(api, instance, 100, parameters={"text": "after the pause"})
    await asyncio.sleep(0.5)
    assert len(await schedules(api, instance)) == 1
    async with asyncio.timeout(10):
        while len((document := await api.document(instance))["workflowHistory"]) < 3:
            await asyncio.sleep(0.01)
    document = await api.settled(instance)
    [echo, pause, _] = document["workflowHistory"]
    assert (echo["status"], pause["status"]) == ("Succeeded", "Succeeded")
    assert echo["startedAt"] >= pause["finishedAt"]
    assert document["returnValues"] == {"shown": "after the pause"}


async def test_schedules_that_fall_due_together_run_one_after_the_other(api: Api, instance: str) -> None:
    for number in range(5):
        await schedule(api, instance, 100 + number, parameters={"text": f"text {number}"})
    async with asyncio.timeout(10):
        while len((document := await api.document(instance))["workflowHistory"]) < 6 or document["status"] != "Running":
            await asyncio.sleep(0.01)
    history = document["workflowHistory"]
    assert all(job["status"] == "Succeeded" for job in history)
    assert all(newer["startedAt"] >= older["finishedAt"] for newer, older in itertools.pairwise(history))
    assert document["returnValues"] == {"shown": "text 4"}


async def test_a_schedule_of_destroy_destroys(api: Api, instance: str) -> None:
    await schedule(api, instance, HOUR_MS)
    await schedule(api, instance, 100, "destroy")
    await api.until(instance, "Destroyed")
    assert await schedules(api, instance) == []


@pytest.mark.parametrize("parameters", [None, {}, {"text": "x"}])
async def test_parameters_of_a_schedule_may_be_left_out(api: Api, instance: str, parameters: object) -> None:
    await schedule(api, instance, HOUR_MS, parameters=parameters)


async def test_a_schedule_is_checked_as_a_run_is(api: Api) -> None:
    typed = await api.running(TYPED)
    path = f"instances/{typed}/actions.show.all/schedule"
    wrong = {"interval": HOUR_MS, "parameters": {"i": "many"}}
    assert "Parameter i" in refused(await api.post(path, wrong), 400, "WrongParameterType")
    unknown = {"interval": HOUR_MS, "parameters": {"colour": "red"}}
    assert "colour" in refused(await api.post(path, unknown), 400, "UnknownParameter")
    refused(await api.post(f"instances/{typed}/fly/schedule", {"interval": HOUR_MS}), 400, "UnknownWorkflow")
    refused(await api.post(path, {"interval": HOUR_MS, "parameters": ["x"]}), 400, "WrongField")
    assert await schedules(api, typed) == []


async def test_a_rescheduled_workflow_keeps_its_id_and_its_parameters(api: Api, instance: str) -> None:
    made = await schedule(api, instance, HOUR_MS, parameters={"text": "kept"})
    answer = accepted(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": "200"}))
    assert answer == {"id": made}
    async with asyncio.timeout(10):
        while len((await api.document(instance))["workflowHistory"]) < 2:
            await asyncio.sleep(0.01)
    assert (await api.settled(instance))["returnValues"] == {"shown": "kept"}


async def test_a_reschedule_may_bring_new_parameters(api: Api, instance: str) -> None:
    made = await schedule(api, instance, HOUR_MS, parameters={"text": "old"})
    body = {"interval": "200", "parameters": {"text": "new"}}
    assert accepted(await api.post(f"instances/{instance}/echo/reschedule", body)) == {"id": made}
    async with asyncio.timeout(10):
        while len((await api.document(instance))["workflowHistory"]) < 2:
            await asyncio.sleep(0.01)
    assert (await api.settled(instance))["returnValues"] == {"shown": "new"}


@pytest.mark.parametrize("interval", [0, "0"])
async def test_interval_0_cancels_and_answers_no_id(api: Api, instance: str, interval: object) -> None:
    made = await schedule(api, instance, HOUR_MS)
    assert accepted(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": interval})) == {}
    assert await schedules(api, instance) == []
    refused(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": interval}), 400, "UnknownSchedule")
    assert len((await api.document(instance))["workflowHistory"]) == 1


async def test_a_name_that_fits_several_schedules_is_400_with_their_ids(api: Api, instance: str) -> None:
    ids = [await schedule(api, instance, HOUR_MS + number) for number in range(3)]
    await schedule(api, instance, HOUR_MS, "pause")
    ambiguous = await api.post(f"instances/{instance}/echo/reschedule", {"interval": 0})
    sentences = refused(ambiguous, 400, "AmbiguousSchedule")
    assert all(made in sentences for made in ids)
    assert len(await schedules(api, instance)) == 4
    assert accepted(await api.post(f"instances/{instance}/{ids[1]}/reschedule", {"interval": 0})) == {}
    assert ids[1] not in {entry["id"] for entry in await schedules(api, instance)}


async def test_an_id_wins_over_a_workflow_of_that_name(api: Api) -> None:
    name = "5f" * 12
    instance = await api.running(f"launch: {{steps: []}}\n{name}: {{steps: []}}\nother: {{steps: []}}\n")
    named, other = await schedule(api, instance, HOUR_MS, name), await schedule(api, instance, HOUR_MS, "other")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE schedules SET id = %s WHERE id = %s", [name, other])
    assert accepted(await api.post(f"instances/{instance}/{name}/reschedule", {"interval": 0})) == {}
    assert [entry["id"] for entry in await schedules(api, instance)] == [named]


@pytest.mark.parametrize("wanted", ["fly", "launch", UNKNOWN, "x" * 500])
async def test_an_unknown_schedule_is_400_and_says_where_they_are_listed(api: Api, instance: str, wanted: str) -> None:
    path = f"instances/{instance}/{wanted}/reschedule"
    assert "schedules" in refused(await api.post(path, {"interval": 5}), 400, "UnknownSchedule")


async def test_a_schedule_of_another_instance_is_unknown(api: Api, instance: str) -> None:
    other = await api.running(WORKFLOWS, parameters={"label": "x"})
    made = await schedule(api, other, HOUR_MS)
    refused(await api.post(f"instances/{instance}/{made}/reschedule", {"interval": 0}), 400, "UnknownSchedule")
    assert len(await schedules(api, other)) == 1


async def test_nothing_can_be_scheduled_on_a_destroyed_instance(api: Api, instance: str) -> None:
    await api.run(instance, "destroy")
    for interval in (0, HOUR_MS):
        path = f"instances/{instance}/echo/schedule"
        refused(await api.post(path, {"interval": interval}), 400, "InstanceDestroyed")
    assert await schedules(api, instance) == []


async def test_a_workflow_can_be_scheduled_while_another_runs(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "30"}))
    await schedule(api, instance, HOUR_MS)
    accepted(await api.delete(f"instances/{instance}?force=1"))


@pytest.mark.parametrize(
    ("entry", "workflow", "status"),
    [
        ("ScheduleInstanceWorkflow: [/applications/*]", "echo", 200),
        ("ScheduleInstanceWorkflow: [/applications/*]", "destroy", 403),
        ("ScheduleInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "echo", 200),
        ("ScheduleInstanceWorkflow: [/applications/*/instances/*/workflows/echo]", "pause", 403),
        ("EditInstance: [/applications/*]", "destroy", 200),
        ("EditInstance: [/applications/*]", "echo", 403),
        ("RunInstanceWorkflow: [/applications/*]", "echo", 403),
    ],
)
async def test_schedule_and_reschedule_need_the_permission_for_the_workflow(
    api: Api, instance: str, entry: str, workflow: str, status: int
) -> None:
    member = await api.member(entry)
    body = {"interval": HOUR_MS}
    made = await schedule(api, instance, HOUR_MS, workflow)
    for path in (f"{workflow}/schedule", f"{made}/reschedule"):
        answer = await member.post(f"instances/{instance}/{path}", body)
        assert answer.status_code == status, (path, answer.text)
