"""Jobs on other instances that a job runs in its own course: submodules launched, called and destroyed.

An inner job is a job like any other, with its own fence, journal and history. But it is not queued: the worker that
runs the outer job runs it, so that waiting for it takes no second place in the queue, and no number of nested launches
can wait for each other. Its id follows from the outer job and the place in its plan: the outer job, repeated after a
crash, finds it again and takes it over, or reads how it ended.
"""

import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.engine.journal import patiently
from launchbay.engine.service_calls import ServiceCalls
from launchbay.errors import BadRequest, Fenced, WorkflowFailed
from launchbay.manifest.bindings import required_needs
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.v1 import outer_names
from launchbay.model.instance import InstanceStatus, Link, LinkKind, move
from launchbay.model.job import JobStatus, Plan
from launchbay.planning import (
    DESTROY,
    LAUNCH,
    RECONFIGURE,
    CompiledManifests,
    accepting_event,
    job_columns,
    may_accept,
    plan_call,
)
from launchbay.runtime.contract import JobRun, LinkedInstance
from launchbay.runtime.slot import rest
from launchbay.store import jobs
from launchbay.store import jobs as store
from launchbay.store.database import Database
from launchbay.store.jobs import InnerJobsOutcomeRow, TargetRow

BUSY_FIRST_S = 0.05
BUSY_LONGEST_S = 1.0
HELP_AFTER_S = 2.0  # without a worker for the job that keeps the other instance busy
ORPHAN_S = 30.0  # after which another worker may have died over it
TOO_LONG = "The call took longer than its caller waits."
ORPHANED = "The job that ran this one has ended without it."

RunJob = Callable[[str], Coroutine[Any, Any, None]]


