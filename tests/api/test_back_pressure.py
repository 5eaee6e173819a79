"""What an organization may have waiting is bounded, and its excess keeps nobody else out (setting `queue_limit`)."""

import asyncio

import pytest

from launchbay.usecases.context import QueueQuota
from tests.api.running import Api, accepted, refused, running_api
from tests.clocks import HandClock
from tests.databases import Databases

MANIFEST = "launch: {steps: []}\ngo: {steps: []}"


async def filled(api: Api, application: str) -> str:
    """Launch until the service refuses, and return why."""
    async with asyncio.timeout(20):
        while (answer := await api.post(f"applications/{application}/launch", {})).status_code == 200:
            await asyncio.sleep(0.1)
    assert int(answer.headers["retry-after"]) >= 1
    return refused(answer, 503, "QueueFull")


async def standing(api: Api) -> str:
    """Return an instance that is idle, though nobody runs jobs here."""
    instance = await api.launch(await api.application(MANIFEST))
    async with api.database.transaction() as connection:
        await connection.execute("UPDATE jobs SET status = 'Succeeded', finished_at = now()")
        await connection.execute("UPDATE instances SET status = 'Running', job_id = NULL")
        await connection.execute("DELETE FROM procrastinate_jobs")
    return instance


async def test_beyond_the_bound_new_work_is_refused_and_destroying_is_not(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, queue_limit=3) as api:
        instance = await standing(api)
        sentence = await filled(api, await api.application(MANIFEST))
        assert "3 or more jobs" in sentence
        refused(await api.post(f"instances/{instance}/go", {}), 503, "QueueFull")
        refused(await api.put(f"instances/{instance}/configuration", {"parameters": {}}), 503, "QueueFull")
        assert (await api.document(instance))["status"] == "Running"
        accepted(await api.post(f"instances/{instance}/destroy", {}))


async def test_another_organization_is_not_kept_out(databases: Databases) -> None:
    async with running_api(databases.create(), engine=False, queue_limit=2) as api:
        await filled(api, await api.application(MANIFEST))
        outsider, organization, _ = await api.outsider()
        created = accepted(await outsider.post(f"organizations/{organization}/applications", {"name": "theirs"}))
        accepted(await outsider.put_yaml(f"applications/{created['id']}/manifest", MANIFEST))
        accepted(await outsider.post(f"applications/{created['id']}/launch", {}))


async def test_work_is_taken_again_when_jobs_have_started(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HandClock()
    waiting = 5

    async def backlog(_: object, **__: object) -> int:
        return waiting

    monkeypatch.setattr("launchbay.store.jobs.count_waiting", backlog)
    bound = QueueQuota(5, clock)
    async with api.database.connection() as connection:
        with pytest.raises(Exception, match="5 or more"):
            await bound.check_quota(connection, "a")
        waiting = 4
        with pytest.raises(Exception, match="5 or more"):  # counted less than a second ago
            await bound.check_quota(connection, "a")
        clock.advance(1.0)
        await bound.check_quota(connection, "a")
