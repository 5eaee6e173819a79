"""What a cancelled job has done before it ends: its plan is gone over once more, and nothing begins.

The state of an instance is written with the end of a job, so a job that were simply struck out would take with it what
its components have published and returned, and a later `destroy` would not know what to take down. So whoever claims a
cancelled job repeats it over its journal, as after a crash. A step with an effect that has no recorded success fails
instead of starting; what still waits when nothing moves any more is broken off.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from launchbay import limits
from launchbay.engine.child_jobs import child_job_id
from launchbay.engine.journal import PostgresJournal, retry_while_unavailable
from launchbay.errors import Fenced, WorkflowFailed
from launchbay.model.instance import Link
from launchbay.model.job import StepStatus, read_plan
from launchbay.runtime.contract import JobRun, Journal, LinkedInstance, LinkedInstances, StepBudget, StepRecord
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.machines import release_all, stop_commands
from launchbay.runtime.state import InstanceState
from launchbay.store import jobs
from launchbay.store.database import Database
from launchbay.store.jobs import DescendantRow

POLL_S = 0.05
IDLE_S = 0.3  # without any movement: what is left only waits
CancelChild = Callable[[str], Awaitable[None]]


async def replay_cancelled(job: JobRun, cancel_child: CancelChild) -> None:
    """Bring the job's state to where the job was when it was cancelled. `cancel_inner` asks for an inner job's end."""
    movements = _Activity()
    recalled = replace(
        job,
        journal=_ReadOnlyJournal(job.journal, movements),
        linked_instances=_CancellingInstances(job.linked_instances, cancel_child, movements),
    )
    performing = asyncio.create_task(run_plan(recalled))
    try:
        while not performing.done():
            seen, still_s = movements.count, 0.0
            while movements.count == seen and still_s < IDLE_S and not performing.done():
                await asyncio.wait({performing}, timeout=POLL_S)
                still_s += POLL_S
            if movements.count == seen and not movements.children_in_flight:
                break
    finally:
        performing.cancel()
        await asyncio.wait({performing})
    if not performing.cancelled():
        error = performing.exception()
        if error is not None and not isinstance(error, WorkflowFailed):
            raise error


class _Activity:
    """Counts signs of life; `under_way` are inner jobs on their way to their end, which take as long as they take."""

    def __init__(self) -> None:
        self.count = 0
        self.children_in_flight = 0


class _ReadOnlyJournal:
    """A journal that tells what was and takes nothing new."""

    def __init__(self, journal: Journal, activity: _Activity) -> None:
        self._journal = journal
        self._activity = activity

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        self._activity.count += 1
        return self._journal.find(path)

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of."""
        return self._journal.traces()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:  # noqa: ARG002 - the contract's
        """Refuse the beginning of an attempt."""
        raise WorkflowFailed("the job was cancelled.")

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Take no note: a step that was not started does not come here."""

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Take no note: the step is broken off with the job."""

    def note(self, path: str, name: str, status: StepStatus) -> None:  # noqa: ARG002 - the contract's
        """Take no note, but see that something moves."""
        self._activity.count += 1

    def progress(self, path: str, percent: int) -> None:
        """Take no note."""

    def log(self, path: str | None, level: str, text: str) -> None:
        """Take no note: the first run has said it."""


class _CancellingInstances:
    """Other instances, on which nothing begins and what is under way is cancelled as well."""

    def __init__(self, linked_instances: LinkedInstances, cancel_child: CancelChild, activity: _Activity) -> None:
        self._linked_instances = linked_instances
        self._cancel_child = cancel_child
        self._activity = activity

    async def get(self, link: Link) -> LinkedInstance:
        """Return the linked instance as it is now."""
        return await self._linked_instances.get(link)

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Give nothing: no job of the other instance will begin."""

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        """Tell whether a reconfiguration there, at this place of the outer job's plan, is what the instance needs."""
        return await self._linked_instances.needs_reconfiguration(parent, link, path, is_up=is_up)

    async def cancel_abandoned(self, parent: JobRun) -> None:
        """Bring the jobs to their ends that the outer one began and waits for no more."""
        await self._linked_instances.cancel_abandoned(parent)

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:
        """Return own instances that no component leads to any more, and that should have been destroyed."""
        return await self._linked_instances.orphaned_instances(parent)

    async def offered_pins(self, link: Link) -> frozenset[str]:
        """Return the keys of all pins of the linked instance's application."""
        return await self._linked_instances.offered_pins(link)

    async def required_signals(self, link: Link) -> frozenset[str]:
        """Return the needs for signals without which the linked instance is not to be launched."""
        return await self._linked_instances.required_signals(link)

    async def run(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,  # noqa: ARG002 - the contract's; here everything is
    ) -> Mapping[str, Any]:
        """Bring an inner job that is under way to its end, cancelled, or tell how it ended. Raises WorkflowFailed."""
        self._activity.children_in_flight += 1
        try:
            await self._cancel_child(child_job_id(parent.job_id, path))
            return await self._linked_instances.run(parent, link, workflow, arguments, path, is_replay=True)
        finally:
            self._activity.children_in_flight -= 1
            self._activity.count += 1


log = structlog.get_logger(__name__)


async def replay_superseded(
    database: Database, job: JobRun, records: Mapping[str, StepRecord], cancel_child: CancelChild
) -> None:
    """Bring into the instance's state what the job had done that the deletion put an end to. Raises Fenced.

    `records` are that job's. Whatever goes wrong here does not keep the instance from being deleted.
    """
    superseded_id = job.plan.recalls
    assert superseded_id is not None
    plan = await retry_while_unavailable(partial(_plan, database, superseded_id))
    if plan is None:
        return
    superseded = replace(
        job,
        job_id=superseded_id,
        claimed_id=job.job_id,
        plan=read_plan(plan),
        # It only tells what was: the fence is that of no claim.
        journal=PostgresJournal(database, job.deps.clock, superseded_id, 0, records, on_fenced=lambda: None),
        budget=StepBudget(),
    )
    try:
        await replay_cancelled(superseded, cancel_child)
        await stop_commands(superseded)
    except Fenced:
        raise
    except Exception:
        log.exception("deletion.replay_failed", job=job.job_id, superseded=superseded_id)


async def release_descendants(database: Database, job: JobRun) -> list[str]:
    """Release all machines of submodules that are not destroyed yet; return a sentence for each that is left.

    With the records of the instance those of its submodules go, whatever has become of their own destroys.
    """
    rows = await retry_while_unavailable(partial(_list_descendants, database, job.instance_id))
    turn = asyncio.Semaphore(limits.RELEASES_AT_ONCE)

    async def let_go(row: DescendantRow) -> list[str]:
        state = InstanceState.from_text(job.secrets.opened_json(row.state))
        submodule = replace(job, instance_id=row.id, state=state, links={}, parent_signals={}, before=None)
        async with turn:
            return [f"Submodule {row.name!r}: {failure}" for failure in await release_all(submodule)]

    return [failure for failures in await asyncio.gather(*map(let_go, rows)) for failure in failures]


async def _plan(database: Database, job_id: str) -> str | None:
    async with database.connection() as connection:
        return await jobs.get_plan(connection, job_id=job_id)


async def _list_descendants(database: Database, instance_id: str) -> list[DescendantRow]:
    async with database.connection() as connection:
        return await jobs.list_descendants(connection, instance_id=instance_id)
