"""One instance in detail (reference §2, Instance; conformance.md "States")."""

import asyncio
import time
from typing import Any

import pytest

from launchbay.ids import is_id
from tests.support.eventually import eventually
from tests.support.manifests import FAILING_LATE, TYPED, WORKFLOWS
from tests.support.service import ADDED_TO_INSTANCE, REFERENCE_INSTANCE, Api, accepted

FRAGILE = """
launch: {steps: []}
break:
  steps:
    - call: {action: restcall, parameters: {command: "not a URL"}}
shatter:
  steps:
    - call: {action: restcall, parameters: {command: "not a URL either"}}
fine: {steps: []}
"""
JOB = {"name", "status", "ownerId", "steps"}
STEP = {"name", "status", "percentComplete"}


@pytest.fixture
async def instance(api: Api) -> str:
    return await api.running(WORKFLOWS, parameters={"label": "x"})


async def test_it_has_the_fields_of_the_reference_and_the_listed_additions(api: Api, instance: str) -> None:
    document = await api.document(instance)
    assert set(document) == REFERENCE_INSTANCE | ADDED_TO_INSTANCE
    [job] = document["workflowHistory"]
    assert set(job) == JOB | {"id", "startedAt", "finishedAt", "errorMessage", "failureCode", "number"}
    assert all(is_id(document[name]) for name in ("id", "ownerId", "applicationId", "environmentId"))
    assert is_id(job["id"])
    assert job["ownerId"] == document["ownerId"]
    assert abs(document["createdAt"] - time.time() * 1000) < 60_000
    assert document["createdAt"] <= job["startedAt"] <= job["finishedAt"]


async def test_steps_have_exactly_the_fields_of_the_reference(api: Api, instance: str) -> None:
    document = await api.run(instance, "pause", seconds="0")
    assert document["workflowHistory"][0]["steps"] == [
        {"name": "first", "status": "Succeeded", "percentComplete": 100},
        {"name": "rest", "status": "Succeeded", "percentComplete": 100},
    ]


@pytest.mark.slow
async def test_the_running_job_is_shown_only_while_it_runs(api: Api, instance: str) -> None:
    assert "workflow" not in await api.document(instance)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "1.5"}))
    document = await api.document(instance)
    assert document["status"] == "Executing"
    assert set(document) == REFERENCE_INSTANCE | ADDED_TO_INSTANCE | {"workflow"}
    assert set(document["workflow"]) == JOB
    assert document["workflow"] == {name: document["workflowHistory"][0][name] for name in JOB}
    assert (document["workflow"]["name"], document["workflow"]["status"]) == ("pause", "Executing")
    assert all(set(step) == STEP for step in document["workflow"]["steps"])
    assert "workflow" not in await api.settled(instance)


@pytest.mark.slow
async def test_percentages_are_live_and_never_fall(api: Api, instance: str) -> None:
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "3"}))
    seen: list[tuple[str, int]] = []
    while (document := await api.document(instance))["status"] == "Executing":
        [_, rest] = document["workflow"]["steps"]
        seen.append((rest["status"], rest["percentComplete"]))
        await asyncio.sleep(0.05)
    shown = [percent for status, percent in seen if status == "Executing"]
    assert shown == sorted(shown)
    assert len({percent for percent in shown if 0 < percent < 100}) >= 2
    order = ["Requested", "Executing", "Succeeded"]
    ranks = [order.index(status) for status, _ in seen]
    assert ranks == sorted(ranks)


async def test_a_queued_step_is_requested(api: Api, instance: str) -> None:
    application = await api.application(
        """
        launch:
          steps:
            - one: {action: wait, parameters: {delay: 1}}
            - two: {action: wait, precedingPhases: [one], parameters: {delay: 0}}
        """
    )
    launched = await api.launch(application)
    steps = (
        await eventually(
            lambda: api.document(launched),
            lambda found: found["workflowHistory"][0]["steps"][0]["status"] == "Executing",
        )
    )["workflowHistory"][0]["steps"]
    assert steps[1] == {"name": "two", "status": "Requested", "percentComplete": 0}


async def test_the_history_is_newest_first_even_within_a_second(api: Api, instance: str) -> None:
    texts = [f"text {number}" for number in range(6)]
    for text in texts:
        await api.run(instance, "echo", text=text)
    await api.run(instance, "destroy")
    names = [job["name"] for job in (await api.document(instance))["workflowHistory"]]
    assert names == ["destroy", *["echo"] * 6, "launch"]
    started = [job["startedAt"] for job in (await api.document(instance))["workflowHistory"]]
    assert started == sorted(started, reverse=True)


async def test_return_values_are_there_the_moment_that_it_is_running(api: Api) -> None:
    application = await api.application(WORKFLOWS)
    for number in range(5):
        document = await api.settled(await api.launch(application, parameters={"size": number, "label": "x"}))
        assert document["returnValues"] == {"shown": f"{number} of x"}


