"""Limits of how many jobs run at a time: in manifests, and as settings of applications and environments."""

import asyncio
import re
import time
from typing import Any

import pytest

from launchbay import limits
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, fresh_name, refused, running_api

# `hold` ends when it is told to, by the end of its pause, or by a cancellation.
HOLDING = """
header: {concurrency: %s}
launch: {steps: []}
hold: {steps: [{rest: {action: wait, parameters: {delay: 60 sec}}}]}
go: {concurrency: %s, steps: [{rest: {action: wait, parameters: {delay: 60 sec}}}]}
quick: {steps: []}
"""


def holding(of_application: str = "null", of_workflow: str = "null") -> str:
    return HOLDING % (of_application, of_workflow)


async def begun(api: Api, instance: str, workflow: str = "hold") -> str:
    answer = await api.post(f"instances/{instance}/{workflow}", {})
    accepted(answer)
    job: str = answer.headers["Launchbay-Job"]
    return job


async def job_of(api: Api, instance: str, job: str) -> Any:
    return accepted(await api.get(f"instances/{instance}/jobs/{job}"))


async def started(api: Api, instance: str, job: str) -> Any:
    return await eventually(lambda: job_of(api, instance, job), lambda shown: shown["startedAt"] is not None)


async def most_at_a_time(api: Api, instances: list[str]) -> int:
    """Return how many jobs of these instances ran at the same time at most, once all have ended."""
    spans: list[tuple[int, int]] = []
    for instance in instances:
        for each in (await api.settled(instance))["workflowHistory"]:
            job = await job_of(api, instance, each["id"])
            assert job["status"] == "Succeeded"
            spans += [(job["startedAt"], 1), (job["finishedAt"], -1)]
    running = most = 0
    for _, change in sorted(spans):
        running += change
        most = max(most, running)
    return most


async def waits(api: Api, instance: str, job: str) -> list[Any]:
    found: list[Any] = (await job_of(api, instance, job))["waitingFor"]
    return found


async def cancelled(api: Api, instance: str, job: str) -> None:
    accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
    await api.settled(instance)


async def several(api: Api, manifest: str, count: int, **body: Any) -> list[str]:
    application = await api.application(manifest)
    instances = []
    for _ in range(count):
        instances.append(await api.launch(application, **body))
        assert (await api.settled(instances[-1]))["status"] == "Running"
    return instances


@pytest.mark.slow
async def test_a_job_waits_for_a_place_and_says_so_until_another_one_ends(api: Api) -> None:
    first, second, third = await several(api, holding("1"), 3)
    held = await begun(api, first)
    await started(api, first, held)
    waiting = await begun(api, second)
    last = await begun(api, third)
    (told,) = await waits(api, second, waiting)
    assert (told["kind"], told["position"], told["endsWhen"]) == ("limit", 1, "A job of the group ends.")
    assert "at most 1 job at a time for application" in told["text"]
    assert (await waits(api, third, last))[0]["position"] == 2
    said = (await api.document(third))["waitingFor"]
    assert said.startswith("Waiting for its turn: at most 1 job")
    name = (await api.document(first))["name"]
    assert "; 1 has started, and 1 is before it. " in said
    assert re.search(rf" Held by job 2, 'hold', of '{name}' since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ\.$", said), said
    assert (said.partition("Held")[2] in told["text"], told["jobId"], told["instanceId"]) == (True, held, first)
    await cancelled(api, first, held)
    await started(api, second, waiting)
    assert (await job_of(api, third, last))["startedAt"] is None
    await cancelled(api, third, last)  # also one that waits can be cancelled
    await cancelled(api, second, waiting)
    assert await waits(api, second, waiting) == []


