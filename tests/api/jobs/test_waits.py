"""What a job under way waits for, one sentence of each kind: with names, since when, and what ends it."""

import asyncio
from typing import Any

import pytest

from launchbay.errors import Unavailable
from launchbay.limits import USUAL_JOBS
from launchbay.machines.dry_run import DryRun
from launchbay.store import jobs as store_jobs
from tests.support.applications import EASY, SPEAKER, environment, offered
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, running_api
from tests.support.services import POOLED, service

BRIEF = """
launch: {steps: []}
go: {steps: []}
work: {steps: [{rest: {action: wait, parameters: {delay: 0.6}}}]}
"""


async def wait_of(api: Api, job: str, kind: str) -> Any:
    """Wait until a job waits for this, and return the wait."""
    found = await eventually(
        lambda: api.read(f"jobs/{job}"), lambda found: kind in [each["kind"] for each in found["waitingFor"]]
    )
    return next(each for each in found["waitingFor"] if each["kind"] == kind)


async def launched(api: Api, manifest: str, **body: Any) -> tuple[str, str]:
    """Launch, and return the instance's and the job's ID at once."""
    started = await api.post(f"applications/{await api.application(manifest)}/launch", body)
    return accepted(started)["id"], started.headers["launchbay-job"]


@pytest.mark.slow
async def test_a_full_pool_says_how_many_are_held_and_the_position(api: Api) -> None:
    where = await environment(api)
    pool = await service(api, "builtin:static_resource_pool", {"configuration.resources": ["only"]}, where=where)
    holder, _ = await launched(api, POOLED, environmentId=where, instanceName="keeper")
    await api.settled(holder)
    patient = POOLED.replace("timeout: 0", "timeout: 60")
    first, job = await launched(api, patient, environmentId=where)
    wait = await wait_of(api, job, "resource")
    name = accepted(await api.get(f"services/{pool}"))["name"]
    assert wait["text"] == f"Waiting for a free resource of the pool '{name}': all 1 are held."
    assert "keeper" not in wait["text"]
    assert wait["endsWhen"] == "A holder releases its resource, or the time to wait is over."
    assert (wait["position"], 50_000 < wait["until"] - wait["since"] < 65_000) == (1, True)
    second, late = await launched(api, patient, environmentId=where)
    assert (await wait_of(api, late, "resource"))["position"] == 2
    assert (await api.document(first))["waitingFor"] == wait["text"]
    await api.run(holder, "actions.give")
    assert (await api.settled(first))["status"] == "Running"
    assert (await wait_of(api, late, "resource"))["since"] > 0
    await api.run(first, "actions.give")
    assert (await api.settled(second))["status"] == "Running"
    assert accepted(await api.get(f"jobs/{late}"))["waitingFor"] == []


@pytest.mark.slow
async def test_a_call_names_the_busy_instance_and_its_job(api: Api) -> None:
    slow = SPEAKER.replace("say: {steps: []", "say: {steps: [{rest: {action: wait, parameters: {delay: 3 sec}}}]")
    speaker, where = await offered(api, slow)
    listener, _ = await launched(api, EASY, environmentId=where)
    assert (await api.settled(listener))["status"] == "Running"
    holds = (await api.post(f"instances/{speaker}/orders.say", {"word": "first"})).headers["launchbay-job"]
    asks = (await api.post(f"instances/{listener}/actions.ask", {"word": "second"})).headers["launchbay-job"]
    wait = await wait_of(api, asks, "instance")
    name = (await api.document(speaker))["name"]
    assert wait["text"] == f"The call of 'orders.say' waits for another instance, which runs a job. It is '{name}'."
    assert (wait["jobId"], wait["instanceId"], wait["endsWhen"]) == (holds, speaker, "That job ends.")
    assert wait["text"] in (await api.document(listener))["waitingFor"]
    assert (await api.settled(listener))["returnValues"]["result.told"] == "said second"


