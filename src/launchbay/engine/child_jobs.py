"""Jobs on other instances that a job runs in its own course: submodules launched, called and destroyed.

An inner job is a job like any other, with its own fence, journal and history. But it is not queued: the worker that
runs the outer job runs it, so that waiting for it takes no second place in the queue, and no number of nested launches
can wait for each other. Its id follows from the outer job and the place in its plan: the outer job, repeated after a
crash, finds it again and takes it over, or reads how it ended.
"""

import hashlib
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.backoff import Backoff
from launchbay.engine.journal import retry_while_unavailable
from launchbay.engine.service_calls import ServiceCalls
from launchbay.errors import Fenced, WorkflowFailed
from launchbay.manifest.bindings import required_needs
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.v1 import outer_names
from launchbay.model.instance import InstanceStatus, Link, LinkKind, transition
from launchbay.model.job import JobStatus, Plan
from launchbay.planning import (
    DESTROY,
    LAUNCH,
    RECONFIGURE,
    CompiledManifests,
    accepting_event,
    job_columns,
    plan_call,
)
from launchbay.runtime.contract import JobRun, LinkedInstance
from launchbay.runtime.slot import interruptible_sleep
from launchbay.store import jobs
from launchbay.store import jobs as store
from launchbay.store.database import Database
from launchbay.store.jobs import ChildOutcomeRow, TargetRow

_BUSY = Backoff(0.05, 1.0)
STALLED_AFTER_S = 2.0  # without a worker for the job that keeps the other instance busy
ORPHAN_S = 30.0  # after which another worker may have died over it
TOO_LONG = "The call took longer than its caller waits."
ORPHANED = "The job that ran this one has ended without it."

RunJob = Callable[[str], Coroutine[Any, Any, None]]


