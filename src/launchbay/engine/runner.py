"""Runs one job from its claim to its end."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
import structlog

from launchbay.engine.journal import PostgresJournal, patiently
from launchbay.errors import Fenced, LaunchbayError
from launchbay.manifest.configuration import configure
from launchbay.model.environment_view import read_environment_view
from launchbay.model.instance import InstanceEvent, InstanceStatus, move, status_after_job
from launchbay.model.job import JobStatus, StepStatus
from launchbay.model.plan import Plan, read_plan
from launchbay.planning.manifests import CompiledManifests
from launchbay.runtime.journal import StepRecord
from launchbay.runtime.perform import perform
from launchbay.runtime.results import return_values
from launchbay.runtime.run import JobRun, Surroundings, WorkflowFailed
from launchbay.runtime.state import InstanceState
from launchbay.store import jobs, schedules
from launchbay.store.jobs import ClaimRow, RecordRow
from launchbay.store.pool import Connection, Database

log = structlog.get_logger(__name__)


class Runner:
    """Runs jobs; one object serves all jobs of the process."""

    def __init__(
        self, database: Database, surroundings: Surroundings, manifests: CompiledManifests, destroy_timeout_s: float
    ) -> None:
        self._database = database
        self._surroundings = surroundings
        self._manifests = manifests
        self._destroy_timeout_s = destroy_timeout_s
        self._held: dict[str, tuple[int, asyncio.Event]] = {}

    async def run_job(self, job_id: str) -> None:
        """Claim the job and bring it to its end. Returns when it has ended already or is lost to another worker.

        CancelledError (stop of the process) leaves the job as it is: the next claim goes on after the last record.
        """
        claim = await patiently(partial(self._claim, job_id))
        if claim is None:
            return
        records = await patiently(partial(self._load_records, job_id)) if claim.fence > 1 else {}
        lost = asyncio.Event()
        journal = PostgresJournal(
            self._database, self._surroundings.clock, job_id, claim.fence, records, on_fenced=lost.set
        )
        self._held[job_id] = (claim.fence, lost)
        try:
            await self._hold(job_id, claim, journal, lost)
        except Fenced:
            log.warning("job.lost", job=job_id, instance=claim.instance_id, fence=claim.fence)
        finally:
            del self._held[job_id]
            await journal.close()

    async def look_after(self) -> None:
        """Stop the jobs that this process runs but does not hold any more. Called every second or so."""
        held = dict(self._held)
        if not held:
            return
        async with self._database.connection() as connection:
            fences = [fence for fence, _ in held.values()]
            still_held = await jobs.held(connection, job_ids=list(held), fences=fences) or []
        for job_id, (_, lost) in held.items():
            if job_id not in still_held:
                lost.set()

    async def _claim(self, job_id: str) -> ClaimRow | None:
        started = move(InstanceStatus.REQUESTED, InstanceEvent.LAUNCH_STARTED)
        async with self._database.connection() as connection:
            return await jobs.claim(
                connection, job_id=job_id, requested_status=InstanceStatus.REQUESTED, started_status=started
            )

    async def _load_records(self, job_id: str) -> Mapping[str, StepRecord]:
        async with self._database.connection() as connection:
            return {row.path: _record(row) for row in await jobs.records(connection, job_id=job_id)}

    async def _hold(self, job_id: str, claim: ClaimRow, journal: PostgresJournal, lost: asyncio.Event) -> None:
        """Perform the job, giving up the moment that another worker has taken it over."""
        performing = asyncio.create_task(self._perform(job_id, claim, journal))
        losing = asyncio.create_task(lost.wait())
        try:
            await asyncio.wait({performing, losing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (performing, losing):
                task.cancel()
            await asyncio.wait({performing, losing})
        if not performing.cancelled():
            performing.result()

    async def _perform(self, job_id: str, claim: ClaimRow, journal: PostgresJournal) -> None:
        plan = read_plan(claim.plan)
        state = InstanceState.from_text(claim.state)
        error: str | None = None
        results = ""
        try:
            async with self._database.connection() as connection:
                manifest = await self._manifests.get(connection, claim.application_id, claim.version)
            job = JobRun(
                job_id=job_id,
                instance_id=claim.instance_id,
                organization_id=claim.organization_id,
                environment_id=claim.environment_id,
                plan=plan,
                manifest=manifest,
                configuration=configure(manifest, msgspec.json.decode(claim.parameters)),
                environment=read_environment_view(claim.environment_view),
                state=state,
                journal=journal,
                surroundings=self._surroundings,
            )
            error = await self._carry_out(job)
            results = msgspec.json.encode(return_values(manifest, state)).decode()
        except Fenced:
            raise
        except LaunchbayError as failure:
            error = str(failure)
        except Exception:
            # A defect of ours. Repeating it would fail the same way for ever, and promise 2 wants an end.
            log.exception("job.broke", job=job_id, instance=claim.instance_id)
            error = f"Launchbay broke while running this job; its log tells more under job {job_id}. Report it."
        await self._end(job_id, claim, plan, journal, state, results or "{}", error)

    async def _carry_out(self, job: JobRun) -> str | None:
        """Do what the plan says and return the error message, None after success."""
        timeout_s = self._destroy_timeout_s if job.plan.deletes_instance else None
        try:
            async with asyncio.timeout(timeout_s):
                await perform(job)
        except WorkflowFailed as failure:
            return str(failure)
        except TimeoutError:
            return f"The forced destroy took longer than {timeout_s:g} s and was broken off."
        return None

    async def _end(
        self,
        job_id: str,
        claim: ClaimRow,
        plan: Plan,
        journal: PostgresJournal,
        state: InstanceState,
        results: str,
        error: str | None,
    ) -> None:
        if error is not None:
            journal.log(None, "error", error)
        status = status_after_job(
            InstanceStatus(plan.prior_status),
            is_destroy=plan.kind == "destroy",
            succeeded=error is None,
            propagates=plan.propagates,
        )
        ending = {
            "job_id": job_id,
            "fence": claim.fence,
            "job_status": JobStatus.SUCCEEDED if error is None else JobStatus.FAILED,
            "steps": journal.brief(msgspec.json.decode(claim.steps)),
            "error_message": error,
            "status": status,
            "state": state.to_text(),
            "return_values": results,
            "is_gone": status is InstanceStatus.DESTROYED,
            **await journal.settle(),
        }
        if plan.deletes_instance:
            ended = await patiently(partial(self._write_deletion, ending))
        else:
            ended = await patiently(partial(self._write_end, ending, claim.instance_id))
        if not ended:
            raise Fenced("Another worker has taken the job over.")
        log.info("job.ended", job=job_id, instance=claim.instance_id, workflow=plan.workflow, error=error)

    async def _write_end(self, ending: dict[str, Any], instance_id: str) -> bool:
        async with self._database.connection() as connection:
            ended = await jobs.end(connection, **ending)
            if ended is None:
                return await _was_written(connection, ending)
            if ended.work_waiting:
                await schedules.unblock(connection, instance_id=instance_id)
        return True

    async def _write_deletion(self, ending: dict[str, Any]) -> bool:
        async with self._database.connection() as connection:
            deleted = await jobs.end_and_delete_instance(connection, job_id=ending["job_id"], fence=ending["fence"])
            return deleted is not None or await _was_written(connection, ending)


async def _was_written(connection: Connection, ending: dict[str, Any]) -> bool:
    """Tell whether an earlier attempt, whose answer was lost, has ended the job after all."""
    outcome = await jobs.outcome(connection, job_id=ending["job_id"])
    return outcome is None or (outcome.fence == ending["fence"] and outcome.status != JobStatus.EXECUTING)


def _record(row: RecordRow) -> StepRecord:
    outputs = None if row.outputs is None else msgspec.json.decode(row.outputs)
    return StepRecord(StepStatus(row.status), row.attempt, row.started_at, outputs, row.error_message)