@pytest.mark.slow
async def test_a_step_names_the_peers_that_it_waits_for(api: Api) -> None:
    manifest = """
    application:
      bindings: [[reader, provider]]
      components:
        reader:
          type: workflow.Instance
          interfaces: {in: {ip: consume-signal(string)}}
          configuration:
            configuration.workflows:
              launch: {steps: [{peers: {action: waitPeers, parameters: {interfaces: {in: 1}}}}]}
        provider:
          type: workflow.Instance
          interfaces: {out: {ip: publish-signal(string)}}
          configuration:
            configuration.workflows:
              launch:
                steps: [{rest: {action: wait, parameters: {delay: 2 sec}}}]
                return: {ip: {value: here}}
    """
    instance, job = await launched(api, manifest)
    wait = await wait_of(api, job, "peers")
    assert wait["text"] == "Step 'peers' of 'reader' waits for values of peers: in has 0 of 1."
    assert wait["endsWhen"] == "The peers are launched and publish their values, or the step's time is over."
    assert wait["until"] > wait["since"]
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_database_that_was_away_is_told_in_the_log_of_the_job(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = await api.running(BRIEF)
    real, refusals = store_jobs.write_journal, 2

    async def away_at_first(*given: Any, **values: Any) -> Any:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise Unavailable("The database is away.")
        return await real(*given, **values)

    monkeypatch.setattr(store_jobs, "write_journal", away_at_first)
    document = await api.run(instance, "work")
    assert (document["status"], refusals) == ("Running", 0)
    lines = [line for line in accepted(await api.get(f"instances/{instance}/log")) if line["level"] == "warning"]
    assert len(lines) == 1
    assert lines[0]["text"].startswith("The database was unavailable for ")
    assert lines[0]["text"].endswith("; the job waited for it.")


async def test_machines_that_start_are_waited_for_by_role(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    go = asyncio.Event()
    real = DryRun.provision

    async def slow(*given: Any) -> Any:
        await go.wait()
        return await real(*given)

    monkeypatch.setattr(DryRun, "provision", slow)
    accepted(await api.put_yaml(f"environments/{api.environment}", "policies: {machines.provider: dry-run}"))
    manifest = "launch: {steps: [{vms: {action: provisionVms, parameters: {roleName: web, targetQuantity: 2}}}]}"
    instance, job = await launched(api, manifest)
    wait = await wait_of(api, job, "machine")
    assert wait["text"] == "Step 'vms' of 'workflow' waits for 2 machines of the role 'web' to start and answer."
    assert wait["endsWhen"] == "The machines answer, or their provider gives up."
    go.set()
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_long_rest_says_when_it_is_over(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, park_after_s=0.1) as api:
        instance = await api.running(BRIEF.replace("0.6", "1 hour"))
        job = (await api.post(f"instances/{instance}/work", {})).headers["launchbay-job"]
        wait = await wait_of(api, job, "time")
        assert wait["text"] == "Step 'rest' of 'workflow' waits for its time."
        assert (wait["endsWhen"], wait["until"] - wait["since"] > 3_500_000) == ("The time is over.", True)
        accepted(await api.delete(f"instances/{instance}/jobs/{job}"))
        await api.settled(instance)
    databases.drop(url)


@pytest.mark.slow
async def test_the_usual_duration_is_looked_for_in_the_newest_jobs_alone(api: Api) -> None:
    instance = await api.running(BRIEF)
    job = (await api.post(f"instances/{instance}/go", {})).headers["launchbay-job"]
    await api.settled(instance)
    assert accepted(await api.get(f"jobs/{job}"))["usualDurationMs"] >= 0
    async with api.database.connection() as connection:
        await connection.execute(
            "INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, started_at, finished_at, created_at)"
            " SELECT lpad(n::text, 24, '0'), %s, 'other', 'u', 'Succeeded', '{}', now(), now(), now()"
            " FROM generate_series(1, %s::integer) AS n",
            [instance, USUAL_JOBS],
        )
    assert accepted(await api.get(f"jobs/{job}"))["usualDurationMs"] is None  # the only run of it is too old
