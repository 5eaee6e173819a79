"""The instances of a test and their jobs, in memory: what the engine does, without a database.

Jobs of one instance run one after the other. Triggered workflows run after the act that triggered them. Schedules run
when an act advances the time.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from launchbay.engine.ending import InstanceSnapshot, PendingRun, follow_ups
from launchbay.errors import BadRequest, LaunchbayError, WorkflowFailed
from launchbay.manifest.bindings import required_needs
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.scaling import component_at, scaled, template_path
from launchbay.manifest.v1 import outer_names
from launchbay.manifest_tests.launch_tree import Fixtures, LaunchTree, ModulePath
from launchbay.model.instance import InstanceEvent, InstanceStatus, Link, LinkKind, status_after_job, transition
from launchbay.model.job import Plan
from launchbay.model.schedule import next_due
from launchbay.planning.names import DESTROY
from launchbay.planning.plans import accepting_event, plan_call, plan_destroy, plan_passed, plan_trigger
from launchbay.runtime.commands import refuse_deadlock
from launchbay.runtime.contract import SYSTEM, Caller, JobRun, LinkedInstance, NullJournal, RuntimeDeps
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.signals import linked_signals, return_values, submodule_signals
from launchbay.runtime.state import Graph, InstanceState, existing_quantity

LogLine = Callable[[str, str], None]  # a level and a line


class LogJournal(NullJournal):
    """Passes log lines on. It stores no steps: a job never runs a second time, and its instance has the error."""

    def __init__(self, log_line: LogLine) -> None:
        self._log_line = log_line

    def log(self, path: str | None, level: str, text: str, stream: str = SYSTEM) -> None:  # noqa: ARG002 - the contract's
        self._log_line(level, text if path is None else f"{path}: {text}")


FOLLOW_UPS = 1_000  # limit of triggered jobs per act
_ORGANIZATION, _ENVIRONMENT = "f" * 24, "e" * 24


@dataclass
class LiveInstance:
    """One instance. `state` is the serialized state between jobs."""

    id: str
    tree: LaunchTree
    links: dict[str, Link]
    status: InstanceStatus = InstanceStatus.REQUESTED
    state: str = "{}"
    values: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    parent_signals: Mapping[str, Any] = field(default_factory=dict)
    before: Configured | None = None
    destroy_at: datetime | None = None
    triggers: list[PendingRun] = field(default_factory=list)
    schedules: list[PendingRun] = field(default_factory=list)
    needs_refresh: bool = False
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def is_alive(self) -> bool:
        """Whether workflows can run on the instance."""
        return self.status in {InstanceStatus.RUNNING, InstanceStatus.FAILED}

    def graph(self) -> Graph:
        return Graph(self.tree.manifest, configure(self.tree.manifest, self.tree.parameters))


class EndlessTriggers(LaunchbayError):
    """Workflows trigger each other endlessly."""


class Simulation:
    """All instances of one test. `jobs` and `lines` are the jobs and log lines so far, in order."""

    def __init__(self, deps: RuntimeDeps, fixtures: Fixtures) -> None:
        self.deps = deps
        self.fixtures = fixtures
        self.instances: dict[str, LiveInstance] = {}
        self.jobs: list[tuple[ModulePath, str]] = []
        self.lines: list[tuple[str, str]] = []
        self.error: str | None = None  # of the last job that failed

    def create(self, tree: LaunchTree) -> LiveInstance:
        """Create an instance of an application and of its submodules."""
        instance_id = f"{len(self.instances) + 1:024x}"
        instance = self.instances[instance_id] = LiveInstance(instance_id, tree, dict(tree.services))
        for path, child in tree.children.items():
            instance.links[path] = Link(self.create(child).id, LinkKind.OWN)
        return instance

    def change(self, instance: LiveInstance, tree: LaunchTree) -> None:
        """Set a new configuration for the next job, also on submodules that stay."""
        instance.before = self._configured(instance)
        links = dict(tree.services)
        for path, child in tree.children.items():
            former = instance.links.get(path)
            if former is not None and former.kind is LinkKind.OWN and self._stays(former, child):
                links[path] = former
                if self.instances[former.instance_id].tree != child:
                    self.change(self.instances[former.instance_id], child)
            else:
                links[path] = Link(self.create(child).id, LinkKind.OWN)
        for path, link in instance.links.items():  # members that a command has added
            if template_path(path) in {template_path(each) for each in tree.children}:
                links.setdefault(path, link)
        instance.tree, instance.links = tree, links

    async def run(self, instance: LiveInstance, plan: Plan, caller: Caller | None = None) -> Mapping[str, Any]:
        """Run a job to its end and return its results. Raises WorkflowFailed with the instance's error message."""
        self.jobs.append((instance.tree.path, plan.workflow))
        is_first = instance.status is InstanceStatus.REQUESTED and plan.kind == "launch"
        event = InstanceEvent.LAUNCH_STARTED if is_first else accepting_event(plan)
        instance.status = transition(instance.status, event)
        state = InstanceState.from_text(instance.state)
        job = replace(self._job(instance, plan, state), caller=caller)
        error, propagates = "The job was aborted.", True
        results: Mapping[str, Any] = {}
        succeeded = False
        try:
            results = await run_plan(job)
            succeeded = True
        except WorkflowFailed as failure:
            error, propagates = str(failure), failure.propagates
        finally:  # also if the caller was cancelled
            instance.status = status_after_job(
                InstanceStatus(plan.prior_status),
                is_destroy=plan.kind == "destroy",
                succeeded=succeeded,
                propagates=plan.propagates and propagates,
            )
            self._end(instance, job, None if succeeded else error)
        if not succeeded:
            raise WorkflowFailed(error)
        return results

    async def run_follow_ups(self) -> None:
        """Run triggered jobs until none is left. Raises EndlessTriggers."""
        for _ in range(FOLLOW_UPS):
            waiting = next((each for each in self.instances.values() if each.triggers or each.needs_refresh), None)
            if waiting is None:
                return
            if waiting.needs_refresh:
                waiting.needs_refresh = False
                self._refresh_signals(waiting)
                continue
            pending = waiting.triggers.pop(0)
            await self._run_pending(waiting, pending)
        raise EndlessTriggers(
            f"Workflows still trigger each other after {FOLLOW_UPS} jobs. Check their triggers for a cycle."
        )

    async def advance(self, seconds: float) -> None:
        """Advance the time, and run due schedules in order. Raises EndlessTriggers."""
        until = self._now() + timedelta(seconds=seconds)
        while (due := self._next_due()) is not None and due[0] <= until:
            due_at, instance, pending = due
            await self._sleep_until(due_at)
            if pending is None:
                instance.destroy_at = None
                await self._try(instance, plan_destroy(instance.status))
            else:
                instance.schedules.remove(pending)
                component = component_at(instance.tree.manifest, pending.component)
                cron = None if component is None else component.schedule.get(pending.workflow)
                again = None if cron is None else next_due(cron, due_at)
                if again is not None:
                    instance.schedules.append(PendingRun("cron", pending.component, pending.workflow, again))
                await self._run_pending(instance, pending)
            await self.run_follow_ups()
        await self._sleep_until(until)

    def _next_due(self) -> tuple[datetime, LiveInstance, PendingRun | None] | None:
        found = [
            *((each.due_at, live, each) for live in self.instances.values() for each in live.schedules if each.due_at),
            *((live.destroy_at, live, None) for live in self.instances.values() if live.destroy_at and live.is_alive),
        ]
        return min(found, key=lambda due: due[0], default=None)

    async def _run_pending(self, instance: LiveInstance, pending: PendingRun) -> None:
        if instance.is_alive:
            manifest = instance.tree.manifest
            try:
                plan = plan_trigger(manifest, pending.component, pending.workflow, instance.status)
            except BadRequest:
                return  # the new manifest has no such workflow
            await self._try(instance, plan)

    async def _try(self, instance: LiveInstance, plan: Plan) -> None:
        try:
            async with instance.turn:
                await self.run(instance, plan)
        except WorkflowFailed:
            return  # the instance has the error message

    def _end(self, instance: LiveInstance, job: JobRun, error: str | None) -> None:
        if error is not None:
            self.error = error
        if error is not None or instance.status is not InstanceStatus.FAILED:
            instance.error = error
        before, instance.values = instance.values, return_values(job.manifest, job.state)
        instance.state = job.state.to_text()
        if instance.status is InstanceStatus.DESTROYED:
            instance.triggers, instance.schedules, instance.destroy_at = [], [], None
            return
        if job.plan.configures and error is None:
            instance.before, instance.schedules = None, []
        elif job.plan.kind == "reconfigure":
            instance.schedules = []
        self._follow(instance, job, before, failed=error is not None)

    def _follow(self, instance: LiveInstance, job: JobRun, values_before: Mapping[str, Any], *, failed: bool) -> None:
        """Queue the follow-up work of a job, on this instance and linked ones."""
        moment = InstanceSnapshot(
            manifest=job.manifest,
            state=job.state,
            parent_signals=instance.parent_signals,
            links=instance.links,
            values_before=values_before,
            values_now=instance.values,
        )
        follows = follow_ups(moment, self._now(), job.plan, failed=failed)
        instance.state = job.state.to_text()
        if follows.unsettled is not None:
            self.error = instance.error = follows.unsettled
        instance.schedules = [each for each in instance.schedules if each.component not in follows.removed]
        for pending in follows.pending:
            known = {(each.component, each.workflow) for each in instance.triggers}
            if pending.kind == "cron":
                instance.schedules.append(pending)
            elif (pending.component, pending.workflow) not in known:
                instance.triggers.append(pending)
        self._push_signals(instance, job)
        if follows.signals_changed:
            for other in self.instances.values():
                if any(link.is_instance and link.instance_id == instance.id for link in other.links.values()):
                    other.needs_refresh = other.is_alive

    def _push_signals(self, instance: LiveInstance, job: JobRun) -> None:
        for path, link in instance.links.items():
            if link.kind is LinkKind.OWN and path in job.manifest.components:
                child = self.instances[link.instance_id]
                needs = submodule_signals(job.manifest, job.state, instance.parent_signals, job.component(path))
                if needs and needs != child.parent_signals:
                    child.parent_signals = needs
                    child.needs_refresh = child.is_alive

    def _refresh_signals(self, instance: LiveInstance) -> None:
        """Update the signals that the instance consumes from linked instances."""
        state = InstanceState.from_text(instance.state)
        plan = plan_destroy(instance.status)  # any plan will do: no workflow runs
        job = self._job(instance, plan, state)
        for path, link in instance.links.items():
            if link.is_instance and path in job.manifest.components and state.is_launched(path):
                values = self.instances[link.instance_id].values
                for pin, value in linked_signals(job.component(path), link, values):
                    state.publish(path, pin.interface, pin.name, value)
        before, instance.values = instance.values, return_values(job.manifest, state)
        instance.state = state.to_text()
        self._follow(instance, job, before, failed=False)

    def _job(self, instance: LiveInstance, plan: Plan, state: InstanceState) -> JobRun:
        where = ".".join(instance.tree.path)

        def log_line(level: str, text: str) -> None:
            self.lines.append((level, f"{where}: {text}" if where else text))

        return JobRun(
            job_id=f"{len(self.jobs):024x}",
            instance_id=instance.id,
            organization_id=_ORGANIZATION,
            environment_id=_ENVIRONMENT,
            plan=plan,
            graph=instance.graph(),
            environment=self.fixtures.view,
            state=state,
            journal=LogJournal(log_line),
            deps=self.deps,
            linked_instances=SimulatedInstances(self),
            links=instance.links,
            parent_signals=instance.parent_signals,
            before=instance.before,
        )

    def _configured(self, instance: LiveInstance) -> Configured:
        manifest = instance.tree.manifest
        quantity = existing_quantity(InstanceState.from_text(instance.state))
        values = configure(manifest, instance.tree.parameters)
        return Configured(
            *scaled(manifest, values, quantity),
            instance.links,
            frozenset(instance.tree.parameters),
        )

    def _stays(self, former: Link, child: LaunchTree) -> bool:
        """Return whether a submodule still has the same manifest."""
        return self.instances[former.instance_id].tree.manifest is child.manifest

    def _now(self) -> datetime:
        return self.deps.clock.now()

    async def _sleep_until(self, time: datetime) -> None:
        await asyncio.sleep(max(0.0, (time - self._now()).total_seconds()))


