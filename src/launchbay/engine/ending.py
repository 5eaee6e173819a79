"""The end of a job: everything that it leaves behind, in one transaction."""

from functools import partial
from typing import Any

import msgspec
import structlog

from launchbay import limits
from launchbay.engine.aftermath import NOTHING_FOLLOWS, Aftermath
from launchbay.engine.journal import NOTHING_TO_WRITE, PostgresJournal, patiently
from launchbay.engine.storable import storable
from launchbay.errors import Fenced
from launchbay.model.instance import InstanceStatus, status_after_job
from launchbay.model.job import JobStatus
from launchbay.model.plan import Plan
from launchbay.runtime.state import InstanceState
from launchbay.store import jobs, schedules
from launchbay.store.jobs import ClaimRow
from launchbay.store.pool import Connection, Database

log = structlog.get_logger(__name__)

BROKEN = "Launchbay broke while running this job; its log tells more under job {job_id}. Report it."


class Ending:
    """Writes the end of one claim of a job."""

    def __init__(self, database: Database, journal: PostgresJournal, job_id: str, claim: ClaimRow, plan: Plan) -> None:
        self._database = database
        self._journal = journal
        self._job_id = job_id
        self._claim = claim
        self._plan = plan

    async def write(
        self,
        state: InstanceState,
        return_values: str | None,
        results: str | None,
        error: str | None,
        follows: Aftermath = NOTHING_FOLLOWS,
    ) -> None:
        """End the job, as failed when there is an error; waits out a database that is away. Raises Fenced.

        `return_values` None leaves those of the instance as they are; `results` are the job's own,
        `follows` is what happens by itself after it.
        """
        try:
            if error is not None:
                error = storable(error, limits.ERROR_CHARS)
                self._journal.log(None, "error", error)
            self._journal.break_off()
            rest = await self._journal.settle()
            written = {"state": state.to_text(), "return_values": return_values, "results": results}
            await self._end({**written, **rest, **follows.columns()}, error)
        except Fenced:
            raise
        except Exception:
            # PostgreSQL refuses some of it, and would again. The job still ends, with as little as that takes.
            log.exception("job.end_refused", job=self._job_id, instance=self._claim.instance_id)
            error = BROKEN.format(job_id=self._job_id)
            written = {"state": None, "return_values": None, "results": None}
            await self._end({**written, **NOTHING_TO_WRITE, **NOTHING_FOLLOWS.columns()}, error)
        workflow = self._plan.workflow
        log.info("job.ended", job=self._job_id, instance=self._claim.instance_id, workflow=workflow, error=error)

    async def _end(self, written: dict[str, Any], error: str | None) -> None:
        write = self._delete_instance if self._plan.deletes_instance else partial(self._write, written, error)
        if not await patiently(write):
            raise Fenced("Another worker has taken the job over.")

    async def _write(self, written: dict[str, Any], error: str | None) -> bool:
        succeeded = error is None
        status = status_after_job(
            InstanceStatus(self._plan.prior_status),
            is_destroy=self._plan.kind == "destroy",
            succeeded=succeeded,
            propagates=self._plan.propagates,
        )
        async with self._database.connection() as connection:
            ended = await jobs.end(
                connection,
                job_id=self._job_id,
                fence=self._claim.fence,
                parent_job_id=self._claim.parent_job_id,
                job_status=JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED,
                steps=self._journal.brief(msgspec.json.decode(self._claim.steps)),
                error_message=error,
                keeps_error=succeeded and status is InstanceStatus.FAILED,
                status=status,
                is_gone=status is InstanceStatus.DESTROYED,
                **written,
            )
            if ended is None:
                return await self._was_written(connection)
            if ended.work_waiting:
                await schedules.unblock(connection, instance_id=self._claim.instance_id)
        return True

    async def _delete_instance(self) -> bool:
        async with self._database.connection() as connection:
            deleted = await jobs.end_and_delete_instance(connection, job_id=self._job_id, fence=self._claim.fence)
            return deleted is not None or await self._was_written(connection)

    async def _was_written(self, connection: Connection) -> bool:
        """Tell whether an earlier attempt, whose answer was lost, has ended the job after all."""
        outcome = await jobs.outcome(connection, job_id=self._job_id)
        return outcome is None or (outcome.fence == self._claim.fence and outcome.status != JobStatus.EXECUTING)
