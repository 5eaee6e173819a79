"""Carries out the plan of a job: launch, command, trigger, reconfiguration, destroy (language §3, §5 and §7).

`run_plan` is the entry. A reconfiguration stops removed components, starts new ones, applies new values to the others,
and then runs the workflows that changed pins trigger. Components that stay keep their signals and variables.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from launchbay import limits
from launchbay.actions.contract import ActionCall, Document, SupportsTeardown
from launchbay.actions.plan import PlansTeardown
from launchbay.concurrency import Tasks
from launchbay.errors import ActionFailed, NotApproved, WorkflowFailed
from launchbay.manifest.configuration import Change, ComponentChange, Configured, difference, restarting, triggered
from launchbay.manifest.graph import Component, Workflow, required_components
from launchbay.manifest.scaling import template_path
from launchbay.manifest.v1 import in_component
from launchbay.model.instance import Link
from launchbay.model.job import StepStatus, component_of, segment, step_path, workflow_path
from launchbay.model.types import PinKind
from launchbay.planning.acceptance import FORGETS
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.runtime.commands import SentCommand, collect_results, send, unbound
from launchbay.runtime.context import StepRun
from launchbay.runtime.contract import CommandCall, DocumentKey, JobRun
from launchbay.runtime.machines import release_all, release_component
from launchbay.runtime.signals import missing_for_launch, refresh_linked_signals
from launchbay.runtime.slot import paced
from launchbay.runtime.state import Graph
from launchbay.runtime.step import run_recorded
from launchbay.runtime.workflow import WorkflowRun, run_triggered

TEARDOWN = "take-down"
_NOTHING = Workflow(name=TEARDOWN, parameters={}, steps=(), returns={})


async def run_plan(job: JobRun) -> Mapping[str, Any]:
    """Carry out the job's plan and return the results of a command by name.

    Raises WorkflowFailed with the instance's error message.
    """
    if job.plan.kind in {"command", "trigger"}:
        await refresh_linked_signals(job)
    match job.plan.kind:
        case "launch":
            await launch(job)
        case "destroy" if job.plan.forgets:
            await _forget(job)
        case "destroy":
            await destroy(job)
        case "command":
            return await _run_command(job)
        case "reconfigure":
            await reconfigure(job)
        case "trigger":
            await _run_triggered(job)
        case "refused":
            raise WorkflowFailed(job.plan.refusal or "The job was refused.")
    return {}


async def _run_command(job: JobRun) -> Mapping[str, Any]:
    path, name = job.plan.component, job.plan.component_workflow
    assert path is not None
    assert name is not None
    if path in job.manifest.components:
        return await _command(job, path, name)
    # The command is bound to a template of a Scaler, so it goes to every member.
    paths = [each for each in job.manifest.order if template_path(each) == path]
    if not paths:
        raise WorkflowFailed(f"Can't run {name!r}: component {path!r} has no members.")
    answers = await asyncio.gather(*(_command(job, each, name) for each in paths), return_exceptions=True)
    # All members have finished; report the first failure in their order.
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return collect_results([answer for answer in answers if not isinstance(answer, BaseException)])


async def _command(job: JobRun, path: str, name: str) -> Mapping[str, Any]:
    component = job.component(path)
    pin = component.pins.get(f"{job.plan.interface}.{name}")
    if pin is not None and pin.type.kind is PinKind.SEND_COMMAND:
        return await _command_of_child(job, path, name)
    call = CommandCall(
        sender=None,
        interface=job.plan.interface,
        command=name,
        arguments=job.plan.arguments,
        path=workflow_path(path, name),
        depth=0,
    )
    try:
        return await job.component_type(component).command(job, component, call)
    except WorkflowFailed as failure:
        raise WorkflowFailed(in_component(path, str(failure))) from failure


async def _command_of_child(job: JobRun, path: str, name: str) -> Mapping[str, Any]:
    """Send a command that the instance of a submodule has passed up."""
    sent = SentCommand(
        sender=path,
        interface=job.plan.interface,
        command=name,
        arguments=job.plan.arguments,
        path=workflow_path(path, name),
        depth=0,
    )
    try:
        results = await send(job, sent)
    except ActionFailed as failure:
        raise WorkflowFailed(str(failure)) from failure
    if not results:
        raise WorkflowFailed(unbound(sent))
    return results[0] if len(results) == 1 else collect_results(results)


async def _run_triggered(job: JobRun) -> None:
    path, name = job.plan.component, job.plan.component_workflow
    assert path is not None
    assert name is not None
    if path not in job.manifest.components:
        raise WorkflowFailed(f"Component {path!r} no longer exists.")
    try:
        await run_triggered(job, job.component(path), name)
    except WorkflowFailed as failure:
        raise WorkflowFailed(in_component(path, str(failure))) from failure


async def launch(job: JobRun, paths: Collection[str] | None = None) -> None:
    """Launch all components or those with these paths, independent ones in parallel (language §3, `required`).

    A component starts when its required interfaces are filled. After a failure nothing more starts, and running
    launches finish. Raises WorkflowFailed that names every failed component.

    After a crash the launch is repeated like a workflow (`runtime/workflow.py`): launches that had begun come first,
    and no other starts until each component that had failed has failed again.
    """
    await _Launch(job, job.manifest.order if paths is None else paths).run()


class _Launch:
    def __init__(self, job: JobRun, paths: Collection[str]) -> None:
        self._job = job
        # Components without workflows publish immediately. Start them first, so that all others see their signals.
        chosen = set(paths)
        order = [path for path in job.manifest.order if path in chosen]
        order.sort(key=lambda path: bool(job.component(path).workflows))
        self._waiting = dict.fromkeys(order)
        self._running: Tasks[None, str] = Tasks()
        self._failures: dict[str, str] = {}
        self._is_refusal = False
        self._changed: set[str] = set()
        self._dependents: dict[str, list[str]] = {}
        for path in order:
            for provider in required_components(job.component(path)):
                self._dependents.setdefault(provider, []).append(path)
        self._failed_before = self._find_failed()
        self._begun_before = self._find_begun()

    async def run(self) -> None:
        with self._job.state.watched(self._running.wake) as self._changed:
            await self._run()

    async def _run(self) -> None:
        self._job.state.begin_launch(self._waiting)
        candidates = list(self._waiting)
        try:
            while True:
                await self._start(candidates)
                if not self._running:
                    break
                ended = await self._running.ended()
                was_held = bool(self._failed_before)
                self._record_finished(ended)
                candidates = self._candidates(after_hold=was_held and not self._failed_before)
        finally:
            await self._running.cancel()
        self._raise_failures()

    async def _start(self, candidates: list[str]) -> None:
        job = self._job
        starts_new = not self._failures and not self._failed_before
        for path in candidates:
            may_start = path in self._waiting and (starts_new or path in self._begun_before)
            if may_start and not missing_for_launch(job, job.component(path)):
                del self._waiting[path]
                await paced(job.deps.pace)  # thousands of new tasks would all run in the same pass of the loop
                self._running.start(self._launch(path), path)

    async def _launch(self, path: str) -> None:
        component = self._job.component(path)
        await self._job.component_type(component).launch(self._job, component)

    def _record_finished(self, ended: list[tuple[asyncio.Task[None], str]]) -> None:
        job = self._job
        for task, path in sorted(ended, key=lambda each: each[1]):
            failed_before = self._failed_before.pop(path, None)
            try:
                task.result()
            except WorkflowFailed as failure:
                self._failures[path] = failed_before or str(failure)
                self._is_refusal = self._is_refusal or failure.is_refusal
            else:
                if failed_before is None:
                    job.state.mark_launched(path)
                else:
                    self._failures[path] = failed_before
            if path in self._failures:
                job.journal.fail(workflow_path(path, LAUNCH), LAUNCH, self._failures[path], 1)
                job.state.abandon([path, *(each for each in self._waiting if each not in self._begun_before)])

    def _candidates(self, *, after_hold: bool) -> list[str]:
        """Return waiting components whose missing signals may have been published."""
        news = sorted(self._changed)
        self._changed.clear()
        if after_hold:
            return list(self._waiting)
        return list(dict.fromkeys(each for path in news for each in self._dependents.get(path, ())))

    def _raise_failures(self) -> None:
        job = self._job
        if not self._failures:
            self._failures = {path: "; ".join(missing_for_launch(job, job.component(path))) for path in self._waiting}
        if self._failures:
            messages = (in_component(path, text) for path, text in sorted(self._failures.items()))
            raise WorkflowFailed(" ".join(messages), is_refusal=self._is_refusal)

    def _find_failed(self) -> dict[str, str]:
        """Return the components whose launch failed before a crash, with the reasons."""
        failed: dict[str, str] = {}
        for path in self._waiting:
            record = self._job.journal.find(workflow_path(path, LAUNCH))
            if record is not None and record.status is StepStatus.FAILED:
                failed[path] = record.error or "the launch failed."
        return failed

    def _find_begun(self) -> set[str]:
        """Return the components whose launch must have begun before a crash."""
        if not (traces := self._job.journal.traces()):
            return set()
        traced = {component_of(path) for path in traces}
        begun = {path for path in self._waiting if segment(path) in traced}
        open_paths = list(begun)
        while open_paths:
            for provider in required_components(self._job.component(open_paths.pop())) - begun:
                begun.add(provider)
                open_paths.append(provider)
        # A component that requires nothing starts immediately.
        return begun | {path for path in self._waiting if not required_components(self._job.component(path))}


@dataclass(frozen=True, slots=True)
class _Stages:
    stops: list[ComponentChange]
    starts: list[str]
    stays: list[ComponentChange]


async def reconfigure(job: JobRun) -> None:
    """Apply the new configuration. Raises WorkflowFailed.

    A triggered workflow whose status isn't propagated fails the job, but not the instance (`propagates`).
    """
    after = Configured(job.manifest, job.configuration, job.links)
    # A failed submodule is reconfigured without changes: that retries the components that never launched.
    before = job.before or after
    changes = restarting(difference(before, after), job.state.was_launched)
    for change in changes:
        if change.change is Change.CHANGES:
            job.state.drop_returned(change.path, change.changed_pins)
    stages = _stages(changes)
    failures = await destroy_orphaned_instances(job, spared=list(before.links.values()))
    failures += await _stop(job, before, stages.stops)
    if failures:
        raise WorkflowFailed(" ".join(failures))
    for change in stages.stays:
        component = job.component(change.path)
        try:
            await job.component_type(component).reconfigure(job, component)
        except WorkflowFailed as failure:
            raise WorkflowFailed(f"Component {change.path!r}: {failure}") from failure
    if stages.starts:
        await launch(job, stages.starts)
    await _run_triggers(job, changes)


def _stages(changes: list[ComponentChange]) -> _Stages:
    stages = _Stages([], [], [])
    for change in changes:
        if change.change is Change.STOPS:
            stages.stops.append(change)
        elif change.change is Change.STARTS:
            stages.starts.append(change.path)
        else:
            stages.stays.append(change)
    return stages


async def _stop(job: JobRun, before: Configured, stops: list[ComponentChange]) -> list[str]:
    """Destroy removed components, as they were configured, and forget them; return the failures."""
    former = replace(job, graph=Graph(before.manifest, before.configuration), links=dict(before.links))
    failures: list[str] = []
    for change in stops:
        component = before.manifest.components[change.path]
        try:
            await destroy_component(former, component)
        except WorkflowFailed as failure:
            failures.append(f"Can't destroy component {change.path!r}: {failure}")
        else:
            job.state.forget(change.path)
            job.stopped.add(change.path)
    return failures


async def _run_triggers(job: JobRun, changes: list[ComponentChange]) -> None:
    failures: list[str] = []
    propagates = False
    for path, workflow in triggered(job.manifest, changes):
        component = job.component(path)
        try:
            await run_triggered(job, component, workflow)
        except WorkflowFailed as failure:
            failures.append(in_component(path, str(failure)))
            propagates = propagates or workflow in component.propagate_status
    if failures:
        raise WorkflowFailed(" ".join(failures), propagates=propagates)


async def _forget(job: JobRun) -> None:
    """Delete what is kept about an observed instance.

    All that it describes stays (decision 0232).
    """
    job.journal.log(None, "info", FORGETS)
    for key in await job.deps.documents.list_by_instance(job):
        await job.deps.documents.delete(job, key)
    for path in job.state.paths():
        job.state.forget(path)


async def destroy(job: JobRun) -> None:
    """Destroy all components in reverse launch order; a failure doesn't stop the others.

    Always releases machines and tears documents down, whether or not a workflow does it. Raises WorkflowFailed that
    names each component that failed and everything that is left.
    """
    failures = await _teardown_former(job)
    for path in reversed(job.manifest.order):
        try:
            component = job.component(path)
            await job.component_type(component).destroy(job, component)
        except WorkflowFailed as failure:
            failures.append(in_component(path, str(failure)))
    failures += await destroy_orphaned_instances(job)
    failures += await teardown_documents(job)
    failures += await release_all(job)
    if failures:
        raise WorkflowFailed(" ".join(failures))


async def _teardown_former(job: JobRun) -> list[str]:
    """Stop what a reconfiguration that never ran should have stopped; return the failures."""
    if job.before is None:
        return []
    changes = difference(job.before, Configured(job.manifest, job.configuration, job.links))
    return await _stop(job, job.before, [each for each in changes if each.change is Change.STOPS])


async def destroy_orphaned_instances(job: JobRun, spared: Collection[Link] = ()) -> list[str]:
    """Destroy own instances that an earlier reconfiguration couldn't; return the failures."""
    failures: list[str] = []
    for link in await job.linked_instances.orphaned_instances(job):
        if link not in spared:
            try:
                await job.linked_instances.run(job, link, DESTROY, {}, workflow_path(link.instance_id, DESTROY))
            except WorkflowFailed as failure:
                failures.append(f"The former submodule {link.instance_id}: {failure}")
    return failures


