"""Jobs that older versions left behind run to their end (promise 13); those of newer versions are left for them.

`stored_plans/` has a file for each shape that plans have had, made from real jobs of the commit that it names
(`make_stored_plans.py`): queued ones, and ones of every kind that were killed at their second step.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from launchbay.app.build import lifespan
from launchbay.errors import Conflict
from launchbay.model.job import PLAN_VERSION, Plan, read_plan
from launchbay.settings import Settings
from tests.support.eventually import eventually
from tests.support.stored_plans import FOLDER, TABLES

STORED = sorted(path.stem for path in FOLDER.glob("*.json"))
NEWEST = STORED[-1]
EXECUTING = "SELECT id FROM jobs WHERE status = 'Executing'"
RECORDED = "SELECT job_id, path, outputs, finished_at FROM steps WHERE status = 'Succeeded' AND job_id = ANY (%s)"


class Stored:
    """What an older version left, in a database of today's schema."""

    def __init__(self, url: str, name: str, directory: Path) -> None:
        document = json.loads((FOLDER / f"{name}.json").read_text())
        self.ends: dict[str, str] = document["ends"]
        self.url = url
        if document["key"] is not None:
            (directory / "secret.key").write_text(document["key"])
            (directory / "secret.key").chmod(0o600)
        self._settings = Settings(
            data_dir=directory, database_url=url, admin_email="admin@launchbay.local", stager_interval_ms=20
        )
        with psycopg.connect(url) as connection:
            for table in TABLES:
                for row in document["rows"].get(table, []):
                    _insert(connection, table, row)
            connection.execute(
                "INSERT INTO ready (organization_id, job_id)"
                " SELECT instances.organization_id, jobs.id FROM jobs JOIN instances ON instances.id = instance_id"
                " WHERE jobs.status = 'Executing' AND parent_job_id IS NULL"
            )

    def ask(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(statement.encode(), given).fetchall()

    def change(self, statement: str, *given: Any) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), given)

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """Let today's engine work."""
        async with lifespan(self._settings) as parts:
            stop = asyncio.Event()
            working = asyncio.create_task(parts.engine.run(stop))
            try:
                yield
            finally:
                stop.set()
                await working

    async def until(self, is_so: Callable[[], bool]) -> None:
        jobs = "SELECT id, name, status, fence, error_message FROM jobs"
        await eventually(lambda: is_so() or self.ask(jobs), lambda found: found is True)


def _insert(connection: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    """Insert a row as a migration would have left it: columns that came later have their defaults."""
    names = sql.SQL(", ").join(map(sql.Identifier, row))
    statement = sql.SQL("INSERT INTO {0} ({1}) SELECT {1} FROM json_populate_record(NULL::{0}, %s)")
    connection.execute(statement.format(sql.Identifier(table), names), [json.dumps(row)])


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED)
async def test_jobs_of_an_older_version_run_to_their_end(name: str, database_url: str, tmp_path: Path) -> None:
    stored = Stored(database_url, name, tmp_path)
    begun = [job for (job,) in stored.ask(EXECUTING)]
    recorded = stored.ask(RECORDED, begun)
    assert len(begun) >= 5
    assert recorded
    async with stored.working():
        await stored.until(lambda: stored.ask(EXECUTING) == [])
    statuses = dict(stored.ask("SELECT id, status FROM instances"))
    assert {instance: statuses.get(instance, "gone") for instance in stored.ends} == stored.ends
    ended = dict(stored.ask("SELECT id, coalesce(error_message, status) FROM jobs WHERE id = ANY (%s)", begun))
    assert set(ended.values()) == {"Succeeded"}
    kept = [row for row in recorded if row[0] in ended]
    assert set(kept) <= set(stored.ask(RECORDED, begun))


def test_the_shape_of_today_is_among_those_that_are_kept() -> None:
    """When it fails, plans have got a new field: make a file with them (tests.support.stored_plans)."""
    rows = json.loads((FOLDER / f"{NEWEST}.json").read_text())["rows"]
    assert {tuple(json.loads(job["plan"])) for job in rows["jobs"]} == {Plan.__struct_fields__}


def test_the_version_stays_the_last_field_where_the_claim_looks_for_it(database_url: str) -> None:
    plan = Plan(kind="command", workflow="go", prior_status="Running", arguments={"v": '"version":7}'})
    statement = "SELECT launchbay_plan_version(%s), launchbay_plan_version(%s), launchbay_plan_version('{}')"
    with psycopg.connect(database_url) as connection:
        found = connection.execute(statement, [plan.to_text(), plan.forgetting().holding().to_text()]).fetchone()
    assert found == (1, PLAN_VERSION, 1), "older servers leave only jobs alone that they would run without an approval"


def test_a_newer_plan_is_told_from_a_broken_one() -> None:
    with pytest.raises(Conflict, match=r"A newer version of Launchbay .* format 4, this server supports 3") as told:
        read_plan('{"kind":"teleport","version":4}')
    assert told.value.code == "NewerPlan"


@pytest.mark.slow
@pytest.mark.parametrize(
    "newer",
    [
        'UPDATE jobs SET plan = \'{"kind":"teleport","version":4}\' WHERE id = %s',
        "UPDATE instances SET state_version = 2 WHERE job_id = %s",
    ],
)
async def test_a_job_of_a_newer_version_is_left_for_it(newer: str, database_url: str, tmp_path: Path) -> None:
    stored = Stored(database_url, NEWEST, tmp_path)
    [(job, plan), *_] = stored.ask("SELECT id, plan FROM jobs WHERE fence = 0 AND status = 'Executing' ORDER BY id")
    stored.change(newer, job)
    async with stored.working():
        await stored.until(lambda: stored.ask(EXECUTING) == [(job,)])
        await stored.until(lambda: stored.ask("SELECT count(*) FROM parked WHERE due_at > now()") == [(1,)])
        assert stored.ask("SELECT started_at FROM jobs WHERE id = %s", job) == [(None,)]
        # And then a program comes that can read it.
        stored.change("UPDATE jobs SET plan = %s WHERE id = %s", plan, job)
        stored.change("UPDATE instances SET state_version = 1")
        await stored.until(lambda: stored.ask(EXECUTING) == [])
    assert stored.ask("SELECT status FROM jobs WHERE id = %s", job) == [("Succeeded",)]
