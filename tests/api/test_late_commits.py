"""Lists of instances while launches are about to commit: `after=` never skips one (conformance.md, "Wire" 9)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from launchbay import limits
from launchbay.quotas import bounds
from tests.support.applications import environment
from tests.support.databases import Databases, until_locked
from tests.support.engine import until
from tests.support.eventually import eventually
from tests.support.service import Api, accepted, refused, running_api


@asynccontextmanager
async def held(api: Api, application: str) -> AsyncIterator[None]:
    """Keep launches of the application from committing."""
    async with await psycopg.AsyncConnection.connect(api.database.url) as other:
        await other.execute("SELECT FROM applications WHERE id = %s FOR UPDATE", [application])
        yield


async def listed(api: Api, path: str, **query: Any) -> list[str]:
    return [row["id"] for row in accepted(await api.get(path, **query))]


async def test_a_poller_at_another_server_skips_no_instance_whose_launch_commits_late(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as here, running_api(url) as there:
        where = await environment(here)
        slow, quick = await here.application(), await here.application()
        path = f"environments/{where}/instances"
        seen: list[str] = []
        async with held(here, slow):
            late = asyncio.create_task(here.launch(slow, environmentId=where))
            await until_locked(here.database.url)
            early = await there.launch(quick, environmentId=where)
            poll = asyncio.create_task(listed(there, path))
            await listed(there, f"environments/{there.environment}/instances")  # which has nothing to wait for
            assert not poll.done()
        first = await late
        assert first < early, "its id was made before"
        seen += await poll
        async with asyncio.timeout(20):
            while len(seen) < 2:
                seen += await listed(there, path, after=max(seen, default="0" * 24))
        assert seen == [first, early]
    databases.drop(url)


async def test_a_launch_that_hangs_delays_lists_for_a_while_and_newer_instances_until_its_end(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LIST_WAITS_FOR_LAUNCHES_S", 0.1)
    url = databases.create()
    async with running_api(url) as here, running_api(url) as there:
        where = await environment(here)
        slow, quick = await here.application(), await here.application()
        path = f"environments/{where}/instances"
        async with held(here, slow):
            late = asyncio.create_task(here.launch(slow, environmentId=where))
            await until_locked(here.database.url)
            early = await there.launch(quick, environmentId=where)
            assert await listed(there, path) == []
            assert await listed(there, f"applications/{quick}/instances", limit=5) == []
        assert await listed(there, path) == [await late, early]
    databases.drop(url)


async def test_who_has_seen_the_newest_waits_for_nothing(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url) as api:
        application = await api.application()
        instance = await api.launch(application)
        async with held(api, application):
            late = asyncio.create_task(api.launch(application))
            await until_locked(api.database.url)
            async with asyncio.timeout(limits.LIST_WAITS_FOR_LAUNCHES_S):
                assert await listed(api, f"applications/{application}/instances", after=instance) == []
        launched = await late
        assert await listed(api, f"applications/{application}/instances", after=instance) == [launched]
    databases.drop(url)


async def test_many_launches_at_two_servers_are_all_seen_once_and_in_order(databases: Databases) -> None:
    url = databases.create()
    async with running_api(url, engine=False) as here, running_api(url, engine=False) as there:
        application = await here.application()
        path = f"applications/{application}/instances"

        async def launch(api: Api) -> list[str]:
            return [await api.launch(application) for _ in range(15)]

        launching = asyncio.gather(*(launch(api) for api in (here, there, here, there)))
        seen: list[str] = []
        while not launching.done() or len(seen) < 60:
            seen += await listed(there, path, after=seen[-1] if seen else "0" * 24)
        made = [each for part in await launching for each in part]
        assert seen == sorted(made)
    databases.drop(url)


async def audited(api: Api) -> list[str]:
    """Return the IDs of the instances whose launch is in the audit log."""
    found = accepted(await api.get(f"organizations/{api.organization}/audit", limit=100))
    return sorted(each["object"].rpartition("/")[2] for each in found if each["operation"] == "launch_application")


async def test_launches_that_are_written_together_are_answered_as_if_each_were_alone(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.store.database._TURN_S", 60)  # until all have come
    monkeypatch.setattr(bounds, "SAMPLE_S", 60)  # whoever counts what is used writes alone, too
    url = databases.create()
    async with running_api(url, engine=False, database_connections=20) as api:
        slow, quick, doomed = await api.application(), await api.application(), await environment(api)
        member = await api.member("CreateInstance: [/*]", "Read: [/*]")
        path = f"applications/{quick}/launch"
        # Whoever reads a manifest or permissions for the first time writes alone, too.
        earlier = [await api.launch(slow), accepted(await member.post(path, {}))["id"]]
        async with held(api, slow):
            first = asyncio.create_task(api.launch(slow))
            await until_locked(api.database.url)
            ordinary = [asyncio.create_task(api.launch(quick)) for _ in range(6)]
            late = [asyncio.create_task(api.post(path, {"environmentId": doomed})) for _ in range(3)]
            unwanted = asyncio.create_task(member.post(path, {}))
            given_up = asyncio.create_task(api.launch(quick))
            await eventually(lambda: api.database.pool.used >= 12)
            given_up.cancel()
            async with await psycopg.AsyncConnection.connect(url) as other:
                await other.execute("DELETE FROM environments WHERE id = %s", [doomed])
                await other.execute(
                    "DELETE FROM role_assignments USING roles WHERE roles.id = role_id AND kind = 'custom'"
                )
        launched = sorted(await asyncio.gather(*ordinary))
        for answer in await asyncio.gather(*late):
            refused(answer, 400, "UnknownEnvironment")
        refused(await unwanted, 403, "NotAllowed")
        assert given_up.cancelled()
        assert await listed(api, f"applications/{quick}/instances") == [earlier[1], *launched]
        assert await audited(api) == sorted([*earlier, *launched, await first])
    databases.drop(url)


@pytest.mark.slow
async def test_launches_whose_clients_left_while_they_were_committed_run(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("launchbay.store.database._TURN_S", 60)  # until all have come
    monkeypatch.setattr(bounds, "SAMPLE_S", 60)  # whoever counts what is used writes alone
    url = databases.create()
    async with running_api(url) as api:
        application = await api.application("launch:\n  steps: []\n")
        await api.settled(await api.launch(application))
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as other:
            await other.execute(
                "CREATE FUNCTION wait_a_little() RETURNS trigger LANGUAGE plpgsql AS"
                " $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$"
            )
            await other.execute(
                "CREATE TRIGGER slow BEFORE INSERT ON audit_entries FOR EACH ROW EXECUTE FUNCTION wait_a_little()"
            )
        launches = [asyncio.create_task(api.launch(application)) for _ in range(4)]
        _, others = await asyncio.wait(launches, return_when=asyncio.FIRST_COMPLETED)
        sleeps = "wait_event = 'PgSleep' AND datname = current_database()"
        await until(api.database, f"SELECT count(*) > 0 FROM pg_stat_activity WHERE {sleeps}")
        for each in others:
            each.cancel()
        await asyncio.wait(others)
        assert all(each.cancelled() for each in others)
        instances = await listed(api, f"applications/{application}/instances")
        assert len(instances) == 5
        for instance in instances:
            assert (await api.settled(instance))["status"] == "Running"
        assert await audited(api) == instances
    databases.drop(url)