async def destroy_component(job: JobRun, component: Component) -> None:
    """Destroy one component of a running instance, and release its machines even if that fails.

    Raises WorkflowFailed that names what is left.
    """
    failures: list[str] = []
    try:
        await job.component_type(component).destroy(job, component)
    except WorkflowFailed as failure:
        failures.append(str(failure))
    failures += await teardown_documents(job, component.path)
    failures += await release_component(job, component.path)
    if failures:
        raise WorkflowFailed(" ".join(failures))


async def teardown_documents(job: JobRun, component: str | None = None) -> list[str]:
    """Have actions destroy what their documents describe, of a component or the instance; return the failures.

    This happens whether or not a workflow does it (`actions.contract.SupportsTeardown`).
    """
    try:
        keys = await job.deps.documents.list_by_instance(job)
    except ActionFailed as error:
        return [str(error)]
    failures: list[str] = []
    for key in keys:
        if component is None or key.component == component:
            try:
                await _teardown_document(job, key)
            except WorkflowFailed as failure:
                what = f"Can't destroy {key.name!r} of {key.action}"
                failures.append(f"{what} in component {key.component!r}: {failure}")
    return failures


async def _teardown_document(job: JobRun, key: DocumentKey) -> None:
    path = step_path(workflow_path(key.component, TEARDOWN), f"{key.action} {key.name}")

    async def work() -> Mapping[str, Any]:
        return await _run_teardown(job, key, path)

    await run_recorded(job, path, f"{TEARDOWN} {key.name}", work)


