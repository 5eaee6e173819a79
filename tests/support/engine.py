"""The engine on a real database, with the test actions of `tests/support/runtime.py` and without the web.

The database refuses what promise 6 forbids: a step that leaves a final status, or whose percentage falls.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from textwrap import dedent
from typing import Any

import msgspec
import psycopg
import pytest
from psycopg import AsyncConnection

from launchbay.actions.registry import BUILT_IN, Registry
from launchbay.app.build import lifespan
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import SystemClock
from launchbay.engine.dispatch import Dispatcher, WakeUps
from launchbay.engine.journal import PostgresJournal, retry_while_unavailable
from launchbay.engine.runner import Runner
from launchbay.engine.worker import Engine
from launchbay.ids import new_id
from launchbay.manifest.compiler import compile_manifest
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Plan
from launchbay.planning.acceptance import accept
from launchbay.planning.compiled import CompiledManifests
from launchbay.planning.plans import plan_launch, plan_run
from launchbay.runtime.contract import StepRecord
from launchbay.settings import Settings
from launchbay.store import dispatch
from launchbay.store.database import Connection, Database
from launchbay.store.dispatch import ClaimedJob
from launchbay.store.events import Waiter
from launchbay.store.jobs import ClaimRow
from launchbay.tenants import Tenants
from tests.support.eventually import eventually
from tests.support.runtime import World

PATIENCE_S = 15.0
GUARD = """
CREATE FUNCTION refuse_backward_steps() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.status IN ('Succeeded', 'Failed') AND NEW.status <> OLD.status THEN
        RAISE EXCEPTION 'step % went from % to %', OLD.path, OLD.status, NEW.status;
    END IF;
    IF NEW.percent < OLD.percent THEN
        RAISE EXCEPTION 'step % fell from % to % percent', OLD.path, OLD.percent, NEW.percent;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse_backward_steps BEFORE UPDATE ON steps FOR EACH ROW EXECUTE FUNCTION refuse_backward_steps();
