"""Ends a cancelled job: replays its plan over its journal, and starts no step.

The state of an instance is written at the end of a job. Without the replay, a cancelled job would lose what its
components published and returned, and a later `destroy` wouldn't know what to delete. So the worker that claims a
cancelled job repeats it, as after a crash. A step with an effect but no recorded success fails instead of starting.
What still waits when nothing makes progress is interrupted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import structlog

from launchbay import limits
from launchbay.concurrency import gather_bounded
from launchbay.engine.child_jobs import child_job_id
from launchbay.engine.journal import PostgresJournal, run_until_available
from launchbay.errors import Fenced, WorkflowFailed
from launchbay.model.instance import Link
from launchbay.model.job import StepStatus, passed_path, read_plan
from launchbay.runtime.contract import (
    JobRun,
    Journal,
    LinkedInstance,
    LinkedInstances,
    PassedCommands,
    ReplayJournal,
    StepBudget,
    StepRecord,
)
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.machines import release_all, stop_commands
from launchbay.runtime.state import InstanceState
from launchbay.store import jobs
from launchbay.store.database import Database
from launchbay.store.jobs import DescendantRow

POLL_S = 0.05
IDLE_S = 0.3  # without any activity, what is left only waits
CancelChild = Callable[[str], Awaitable[None]]
log = structlog.get_logger(__name__)


async def replay_cancelled(job: JobRun, cancel_child: CancelChild) -> None:
    """Bring the job's state to the point of its cancellation.

    `cancel_child` asks a child job to end.
    """
    activity = _Activity()
    replayed = replace(
        job,
        journal=_ReadOnlyJournal(job.journal, activity),
        linked_instances=_CancellingInstances(job.linked_instances, cancel_child, activity),
    )
    replay = asyncio.create_task(run_plan(replayed))
    try:
        while not replay.done():
            seen, idle_s = activity.count, 0.0
            while activity.count == seen and idle_s < IDLE_S and not replay.done():
                await asyncio.wait({replay}, timeout=POLL_S)
                idle_s += POLL_S
            if activity.count == seen and not activity.children_in_flight:
                break
    finally:
        replay.cancel()
        await asyncio.wait({replay})
    if not replay.cancelled():
        error = replay.exception()
        if error is not None and not isinstance(error, WorkflowFailed):
            raise error


async def replay_superseded(
    database: Database, job: JobRun, records: Mapping[str, StepRecord], cancel_child: CancelChild
) -> None:
    """Replay the job that a forced deletion superseded into the instance's state. Raises Fenced.

    `records` are that job's. No other failure here prevents the deletion.
    """
    superseded_id = job.plan.recalls
    assert superseded_id is not None
    plan = await run_until_available(database, jobs.get_plan, job_id=superseded_id)
    if plan is None:
        return
    superseded = replace(
        job,
        job_id=superseded_id,
        claimed_id=job.job_id,
        plan=read_plan(plan),
        # It only reads records: fence 0 belongs to no claim.
        journal=PostgresJournal(database, job.deps.clock, superseded_id, 0, records, on_fenced=lambda: None),
        budget=StepBudget(),
        passed=PassedCommands(),
    )
    try:
        await replay_cancelled(superseded, cancel_child)
        await stop_commands(superseded)
    except Fenced:
        raise
    except Exception:
        log.exception("deletion.replay_failed", job=job.job_id, superseded=superseded_id)


async def release_descendants(database: Database, job: JobRun) -> list[str]:
    """Release machines of living submodules; return a message for each one left.

    Deleting the instance also deletes its submodules' records, even if their own destroys failed.
    """
    rows = await run_until_available(database, jobs.list_descendants, instance_id=job.instance_id)

    async def release_one(row: DescendantRow) -> list[str]:
        state = InstanceState.from_text(job.secrets.opened_json(row.state))
        submodule = replace(job, instance_id=row.id, state=state, links={}, parent_signals={}, before=None)
        return [f"Submodule {row.name!r}: {failure}" for failure in await release_all(submodule)]

    return list(chain.from_iterable(await gather_bounded(map(release_one, rows), limits.RELEASES_AT_ONCE)))


class _Activity:
    """Counts activity. Child jobs in flight are waited for without a limit."""

    def __init__(self) -> None:
        self.count = 0
        self.children_in_flight = 0


class _ReadOnlyJournal(ReplayJournal):
    """A replay journal that counts activity and refuses to start steps."""

    def __init__(self, journal: Journal, activity: _Activity) -> None:
        super().__init__(journal)
        self._activity = activity

    def find(self, path: str) -> StepRecord | None:
        self._activity.count += 1
        return super().find(path)

    async def start(self, *_: object, **__: object) -> None:
        raise WorkflowFailed("the job was cancelled.")

    def note(self, path: str, name: str, status: StepStatus) -> None:  # noqa: ARG002 - the contract's
        self._activity.count += 1


class _CancellingInstances:
    """Linked instances on which nothing starts, and running child jobs are cancelled."""

    def __init__(self, linked_instances: LinkedInstances, cancel_child: CancelChild, activity: _Activity) -> None:
        self._linked_instances = linked_instances
        self._cancel_child = cancel_child
        self._activity = activity

    async def get(self, link: Link) -> LinkedInstance:
        return await self._linked_instances.get(link)

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Do nothing: no job will start on the linked instance."""

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        return await self._linked_instances.needs_reconfiguration(parent, link, path, is_up=is_up)

    async def cancel_abandoned(self, parent: JobRun) -> None:
        await self._linked_instances.cancel_abandoned(parent)

    async def add_members(self, parent: JobRun, paths: Sequence[str]) -> None:
        """Do nothing: no member will be launched."""

    async def show_members(self, parent: JobRun) -> None:
        await self._linked_instances.show_members(parent)

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:
        return await self._linked_instances.orphaned_instances(parent)

    async def offered_pins(self, link: Link) -> frozenset[str]:
        return await self._linked_instances.offered_pins(link)

    async def required_signals(self, link: Link) -> frozenset[str]:
        return await self._linked_instances.required_signals(link)

    async def run(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,  # noqa: ARG002 - the contract's; everything is a replay here
    ) -> Mapping[str, Any]:
        """Cancel and end a running child job, or return the results of an ended one. Raises WorkflowFailed."""
        self._activity.children_in_flight += 1
        try:
            await self._cancel_child(child_job_id(parent.job_id, path))
            return await self._linked_instances.run(parent, link, workflow, arguments, path, is_replay=True)
        finally:
            self._activity.children_in_flight -= 1
            self._activity.count += 1

    async def call_parent(
        self,
        child: JobRun,
        need: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,  # noqa: ARG002 - the contract's; everything is a replay here
    ) -> list[Mapping[str, Any]]:
        """Do the same with a job on the parent instance."""
        self._activity.children_in_flight += 1
        try:
            await self._cancel_child(child_job_id(child.job_id, passed_path(path, need)))
            return await self._linked_instances.call_parent(child, need, arguments, path, is_replay=True)
        finally:
            self._activity.children_in_flight -= 1
            self._activity.count += 1