class ChildJobs:
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

    async def get(self, link: Link) -> LinkedInstance:
        """Return the linked instance as it is now. Raises WorkflowFailed when it is gone."""
        target = await retry_while_unavailable(partial(self._target, link.instance_id))
        return LinkedInstance(target.name, target.status, msgspec.json.decode(target.return_values))

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        """Give signals to the needs of the linked instance's application, for its next job to see."""
        await retry_while_unavailable(
            partial(self._push_signals, link.instance_id, msgspec.json.encode(signals).decode())
        )

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        """Tell whether a reconfiguration there, at this place of the outer job's plan, is what the instance needs.

        That is so when it has a new configuration that no job has brought it to yet, and, in a reconfiguration, when it
        failed. What the outer job has begun before a crash is gone on with, however the instance looks by now.
        """
        if await self._has_begun(parent, path):
            return True
        target = await retry_while_unavailable(partial(self._target, link.instance_id))
        launch_path = path.removesuffix(RECONFIGURE) + LAUNCH
        if target.status == InstanceStatus.REQUESTED or await self._has_begun(parent, launch_path):
            return False
        is_second_chance = parent.plan.kind == "reconfigure" and (not is_up or target.status == InstanceStatus.FAILED)
        return target.is_to_reconfigure or is_second_chance

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:
        """Return own instances that no component leads to any more, and that should have been destroyed."""
        return await retry_while_unavailable(partial(self._orphaned_instances, parent.instance_id))

    async def offered_pins(self, link: Link) -> frozenset[str]:
        """Return the keys of the pins of the linked instance's application. Raises WorkflowFailed when it is gone."""
        manifest = await retry_while_unavailable(partial(self._manifest, link.instance_id))
        return outer_names(manifest)

    async def required_signals(self, link: Link) -> frozenset[str]:
        """Return the needs for signals without which the linked instance is not to be launched."""
        return required_needs(await retry_while_unavailable(partial(self._manifest, link.instance_id)))

    async def run(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,
    ) -> Mapping[str, Any]:
        """Run a workflow on the linked instance and return its results by name.

        Waits while another job keeps the instance busy. `is_over` only reads how an earlier run ended. Where the outer
        job resumes others, what their calls have done stays done. Raises WorkflowFailed with the error message of the
        other instance.
        """
        if not link.is_instance:
            return await self._services.run(parent, link, workflow, arguments, path, is_replay=is_replay)
        job_id = child_job_id(parent.job_id, path)
        before = await retry_while_unavailable(partial(self._before, parent, path)) if parent.plan.resumes else []
        for done in before:
            if done.status == JobStatus.SUCCEEDED:
                return _results(done, parent)
        resumes = [failed.id for failed in before]
        begin = partial(self._begin, parent, link, workflow, arguments, job_id, resumes)
        delays = _busy_delays(workflow)
        while True:
            outcome = await retry_while_unavailable(partial(self._outcome, job_id))
            if outcome is None:
                if is_replay:
                    raise WorkflowFailed(f"the call of {workflow!r} was broken off before it began.")
                try:
                    begun = await retry_while_unavailable(begin)
                except _AlreadyDestroyed:
                    return {}  # a destroy that is run again finds some of the submodules destroyed
                if not begun:
                    await interruptible_sleep(next(delays))
                    await self._run_stalled_job(link.instance_id)
            elif outcome.status == JobStatus.EXECUTING:
                if is_replay:
                    await retry_while_unavailable(partial(self._cancel, job_id))
                await self._resume(parent, job_id)
            elif outcome.status == JobStatus.SUCCEEDED:
                return _results(outcome, parent)
            else:
                raise WorkflowFailed(outcome.error_message or f"the call of {workflow!r} failed.")

    async def cancel_abandoned(self, parent: JobRun) -> None:
        """Cancel the jobs that the outer one began and waits for no more, and bring them to their ends.

        Nobody else runs them, and their instances would stay busy for as long as the outer job lasts.
        """
        async with self._database.connection() as connection:
            begun = await store.list_running_children(connection, parent_job_id=parent.job_id)
        for each in begun:
            if each.id not in self._awaited:
                await retry_while_unavailable(partial(self._cancel, each.id))
                await self._resume(parent, each.id)

    async def _orphaned_instances(self, instance_id: str) -> list[Link]:
        async with self._database.connection() as connection:
            rows = await store.list_orphaned_instances(connection, instance_id=instance_id)
        return [Link(row.id, LinkKind.OWN) for row in rows]

    async def _has_begun(self, parent: JobRun, path: str) -> bool:
        return await retry_while_unavailable(partial(self._outcome, child_job_id(parent.job_id, path))) is not None

    async def _resume(self, parent: JobRun, job_id: str) -> None:
        """Run an inner job from where it stands. Raises Fenced when the outer job is another worker's by now."""
        async with self._database.connection() as connection:
            held = await store.is_held(connection, job_id=parent.claimed_id or parent.job_id, fence=parent.fence)
        if not held:
            # Who lost the outer job must not take the inner one from the worker that goes on with both (promise 7).
            raise Fenced("Another worker has taken the outer job over.")
        self._awaited.add(job_id)
        try:
            await self._run_job(job_id)
        finally:
            self._awaited.discard(job_id)

    async def _run_stalled_job(self, instance_id: str) -> None:
        """Run the job that keeps the instance busy, if no worker has begun it for a while.

        Jobs that wait for each other's instances could otherwise hold all places, with what they wait for in the queue.
        """
        async with self._database.connection() as connection:
            waiting = await store.get_unclaimed(connection, instance_id=instance_id, after_s=STALLED_AFTER_S)
        if waiting is not None:
            await self._run_job(waiting)

    async def _cancel(self, job_id: str, reason: str = TOO_LONG) -> bool:
        """Ask a job to end; False when somebody has done so before, or it has ended."""
        async with self._database.connection() as connection:
            return await jobs.cancel_child(connection, job_id=job_id, reason=reason) > 0

    async def cancel_orphans(self) -> None:
        """Cancel the jobs whose outer job has ended without them, and bring them to their ends with what they did.

        Nobody else would run them any more. A worker that takes one fences out any other; so that workers do not do
        that to each other in turn, one that another has asked to end is left alone for a while.
        """
        async with self._database.connection() as connection:
            found = await store.list_orphans(connection)
        self._orphans = {each.id: self._orphans.get(each.id, time.monotonic()) for each in found}
        for orphan_id, seen_s in list(self._orphans.items()):
            if (
                await retry_while_unavailable(partial(self._cancel, orphan_id, ORPHANED))
                or seen_s + ORPHAN_S < time.monotonic()
            ):
                self._orphans.pop(orphan_id, None)
                await self._run_job(orphan_id)

    async def _begin(
        self,
        parent: JobRun,
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
                raise _AlreadyDestroyed
            plan = plan_call(manifest, target.name, workflow, parent.secrets.sealed(arguments), status, resumes)
            begun = await store.begin_child(
                connection,
                instance_id=link.instance_id,
                job_id=job_id,
                parent_job_id=parent.job_id,
                parent_fence=parent.fence,
                name=plan.workflow,
                prior_status=status,
                status=_status_while_running(plan, status),
                **job_columns(plan, manifest),
            )
            if begun is not None and resumes:
                await jobs.take_over(connection, job_id=job_id, earlier_id=resumes[-1])
        return begun is not None

    async def _push_signals(self, instance_id: str, signals: str) -> None:
        async with self._database.connection() as connection:
            await store.push_signals(connection, instance_id=instance_id, signals=signals)

    async def _before(self, parent: JobRun, path: str) -> list[ChildOutcomeRow]:
        """Return the jobs that the same call was in the jobs that the outer one resumes, the last one last."""
        job_ids = [child_job_id(job_id, path) for job_id in parent.plan.resumes]
        async with self._database.connection() as connection:
            return await store.list_child_outcomes(connection, job_ids=job_ids)

    async def _outcome(self, job_id: str) -> ChildOutcomeRow | None:
        async with self._database.connection() as connection:
            return await store.get_child_outcome(connection, job_id=job_id)

    async def _target(self, instance_id: str) -> TargetRow:
        async with self._database.connection() as connection:
            target = await store.get_child_target(connection, instance_id=instance_id)
        if target is None:
            raise WorkflowFailed(f"the instance {instance_id} behind it does not exist any more.")
        return target

    async def _manifest(self, instance_id: str) -> CompiledManifest:
        target = await self._target(instance_id)
        async with self._database.connection() as connection:
            return await self._manifests.get(connection, target.application_id, target.version)


class _AlreadyDestroyed(Exception):
    """What is to be destroyed is destroyed."""


def _busy_delays(workflow: str) -> Iterator[float]:
    """Yield the delays between attempts to start on a busy instance. Raises WorkflowFailed at the limit."""
    waited_s = 0.0
    for delay_s in _BUSY.delays():
        if waited_s > limits.CALL_WAITS_FOR_INSTANCE_S:
            raise WorkflowFailed(
                f"the instance was busy for more than {limits.CALL_WAITS_FOR_INSTANCE_S:g} s, "
                f"so {workflow!r} did not run on it."
            )
        yield delay_s
        waited_s += delay_s


def child_job_id(parent_job_id: str, path: str) -> str:
    """Return the id of the job that an outer job runs at this place of its plan: the same after every crash."""
    return parent_job_id[:8] + hashlib.sha256(f"{parent_job_id}\n{path}".encode()).hexdigest()[:16]


def _results(outcome: ChildOutcomeRow, parent: JobRun) -> dict[str, Any]:
    results: dict[str, Any] = parent.secrets.opened(msgspec.json.decode(outcome.results or "{}"))
    return results


def _status_while_running(plan: Plan, status: InstanceStatus) -> InstanceStatus:
    if plan.workflow == LAUNCH and status is InstanceStatus.REQUESTED:
        return status  # the claim moves it on, as for every first launch
    assert plan.workflow != DESTROY or plan.kind == "destroy"
    return transition(status, accepting_event(plan))