"""


class AnyWorker:
    """Holds no job in this process."""

    def hold(self, connection: Connection, organization_id: str, job_id: str, *, here: bool = True) -> None:
        return None

    def begin(self, job_id: str, claim: ClaimRow) -> bool:
        return False

    def release(self, job_id: str) -> None:
        pass

    async def turn(self, caller: str) -> None:
        pass

    def watch_ends(self, instance_id: str) -> contextlib.AbstractContextManager[Waiter]:
        return contextlib.nullcontext(Waiter())


ANY_WORKER = AnyWorker()


@contextlib.asynccontextmanager
async def left(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[asyncio.Event]:
    """Let the process do nothing for the jobs that it begins in the block, and hand them over at its end.

    The event is set once it has begun one.
    """
    begun, gone = asyncio.Event(), asyncio.Event()

    async def leave(*_: object) -> bool:
        begun.set()
        await gone.wait()
        return False

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "_run", leave)
        yield begun
    gone.set()


@dataclass
class Bay:
    """An organization with applications and instances, and processes that run their jobs.

    The fixture of `conftest.py` makes the composition root take this world's actions, and skip the migration that the
    database has had.
    """

    url: str
    directory: Path
    world: World = field(default_factory=World)
    organization_id: str = field(default_factory=new_id)
    environment_id: str = field(default_factory=new_id)
    destroy_timeout_s: float = 10.0
    park_after_s: float = 5.0

    async def __aenter__(self) -> "Bay":
        async with await psycopg.AsyncConnection.connect(self.url) as connection:
            await connection.execute(GUARD.encode())
            await connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", [self.organization_id])
            await connection.execute(
                "INSERT INTO environments (id, organization_id, name) VALUES (%s, %s, 'default')",
                [self.environment_id, self.organization_id],
            )
            # 'u', who owns everything here, may do everything.
            await connection.execute(
                "INSERT INTO users (id, email, name) VALUES ('u', 'u@example.org', 'U') ON CONFLICT DO NOTHING"
            )
            await connection.execute("INSERT INTO memberships VALUES (%s, 'u')", [self.organization_id])
            await connection.execute(
                "INSERT INTO roles (id, organization_id, name, permissions, kind)"
                " VALUES (%s, %s, 'Everything', '', 'administrator')",
                [self.organization_id, self.organization_id],
            )
            await connection.execute(
                "INSERT INTO role_assignments (role_id, user_id) VALUES (%s, 'u')", [self.organization_id]
            )
        self._stack = contextlib.AsyncExitStack()
        self.database = await self._stack.enter_async_context(Database(self.url, connections=8))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def actions(self) -> Registry:
        return Registry([*(("launchbay", a) for a in BUILT_IN), *(("tests", a) for a in self.world.actions())])

    def manifests(self) -> CompiledManifests:
        return CompiledManifests(partial(compile_manifest, known_actions=frozenset(self.actions().names())))

    @contextlib.asynccontextmanager
    async def process(self, **settings: Any) -> AsyncIterator[Engine]:
        """Start what a process of the product has, with a pool of its own, and yield its engine."""
        given: dict[str, Any] = {
            "database_connections": 8,
            "heartbeat_interval_s": 0.1,
            "stager_interval_ms": 20,
            "park_after_s": self.park_after_s,
            "step_retry_first_s": 0.001,
            "step_retry_longest_s": 0.01,
            "destroy_timeout_s": self.destroy_timeout_s,
            **settings,
        }
        async with lifespan(Settings(database_url=self.url, data_dir=self.directory, **given)) as parts:
            yield parts.engine

    async def engine(self) -> Engine:
        """Return the engine of a new process that ends with the test."""
        return await self._stack.enter_async_context(self.process())

    async def run(self, job_id: str) -> None:
        """Run a job in a process of its own, past the dispatcher."""
        async with self.process() as engine:
            await engine.runner.run_child(job_id)

    @contextlib.asynccontextmanager
    async def working(self, **settings: Any) -> AsyncIterator[asyncio.Event]:
        """Run a whole engine around the block; yields its stop event."""
        stop = asyncio.Event()
        async with self.process(**{"stop_grace_s": 0.2, **settings}) as engine:
            running = asyncio.create_task(engine.run(stop))
            try:
                yield stop
            finally:
                stop.set()
                await running

    async def instance(
        self, manifest: str, status: str = "Failed", parameters: Mapping[str, Any] | None = None, **more: Any
    ) -> str:
        """Make an application of its own and an instance of it, by default one whose launch can be tried."""
        application_id, instance_id = new_id(), new_id()
        columns = {"parameters": msgspec.json.encode(parameters or {}).decode(), **more}
        async with self.database.transaction() as connection:
            await connection.execute(
                "INSERT INTO applications (id, organization_id, name, latest_version) VALUES (%s, %s, %s, 1)",
                [application_id, self.organization_id, application_id],
            )
            await connection.execute(
                "INSERT INTO manifests (application_id, version, content, author_id) VALUES (%s, 1, %s, 'u')",
                [application_id, dedent(manifest)],
            )
            await connection.execute(
                "INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id,"
                " status) VALUES (%s, %s, %s, %s, 1, 'live', 'u', %s)",
                [instance_id, self.organization_id, application_id, self.environment_id, status],
            )
            for name, value in columns.items():
                await connection.execute(
                    f"UPDATE instances SET {name} = %s WHERE id = %s".encode(), [value, instance_id]
                )
        return instance_id

    async def accept(self, instance_id: str, plan: Callable[[Any, InstanceStatus], Plan]) -> str | None:
        """Accept a job as the API does: `plan` makes its plan from the manifest and the status."""
        async with self.database.transaction() as connection:
            accepted = await self.accept_on(connection, instance_id, plan)
        await self.announce()
        return accepted

    async def announce(self, payload: str = "") -> None:
        """Tell the workers that a job is ready, as a process of the product does after its commit."""
        async with self.database.connection() as connection:
            await dispatch.announce(connection, payload=payload)

    async def accept_on(
        self, connection: Connection, instance_id: str, plan: Callable[[Any, InstanceStatus], Plan]
    ) -> str | None:
        row = await (
            await connection.execute("SELECT application_id, status FROM instances WHERE id = %s", [instance_id])
        ).fetchone()
        assert row is not None
        manifest = await self.manifests().get(connection, row[0], 1)
        prior = InstanceStatus(row[1])
        return await accept(
            connection, ANY_WORKER, self.organization_id, instance_id, "u", plan(manifest, prior), manifest, version=1
        )

    async def launch(self, instance_id: str) -> str:
        job_id = await self.accept(instance_id, lambda _, status: plan_launch({}, status))
        assert job_id is not None
        return job_id

    async def command(self, instance_id: str, workflow: str, **parameters: Any) -> str:
        job_id = await self.accept(instance_id, lambda m, status: plan_run(m, workflow, parameters, status))
        assert job_id is not None
        return job_id

    async def schedule(self, instance_id: str, workflow: str, due_in_s: float = -1.0, kind: str = "workflow") -> str:
        schedule_id = new_id()
        await self.change(
            "INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)"
            " VALUES (%s, %s, %s, %s, 'u', now() + %s * interval '1 second')",
            schedule_id,
            instance_id,
            kind,
            workflow,
            due_in_s,
        )
        return schedule_id

    async def change(self, statement: str, *values: Any) -> None:
        async with self.database.connection() as connection:
            await connection.execute(statement.encode(), values)

    async def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        async with self.database.connection() as connection:
            return await (await connection.execute(statement.encode(), values)).fetchall()

    async def one(self, statement: str, *values: Any) -> Any:
        """Return the only column of the only row."""
        [[value]] = await self.rows(statement, *values)
        return value

    async def until(self, statement: str, *values: Any, within_s: float = PATIENCE_S) -> None:
        """Wait until a statement answers true."""
        await eventually(lambda: self.one(statement, *values), within_s=within_s)

    async def ended(self, job_id: str, within_s: float = PATIENCE_S) -> tuple[str, str | None]:
        """Wait for the end of a job and return its status and error message."""
        await self.until("SELECT status <> 'Executing' FROM jobs WHERE id = %s", job_id, within_s=within_s)
        [(status, error)] = await self.rows("SELECT status, error_message FROM jobs WHERE id = %s", job_id)
        return status, error

    async def status(self, instance_id: str) -> str:
        return str(await self.one("SELECT status FROM instances WHERE id = %s", instance_id))

    async def steps(self, job_id: str) -> dict[str, tuple[str, int]]:
        found = await self.rows("SELECT path, status, percent FROM steps WHERE job_id = %s", job_id)
        return {path: (status, percent) for path, status, percent in found}


async def no_migration(_: str) -> None:
    """The template of the tests' databases has the schema."""


