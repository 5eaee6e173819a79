"""One row of later work that fails doesn't hold up the others, over HTTP and against rows that really fail."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launchbay.errors import BadRequest, LaunchbayError, Unavailable
from launchbay.store.database import Connection
from launchbay.usecases.context import AppContext
from launchbay.usecases.later import Attempts, Later, LaterWork
from tests.support.applications import BAD_SIZE, picky
from tests.support.eventually import eventually
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
    found = await eventually(lambda: api.read(path), lambda found: found["finishedAt"] is not None)
    return str(found["status"])


async def two(api: Api, manifest: str = LOOK) -> tuple[str, str, str]:
    """Return an application with two instances and a newer version."""
    application = await api.application(manifest)
    first, second = sorted([await api.launch(application, destroyInterval=-1) for _ in range(2)])
    await api.settled(first)
    await api.settled(second)
    accepted(await api.put_yaml(f"applications/{application}/manifest", manifest + "\n"))
    return application, first, second


@pytest.mark.features("bulk")
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


@pytest.mark.features("rollouts")
async def test_a_rollout(api: Api) -> None:
    application, first, second = await two(api)
    path, body = f"organizations/{api.organization}/rollouts", {"applicationId": application, "version": 3}
    async with rows_that_fail(api, "rollout_instances", first):
        stuck = accepted(await api.post(path, {**body, "ids": [first]}))["id"]
        other = accepted(await api.post(path, {**body, "ids": [second]}))["id"]
        assert await finished(api, f"rollouts/{other}") == "Finished"
        assert accepted(await api.get(f"rollouts/{stuck}"))["counts"]["waiting"] == 1
    assert await finished(api, f"rollouts/{stuck}") == "Finished"


@pytest.mark.features("change_sets")
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
    await eventually(
        lambda: api.settled(instance),
        lambda found: (found["status"], found["parameters"]) == ("Running", {"input.size": 1}),
    )


async def test_what_fails_waits_and_a_database_that_is_away_ends_the_round() -> None:
    seen: list[str] = []

    async def attempt(each: str) -> bool:
        seen.append(each)
        if each.startswith("away"):
            raise Unavailable("away")
        if each == "broken":
            raise ValueError(each)
        return each == "more"

    attempts = Attempts("thing", attempt)
    assert await attempts.make(["broken", "away 1", "more", "good"]) is True
    assert attempts.waiting == ["broken", "away 1"]
    assert await attempts.make(["broken", "away 1", "good"]) is False
    assert seen == ["broken", "away 1", "more", "good", "good"]
    with pytest.raises(Unavailable):
        await attempts.make(["away 2", "away 3", "good"])
    assert seen[-1] == "away 3"


class Scripted(LaterWork[str, str]):
    """Work on one row. Each `next` returns the next value of a list, and `act` raises an error."""

    task = noun = "scripted"

    def __init__(self, app: AppContext, error: Exception | None, *found: str | bool) -> None:
        super().__init__(app)
        self.error = error
        self.found = list(found)
        self.noted: list[str] = []

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return [] if failed else ["row"]

    async def take(self, connection: Connection, row_id: str) -> str | None:
        return row_id if self.found else None

    async def next(self, connection: Connection, row: str) -> str | bool:
        return self.found.pop(0)

    async def act(self, row: str, item: str) -> str:
        assert self.app.database.enclosing() is not None, "an act joins the transaction"
        if self.error is not None:
            raise self.error
        return "done"

    async def note(self, connection: Connection, row: str, item: str, done: str) -> None:
        self.noted.append(f"{item} {done}")

    async def put_off(self, connection: Connection, row: str, item: str, refusal: LaunchbayError) -> None:
        self.noted.append(f"{item}: {refusal}")


REFUSED = BadRequest("It is busy.")
INTERNAL = "Internal error in Launchbay. Find the scripted row in the server's log and report it."


@pytest.mark.parametrize(
    ("error", "found", "noted", "has_more"),
    [
        (None, ["first"], ["first done"], True),
        (None, [True], [], True),
        (None, [False], [], False),
        (None, [], [], False),
        (REFUSED, ["first", "first"], ["first: It is busy."], True),
        (ValueError("its text"), ["first", "first"], [f"first: {INTERNAL}"], True),
        (REFUSED, ["first", "second"], [], True),  # another process was faster, and has done the first one
        (REFUSED, ["first", False], [], False),
        (REFUSED, ["first"], [], False),  # another process has it
        (Unavailable("away"), ["first"], [], False),
    ],
)
async def test_a_refusal_is_noted_unless_something_else_is_next_meanwhile(
    api: Api, error: Exception | None, found: list[str | bool], noted: list[str], has_more: bool
) -> None:
    work = Scripted(cast("AppContext", SimpleNamespace(database=api.database)), error, *found)
    later: Later[Any, Any] = Later(work)
    assert (await later.advance(), work.noted, work.found) == (has_more, noted, [])
