"""What a forced deletion does beside the destroy, so that nothing is left when the records are gone."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import structlog

from launchbay import limits
from launchbay.engine.journal import PostgresJournal, patiently
from launchbay.engine.recall import CancelInner, recall
from launchbay.errors import Fenced
from launchbay.model.job import read_plan
from launchbay.runtime.contract import Budget, JobRun, StepRecord
from launchbay.runtime.machines import release_everything, stop_commands
from launchbay.runtime.state import InstanceState
from launchbay.store import jobs
from launchbay.store.database import Database
from launchbay.store.jobs import BelowRow

log = structlog.get_logger(__name__)


async def recall_superseded(
    database: Database, job: JobRun, records: Mapping[str, StepRecord], cancel_inner: CancelInner
) -> None:
    """Bring into the instance's state what the job had done that the deletion put an end to. Raises Fenced.

    `records` are that job's. Whatever goes wrong here does not keep the instance from being deleted.
    """
    superseded_id = job.plan.recalls
    assert superseded_id is not None
    plan = await patiently(partial(_plan, database, superseded_id))
    if plan is None:
        return
    superseded = replace(
        job,
        job_id=superseded_id,
        claimed_id=job.job_id,
        plan=read_plan(plan),
        # It only tells what was: the fence is that of no claim.
        journal=PostgresJournal(database, job.surroundings.clock, superseded_id, 0, records, on_fenced=lambda: None),
        budget=Budget(),
    )
    try:
        await recall(superseded, cancel_inner)
        await stop_commands(superseded)
    except Fenced:
        raise
    except Exception:
        log.exception("deletion.not_recalled", job=job.job_id, superseded=superseded_id)


async def release_below(database: Database, job: JobRun) -> list[str]:
    """Release all machines of submodules that are not destroyed yet; return a sentence for each that is left.

    With the records of the instance those of its submodules go, whatever has become of their own destroys.
    """
    rows = await patiently(partial(_below, database, job.instance_id))
    turn = asyncio.Semaphore(limits.RELEASES_AT_ONCE)

    async def let_go(row: BelowRow) -> list[str]:
        state = InstanceState.from_text(job.secrets.opened_json(row.state))
        submodule = replace(job, instance_id=row.id, state=state, links={}, fed={}, before=None)
        async with turn:
            return [f"Submodule {row.name!r}: {failure}" for failure in await release_everything(submodule)]

    return [failure for failures in await asyncio.gather(*map(let_go, rows)) for failure in failures]


async def _plan(database: Database, job_id: str) -> str | None:
    async with database.connection() as connection:
        return await jobs.plan(connection, job_id=job_id)


async def _below(database: Database, instance_id: str) -> list[BelowRow]:
    async with database.connection() as connection:
        return await jobs.below(connection, instance_id=instance_id)