class Runs:
    """A handler that writes down its runs, holds each until it is let go, and then ends its job as an engine does."""

    def __init__(self, database: Database, *, holding: bool = False) -> None:
        self._database = database
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.running: list[str] = []
        self.most = 0
        self.cancelled: list[str] = []
        self.go = asyncio.Event()
        if not holding:
            self.go.set()

    async def __call__(self, job: ClaimedJob) -> bool:
        self.running.append(job.job_id)
        self.most = max(self.most, len(self.running))
        self.started.put_nowait(job.job_id)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(job.job_id)
            raise
        finally:
            self.running.remove(job.job_id)
        return await retry_while_unavailable(partial(end_job, self._database, job))

    async def next(self, within_s: float = PATIENCE_S) -> str:
        """Return the name of the next run to start."""
        async with asyncio.timeout(within_s):
            return await self.started.get()


async def end_job(database: Database, job: ClaimedJob) -> bool:
    """Write the end of a job, if that is still its newest claim."""
    async with database.connection() as connection:
        ended = await connection.execute(
            "UPDATE jobs SET status = 'Succeeded', finished_at = now(), worker_id = NULL"
            " WHERE id = %s AND fence = %s AND status = 'Executing'",
            [job.job_id, job.fence],
        )
    return ended.rowcount == 1


async def insert_jobs(
    connection: AsyncConnection[Any],
    organizations: Sequence[str],
    count: int = 1,
    *,
    first: int = 0,
    worker_id: int | None = None,
    fence: int = 0,
) -> None:
    """Insert jobs under way of each organization, ready or held by a worker: `acme0`, `acme1` … are those of `acme`."""
    await connection.execute(
        """
        WITH organization AS (
            INSERT INTO organizations (id, name) SELECT name, name FROM unnest(%(organizations)s::text[]) AS name
            ON CONFLICT DO NOTHING
        ), application AS (
            INSERT INTO applications (id, organization_id, name, latest_version)
            SELECT name, name, name, 1 FROM unnest(%(organizations)s::text[]) AS name ON CONFLICT DO NOTHING
        ), manifest AS (
            INSERT INTO manifests (application_id, version, content, author_id)
            SELECT name, 1, '', 'u' FROM unnest(%(organizations)s::text[]) AS name ON CONFLICT DO NOTHING
        ), environment AS (
            INSERT INTO environments (id, organization_id, name)
            SELECT name, name, name FROM unnest(%(organizations)s::text[]) AS name ON CONFLICT DO NOTHING
        ), wanted AS MATERIALIZED (
            SELECT name AS organization_id, name || number AS id, number
            FROM unnest(%(organizations)s::text[]) AS name,
                 generate_series(%(first)s::integer, %(first)s::integer + %(count)s::integer - 1) AS number
        ), instance AS (
            INSERT INTO instances
                (id, organization_id, application_id, environment_id, version, name, owner_id, status, job_id)
            SELECT id, organization_id, organization_id, organization_id, 1, id, 'u', 'Running', id FROM wanted
        ), job AS (
            INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, worker_id, fence)
            SELECT id, id, 'go', 'u', 'Executing', '{}', %(worker_id)s::bigint,
                   CASE WHEN %(worker_id)s::bigint IS NULL THEN %(fence)s::integer ELSE 1 END
            FROM wanted
        )
        INSERT INTO ready (organization_id, job_id)
        SELECT organization_id, id FROM wanted WHERE %(worker_id)s::bigint IS NULL ORDER BY number, organization_id
        """,
        {
            "organizations": list(organizations),
            "count": count,
            "first": first,
            "worker_id": worker_id,
            "fence": fence,
        },
    )


