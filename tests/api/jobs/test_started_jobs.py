"""Every request that begins or queues a job names it in headers, and the job is read by its ID alone."""

import asyncio
from typing import Any

import httpx
import pytest

from launchbay.ids import new_id
from tests.support.service import Api, accepted, refused

MANIFEST = """
launch: {steps: [{prepare: {action: wait, parameters: {delay: "0"}}}]}
hold: {steps: [{rest: {action: wait, parameters: {delay: 30 sec}}}]}
nap: {steps: [{rest: {action: wait, parameters: {delay: 300 ms}}}]}
fail: {steps: [{rest: {action: wait, parameters: {delay: whenever}}}]}
destroy: {steps: []}
"""


def job_of(response: httpx.Response, instance: str) -> str:
    """Return the job that a response names, in both of its headers."""
    accepted(response)
    job = response.headers["launchbay-job"]
    assert response.headers["location"] == f"/api/1/instances/{instance}/jobs/{job}"
    return str(job)


async def ended(api: Api, job: str) -> Any:
    return accepted(await api.get(f"jobs/{job}?wait=30"))


@pytest.mark.slow
async def test_every_request_that_begins_a_job_names_it(api: Api) -> None:
    launched = await api.post(f"applications/{await api.application(MANIFEST)}/launch", {})
    instance = accepted(launched)["id"]
    jobs = [job_of(launched, instance)]
    for method, path, body in (
        ("POST", "fail", b"{}"),
        ("POST", "launch", b"{}"),
        ("POST", "nap/schedule", b'{"interval": 0}'),
        ("PUT", "configuration", b'{"parameters": {}}'),
        ("POST", "destroy", b"{}"),
    ):
        assert (await ended(api, jobs[-1]))["finishedAt"]
        response = await api.send(method, f"instances/{instance}/{path}", body, content_type="application/json")
        jobs.append(job_of(response, instance))
    assert (await ended(api, jobs[-1]))["name"] == "destroy"
    history = accepted(await api.get(f"instances/{instance}/jobs"))
    assert [(job["id"], job["name"]) for job in reversed(history)] == list(
        zip(jobs, ["launch", "fail", "launch", "nap", "reconfigure", "destroy"], strict=True)
    )


async def test_a_resumed_job_and_a_forced_deletion_are_named_too(api: Api) -> None:
    instance = await api.running(MANIFEST)
    failed = job_of(await api.post(f"instances/{instance}/fail", {}), instance)
    assert (await ended(api, failed))["status"] == "Failed"
    response = await api.post(f"instances/{instance}/jobs/{failed}/resume", {})
    resumed = job_of(response, instance)
    assert response.json() == {"id": resumed}
    assert (await ended(api, resumed))["resumes"] == failed
    deletion = await api.delete(f"instances/{instance}?force=1")
    assert job_of(deletion, instance) not in {failed, resumed}
    await api.gone(instance)


async def test_requests_that_begin_no_job_name_none(api: Api) -> None:
    instance = await api.running(MANIFEST)
    later = await api.post(f"instances/{instance}/nap/schedule", {"interval": 3_600_000})
    cancelled = await api.post(f"instances/{instance}/nap/reschedule", {"interval": 0})
    unknown = await api.post(f"instances/{instance}/sail", {})
    refused(unknown, 400)
    for response in (later, cancelled, unknown, await api.get(f"instances/{instance}")):
        assert "launchbay-job" not in response.headers
        assert "location" not in response.headers


async def test_a_repeated_request_names_the_job_of_the_first(api: Api) -> None:
    application, key = await api.application(MANIFEST), {"Idempotency-Key": new_id()}
    first, again = [await api.client.post(f"applications/{application}/launch", json={}, headers=key) for _ in range(2)]
    assert again.headers["idempotency-replayed"] == "true"
    assert job_of(first, first.json()["id"]) == job_of(again, first.json()["id"])


async def test_a_job_is_read_by_its_id_alone_as_through_its_instance(api: Api) -> None:
    instance = await api.running(MANIFEST)
    job = job_of(await api.post(f"instances/{instance}/nap", {}), instance)
    found = await ended(api, job)
    assert (found["instanceId"], found["status"]) == (instance, "Succeeded")
    assert found == accepted(await api.get(f"instances/{instance}/jobs/{job}"))


async def test_a_read_that_waits_ends_with_the_job_or_with_its_time(api: Api) -> None:
    instance = await api.running(MANIFEST)
    job = job_of(await api.post(f"instances/{instance}/hold", {}), instance)
    async with asyncio.timeout(20):
        assert accepted(await api.get(f"jobs/{job}?wait=1"))["status"] == "Executing"
        waiting = asyncio.create_task(api.get(f"jobs/{job}?wait=60"))
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        assert accepted(await waiting)["status"] == "Failed"
    refused(await api.get(f"jobs/{job}?wait=61"), 400)


@pytest.mark.slow
async def test_reads_that_wait_hold_no_connection(api: Api) -> None:
    instance = await api.running(MANIFEST)
    job = job_of(await api.post(f"instances/{instance}/hold", {}), instance)
    most = api.database.pool.most
    waiting = [asyncio.create_task(api.get(f"jobs/{job}?wait=30")) for _ in range(2 * most)]
    async with asyncio.timeout(20):
        for _ in range(5):
            assert accepted(await api.get(f"instances/{instance}"))["status"] == "Executing"
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        assert {accepted(response)["status"] for response in await asyncio.gather(*waiting)} == {"Failed"}


async def test_a_job_of_others_is_forbidden_and_an_unknown_one_is_not_found(api: Api) -> None:
    instance = await api.running(MANIFEST)
    job = job_of(await api.post(f"instances/{instance}/nap", {}), instance)
    refused(await api.get(f"jobs/{new_id()}"), 404)
    refused(await api.get("jobs/last"), 404)
    outsider, *_ = await api.outsider()
    for path in (f"jobs/{job}", f"jobs/{job}?wait=30"):
        refused(await outsider.get(path), 403)
    refused(await outsider.get(f"jobs/{new_id()}"), 404)