class InnerJobs:
    """Implements `runtime.run.OtherInstances`. `run_job` runs one job here and now (`Runner.run_job`).

    Commands on services of the environment, which are no instances, go to `services`.
    """

    def __init__(
        self, database: Database, manifests: CompiledManifests, services: ServiceCalls, run_job: RunJob
    ) -> None:
        self._database = database
        self._manifests = manifests
        self._services = services
        self._run_job = run_job
        self._awaited: set[str] = set()  # jobs that somebody in this process waits for
        self._orphans: dict[str, float] = {}  # when they were first seen

    async def look(self, link: Link) -> LinkedInstance:
        """Return the linked instance as it is now. Raises WorkflowFailed when it is gone."""
        target = await patiently(partial(self._target, link.instance_id))
        return LinkedInstance(target.name, target.status, msgspec.json.decode(target.return_values))

    async def feed(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Give signals to the needs of the linked instance's application, for its next job to see."""
        await patiently(partial(self._feed, link.instance_id, msgspec.json.encode(signals).decode()))

    async def is_to_reconfigure(self, outer: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        """Tell whether a reconfiguration there, at this place of the outer job's plan, is what the instance needs.

        That is so when it has a new configuration that no job has brought it to yet, and, in a reconfiguration, when it
        failed. What the outer job has begun before a crash is gone on with, however the instance looks by now.
        """
        if await self._has_begun(outer, path):
            return True
        target = await patiently(partial(self._target, link.instance_id))
        launch_path = path.removesuffix(RECONFIGURE) + LAUNCH
        if target.status == InstanceStatus.REQUESTED or await self._has_begun(outer, launch_path):
            return False
        is_second_chance = outer.plan.kind == "reconfigure" and (not is_up or target.status == InstanceStatus.FAILED)
        return target.is_to_reconfigure or is_second_chance

    async def left_behind(self, outer: JobRun) -> list[Link]:
        """Return own instances that no component leads to any more, and that should have been destroyed."""
        return await patiently(partial(self._left_behind, outer.instance_id))

    async def offers(self, link: Link) -> frozenset[str]:
        """Return the keys of the pins of the linked instance's application. Raises WorkflowFailed when it is gone."""
        manifest = await patiently(partial(self._manifest, link.instance_id))
        return outer_names(manifest)

    async def requires(self, link: Link) -> frozenset[str]:
        """Return the needs for signals without which the linked instance is not to be launched."""
        return required_needs(await patiently(partial(self._manifest, link.instance_id)))

    async def run(
        self,
        outer: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_over: bool = False,
    ) -> Mapping[str, Any]:
        """Run a workflow on the linked instance and return its results by name.

        Waits while another job keeps the instance busy. `is_over` only reads how an earlier run ended. Where the outer
        job resumes others, what their calls have done stays done. Raises WorkflowFailed with the error message of the
        other instance.
        """
        if not link.is_instance:
            return await self._services.run(outer, link, workflow, arguments, path, is_over=is_over)
        job_id = inner_job_id(outer.job_id, path)
        before = await patiently(partial(self._before, outer, path)) if outer.plan.resumes else []
        for done in before:
            if done.status == JobStatus.SUCCEEDED:
                return _results(done, outer)
        resumes = [failed.id for failed in before]
        begin = partial(self._begin, outer, link, workflow, arguments, job_id, resumes)
        waiting = _Waiting(workflow)
        while True:
            outcome = await patiently(partial(self._outcome, job_id))
            if outcome is None:
                if is_over:
                    raise WorkflowFailed(f"the call of {workflow!r} was broken off before it began.")
                try:
                    begun = await patiently(begin)
                except _GoneAlready:
                    return {}  # a destroy that is run again finds some of the submodules destroyed
                if not begun:
                    await waiting.pause()
                    await self._lend_a_hand(link.instance_id)
            elif outcome.status == JobStatus.EXECUTING:
                if is_over:
                    await patiently(partial(self._cancel, job_id))
                await self._go_on(outer, job_id)
            elif outcome.status == JobStatus.SUCCEEDED:
                return _results(outcome, outer)
            else:
                raise WorkflowFailed(outcome.error_message or f"the call of {workflow!r} failed.")

    async def give_up(self, outer: JobRun) -> None:
        """Cancel the jobs that the outer one began and waits for no more, and bring them to their ends.

        Nobody else runs them, and their instances would stay busy for as long as the outer job lasts.
        """
        async with self._database.connection() as connection:
            begun = await store.under_way(connection, parent_job_id=outer.job_id)
        for each in begun:
            if each.id not in self._awaited:
                await patiently(partial(self._cancel, each.id))
                await self._go_on(outer, each.id)

    async def _left_behind(self, instance_id: str) -> list[Link]:
        async with self._database.connection() as connection:
            rows = await store.left_behind(connection, instance_id=instance_id)
        return [Link(row.id, LinkKind.OWN) for row in rows]

    async def _has_begun(self, outer: JobRun, path: str) -> bool:
        return await patiently(partial(self._outcome, inner_job_id(outer.job_id, path))) is not None

    async def _go_on(self, outer: JobRun, job_id: str) -> None:
        """Run an inner job from where it stands. Raises Fenced when the outer job is another worker's by now."""
        async with self._database.connection() as connection:
            held = await store.is_held(connection, job_id=outer.claimed_id or outer.job_id, fence=outer.fence)
        if not held:
            # Who lost the outer job must not take the inner one from the worker that goes on with both (promise 7).
            raise Fenced("Another worker has taken the outer job over.")
        self._awaited.add(job_id)
        try:
            await self._run_job(job_id)
        finally:
            self._awaited.discard(job_id)

    async def _lend_a_hand(self, instance_id: str) -> None:
        """Run the job that keeps the instance busy, if no worker has begun it for a while.

        Jobs that wait for each other's instances could otherwise hold all places, with what they wait for in the queue.
        """
        async with self._database.connection() as connection:
            waiting = await store.unclaimed(connection, instance_id=instance_id, after_s=HELP_AFTER_S)
        if waiting is not None:
            await self._run_job(waiting)

    async def _cancel(self, job_id: str, reason: str = TOO_LONG) -> bool:
        """Ask a job to end; False when somebody has done so before, or it has ended."""
        async with self._database.connection() as connection:
            return await jobs.cancel_inner(connection, job_id=job_id, reason=reason) > 0

    async def give_up_orphans(self) -> None:
        """Cancel the jobs whose outer job has ended without them, and bring them to their ends with what they did.

        Nobody else would run them any more. A worker that takes one fences out any other; so that workers do not do
        that to each other in turn, one that another has asked to end is left alone for a while.
        """
        async with self._database.connection() as connection:
            found = await store.orphans(connection)
        self._orphans = {each.id: self._orphans.get(each.id, time.monotonic()) for each in found}
        for orphan_id, seen_s in list(self._orphans.items()):
            if await patiently(partial(self._cancel, orphan_id, ORPHANED)) or seen_s + ORPHAN_S < time.monotonic():
                self._orphans.pop(orphan_id, None)
                await self._run_job(orphan_id)

    async def _begin(
        self,
        outer: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        job_id: str,
        resumes: list[str],
    ) -> bool:
        """Accept the inner job; False when the instance is busy. Raises WorkflowFailed when it can never be done."""
        async with self._database.transaction() as connection:
            target = await self._target(link.instance_id)
            manifest = await self._manifests.get(connection, target.application_id, target.version)
            status = InstanceStatus(target.status)
            if target.job_id is not None:
                return False
            if workflow == DESTROY and status is InstanceStatus.DESTROYED:
                raise _GoneAlready
            try:
                plan = plan_call(manifest, workflow, arguments, status)
            except BadRequest as error:
                raise WorkflowFailed(f"the instance {target.name!r}: {error}") from error
            plan = msgspec.structs.replace(plan, resumes=resumes, arguments=outer.secrets.sealed(plan.arguments))
            _must_be_possible(plan, target)
            begun = await store.begin(
                connection,
                instance_id=link.instance_id,
                job_id=job_id,
                parent_job_id=outer.job_id,
                parent_fence=outer.fence,
                name=plan.workflow,
                prior_status=status,
                status=_status_while_running(plan, status),
                **job_columns(plan, manifest),
            )
            if begun is not None and resumes:
                await jobs.take_over(connection, job_id=job_id, earlier_id=resumes[-1])
        return begun is not None

    async def _feed(self, instance_id: str, signals: str) -> None:
        async with self._database.connection() as connection:
            await store.feed(connection, instance_id=instance_id, signals=signals)

    async def _before(self, outer: JobRun, path: str) -> list[InnerJobsOutcomeRow]:
        """Return the jobs that the same call was in the jobs that the outer one resumes, the last one last."""
        job_ids = [inner_job_id(job_id, path) for job_id in outer.plan.resumes]
        async with self._database.connection() as connection:
            return await store.outcomes(connection, job_ids=job_ids)

    async def _outcome(self, job_id: str) -> InnerJobsOutcomeRow | None:
        async with self._database.connection() as connection:
            return await store.inner_jobs_outcome(connection, job_id=job_id)

    async def _target(self, instance_id: str) -> TargetRow:
        async with self._database.connection() as connection:
            target = await store.target(connection, instance_id=instance_id)
        if target is None:
            raise WorkflowFailed(f"the instance {instance_id} behind it does not exist any more.")
        return target

    async def _manifest(self, instance_id: str) -> CompiledManifest:
        target = await self._target(instance_id)
        async with self._database.connection() as connection:
            return await self._manifests.get(connection, target.application_id, target.version)


class _GoneAlready(Exception):
    """What is to be destroyed is destroyed."""


class _Waiting:
    """The pauses of a call that waits for a busy instance: each longer than the one before, and bounded in all."""

    def __init__(self, workflow: str) -> None:
        self._workflow = workflow
        self._waited_s = 0.0
        self._pause_s = BUSY_FIRST_S

    async def pause(self) -> None:
        """Wait a little. Raises WorkflowFailed beyond the bound."""
        if self._waited_s > limits.CALL_WAITS_FOR_INSTANCE_S:
            raise WorkflowFailed(
                f"the instance was busy for more than {limits.CALL_WAITS_FOR_INSTANCE_S:g} s, "
                f"so {self._workflow!r} did not run on it."
            )
        await rest(self._pause_s)
        self._waited_s += self._pause_s
        self._pause_s = min(BUSY_LONGEST_S, self._pause_s * 2)


def inner_job_id(outer_job_id: str, path: str) -> str:
    """Return the id of the job that an outer job runs at this place of its plan: the same after every crash."""
    return outer_job_id[:8] + hashlib.sha256(f"{outer_job_id}\n{path}".encode()).hexdigest()[:16]


def _results(outcome: InnerJobsOutcomeRow, outer: JobRun) -> dict[str, Any]:
    results: dict[str, Any] = outer.secrets.opened(msgspec.json.decode(outcome.results or "{}"))
    return results


def _must_be_possible(plan: Plan, target: TargetRow) -> None:
    status = InstanceStatus(target.status)
    first_launch = plan.workflow == LAUNCH and status is InstanceStatus.REQUESTED
    if not first_launch and not may_accept(plan):
        raise WorkflowFailed(f"the instance {target.name!r} is {status}, so {plan.workflow!r} cannot run on it.")


def _status_while_running(plan: Plan, status: InstanceStatus) -> InstanceStatus:
    if plan.workflow == LAUNCH and status is InstanceStatus.REQUESTED:
        return status  # the claim moves it on, as for every first launch
    assert plan.workflow != DESTROY or plan.kind == "destroy"
    return move(status, accepting_event(plan))
