"""Deleting instances (reference §4, DELETE; api-decisions "States")."""

import asyncio
import time

import pytest

from tests.api.manifests import FAILING_EARLY, FAILING_LATE, PAUSING
from tests.api.running import Api, accepted, refused

TABLES = ("instances", "jobs", "steps", "log_lines", "schedules")


async def records(api: Api, instance: str) -> dict[str, int]:
    """Return how many rows of each table belong to the instance."""
    of = {"instances": "id", "jobs": "instance_id", "log_lines": "instance_id", "schedules": "instance_id"}
    counts = {}
    async with api.database.connection() as connection:
        for table, column in of.items():
            text = f"SELECT count(*) FROM {table} WHERE {column} = %s"
            row = await (await connection.execute(text.encode(), [instance])).fetchone()
            assert row is not None
            counts[table] = row[0]
        text = "SELECT count(*) FROM steps WHERE NOT EXISTS (SELECT FROM jobs WHERE jobs.id = steps.job_id)"
        row = await (await connection.execute(text.encode())).fetchone()
        assert row is not None
        counts["steps"] = row[0]
    return counts


async def pausing(api: Api) -> str:
    """Return an instance in the middle of a long step."""
    instance = await api.running(PAUSING)
    accepted(await api.post(f"instances/{instance}/pause", {"seconds": "600"}))
    async with asyncio.timeout(10):
        while (await api.document(instance))["workflow"]["steps"][0]["status"] != "Executing":
            await asyncio.sleep(0.01)
    return instance


async def test_a_destroyed_instance_is_deleted_with_all_its_records(api: Api) -> None:
    instance = await api.running(PAUSING)
    await api.run(instance, "pause", seconds="0")
    document = await api.run(instance, "destroy")
    assert accepted(await api.delete(f"instances/{instance}")) == {}
    refused(await api.get(f"instances/{instance}"), 404, "NotFound")
    refused(await api.delete(f"instances/{instance}"), 404, "NotFound")
    assert accepted(await api.get(f"applications/{document['applicationId']}/instances")) == []
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


@pytest.mark.parametrize("force", ["", "?force=0", "?force="])
async def test_an_active_instance_is_not_deleted_without_force(api: Api, force: str) -> None:
    instance = await api.running(None)
    answer = await api.delete(f"instances/{instance}{force}")
    if force == "?force=":
        refused(answer, 400)
    else:
        assert "force=1" in refused(answer, 400, "InstanceActive")
    assert (await api.document(instance))["status"] == "Running"


async def test_a_running_instance_is_destroyed_and_deleted_by_force(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}")
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    document = await api.document(instance)
    assert (document["status"], document["workflow"]["name"]) == ("Destroying", "destroy")
    await api.gone(instance)
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_step_in_the_middle_of_a_wait_is_interrupted_by_force(api: Api) -> None:
    instance = await pausing(api)
    begin_s = time.monotonic()
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    answer = await api.get(f"instances/{instance}")
    if answer.status_code == 200:
        document = answer.json()
        assert document["status"] == "Destroying"
        assert [job["name"] for job in document["workflowHistory"]] == ["destroy", "pause", "launch"]
        assert document["workflowHistory"][1]["status"] == "Failed"
        assert "force" in document["workflowHistory"][1]["errorMessage"]
    await api.gone(instance)
    assert time.monotonic() - begin_s < 5
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_launch_that_is_queued_or_under_way_is_given_up_by_force(api: Api) -> None:
    application = await api.application("launch: {steps: [{s: {action: wait, parameters: {delay: 600}}}]}")
    instances = [await api.launch(application) for _ in range(3)]
    for instance in instances:
        refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
        accepted(await api.delete(f"instances/{instance}?force=1"))
    for instance in instances:
        await api.gone(instance)
        assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_a_deletion_that_is_asked_for_again_and_again_still_comes_to_its_end(api: Api) -> None:
    instance = await api.running("launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 1}}}]}")
    async with asyncio.timeout(10):
        while (answer := await api.delete(f"instances/{instance}?force=1")).status_code == 200:
            await asyncio.sleep(0.1)
    refused(answer, 404, "NotFound")