class SimulatedInstances:
    """Implements `runtime.contract.LinkedInstances` for the instances of a test."""

    def __init__(self, world: Simulation) -> None:
        self._world = world

    async def get(self, link: Link) -> LinkedInstance:
        live = self._live(link)
        return LinkedInstance(_name(live), live.status, live.values)

    async def push_signals(self, link: Link, signals: Mapping[str, Any]) -> None:
        self._live(link).parent_signals = signals

    async def needs_reconfiguration(self, parent: JobRun, link: Link, path: str, *, is_up: bool) -> bool:  # noqa: ARG002 - contract
        live = self._live(link)
        is_second_chance = parent.plan.kind == "reconfigure" and (not is_up or live.status is InstanceStatus.FAILED)
        return live.status is not InstanceStatus.REQUESTED and (live.before is not None or is_second_chance)

    async def cancel_abandoned(self, parent: JobRun) -> None:
        """Do nothing: a call ends together with its caller."""

    async def add_members(self, parent: JobRun, paths: Sequence[str]) -> None:
        for path in paths:
            like = next((each for each in parent.links if template_path(each) == template_path(path)), None)
            if like is None:
                raise WorkflowFailed(f"can't add {path!r} by a command: no member has had a submodule yet.")
            tree = self._live(parent.links[like]).tree
            parent.links[path] = Link(self._world.create(tree).id, LinkKind.OWN)

    async def show_members(self, parent: JobRun) -> None:
        """Do nothing: tests show links."""

    async def orphaned_instances(self, parent: JobRun) -> list[Link]:  # noqa: ARG002 - contract
        """Return none: tests don't lose instances."""
        return []

    async def offered_pins(self, link: Link) -> frozenset[str]:
        return outer_names(self._live(link).tree.manifest)

    async def required_signals(self, link: Link) -> frozenset[str]:
        return required_needs(self._live(link).tree.manifest)

    async def run(
        self,
        parent: JobRun,
        link: Link,
        workflow: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,  # noqa: ARG002 - contract; tests have no replay
    ) -> Mapping[str, Any]:
        """Run a workflow of the instance, or a command of a service. Return its results; raises WorkflowFailed."""
        if not link.is_instance:
            results: Mapping[str, Any] = self._world.fixtures.service_value(workflow) or {}
            return results
        live = self._live(link)
        refuse_deadlock(live.id, workflow)
        async with live.turn:
            if workflow == DESTROY and live.status is InstanceStatus.DESTROYED:
                return {}
            plan = plan_call(live.tree.manifest, _name(live), workflow, arguments, live.status)
            return await self._world.run(live, plan, Caller(parent, path))

    async def call_parent(
        self,
        child: JobRun,
        need: str,
        arguments: Mapping[str, Any],
        path: str,
        *,
        is_replay: bool = False,  # noqa: ARG002 - contract; tests have no replay
    ) -> list[Mapping[str, Any]]:
        """Run a command of the parent, which no job of it waits for."""
        for parent in self._world.instances.values():
            for component, link in parent.links.items():
                if link.kind is LinkKind.OWN and link.instance_id == child.instance_id:
                    refuse_deadlock(parent.id, need)
                    async with parent.turn:
                        plan = plan_passed(parent.tree.manifest, component, need, arguments, parent.status)
                        return [await self._world.run(parent, plan, Caller(child, path))]
        return []

    def _live(self, link: Link) -> LiveInstance:
        return self._world.instances[link.instance_id]


def _name(live: LiveInstance) -> str:
    return ".".join(live.tree.path)