async def _run_teardown(job: JobRun, key: DocumentKey, path: str) -> Mapping[str, Any]:
    action = job.deps.actions.find(key.action)
    if not isinstance(action, SupportsTeardown):
        raise ActionFailed(f"The action {key.action!r} is no longer installed.", "Install its package.")
    running = _teardown_run(job, key, path)
    try:
        async with running.noting_refusal() if job.plan.held else nullcontext():
            call = await _teardown_call(job, key, path, action, running)
            # A timeout isn't a failure: nobody knows how far it came.
            async with asyncio.timeout(limits.TEARDOWN_S), running.noting_failure():
                await action.teardown(call, key.name)
    except TimeoutError:
        raise ActionFailed(f"It exceeded its limit of {limits.TEARDOWN_S:g} s.") from None
    return {}


async def _teardown_call(job: JobRun, key: DocumentKey, path: str, action: object, running: StepRun) -> ActionCall:
    """Return the call, with what was approved, if anything. Raises NotApproved."""
    approved = await job.deps.approved_plans.artifact(job, path) if job.plan.held else None
    stored = None if approved is None else await job.deps.documents.read(job, key)
    if approved is not None and _is_of_document(approved, action, stored):
        if stored is not None and not approved.endswith(_digest(stored)):
            raise NotApproved("The stored document has changed since the plan was approved. Nothing was done.")
        approved = None
    return ActionCall({}, running) if approved is None else await running.approved_call(approved, {}, {})


