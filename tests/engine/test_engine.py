"""Workers, stops, outages and races, with the whole engine running."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launchbay.actions.registry import Registry
from launchbay.app import build
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import JobStatus
from launchbay.planning.plans import plan_deletion, plan_run
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store import jobs
from launchbay.store.database import Connection, Database
from launchbay.store.schema import upgrade
from tests.support.engine import COMMANDS, Bay, no_migration

QUICK = "launch: {steps: [{s: {action: effect}}]}"
HELD = """
    launch:
      steps:
        - first: {action: effect}
        - second: {action: pass, precedingPhases: [first], parameters: {gate: go}}
        - third: {action: effect, precedingPhases: [second]}
"""


async def test_a_stopped_worker_hands_its_job_over_and_nothing_recorded_runs_again(bay: Bay) -> None:
    instance = await bay.instance(HELD)
    async with bay.working(stop_grace_s=0.1) as stop:
        job = await bay.launch(instance)
        await bay.until("SELECT count(*) = 2 FROM steps WHERE job_id = %s", job)
        stop.set()
    assert (await bay.one("SELECT status FROM jobs WHERE id = %s", job)) == "Executing"
    assert await bay.status(instance) == "Executing"
    async with bay.working():
        await bay.until("SELECT fence = 2 FROM jobs WHERE id = %s", job)
        bay.world.gate("go").set()
        assert await bay.ended(job) == ("Succeeded", None)
    assert bay.world.paths() == ["workflow#launch/first", "workflow#launch/third"]
    assert bay.world.events == ["second begins", "second begins", "second ends"]


async def test_who_works_alone_takes_over_from_the_dead_at_once_and_others_wait_for_their_lease(bay: Bay) -> None:
    other, held = await bay.instance(QUICK), await bay.instance(QUICK)
    job = await bay.launch(held)
    # A worker claimed it, and was killed just now.
    await bay.change("INSERT INTO workers (name) VALUES ('dead')")
    await bay.change("DELETE FROM ready")
    await bay.change("UPDATE jobs SET worker_id = (SELECT id FROM workers), fence = 1")
    async with bay.working(stalled_after_s=3600.0):
        assert await bay.ended(await bay.launch(other)) == ("Succeeded", None)
        assert await bay.one("SELECT status FROM jobs WHERE id = %s", job) == "Executing"
    stop = asyncio.Event()
    async with bay.process(stalled_after_s=3600.0) as engine:
        working = asyncio.create_task(replace(engine, is_alone=True).run(stop))
        assert await bay.ended(job) == ("Succeeded", None)
        stop.set()
        await working


async def test_a_stop_gives_running_jobs_their_grace(bay: Bay) -> None:
    instance = await bay.instance("launch: {steps: [{s: {action: effect, parameters: {seconds: 0.3}}}]}")
    async with bay.working(stop_grace_s=5.0) as stop:
        job = await bay.launch(instance)
        await bay.until("SELECT count(*) = 1 FROM steps WHERE job_id = %s", job)
        stop.set()
    assert await bay.ended(job, within_s=0.1) == ("Succeeded", None)
    assert len(bay.world.effects) == 1


async def test_a_forced_deletion_stops_the_running_job_and_removes_everything(bay: Bay) -> None:
    instance = await bay.instance(HELD + "    destroy: {steps: [{down: {action: effect}}]}\n")
    async with bay.working():
        job = await bay.launch(instance)
        await bay.until("SELECT count(*) = 2 FROM steps WHERE job_id = %s", job)
        async with bay.database.transaction() as connection:
            await jobs.supersede(
                connection, job_id=job, job_status=JobStatus.FAILED, status="Failed", error_message="Cancelled."
            )
            deletion = await bay.accept_on(connection, instance, lambda _, status: plan_deletion(status))
        await bay.announce()
        assert deletion is not None
        await bay.until("SELECT count(*) = 0 FROM instances")
        await bay.until("SELECT count(*) = 0 FROM ready")
    assert bay.world.events == ["second begins"], "the cancelled step did not go on"
    assert bay.world.paths() == ["workflow#launch/first", "workflow#destroy/down"]
    for table in ("jobs", "steps", "log_lines", "schedules"):
        assert await bay.one(f"SELECT count(*) FROM {table}") == 0


async def test_a_forced_deletion_does_not_wait_for_ever(bay: Bay) -> None:
    bay.destroy_timeout_s = 0.2
    instance = await bay.instance("destroy: {steps: [{hangs: {action: pass, parameters: {gate: never}}}]}", "Running")
    async with bay.working():
        await bay.accept(instance, lambda _, status: plan_deletion(status))
        await bay.until("SELECT count(*) = 0 FROM instances", within_s=5)


async def test_of_64_simultaneous_requests_one_is_accepted(bay: Bay) -> None:
    async with Database(bay.url, connections=8) as other:
        for _ in range(5):
            await _race(bay, (bay.database, other))


async def _race(bay: Bay, databases: tuple[Database, Database]) -> None:
    instance = await bay.instance(COMMANDS, "Running")

    async def attempt(number: int, of: str = instance) -> str | None:
        database = databases[number % 2]
        name = ("act.go", "act.other")[number // 2 % 2]
        async with database.transaction() as connection:
            return await bay.accept_on(connection, of, lambda m, status: plan_run(m, name, {}, status))

    accepted = [job for job in await asyncio.gather(*(_lose(attempt(n)) for n in range(64))) if job is not None]
    assert len(accepted) == 1
    assert await bay.rows("SELECT id FROM jobs WHERE instance_id = %s", instance) == [(accepted[0],)]
    assert await bay.one("SELECT job_id FROM instances WHERE id = %s", instance) == accepted[0]
    assert await bay.one("SELECT count(*) FROM ready WHERE job_id = %s", accepted[0]) == 1


async def _lose(attempt: Any) -> str | None:
    """Those who read the instance after the winner see a status that takes no work; a request answers 409 then."""
    try:
        job: str | None = await attempt
    except ValueError:
        return None
    return job


async def test_acceptance_is_atomic_with_the_callers_transaction(bay: Bay) -> None:
    instance = await bay.instance(COMMANDS, "Running")

    async def accept_and_fail(connection: Connection) -> None:
        job = await bay.accept_on(connection, instance, lambda m, status: plan_run(m, "act.go", {}, status))
        assert job is not None
        raise LookupError

    try:
        async with bay.database.transaction() as connection:
            await accept_and_fail(connection)
    except LookupError:
        pass
    assert await bay.status(instance) == InstanceStatus.RUNNING
    assert await bay.rows("SELECT id FROM jobs") == []
    assert await bay.rows("SELECT job_id FROM ready") == []


@pytest.fixture
def directory() -> Iterator[Path]:
    """One that no other pytest closes to PostgreSQL's account."""
    with tempfile.TemporaryDirectory(prefix="launchbay-outage-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.mark.slow
async def test_a_job_survives_an_outage_of_the_database(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = "\n".join(
        f"            - s{n}: {{action: effect, precedingPhases: [s{n - 1}], parameters: {{seconds: 0.1}}}}"
        for n in range(20)
    )
    postgres = await asyncio.to_thread(EmbeddedPostgres.start, directory)
    try:
        await upgrade(postgres.url)
        monkeypatch.setattr(build, "upgrade", no_migration)
        async with Bay(postgres.url, directory) as bay:
            monkeypatch.setattr(Registry, "load", bay.actions)
            async with bay.working():
                job = await bay.launch(await bay.instance(f"launch:\n          steps:\n{steps}\n"))
                await bay.until("SELECT count(*) > 5 FROM steps WHERE job_id = %s", job)
                assert postgres.pid is not None
                os.kill(postgres.pid, signal.SIGQUIT)
                await asyncio.sleep(1.5)
                done_before = len(bay.world.effects)
                await asyncio.to_thread(postgres.ensure_running)
                assert await _ended_after_outage(bay, job) == ("Succeeded", None)
            assert done_before < 20
            runs = {path: bay.world.paths().count(path) for path in bay.world.paths()}
            assert len(runs) == 20
            assert sum(runs.values()) <= 21, "only the step that the outage interrupted may run again"
    finally:
        await asyncio.to_thread(postgres.stop)


async def _ended_after_outage(bay: Bay, job: str) -> tuple[str, str | None]:
    async with asyncio.timeout(30):
        while True:
            try:
                return await bay.ended(job, within_s=25)
            except TimeoutError:
                raise
            except Exception:  # the pool is still finding out that its connections are dead
                await asyncio.sleep(0.1)
