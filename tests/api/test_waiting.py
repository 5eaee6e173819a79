"""An instance says what its work waits for (`waitingFor`)."""

import asyncio
from typing import Any

import pytest

from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, refused, running_api

HOLDING = """
launch: {steps: []}
hold: {steps: [{rest: {action: wait, parameters: {delay: 30 sec}}}]}
go: {steps: []}
"""
CHILD = "launch: {steps: [{rest: {action: wait, parameters: {delay: 1.5}}}]}"
PARENT = """
application:
  components:
    db:
      type: reference.Submodule
      configuration: {__locator.application-id: "%s"}
launch: {steps: []}
"""


async def waiting(api: Api, instance: str, wanted: str) -> Any:
    """Wait until the instance says something with this in it, and return all that it says."""
    return (await eventually(lambda: api.document(instance), lambda found: wanted in found.get("waitingFor", ""))).get(
        "waitingFor", ""
    )


@pytest.mark.slow
async def test_an_instance_that_rests_says_so_and_one_that_waits_for_nothing_says_nothing(api: Api) -> None:
    instance = await api.running(HOLDING)
    assert "waitingFor" not in await api.document(instance)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    assert await waiting(api, instance, "its time") == "Step 'rest' of 'workflow' waits for its time."


async def test_due_work_says_behind_whose_job_it_waits(api: Api) -> None:
    instance = await api.running(HOLDING)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    accepted(await api.post(f"instances/{instance}/go/schedule", {"interval": "1"}))
    said = await waiting(api, instance, "'go'")
    assert "Scheduled 'go', due since 20" in said
    assert said.endswith("is waiting for the end of 'hold', run by Administrator.")


async def test_a_step_that_polls_says_when_it_looks_again(api: Api) -> None:
    look = "{action: wait, parameters: {delay: 0}, until: '{$= false}', delay: 2 sec}"
    instance = await api.running(f"launch: {{steps: []}}\nlook: {{steps: [{{see: {look}}}]}}")
    accepted(await api.post(f"instances/{instance}/look", {}))
    said = await waiting(api, instance, "'until'")
    assert said.startswith("Step 'see' of 'workflow' has made ")
    assert said.endswith("Z: the condition of 'until' isn't true yet.")
    job = (await api.document(instance))["workflowHistory"][0]["id"]
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))


@pytest.mark.slow
async def test_a_launch_names_the_submodule_that_it_waits_for(api: Api) -> None:
    child = await api.application(CHILD)
    instance = await api.launch(await api.application(PARENT % child))
    said = await waiting(api, instance, "Waiting for job")
    inner = next(c for c in (await api.document(instance))["components"] if c["name"] == "db")["instanceId"]
    assert said == f"Waiting for job 1, 'launch', of the instance '{(await api.document(inner))['name']}'."
    assert "waitingFor" not in await api.settled(instance)


@pytest.mark.slow
async def test_a_job_that_has_not_begun_says_whether_there_is_anybody_to_run_it(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False) as api:
        instance = await api.launch(await api.application(HOLDING))
        said = await waiting(api, instance, "waiting for")
        assert said == "The job is waiting for a worker; none has sent a heartbeat recently."
        async with api.database.connection() as connection:
            await connection.execute("INSERT INTO workers (name) VALUES ('elsewhere')")
        await api.launch(await api.application(HOLDING))
        said = await waiting(api, instance, "number")
        assert said == "The job is number 1 of 2 in the organization's queue for a free job slot."


async def test_a_read_that_waits_is_answered_when_the_job_has_ended(api: Api) -> None:
    instance = await api.launch(await api.application(CHILD.replace("1.5", "0.3")))
    document = accepted(await api.get(f"instances/{instance}?wait=30"))
    assert document["status"] == "Running"
    assert accepted(await api.get(f"instances/{instance}?wait=30"))["status"] == "Running"


async def test_a_read_waits_no_longer_than_it_says(api: Api) -> None:
    instance = await api.running(HOLDING)
    accepted(await api.post(f"instances/{instance}/hold", {}))
    async with asyncio.timeout(10):
        assert accepted(await api.get(f"instances/{instance}?wait=1"))["status"] == "Executing"
    refused(await api.get(f"instances/{instance}?wait=61"), 400, "BadRequest")


@pytest.mark.slow
async def test_reads_that_wait_hold_no_connection(databases: Databases) -> None:
    async with running_api(databases.create(), database_connections=2) as api:
        instance = await api.running(HOLDING.replace("30 sec", "1 sec"))
        accepted(await api.post(f"instances/{instance}/hold", {}))
        waiting = [asyncio.create_task(api.get(f"instances/{instance}?wait=30")) for _ in range(40)]
        assert await api.document(instance)
        assert not any(task.done() for task in waiting)
        assert {accepted(answer)["status"] for answer in await asyncio.gather(*waiting)} == {"Running"}


async def test_a_read_waits_for_a_job_that_another_server_runs(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as asked, running_api(url):
        instance = await asked.launch(await asked.application(CHILD.replace("1.5", "0.3")))
        assert accepted(await asked.get(f"instances/{instance}?wait=30"))["status"] == "Running"