async def test_a_destroy_under_way_is_replaced_by_force(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: []}\ndestroy: {steps: [{s: {action: wait, parameters: {delay: 0.5}}}]}"
    )
    accepted(await api.post(f"instances/{instance}/destroy", {}))
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


async def test_a_forced_deletion_goes_through_when_destroy_fails(api: Api) -> None:
    instance = await api.running(
        "launch: {steps: [{s: {action: wait, parameters: {delay: 0}}}]}\n"
        "destroy: {steps: [{s: {action: restcall, parameters: {command: 'not a URL'}}}]}"
    )
    assert (await api.run(instance, "destroy"))["status"] == "Failed"
    refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)


@pytest.mark.parametrize("manifest", [FAILING_EARLY, FAILING_LATE], ids=["no effect", "the effect failed"])
async def test_an_instance_that_failed_before_any_resource_was_made_is_not_active(api: Api, manifest: str) -> None:
    instance = await api.launch(await api.application(manifest))
    assert (await api.settled(instance))["status"] == "Failed"
    assert accepted(await api.delete(f"instances/{instance}")) == {}
    refused(await api.get(f"instances/{instance}"), 404)


async def test_an_instance_that_failed_after_an_effect_is_active(api: Api) -> None:
    step = "{action: restcall, precedingPhases: [first], parameters: {command: 'not a URL'}}"
    instance = await api.launch(
        await api.application(f"launch: {{steps: [first: {{action: wait, parameters: {{delay: 0}}}}, second: {step}]}}")
    )
    assert (await api.settled(instance))["status"] == "Failed"
    refused(await api.delete(f"instances/{instance}"), 400, "InstanceActive")
    await api.run(instance, "destroy")
    accepted(await api.delete(f"instances/{instance}"))


@pytest.mark.parametrize("force", ["", "?force=1"])
async def test_an_instance_of_a_submodule_goes_only_with_its_parent(api: Api, force: str) -> None:
    parent, child = await api.running(None), await api.running(None)
    await api.run(child, "destroy")
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE instances SET parent_id = %s WHERE id = %s", [parent, child])
    assert parent in refused(await api.delete(f"instances/{child}{force}"), 400, "SubmoduleInstance")
    assert (await api.document(child))["status"] == "Destroyed"


async def test_a_destroyed_instance_can_be_deleted_by_force_too(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    assert accepted(await api.delete(f"instances/{instance}?force=1")) == {}
    refused(await api.get(f"instances/{instance}"), 404)


@pytest.mark.parametrize("force", ["2", "-1", "true", "yes", "1.5", "01x"])
async def test_another_force_is_400(api: Api, force: str) -> None:
    instance = await api.running(None)
    assert "force" in refused(await api.delete(f"instances/{instance}?force={force}"), 400)
    assert (await api.document(instance))["status"] == "Running"


async def test_pending_schedules_go_with_the_instance(api: Api) -> None:
    instance = await api.running(PAUSING)
    accepted(await api.post(f"instances/{instance}/pause/schedule", {"interval": 300}))
    accepted(await api.delete(f"instances/{instance}?force=1"))
    await api.gone(instance)
    await asyncio.sleep(0.5)
    assert await records(api, instance) == dict.fromkeys(TABLES, 0)


async def test_of_many_deletions_at_once_none_breaks(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    answers = await asyncio.gather(*(api.delete(f"instances/{instance}") for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 404}
    busy = await pausing(api)
    answers = await asyncio.gather(*(api.delete(f"instances/{busy}?force=1") for _ in range(10)))
    assert {answer.status_code for answer in answers} <= {200, 404}
    await api.gone(busy)


async def test_a_json_body_on_delete_does_no_harm(api: Api) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    accepted(await api.delete(f"instances/{instance}", {"force": 1}))


@pytest.mark.parametrize(
    ("entry", "status"),
    [
        ("DeleteInstance: [/applications/*]", 200),
        ("EditInstance: [/*]", 403),
        ("RunInstanceWorkflow: [/*]", 403),
        ("DeleteInstance: [/applications/*/instances/nobody]", 403),
    ],
)
async def test_it_needs_the_permission_to_delete(api: Api, entry: str, status: int) -> None:
    instance = await api.running(None)
    await api.run(instance, "destroy")
    member = await api.member(entry)
    assert (await member.delete(f"instances/{instance}")).status_code == status
