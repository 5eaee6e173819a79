"""Setting when an instance is destroyed by itself."""

import time
from typing import Any

import pytest

from tests.support.manifests import PAUSING, WORKFLOWS
from tests.support.service import UNKNOWN, Api, accepted, refused

HOUR_MS = 3_600_000


def from_now(milliseconds: int) -> int:
    return int(time.time() * 1000) + milliseconds


@pytest.fixture
async def instance(api: Api) -> str:
    return await api.running(WORKFLOWS, parameters={"label": "x"})


async def put(api: Api, instance: str, destroy_at: Any) -> Any:
    return accepted(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": destroy_at}))


async def test_the_time_is_shown_as_it_was_set(api: Api, instance: str) -> None:
    later = from_now(5 * HOUR_MS)
    assert await put(api, instance, later) == {}
    assert (await api.document(instance))["destroyAt"] == later


async def test_an_instance_is_destroyed_at_the_time_that_was_set_last(api: Api, instance: str) -> None:
    await put(api, instance, from_now(5 * HOUR_MS))
    soon = from_now(400)
    await put(api, instance, soon)
    document = await api.until(instance, "Destroyed")
    assert time.time() * 1000 >= soon
    assert document["destroyAt"] is None
    assert [job["name"] for job in document["workflowHistory"]] == ["destroy", "launch"]


async def test_minus_one_lets_it_live_on(api: Api) -> None:
    instance = await api.launch(await api.application(WORKFLOWS), destroyInterval=700, parameters={"label": "x"})
    await put(api, instance, -1)
    assert (await api.document(instance))["destroyAt"] is None
    await ended_another(api, 700)
    assert (await api.document(instance))["status"] == "Running"


async def ended_another(api: Api, after_ms: int) -> None:
    """Wait until an instance has ended that was made after others and expires after as long a time as they did."""
    other = await api.launch(await api.application(WORKFLOWS), destroyInterval=after_ms, parameters={"label": "x"})
    await api.until(other, "Destroyed")


async def test_an_instance_that_never_expired_can_be_given_an_end(api: Api) -> None:
    instance = await api.running(WORKFLOWS, destroyInterval=-1, parameters={"label": "x"})
    await put(api, instance, from_now(200))
    await api.until(instance, "Destroyed")


@pytest.mark.slow
async def test_an_expiry_that_waits_for_a_job_can_still_be_moved(api: Api) -> None:
    instance = await api.running(PAUSING, destroyInterval=HOUR_MS)
    started = await api.post(f"instances/{instance}/pause", {"seconds": "600"})
    await put(api, instance, from_now(50))
    await ended_another(api, 50)  # so this one has fallen due, and waits
    await put(api, instance, from_now(HOUR_MS))
    accepted(await api.delete(f"instances/{instance}/jobs/{started.headers['launchbay-job']}"))
    await api.settled(instance)
    await ended_another(api, 50)
    document = await api.document(instance)
    assert document["status"] == "Running"
    assert len(document["workflowHistory"]) == 2


@pytest.mark.parametrize("wrong", [0, -2, 1, 1_700_000_000_000, 10**18, 2**63 - 1])
async def test_a_time_that_makes_no_sense_is_400_and_changes_nothing(api: Api, instance: str, wrong: int) -> None:
    before = (await api.document(instance))["destroyAt"]
    sentence = refused(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": wrong}), 400, "InvalidDestroyAt")
    assert str(wrong) in sentence
    assert (await api.document(instance))["destroyAt"] == before


@pytest.mark.parametrize("body", [{}, {"destroyAt": None}, {"destroyAt": "soon"}, {"destroyAt": 1.5}, []])
async def test_a_body_of_another_form_is_400(api: Api, instance: str, body: Any) -> None:
    refused(await api.put(f"instances/{instance}/destroyAt", body), 400)


async def test_a_destroyed_instance_has_no_end_any_more(api: Api, instance: str) -> None:
    await api.run(instance, "destroy")
    refused(
        await api.put(f"instances/{instance}/destroyAt", {"destroyAt": from_now(HOUR_MS)}), 400, "InstanceDestroyed"
    )


async def test_an_instance_that_is_offered_as_a_service_never_expires(api: Api, instance: str) -> None:
    async with api.database.connection() as connection:
        await connection.execute("INSERT INTO instance_offers VALUES (%s, %s)", [instance, api.environment])
    refused(await api.put(f"instances/{instance}/destroyAt", {"destroyAt": from_now(HOUR_MS)}), 400, "InstanceOffered")
    await put(api, instance, -1)


async def test_it_needs_the_permission_to_edit_the_instance(api: Api, instance: str) -> None:
    reader = await api.member("Read: [/*]", "RunInstanceWorkflow: [/*]")
    body = {"destroyAt": from_now(HOUR_MS)}
    refused(await reader.put(f"instances/{instance}/destroyAt", body), 403, "NotAllowed")
    refused(await (await api.outsider())[0].put(f"instances/{instance}/destroyAt", body), 403, "NotAllowed")
    refused(await api.put(f"instances/{UNKNOWN}/destroyAt", body), 404, "NotFound")
    accepted(await (await api.member("EditInstance: [/*]")).put(f"instances/{instance}/destroyAt", body))


async def test_it_is_in_the_audit_log_with_before_and_after(api: Api, instance: str) -> None:
    before = (await api.document(instance))["destroyAt"]
    later = from_now(2 * HOUR_MS)
    await put(api, instance, later)
    rows = accepted(await api.get(f"organizations/{api.organization}/audit", object=instance))
    entry = next(row for row in rows if row["operation"] == "set_destroy_at")
    assert (entry["before"], entry["after"]) == ({"destroyAt": before}, {"destroyAt": later})
