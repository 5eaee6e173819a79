"""An instance is locked before its jobs, and an organization before its parts: nobody waits for each other in turn.

What they answer depends on the instance and its jobs, not on who happens to have locked it.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from launchbay.model.instance import InstanceStatus
from launchbay.model.job import PLAN_VERSION
from launchbay.runtime.state import STATE_VERSION
from launchbay.store import jobs
from tests.support.databases import until_locked
from tests.support.service import Api, accepted, refused, running_api

MANIFEST = """
launch: {steps: []}
busy:
  steps:
    - rest: {action: wait, parameters: {delay: 0.3}}
"""

ENDING, CLAIMING = "ended AS", "claimed AS"


@pytest.fixture
async def api(database_url: str) -> AsyncIterator[Api]:
    async with running_api(database_url) as api:
        yield api


async def test_a_job_that_ends_while_its_instance_is_locked_holds_nothing_that_the_locker_needs(api: Api) -> None:
    instance = await api.running(MANIFEST)
    accepted(await api.post(f"instances/{instance}/busy", {}))
    async with api.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM instances WHERE id = %s FOR NO KEY UPDATE", [instance])
        await until_locked(api.database.url, statement=ENDING)
        await connection.execute("SET LOCAL lock_timeout = '300ms'")
        await connection.execute("UPDATE jobs SET error_message = NULL WHERE instance_id = %s", [instance])
    assert (await api.settled(instance))["status"] == "Running"


async def test_a_launch_that_starts_while_its_instance_is_locked_holds_nothing_that_the_locker_needs(
    database_url: str,
) -> None:
    async with running_api(database_url, engine=False) as api:
        instance = await api.launch(await api.application(MANIFEST))
        [job] = accepted(await api.get(f"instances/{instance}/jobs"))

        async def claim() -> None:
            async with api.database.transaction() as connection:
                assert await jobs.claim(
                    connection,
                    job_id=job["id"],
                    fence=None,
                    started_status=InstanceStatus.EXECUTING,
                    requested_status=InstanceStatus.REQUESTED,
                    plan_version=PLAN_VERSION,
                    state_version=STATE_VERSION,
                    records=0,
                )

        async with api.database.transaction() as connection:
            await connection.execute("SELECT 1 FROM instances WHERE id = %s FOR NO KEY UPDATE", [instance])
            claiming = asyncio.create_task(claim())
            await until_locked(api.database.url, statement=CLAIMING)
            await connection.execute("SET LOCAL lock_timeout = '300ms'")
            await connection.execute("UPDATE jobs SET error_message = NULL WHERE instance_id = %s", [instance])
        await claiming
        assert (await api.document(instance))["status"] == "Executing"


async def test_an_instance_that_is_locked_and_free_is_reconfigured_once_it_is_unlocked(api: Api) -> None:
    instance = await api.running(MANIFEST)
    async with api.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM instances WHERE id = %s FOR NO KEY UPDATE", [instance])
        asked = asyncio.create_task(api.put(f"instances/{instance}/configuration", {"parameters": {}}))
        # It asks again and again, and so waits for nothing that could be seen.
        await asyncio.wait([asked], timeout=0.3)
        assert not asked.done()
    accepted(await asked)
    assert (await api.settled(instance))["status"] == "Running"


@pytest.mark.slow
async def test_an_instance_that_stays_locked_is_busy(api: Api) -> None:
    instance = await api.running(MANIFEST)
    async with api.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM instances WHERE id = %s FOR NO KEY UPDATE", [instance])
        refused = await api.put(f"instances/{instance}/configuration", {"parameters": {}})
    assert (refused.status_code, refused.json()["code"]) == (409, "InstanceBusy")


@pytest.mark.parametrize(
    "change", ["DELETE FROM instances WHERE id = %s", "UPDATE instances SET status = 'Destroyed' WHERE id = %s"]
)
async def test_nothing_is_scheduled_on_an_instance_that_ends_meanwhile(api: Api, change: str) -> None:
    instance = await api.running(MANIFEST)
    async with api.database.transaction() as connection:
        await connection.execute(change, [instance])
        asked = asyncio.create_task(api.post(f"instances/{instance}/destroy/schedule", {"interval": "60000"}))
        await until_locked(api.database.url)
    refused(await asked, 400, "InstanceDestroyed")
    async with api.database.connection() as look:
        found = await look.execute(
            "SELECT count(*) FROM schedules WHERE instance_id = %s AND kind = 'workflow'", [instance]
        )
        assert await found.fetchone() == (0,)


@pytest.mark.features("lifetimes")
@pytest.mark.parametrize("as_schedule", [False, True])
async def test_a_destroy_that_is_taken_back_locks_the_instance_before_its_place_in_lists(
    api: Api, *, as_schedule: bool
) -> None:
    stoppable = f"{MANIFEST}stop: {{steps: []}}\nstart: {{steps: []}}\n"
    instance = await api.running(stoppable)
    application = (await api.document(instance))["applicationId"]
    accepted(await api.put(f"applications/{application}/lifetime", {"graceMs": 3_600_000}))
    accepted(await api.post(f"instances/{instance}/destroy"))
    await api.settled(instance)
    [schedule] = accepted(await api.get(f"instances/{instance}/schedules"))["schedules"]
    async with api.database.transaction() as connection:
        await connection.execute(
            "SELECT 1 FROM instances WHERE id = %s FOR UPDATE", [instance]
        )  # as what fires another
        if as_schedule:
            taking = asyncio.create_task(api.post(f"instances/{instance}/{schedule['id']}/reschedule", {"interval": 0}))
        else:
            taking = asyncio.create_task(api.post(f"instances/{instance}/lifetime/undo-destroy"))
        await until_locked(api.database.url)
        await connection.execute("SET LOCAL lock_timeout = '300ms'")
        await connection.execute("UPDATE fleet SET destroy_at = destroy_at WHERE instance_id = %s", [instance])
    accepted(await taking)


@pytest.mark.features("directories")
async def test_directories_and_launches_at_once_do_not_wait_for_each_other_in_turn(api: Api) -> None:
    path = f"organizations/{api.organization}"
    environment = accepted(await api.post(f"{path}/environments", {"name": "lab"}))["id"]
    application = await api.application(MANIFEST)

    def plan(**files: str) -> "asyncio.Task[Any]":
        named = {f"{kind}/{'lab' if kind == 'environments' else 'x'}.yaml": text for kind, text in files.items()}
        return asyncio.create_task(api.post(f"{path}/change-sets", {"act": "apply", "files": named}))

    async with api.database.transaction() as connection:
        await connection.execute("SELECT 1 FROM environments WHERE id = %s FOR NO KEY UPDATE", [environment])
        # One changes the environment and then what needs the organization, the other one the reverse.
        schedule = "cron: 0 0 1 1 *\nbulk: { act: destroy, select: { all: true } }\n"
        first = plan(environments="policies: { a.b: x }\n", schedules=schedule)
        await until_locked(api.database.url)
        second = plan(environments="policies: { a.b: y }\n", roles="- Read: [/*]\n")
        await until_locked(api.database.url, 2)
        await api.launch(application, environmentId=environment)
    accepted(await first)
    accepted(await second)
