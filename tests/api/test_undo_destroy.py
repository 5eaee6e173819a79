"""A destroy within its grace time stops the instance, waits, and can be taken back."""

import asyncio
from typing import Any

import pytest

from tests.support.service import Api, accepted, refused

HOUR_MS = 3_600_000
STOPPABLE = """
launch: {steps: []}
stop: {steps: [{halt: {action: wait, parameters: {delay: 0}}}]}
start: {steps: [{begin: {action: wait, parameters: {delay: 0}}}]}
"""
COMPONENTS = """
application:
  interfaces:
    actions: { stop: bind(web#actions.stop), start: bind(web#actions.start) }
  components:
    web:
      type: workflow.Instance
      interfaces: { actions: { stop: receive-command(), start: receive-command() } }
      configuration:
        configuration.workflows:
          actions.stop: { steps: [{ halt: { action: wait, parameters: { delay: 0 } } }] }
          actions.start: { steps: [{ begin: { action: wait, parameters: { delay: 0 } } }] }
"""
PLAIN = "launch: {steps: []}"


async def instance_with_grace(api: Api, manifest: str, grace_ms: int = HOUR_MS, **body: Any) -> str:
    """Return a running instance whose destroys wait that long. It has no end by itself unless the body gives one."""
    application = await api.application(manifest)
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": grace_ms}))
    instance = await api.launch(application, **{"destroyInterval": -1, **body})
    await api.until(instance, "Running")
    return instance


async def lifetime(api: Api, instance: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/lifetime"))


async def names_of_jobs(api: Api, instance: str) -> list[str]:
    """Return the names of the instance's jobs, the oldest first."""
    return [job["name"] for job in reversed((await api.settled(instance))["workflowHistory"])]


async def until_jobs(api: Api, instance: str, names: list[str]) -> None:
    """Wait until the instance has had these jobs, and no others."""
    async with asyncio.timeout(20):
        while (found := await names_of_jobs(api, instance)) != names:
            assert found == names[: len(found)]
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(("manifest", "prefix"), [(STOPPABLE, ""), (COMPONENTS, "actions.")])
async def test_a_destroy_stops_the_instance_and_is_taken_back(api: Api, manifest: str, prefix: str) -> None:
    instance = await instance_with_grace(api, manifest)
    answer = await api.post(f"instances/{instance}/destroy?include=destroyAt")
    body = accepted(answer)
    assert answer.headers["launchbay-job"], "the job that stops it"
    waiting = (await lifetime(api, instance))["waitingDestroy"]
    assert (waiting["at"], waiting["isStopped"]) == (body["destroyAt"], True)
    assert waiting["at"] - waiting["requestedAt"] == HOUR_MS
    undone = accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy"))
    assert undone["scheduleId"]
    await until_jobs(api, instance, ["launch", f"{prefix}stop", f"{prefix}start"])
    assert (await api.settled(instance))["status"] == "Running"
    assert (await lifetime(api, instance))["waitingDestroy"] is None
    refused(await api.post(f"instances/{instance}/lifetime/undo-destroy"), 409, "NoDestroyWaits")


async def test_it_is_destroyed_once_when_the_grace_time_is_over(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE, grace_ms=300)
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.until(instance, "Destroyed")
    assert await names_of_jobs(api, instance) == ["launch", "stop", "destroy"]
    found = await lifetime(api, instance)
    assert (found["waitingDestroy"], found["coming"]) == (None, [])


async def test_the_grace_time_ends_with_the_life_of_the_instance(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=2 * HOUR_MS, destroyInterval=HOUR_MS)
    end = (await lifetime(api, instance))["destroyAt"]
    promised = accepted(await api.post(f"instances/{instance}/destroy?include=destroyAt"))["destroyAt"]
    found = await lifetime(api, instance)
    assert promised == found["waitingDestroy"]["at"] == found["coming"][-1]["at"] == end


async def test_without_stop_and_start_it_waits_as_it_is(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN, grace_ms=HOUR_MS // 2)
    answer = await api.post(f"instances/{instance}/destroy?include=destroyAt")
    at = accepted(answer)["destroyAt"]
    assert "launchbay-job" not in answer.headers
    found = await lifetime(api, instance)
    assert [(each["kind"], each["at"]) for each in found["coming"]] == [("destroy", at)]
    assert "waits for its destruction" in refused(await api.post(f"instances/{instance}/destroy"), 409, "DestroyWaits")
    assert accepted(await api.post(f"instances/{instance}/lifetime/undo-destroy")) == {"scheduleId": None}
    assert await names_of_jobs(api, instance) == ["launch"]


async def test_a_forced_destroy_and_one_without_rules_do_not_wait(api: Api) -> None:
    instance = await instance_with_grace(api, STOPPABLE)
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.settled(instance)
    assert "destroyAt" not in accepted(await api.post(f"instances/{instance}/destroy?force=1&include=destroyAt"))
    await api.until(instance, "Destroyed")
    assert (await lifetime(api, instance))["waitingDestroy"] is None
    plain = await api.running(PLAIN)
    assert accepted(await api.post(f"instances/{plain}/destroy")) == {"id": plain}
    await api.until(plain, "Destroyed")


async def test_taking_it_back_needs_the_permission_to_destroy(api: Api) -> None:
    instance = await instance_with_grace(api, PLAIN)
    accepted(await api.post(f"instances/{instance}/destroy"))
    reader = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]")
    refused(await reader.post(f"instances/{instance}/lifetime/undo-destroy"), 403)
    assert (await lifetime(api, instance))["waitingDestroy"]
