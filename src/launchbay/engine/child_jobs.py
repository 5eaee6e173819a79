"""Child jobs: jobs on other instances that a job starts and awaits.

A child job has its own fence, journal and history, but it isn't queued: the worker of the parent job runs it. So
waiting for it takes no second job slot, and nested launches can't deadlock. Its id is derived from the parent job and
the place in its plan. A parent that is repeated after a crash finds the child job, and continues it or reads its end.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.clock import Backoff
from launchbay.engine.journal import retry_while_unavailable, run_until_available
from launchbay.engine.service_calls import ServiceCalls
from launchbay.errors import Fenced, WorkflowFailed
from launchbay.manifest.bindings import required_needs
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import template_path
from launchbay.manifest.v1 import outer_names
from launchbay.model.instance import InstanceStatus, Link, LinkKind, transition
from launchbay.model.job import JobStatus, Origin, Plan, StepWait, passed_path
from launchbay.planning.acceptance import TAKE_OVER, components_document, job_columns
from launchbay.planning.compiled import CompiledManifests
from launchbay.planning.names import DESTROY, LAUNCH, RECONFIGURE
from launchbay.planning.plans import accepting_event, plan_call, plan_passed
from launchbay.runtime.commands import refuse_deadlock, replay_passed
from launchbay.runtime.contract import Caller, JobRun, LinkedInstance
from launchbay.runtime.slot import leaving, slot_released, staying
from launchbay.store import instances, jobs
from launchbay.store.database import Database
from launchbay.store.jobs import ChildOutcomeRow, TargetRow

_BUSY = Backoff(0.05, 1.0)
ORPHAN_S = 30.0  # after this, the worker that cancelled the orphan may have died
TOO_LONG = "The caller stopped waiting for this job."
ORPHANED = "The parent job ended before this one."

RunJob = Callable[[str], Coroutine[Any, Any, None]]
PlanJob = Callable[[CompiledManifest, str, InstanceStatus], Plan]  # of an instance with this name, in this status


class ChildJobs:
    """Implements `runtime.contract.LinkedInstances`.

    `run_job` runs a child job in this task.

    Commands on the environment's services, which aren't instances, go to `services`.
    """

    def __init__(
        self,
        database: Database,
        manifests: CompiledManifests,
        services: ServiceCalls,
        run_job: RunJob,
    ) -> None:
        self._database = database
        self._manifests = manifests
        self._services = services
        self._run_job = run_job
        self._callers: dict[str, Caller] = {}  # of the jobs that this process waits for
        self._orphans: dict[str, float] = {}  # when each was first seen, monotonic

    async def get(self, link: Link) -> LinkedInstance:
        target = await self._target(link.instance_id)
        return LinkedInstance(target.name, target.status, msgspec.json.decode(target.return_values))

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        encoded = msgspec.json.encode(signals).decode()
        await run_until_available(self._database, jobs.push_signals, instance_id=link.instance_id, signals=encoded)

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:
        """Return whether the linked instance needs a reconfiguration here in the plan.

        It does if no job has applied its new configuration yet or, in a reconfiguration, if it failed. A child job that
        the parent started before a crash continues regardless of the instance's present state, and so does one that
        the parent resumes.
        """
        if await self._has_begun(parent, path) or await self._earlier_calls(parent, path):
            return True
        target = await self._target(link.instance_id)
        launch_path = path.removesuffix(RECONFIGURE) + LAUNCH
        if target.status == InstanceStatus.REQUESTED or await self._has_begun(parent, launch_path):
            return False
        is_second_chance = parent.plan.kind == "reconfigure" and (not is_up or target.status == InstanceStatus.FAILED)
        return target.is_to_reconfigure or is_second_chance

    async def add_members(self, parent: JobRun, paths: Sequence[str]) -> None:
        for path in paths:
            link = parent.links.get(path)
            if link is None or (await self._target(link.instance_id)).status == InstanceStatus.DESTROYED:
                parent.links[path] = await retry_while_unavailable(partial(self._add_member, parent, path))

    async def _add_member(self, parent: JobRun, path: str) -> Link:
        """Copy what another member is linked to, at all levels. Raises WorkflowFailed, Fenced."""
        async with self._database.transaction() as connection:
            if not await jobs.is_held(connection, job_id=parent.claimed_id or parent.job_id, fence=parent.fence):
                raise Fenced("Another worker has taken the job over.")
            likes = [each for each in parent.links if template_path(each) == template_path(path)]
            for like in (parent.links[each] for each in sorted(likes, key=parent.state.is_launched, reverse=True)):
                if like.kind is not LinkKind.OWN:
                    await instances.replace_link(
                        connection,
                        instance_id=parent.instance_id,
                        component=path,
                        target_id=like.instance_id,
                        kind=like.kind,
                    )
                    return like
                copied = await instances.copy_submodule(
                    connection,
                    source_id=like.instance_id,
                    prefix=parent.job_id[:8],
                    salt=f"{parent.job_id}\n{path}",
                    parent_id=parent.instance_id,
                    component=path,
                )
                if copied is not None:
                    return Link(copied, LinkKind.OWN)
        raise WorkflowFailed(
            f"can't add {path!r} by a command: no member has had a submodule yet. Configure the quantity instead."
        )

    async def show_members(self, parent: JobRun) -> None:
        present = {
            path: link
            for path, link in parent.links.items()
            if path in parent.manifest.components or path == template_path(path)
        }
        components = components_document(parent.graph.compiled, present)
        shown = instances.show_components
        await run_until_available(self._database, shown, instance_id=parent.instance_id, components=components)

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:
        listed = jobs.list_orphaned_instances
        orphans = await run_until_available(self._database, listed, instance_id=parent.instance_id)
        return [Link(orphan_id, LinkKind.OWN) for orphan_id in orphans]

    async def offered_pins(self, link: Link) -> frozenset[str]:
        return outer_names(await self._manifest(link.instance_id))

    async def required_signals(self, link: Link) -> frozenset[str]:
        return required_needs(await self._manifest(link.instance_id))

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

        Waits while another job keeps the instance busy. `is_replay` only reads how an earlier run ended. If the parent
        resumes failed jobs, their calls that succeeded aren't repeated. Raises WorkflowFailed with the error message
        of the linked instance.
        """
        if not link.is_instance:
            return await self._services.run(parent, link, workflow, arguments, path, is_replay=is_replay)
        with staying():
            refuse_deadlock(link.instance_id, workflow)
            return await self._run_on_instance(parent, link, workflow, arguments, path, is_replay=is_replay)

    async def call_parent(
        self, child: JobRun, need: str, arguments: Mapping[str, Any], path: str, *, is_replay: bool = False
    ) -> list[Mapping[str, Any]]:
        with staying():
            found = await run_until_available(self._database, jobs.get_place_in_parent, instance_id=child.instance_id)
            if found is None:
                return []
            refuse_deadlock(found.instance_id, need)
            link = Link(found.instance_id, LinkKind.OWN)
            path = passed_path(path, need)
            results = await self._run_on_instance(
                child, link, need, arguments, path, is_replay=is_replay, component=found.component
            )
            return [results]

    def caller_of(self, job_id: str) -> Caller | None:
        """Return the job in this process that waits for a child job."""
        return self._callers.get(job_id)

    async def _run_on_instance(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool,
        component: str | None = None,
    ) -> Mapping[str, Any]:
        """Run a workflow, or a command that the submodule `component` passes up."""
        job_id = child_job_id(parent.job_id, path)
        earlier = await self._earlier_calls(parent, path)
        for call in earlier:
            if call.status == JobStatus.SUCCEEDED:
                return _results(call, parent)
        resumes = [failed.id for failed in earlier]
        sealed = parent.secrets.sealed(arguments)

        def plan(manifest: CompiledManifest, name: str, status: InstanceStatus) -> Plan:
            if component is not None:
                return plan_passed(manifest, component, workflow, sealed, status, resumes)
            return plan_call(manifest, name, workflow, sealed, status, resumes)

        begin = partial(self._begin, parent, link, plan, job_id, path, resumes, is_destroy=workflow == DESTROY)
        delays = _busy_delays(workflow)
        with self._calling(Caller(parent, path), job_id):
            return await self._run_to_end(
                parent, workflow, path, job_id, begin, delays, link.instance_id, is_replay=is_replay
            )

    async def _run_to_end(
        self,
        parent: JobRun,
        workflow: str,
        path: str,
        job_id: str,
        begin: Callable[[], Awaitable[bool]],
        delays: Iterator[float],
        target_id: str,
        *,
        is_replay: bool,
    ) -> Mapping[str, Any]:
        with ExitStack() as told:
            while True:
                outcome = await self._outcome(job_id)
                if outcome is None:
                    if is_replay:
                        raise WorkflowFailed(f"the call of {workflow!r} was interrupted before it started.")
                    try:
                        has_begun = await retry_while_unavailable(begin)
                    except _AlreadyDestroyed:
                        return {}  # a repeated destroy finds some submodules destroyed
                    if not has_begun:
                        # The job that keeps the instance busy may need the place.
                        await self._tell_busy(told, parent, workflow, path, target_id)
                        with slot_released():
                            await asyncio.sleep(next(delays))
                elif outcome.status == JobStatus.EXECUTING:
                    told.close()
                    if is_replay:
                        await self._cancel(job_id)
                    await self._resume(parent, job_id)
                elif outcome.status == JobStatus.SUCCEEDED:
                    await replay_passed(parent, path)
                    return _results(outcome, parent)
                else:
                    await replay_passed(parent, path)
                    if parent.passed.outcomes:
                        await self.cancel_abandoned(parent)  # what they had started, if they were interrupted
                    raise WorkflowFailed(outcome.error_message or f"the call of {workflow!r} failed.")

    async def _tell_busy(self, told: ExitStack, parent: JobRun, workflow: str, path: str, target_id: str) -> None:
        """Show which job of an instance a call waits for."""
        busy = await run_until_available(self._database, jobs.get_busy_job, instance_id=target_id)
        told.close()
        if busy is not None:
            wait = StepWait(
                kind="instance",
                # Who may read this instance may not know the other one: `read_waits` adds its name.
                text=f"The call of {workflow!r} waits for another instance, which runs a job.",
                ends_when="That job ends.",
                job=busy.id,
                instance=target_id,
            )
            told.enter_context(parent.journal.waiting(path, wait))

    async def cancel_abandoned(self, parent: JobRun) -> None:
        """Cancel and end the child jobs that the parent no longer waits for.

        No other worker runs them, and their instances would stay busy until the parent ends.
        """
        with staying():
            listed = jobs.list_running_children
            for job_id in await run_until_available(self._database, listed, parent_job_id=parent.job_id):
                if job_id not in self._callers:
                    await self._cancel(job_id)
                    with self._calling(Caller(parent, parent.passed.calls.get(job_id, "")), job_id):
                        await self._resume(parent, job_id)

    async def _has_begun(self, parent: JobRun, path: str) -> bool:
        return await self._outcome(child_job_id(parent.job_id, path)) is not None

    async def _resume(self, parent: JobRun, job_id: str) -> None:
        """Continue a child job.

        Raises Fenced if another worker has taken the parent job over.
        """
        holder_id = parent.claimed_id or parent.job_id
        held = await run_until_available(self._database, jobs.is_held, job_id=holder_id, fence=parent.fence)
        if not held:
            # This worker must not take the child job from the one that continues both (guarantee 7).
            raise Fenced("Another worker has taken the parent job over.")
        with leaving():
            await self._run_job(job_id)

    @contextmanager
    def _calling(self, caller: Caller, job_id: str) -> Iterator[None]:
        """Let a child job know its caller during the block."""
        self._callers[job_id] = caller
        caller.job.passed.calls[job_id] = caller.path
        try:
            yield
        finally:
            self._callers.pop(job_id, None)

    async def _cancel(self, job_id: str, reason: str = TOO_LONG) -> bool:
        """Ask a job to end; return False if that is too late."""
        decided = await run_until_available(self._database, jobs.cancel, job_id=job_id, reason=reason)
        return decided is not None and decided.asked

    async def cancel_orphans(self) -> None:
        """End child jobs whose parent job ended without them.

        The worker that takes an orphan fences out any other. To keep workers from taking it from each other in turn, an
        orphan that another worker has cancelled is skipped for ORPHAN_S.
        """
        async with self._database.connection() as connection:
            found = await jobs.list_orphans(connection)
        self._orphans = {job_id: self._orphans.get(job_id, time.monotonic()) for job_id in found}
        for orphan_id, seen_s in list(self._orphans.items()):
            if await self._cancel(orphan_id, ORPHANED) or seen_s + ORPHAN_S < time.monotonic():
                self._orphans.pop(orphan_id, None)
                await self._run_job(orphan_id)

    async def _begin(
        self,
        parent: JobRun,
        link: Link,
        plan_job: PlanJob,
        job_id: str,
        path: str,
        resumes: list[str],
        *,
        is_destroy: bool,
    ) -> bool:
        """Accept the child job; return False if the instance is busy.

        Raises WorkflowFailed if it can't run.
        """
        async with self._database.transaction() as connection:
            target = _checked(await jobs.get_child_target(connection, instance_id=link.instance_id), link.instance_id)
            manifest = await self._manifests.get(connection, target.application_id, target.version)
            status = InstanceStatus(target.status)
            if target.is_observed:
                raise WorkflowFailed(f"the instance {target.name!r} is only observed. {TAKE_OVER}")
            if target.job_id is not None:
                return False
            if is_destroy and status is InstanceStatus.DESTROYED:
                raise _AlreadyDestroyed
            plan = plan_job(manifest, target.name, status)
            seed = child_job_id(parent.key_seed, parent.key_path(path))
            if seed != job_id:
                plan = msgspec.structs.replace(plan, key_seed=seed)
            begun = await jobs.begin_child(
                connection,
                instance_id=link.instance_id,
                job_id=job_id,
                parent_job_id=parent.job_id,
                parent_fence=parent.fence,
                name=plan.workflow,
                prior_status=status,
                status=_status_while_running(plan, status),
                **job_columns(plan, manifest, target.version, Origin("job", parent.job_id)),
            )
            if begun is not None and resumes:
                await jobs.take_over(connection, job_id=job_id, earlier_id=resumes[-1])
        return begun is not None

    async def _earlier_calls(self, parent: JobRun, path: str) -> list[ChildOutcomeRow]:
        """Return the jobs of this call in the resumed jobs, oldest first."""
        if not parent.plan.resumes:
            return []
        job_ids = [child_job_id(job_id, path) for job_id in parent.plan.resumes]
        return await run_until_available(self._database, jobs.list_child_outcomes, job_ids=job_ids)

    async def _outcome(self, job_id: str) -> ChildOutcomeRow | None:
        return await run_until_available(self._database, jobs.get_child_outcome, job_id=job_id)

    async def _target(self, instance_id: str) -> TargetRow:
        target = await run_until_available(self._database, jobs.get_child_target, instance_id=instance_id)
        return _checked(target, instance_id)

    async def _manifest(self, instance_id: str) -> CompiledManifest:
        target = await self._target(instance_id)
        return await run_until_available(
            self._database, lambda connection: self._manifests.get(connection, target.application_id, target.version)
        )


class _AlreadyDestroyed(Exception):
    """The instance to destroy is already destroyed."""


def _busy_delays(workflow: str) -> Iterator[float]:
    """Yield the delays between attempts to start on a busy instance.

    Raises WorkflowFailed at the limit.
    """
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
    """Return the id of the child job at this place of the plan."""
    return parent_job_id[:8] + hashlib.sha256(f"{parent_job_id}\n{path}".encode()).hexdigest()[:16]


def _checked(target: TargetRow | None, instance_id: str) -> TargetRow:
    if target is None:
        raise WorkflowFailed(f"its instance {instance_id} no longer exists.")
    return target


def _results(outcome: ChildOutcomeRow, parent: JobRun) -> dict[str, Any]:
    results: dict[str, Any] = parent.secrets.opened(msgspec.json.decode(outcome.results or "{}"))
    return results


def _status_while_running(plan: Plan, status: InstanceStatus) -> InstanceStatus:
    if plan.workflow == LAUNCH and status is InstanceStatus.REQUESTED:
        return status  # the claim changes it, as for every first launch
    assert plan.workflow != DESTROY or plan.kind == "destroy"
    return transition(status, accepting_event(plan))
