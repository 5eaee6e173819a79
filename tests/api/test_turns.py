"""One thing that fails doesn't keep others from their turns, over HTTP and against rows that really fail."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from launchbay.errors import Unavailable
from launchbay.usecases.later import Turns
from tests.support.applications import BAD_SIZE, picky
from tests.support.service import Api, accepted

LOOK = "launch: {steps: []}\nlook: {steps: []}\ndestroy: {steps: []}\n"


@asynccontextmanager
async def rows_that_fail(api: Api, table: str, instance: str, when: str = "true") -> AsyncIterator[None]:
    """Let the database refuse to change the rows of an instance in a table."""
    async with api.database.transaction() as connection:
        await connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'out of order'; END $$"
        )
        await connection.execute(
            f"CREATE TRIGGER refuse BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW"
            f" WHEN (OLD.instance_id = '{instance}' AND {when}) EXECUTE FUNCTION refuse()".encode()
        )
    try:
        yield
    finally:
        async with api.database.transaction() as connection:
            await connection.execute("DROP FUNCTION refuse CASCADE")


async def finished(api: Api, path: str) -> str:
    """Wait until a bulk run, rollout or change set has ended; return its status."""
    async with asyncio.timeout(30):
        while (found := accepted(await api.get(path)))["finishedAt"] is None:
            await asyncio.sleep(0.05)
    return str(found["status"])


async def two(api: Api, manifest: str = LOOK) -> tuple[str, str, str]:
    """Return an application with two instances and a newer version."""
    application = await api.application(manifest)
    first, second = sorted([await api.launch(application, destroyInterval=-1) for _ in range(2)])
    await api.settled(first)
    await api.settled(second)
    accepted(await api.put_yaml(f"applications/{application}/manifest", manifest + "\n"))
    return application, first, second


async def test_a_bulk_run(api: Api) -> None:
    _, first, second = await two(api)
    body = {"act": "run", "workflow": "look"}
    path = f"organizations/{api.organization}/bulk"
    async with rows_that_fail(api, "bulk_instances", first):
        stuck = accepted(await api.post(path, {**body, "ids": [first]}))["id"]
        other = accepted(await api.post(path, {**body, "ids": [second]}))["id"]
        assert await finished(api, f"bulk/{other}") == "Finished"
        assert accepted(await api.get(f"bulk/{stuck}"))["counts"]["waiting"] == 1
    assert await finished(api, f"bulk/{stuck}") == "Finished"


async def test_a_rollout(api: Api) -> None:
    application, first, second = await two(api)
    path, body = f"organizations/{api.organization}/rollouts", {"applicationId": application, "version": 3}
    async with rows_that_fail(api, "rollout_instances", first):
        stuck = accepted(await api.post(path, {**body, "ids": [first]}))["id"]
        other = accepted(await api.post(path, {**body, "ids": [second]}))["id"]
        assert await finished(api, f"rollouts/{other}") == "Finished"
        assert accepted(await api.get(f"rollouts/{stuck}"))["counts"]["waiting"] == 1
    assert await finished(api, f"rollouts/{stuck}") == "Finished"


async def test_a_change_set(api: Api) -> None:
    _, first, second = await two(api)
    path, body = f"organizations/{api.organization}/change-sets", {"act": "version", "version": 3}
    stuck = accepted(await api.post(path, {**body, "ids": [first]}))["id"]
    other = accepted(await api.post(path, {**body, "ids": [second]}))["id"]
    async with rows_that_fail(api, "change_set_instances", first, "OLD.job_id IS NOT NULL"):
        accepted(await api.post(f"change-sets/{stuck}/apply"))
        accepted(await api.post(f"change-sets/{other}/apply"))
        assert await finished(api, f"change-sets/{other}") == "Succeeded"
        assert accepted(await api.get(f"change-sets/{stuck}"))["status"] == "Applying"
    assert await finished(api, f"change-sets/{stuck}") == "Succeeded"


@pytest.mark.slow
async def test_a_rollback(api: Api) -> None:
    application, first, second = await two(api, picky())
    accepted(await api.put(f"applications/{application}/failurePolicy", {"onFailure": "rollback"}))
    async with rows_that_fail(api, "rollbacks_due", first):
        for instance in (first, second):
            accepted(await api.put(f"instances/{instance}/configuration", {"parameters": {"input.size": BAD_SIZE}}))
        await back(api, second)
        assert accepted(await api.get(f"instances/{first}"))["status"] == "Failed"
    await back(api, first)


async def back(api: Api, instance: str) -> None:
    """Wait until an instance has its former configuration again."""
    async with asyncio.timeout(30):
        while True:
            found = await api.settled(instance)
            if (found["status"], found["parameters"]) == ("Running", {"input.size": 1}):
                return
            await asyncio.sleep(0.05)


async def test_what_fails_waits_and_a_database_that_is_away_ends_the_round() -> None:
    seen: list[str] = []

    async def turn(each: str) -> bool:
        seen.append(each)
        if each.startswith("away"):
            raise Unavailable("away")
        if each == "broken":
            raise ValueError(each)
        return each == "more"

    turns = Turns("thing", turn)
    assert await turns.give(["broken", "away 1", "more", "good"]) is True
    assert turns.waiting == ["broken", "away 1"]
    assert await turns.give(["broken", "away 1", "good"]) is False
    assert seen == ["broken", "away 1", "more", "good", "good"]
    with pytest.raises(Unavailable):
        await turns.give(["away 2", "away 3", "good"])
    assert seen[-1] == "away 3"