async def test_holders_are_named_to_those_who_may_read_them(api: Api) -> None:
    manifest = holding("{key: 'lock:held', limit: 4}")
    hidden, *seen = await several(api, manifest, 4)
    [last] = await several(api, manifest, 1)
    for instance in (hidden, *seen):
        await started(api, instance, await begun(api, instance))
    await begun(api, last)
    said = (await api.document(last))["waitingFor"]
    names = [(await api.document(instance))["name"] for instance in (hidden, *seen)]
    assert [name in said for name in names] == [True, True, True, False]
    assert said.endswith("; and others.")
    readable = [f"Read: [/applications/*/instances/{each}]" for each in (*seen, last)]
    reader = await api.member(*readable)
    said = accepted(await reader.get(f"instances/{last}"))["waitingFor"]
    assert [name in said for name in names] == [False, True, True, True]
    said = (await api.document(last))["waitingFor"]
    assert [name in said for name in names] == [True, True, True, False]
    for instance in (hidden, *seen, last):
        job = (await api.document(instance))["workflowHistory"][0]["id"]
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))


async def test_groups_count_all_their_jobs_though_they_show_the_first(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONCURRENCY_PLACES_SHOWN", 2)
    instances = await several(api, holding("1"), 4)
    jobs = [await begun(api, instance) for instance in instances]
    groups = accepted(await api.get(f"organizations/{api.organization}/concurrency"))
    [group] = [each for each in groups if instances[0] in {job["instanceId"] for job in each["jobs"]}]
    assert (group["started"], group["waiting"], len(group["jobs"])) == (1, 3, 2)
    for instance, job in reversed(list(zip(instances, jobs, strict=True))):
        await cancelled(api, instance, job)


async def test_jobs_that_queue_start_in_their_order_and_never_too_many_at_a_time(api: Api) -> None:
    application = await api.application(holding("2"))
    instances = await asyncio.gather(*(api.launch(application) for _ in range(12)))
    for instance in instances:
        assert (await api.settled(instance))["status"] == "Running"
    await asyncio.gather(*(begun(api, instance, "quick") for instance in instances))
    assert await most_at_a_time(api, instances) <= 2
    groups = accepted(await api.get(f"organizations/{api.organization}/concurrency"))
    assert not [each for each in groups if {job["instanceId"] for job in each["jobs"]} & set(instances)]


async def test_a_full_group_that_refuses_answers_409_and_changes_nothing(api: Api) -> None:
    first, second = await several(api, holding("{limit: 1, when: refuse}"), 2)
    held = await begun(api, first)
    answer = await api.post(f"instances/{second}/hold", {})
    assert "At most 1 job at a time for application" in refused(answer, 409, "ConcurrencyLimit")
    document = await api.document(second)
    assert (document["status"], len(document["workflowHistory"])) == ("Running", 1)
    await cancelled(api, first, held)
    await cancelled(api, second, await begun(api, second))


@pytest.mark.slow
async def test_a_bulk_run_tries_again_when_a_full_group_refuses(api: Api) -> None:
    first, second = await several(api, holding("{limit: 1, when: refuse}"), 2)
    held = await begun(api, first)
    body = {"act": "run", "workflow": "quick", "ids": [second]}
    bulk = accepted(await api.post(f"organizations/{api.organization}/bulk", body))["id"]

    async def outcome(*statuses: str) -> Any:
        [row] = await eventually(
            lambda: api.read(f"bulk/{bulk}/instances"),
            lambda found: found[0]["message"] is not None or found[0]["status"] in statuses,
        )
        return row

    refusal = await outcome("Refused")
    assert (refusal["status"], refusal["message"][:13]) == ("Waiting", "At most 1 job")
    await cancelled(api, first, held)
    row = await eventually(lambda: outcome("Succeeded"), lambda row: row["status"] != "Waiting")
    assert row["status"] in {"Running", "Succeeded"}


async def test_a_launch_beyond_a_limit_is_refused_whole(api: Api) -> None:
    (first,) = await several(api, holding("{limit: 1, when: refuse}"), 1)
    application = (await api.document(first))["applicationId"]
    held = await begun(api, first)
    refused(await api.post(f"applications/{application}/launch", {}), 409, "ConcurrencyLimit")
    assert len(accepted(await api.get(f"applications/{application}/instances"))) == 1
    await cancelled(api, first, held)


async def test_a_launch_waits_for_its_place(api: Api) -> None:
    (first,) = await several(api, holding("1"), 1)
    application = (await api.document(first))["applicationId"]
    held = await begun(api, first)
    await started(api, first, held)
    second = await api.launch(application)
    document = await api.document(second)
    assert (document["status"], document["waitingFor"].split(":")[0]) == ("Requested", "Waiting for its turn")
    await cancelled(api, first, held)
    assert (await api.settled(second))["status"] == "Running"


async def test_a_newer_job_cancels_older_ones(api: Api) -> None:
    first, second, third = await several(api, holding("{limit: 1, when: cancel-older}"), 3)
    older = await begun(api, first)
    await started(api, first, older)
    between = await begun(api, second)
    newest = await begun(api, third)
    await started(api, third, newest)
    for instance, job in ((first, older), (second, between)):
        shown = await job_of(api, instance, job)
        assert (shown["status"], shown["errorMessage"][:27]) == ("Failed", "Cancelled by a newer job: t")
    await cancelled(api, third, newest)


async def test_a_limit_of_a_workflow_leaves_the_others_alone(api: Api) -> None:
    first, second, third = await several(api, holding(of_workflow="{limit: 1}"), 3)
    held = await begun(api, first, "go")
    waiting = await begun(api, second, "go")
    free = await begun(api, third, "hold")
    await started(api, first, held)
    await started(api, third, free)
    assert "workflow 'go' of application" in (await waits(api, second, waiting))[0]["text"]
    for instance, job in ((second, waiting), (third, free), (first, held)):
        await cancelled(api, instance, job)


async def test_a_named_lock_is_one_for_the_whole_organization(api: Api) -> None:
    lock = "lock:" + fresh_name("database").replace(" ", "-")
    (first,) = await several(api, holding(f"{{key: '{lock}', limit: 1}}"), 1)
    (second,) = await several(api, holding(of_workflow=f"{{key: '{lock}', limit: 1}}"), 1)
    held = await begun(api, first)
    await started(api, first, held)
    waiting = await begun(api, second, "go")
    assert f"for lock {lock[5:]!r}" in (await waits(api, second, waiting))[0]["text"]
    groups = accepted(await api.get(f"organizations/{api.organization}/concurrency"))
    (group,) = [each for each in groups if each["title"] == f"lock {lock[5:]!r}"]
    assert (group["limit"], group["started"], group["waiting"]) == (1, 1, 1)
    assert [(each["jobId"], each["hasPlace"]) for each in group["jobs"]] == [(held, True), (waiting, False)]
    reader = await api.member("Read:/applications/nothing")
    assert accepted(await reader.get(f"organizations/{api.organization}/concurrency")) == []
    await cancelled(api, first, held)
    await started(api, second, waiting)
    await cancelled(api, second, waiting)


async def test_each_value_of_a_label_counts_for_itself(api: Api) -> None:
    application = await api.application(holding("{key: 'label:team', limit: 1}"))
    instances = [
        await api.launch(application, labels={"team": team} if team else {}) for team in ("pay", "pay", "web", "")
    ]
    for instance in instances:
        await api.settled(instance)
    jobs = [await begun(api, instance) for instance in instances]
    for place in (0, 2, 3):
        await started(api, instances[place], jobs[place])
    assert "with label team=pay" in (await waits(api, instances[1], jobs[1]))[0]["text"]
    for instance, job in reversed(list(zip(instances, jobs, strict=True))):
        await cancelled(api, instance, job)


async def test_settings_count_at_once_for_jobs_that_wait(api: Api) -> None:
    first, second, third = await several(api, holding(), 3)
    application = (await api.document(first))["applicationId"]
    path = f"applications/{application}/concurrency"
    assert accepted(await api.get(path)) == {"limits": []}
    accepted(await api.put(path, {"limits": [{"limit": 1}]}))
    assert accepted(await api.get(path)) == {"limits": [{"limit": 1, "key": "application", "when": "queue"}]}
    jobs = [await begun(api, instance) for instance in (first, second, third)]
    await started(api, first, jobs[0])
    assert (await waits(api, third, jobs[2]))[0]["position"] == 2
    accepted(await api.put(path, {"limits": [{"limit": 2}]}))
    await started(api, second, jobs[1])
    assert (await waits(api, third, jobs[2]))[0]["position"] == 1
    accepted(await api.put(path, {"limits": []}))
    await started(api, third, jobs[2])
    for instance, job in zip((first, second, third), jobs, strict=True):
        await cancelled(api, instance, job)


async def test_an_environment_limits_the_jobs_of_all_its_applications(api: Api) -> None:
    environment = await api.offer()
    path = f"environments/{environment}/concurrency"
    accepted(await api.put(path, {"limits": [{"limit": 1}, {"key": "application", "limit": 3}]}))
    (first,) = await several(api, holding(), 1, environmentId=environment)
    (second,) = await several(api, holding(), 1, environmentId=environment)
    held = await begun(api, first)
    await started(api, first, held)
    waiting = await begun(api, second)
    (told, *_) = [each for each in await waits(api, second, waiting) if "1 has started" in each["text"]]
    assert "at a time for environment" in told["text"]
    await cancelled(api, first, held)
    await started(api, second, waiting)
    await cancelled(api, second, waiting)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({"limit": 0}, "whole number from 1"),
        ({"limit": 1, "key": "team"}, "'key' must be"),
        ({"limit": 1, "key": "label:"}, "'key' must be"),
    ],
)
async def test_settings_that_make_no_sense_are_refused(api: Api, limit: Any, message: str) -> None:
    path = f"applications/{await api.application(holding())}/concurrency"
    assert message in refused(await api.put(path, {"limits": [limit]}), 400, "InvalidConcurrency")
    twice = {"limits": [{"limit": 1}, {"limit": 2}]}
    assert "same key" in refused(await api.put(path, twice), 400, "InvalidConcurrency")