def teardown_call(job: JobRun, key: DocumentKey, path: str) -> ActionCall:
    """Return the call that plans to destroy what a document describes.

    `path` is its place in the job.
    """
    return ActionCall({}, _teardown_run(job, key, path))


def _teardown_run(job: JobRun, key: DocumentKey, path: str) -> StepRun:
    component = job.manifest.components.get(key.component) or _former(key.component)
    workflow = WorkflowRun(job, component, _NOTHING, workflow_path(key.component, TEARDOWN), depth=0)
    return StepRun(workflow, path, key.action, job.deps.clock.now())


def teardown_artifact(action: object, document: Document) -> bytes:
    """Return the digest of a document.

    An approved teardown is held to it if its action has no artifact of its own. Servers of an earlier version take 32
    bytes for a digest, and give all else to the action.
    """
    return (_OF_DOCUMENT if isinstance(action, PlansTeardown) else b"") + _digest(document)


def _is_of_document(approved: bytes, action: object, stored: Document | None) -> bool:
    """Return whether an artifact is a document's digest, also of an earlier version."""
    if approved.startswith(_OF_DOCUMENT):
        return True
    if isinstance(action, PlansTeardown):
        return stored is not None and approved == _digest(stored)
    return len(approved) == _DIGEST_BYTES


def _digest(document: Document) -> bytes:
    return hashlib.sha256(document.data).digest()


_OF_DOCUMENT = b"document:"
_DIGEST_BYTES = hashlib.sha256().digest_size


def _former(path: str) -> Component:
    """Return a stub for a component that is no longer in the manifest."""
    return Component(path=path, type="", pins={}, configuration={}, required=(), peers={})