async def test_the_end_of_a_job_and_what_it_returned_are_of_one_moment(api: Api, instance: str) -> None:
    for number in range(20):
        text = f"text {number}"
        accepted(await api.post(f"instances/{instance}/echo", {"text": text}))
        while (document := await api.document(instance))["workflowHistory"][0]["status"] == "Executing":
            assert document["status"] == "Executing"
        assert document["status"] == "Running"
        assert document["returnValues"]["shown"] == text


async def test_a_failure_is_told_by_job_and_instance_and_stays_when_another_workflow_succeeds(api: Api) -> None:
    application = await api.application(FAILING_LATE + "fine: {steps: []}\ndestroy: {steps: []}\n")
    document = await api.settled(await api.launch(application))
    assert document["status"] == "Failed"
    [job] = document["workflowHistory"]
    assert job["status"] == "Failed"
    assert job["steps"] == [{"name": "call", "status": "Failed", "percentComplete": 0}]
    assert "call" in document["errorMessage"]
    assert job["errorMessage"] == document["errorMessage"]
    failure = document["lastFailure"]
    assert failure == {
        "jobId": job["id"],
        "workflow": "launch",
        "time": job["finishedAt"],
        "message": document["errorMessage"],
        "code": "ActionFailed",
    }
    assert job["failureCode"] == accepted(await api.get(f"jobs/{job['id']}"))["failureCode"] == "ActionFailed"
    for workflow, status in (("fine", "Failed"), ("destroy", "Destroyed")):
        document = await api.run(document["id"], workflow)
        assert (document["status"], document["lastFailure"]) == (status, failure)
        assert document["errorMessage"] == failure["message"]
    assert [job["failureCode"] for job in document["workflowHistory"]] == [None, None, "ActionFailed"]
    assert document["workflowHistory"][2]["errorMessage"] == failure["message"]


async def test_a_failed_command_stays_told_until_a_reconfiguration_succeeds(api: Api) -> None:
    instance = await api.running(FRAGILE)
    document = await api.document(instance)
    assert (document["errorMessage"], document["lastFailure"]) == (None, None)
    first = (await api.run(instance, "break"))["lastFailure"]
    second = (await api.run(instance, "shatter"))["lastFailure"]
    assert (first["workflow"], second["workflow"]) == ("break", "shatter")
    document = await api.run(instance, "fine")
    assert (document["status"], document["lastFailure"]) == ("Running", second), "the newest failure is told"
    assert document["errorMessage"] == second["message"]
    assert document["workflowHistory"][1]["id"] == second["jobId"]
    accepted(await api.put(f"instances/{instance}/configuration", {}))
    document = await api.settled(instance)
    assert (document["status"], document["errorMessage"], document["lastFailure"]) == ("Running", None, None)


async def test_an_instance_without_a_failure_has_no_error_message(api: Api, instance: str) -> None:
    assert (await api.document(instance))["errorMessage"] is None


async def test_only_component_manifests_have_components(api: Api, instance: str) -> None:
    assert (await api.document(instance))["components"] == []
    typed = await api.running(TYPED)
    assert (await api.document(typed))["components"] == [{"name": "worker"}]


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (WORKFLOWS, {"launch", "destroy", "pause", "echo", "break"}),
        (TYPED, {"launch", "destroy", "actions.show.all", "actions.default"}),
        (None, {"launch", "destroy"}),
    ],
    ids=["workflows", "components", "default"],
)
async def test_it_tells_which_workflows_can_be_run(api: Api, manifest: str | None, expected: set[str]) -> None:
    parameters: dict[str, Any] = {"label": "x"} if manifest == WORKFLOWS else {}
    document = await api.document(await api.running(manifest, parameters=parameters))
    assert set(document["availableWorkflows"]) == expected


async def test_values_keep_the_order_of_their_keys(api: Api) -> None:
    application = await api.application(TYPED)
    keys = ["zebra", "apple", "mango", "10", "9"]
    instance = await api.launch(application, **{"input.tags": keys})
    accepted(await api.put(f"instances/{instance}/userData", dict.fromkeys(keys, "x")))
    document = await api.settled(instance)
    assert list(document["userData"]) == keys
    assert document["returnValues"]["result.seen"]["tags"] == keys


async def test_a_long_history_shows_the_newest_jobs(api: Api, instance: str) -> None:
    async with api.database.transaction() as connection:
        await connection.execute(
            """INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, created_at)
               SELECT left(md5(n::text), 24), %s, 'job ' || n, 'nobody', 'Succeeded', '{}',
                      clock_timestamp() + n * interval '1 second'
               FROM generate_series(1, 1000) AS n""",
            [instance],
        )
    history = (await api.document(instance))["workflowHistory"]
    assert [job["name"] for job in history] == [f"job {number}" for number in range(1000, 900, -1)]