async def test_a_scheduled_run_that_is_refused_becomes_a_job_that_says_so(api: Api) -> None:
    first, second = await several(api, holding("{limit: 1, when: refuse}"), 2)
    held = await begun(api, first)
    accepted(await api.post(f"instances/{second}/quick/schedule", {"interval": "1"}))
    await eventually(lambda: api.document(second), lambda found: len(found["workflowHistory"]) >= 2)
    newest = (await api.settled(second))["workflowHistory"][0]
    assert (newest["status"], newest["errorMessage"][:28]) == ("Failed", "At most 1 job at a time for ")
    await cancelled(api, first, held)


async def test_a_deletion_by_force_and_an_expiry_are_not_held_up_for_good(api: Api) -> None:
    first, second, third = await several(api, holding("{limit: 1, when: refuse}"), 3)
    await begun(api, first)
    accepted(await api.put(f"instances/{third}/destroyAt", {"destroyAt": int(time.time() * 1000) + 300}))
    accepted(await api.delete(f"instances/{second}?force=1"))
    await api.gone(second)
    assert "Waiting for its turn" in (await api.until(third, "Destroying"))["waitingFor"]
    accepted(await api.delete(f"instances/{first}?force=1"))  # ends the job, which frees its place
    await api.until(third, "Destroyed")
    await api.gone(first)


@pytest.mark.slow
async def test_workers_of_several_processes_keep_one_limit(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as one, running_api(url) as two:
        application = await one.application(holding("3"))
        instances = await asyncio.gather(*((one, two)[n % 2].launch(application) for n in range(16)))
        for instance in instances:
            await one.settled(instance)
        await asyncio.gather(*(begun((one, two)[n % 2], each, "quick") for n, each in enumerate(instances)))
        assert await most_at_a_time(one, instances) <= 3
        async with one.database.connection() as connection:
            left = await (await connection.execute("SELECT count(*) FROM concurrency_places")).fetchone()
        assert left == (0,)