async def put(database: Database, organization: str, count: int = 1, *, first: int = 0, fence: int = 0) -> None:
    """Make jobs ready and announce them, as a process does that has no room for them."""
    async with database.connection() as connection:
        await insert_jobs(connection, [organization], count, first=first, fence=fence)
        await dispatch.announce(connection, payload="")


async def empty(database: Database) -> None:
    """Wait until no job is under way any more."""
    await until(database, "SELECT count(*) = 0 FROM jobs WHERE status = 'Executing'", within_s=PATIENCE_S)


@contextlib.asynccontextmanager
async def working(
    database: Database,
    run_job: Callable[[ClaimedJob], Awaitable[bool]],
    *,
    concurrency: int = 10,
    wake_ups: WakeUps | None = None,
    tenants: Tenants | None = None,
    **options: float,
) -> AsyncIterator[tuple[Dispatcher, asyncio.Event]]:
    """Run a worker around the block; yields its dispatcher and its stop event."""
    stop = asyncio.Event()
    given = {"heartbeat_s": 0.1, "grace_s": 0.0, "stalled_after_s": 0.4, "park_after_s": 5.0} | options
    dispatcher = Dispatcher(
        database, SystemClock(), concurrency=concurrency, wake_ups=wake_ups, tenants=tenants, **given
    )
    worker = asyncio.create_task(dispatcher.work(run_job, name="test", stop=stop))
    try:
        await until(database, "SELECT count(*) > 0 FROM workers")
        yield dispatcher, stop
    finally:
        stop.set()
        await worker


async def until(database: Database, condition: str, within_s: float = PATIENCE_S) -> None:
    await eventually(lambda: ask(database, condition), lambda found: found == (True,), within_s=within_s)


async def ask(database: Database, query: str) -> Any:
    async with database.connection() as conn:
        return await (await conn.execute(query)).fetchone()


async def cut_connections(database: Database, which: str = "") -> None:
    """End connections to the database, all of them unless told otherwise, as a restart of PostgreSQL does."""
    async with await AsyncConnection.connect(database.url, autocommit=True) as conn:
        cut = await conn.execute(
            (
                "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid() " + which
            ).encode()
        )
        assert cut.rowcount > 0


async def held_job(bay: Bay) -> str:
    job = await bay.launch(await bay.instance("launch: {steps: []}"))
    await bay.change("UPDATE jobs SET fence = 3 WHERE id = %s", job)
    return job


def journal(
    bay: Bay,
    job: str,
    fence: int = 3,
    records: dict[str, StepRecord] | None = None,
    on_fenced: Callable[[], None] = lambda: None,
    secret_key: SecretKey | None = None,
) -> PostgresJournal:
    known = records or {}
    return PostgresJournal(bay.database, SystemClock(), job, fence, known, on_fenced=on_fenced, secret_key=secret_key)


COMMANDS = """
    application:
      interfaces: {act: {go: "bind(w#act.go)", other: "bind(w#act.other)"}}
      components:
        w:
          type: workflow.Instance
          interfaces: {act: {go: "receive-command(=> )", other: "receive-command(=> )"}}
          configuration:
            configuration.workflows:
              go: {steps: [{s: {action: pass, parameters: {gate: go}}}]}
              other: {steps: [{s: {action: effect}}]}
"""
