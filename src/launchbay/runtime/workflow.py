"""The workflow interpreter: runs the steps of one workflow of one component (manifest-language §5).

Ready steps run in parallel. After a step's final failure no new step starts, running siblings finish, and the workflow
fails. The interpreter records nothing itself: after a crash it repeats the whole workflow, and steps with a record in
the journal return their recorded outcome immediately.

To decide as the first run did, the repetition handles steps with a trace in the journal first. No new step starts until
each step that had failed has failed again, and after a failure the siblings that had been running still start.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from launchbay import limits
from launchbay.concurrency import Tasks, computed
from launchbay.errors import ActionFailed, ExpressionError, WorkflowFailed
from launchbay.ids import seconds_of
from launchbay.manifest.graph import Component, Pin, Step, Workflow
from launchbay.manifest.workflow_rules import ERROR
from launchbay.model.job import decision_path, step_path, workflow_path
from launchbay.model.scalars import settled
from launchbay.model.types import PinKind
from launchbay.model.values import size_of
from launchbay.runtime.commands import cancel_abandoned
from launchbay.runtime.context import report_percent
from launchbay.runtime.contract import JobRun
from launchbay.runtime.signals import ConsumedSignals, coerce_or_warn, mark_seen, signal_triggers
from launchbay.runtime.slot import paced, staying
from launchbay.runtime.state import WorkflowScope
from launchbay.runtime.step import LATE_S, StepFailed, required_seconds, run_recorded, run_step

_UNFINISHED = 99  # percent, of what still runs
_AT_ONCE = 500  # steps that are looked at before others have their turn


class Phases:
    """Which of some steps may start.

    A step starts when no other unfinished step has one of its preceding phases. A phase that no step declares is
    finished.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._unfinished: Counter[str] = Counter()
        self._followers: dict[str, list[Step]] = {}
        for step in steps:
            self._unfinished[step.phase] += 1
            for phase in dict.fromkeys(step.preceding_phases):
                self._followers.setdefault(phase, []).append(step)

    def is_ready(self, step: Step) -> bool:
        return all(self._unfinished[phase] == (phase == step.phase) for phase in step.preceding_phases)

    def end(self, step: Step) -> list[Step]:
        """Count a step as finished.

        Return the steps that may be ready by that, some of which may have started.
        """
        self._unfinished[step.phase] -= 1
        # With one left, only that one itself can have been waiting for this.
        return self._followers.get(step.phase, []) if self._unfinished[step.phase] <= 1 else []


def rounds(steps: Iterable[Step]) -> dict[str, int]:
    """Return the round in which each step would run if all steps took the same time; deadlocked steps have none."""
    candidates = list(steps)
    phases = Phases(candidates)
    found: dict[str, int] = {}
    number = 0
    while ready := {step.name: step for step in candidates if step.name not in found and phases.is_ready(step)}:
        found.update(dict.fromkeys(ready, number))
        candidates = [freed for step in ready.values() for freed in phases.end(step)]
        number += 1
    return found


@dataclass(slots=True)
class WorkflowRun:
    """One run of one workflow.

    `path` is its place in the plan, `depth` the number of enclosing calls.
    """

    job: JobRun
    component: Component
    workflow: Workflow
    path: str
    depth: int
    is_replay: bool = False
    trigger_pins: tuple[str, ...] = ()  # the signals with triggers that this run serves
    scope: WorkflowScope = field(init=False)
    signals: ConsumedSignals = field(init=False)
    is_inner: bool = False  # another run keeps its variables, `{$.step~variable}`
    sizes: dict[tuple[str, str], int] = field(default_factory=dict)  # of variables, by the run's path and their name
    returned: dict[str, Any] = field(default_factory=dict)  # its numbers remember their text, for a caller with types

    def __post_init__(self) -> None:
        """Read the signals; the workflow sees these values until it refreshes them."""
        self.scope = WorkflowScope(self.workflow, {}, {}, {})
        self.signals = ConsumedSignals(self.job, self.component, self.trigger_pins)
        self.signals.refresh()

    async def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow and return its return values; publish them as signals unless it is a macro.

        Raises WorkflowFailed with the instance's error message.
        """
        if self.depth > limits.RUNTIME_NESTING:
            raise WorkflowFailed(
                f"Workflow {self.workflow.name!r} of component {self.component.path!r} exceeds the limit of "
                f"{limits.RUNTIME_NESTING} nested calls. Check whether it calls itself."
            )
        self.scope = WorkflowScope(
            self.workflow,
            self.job.configuration.get(self.component.path, {}),
            self.job.state.component(self.component.path).variables,
            arguments,
            self.component.always_configured,
            seconds_of(self.job.job_id),
        )
        try:
            await self._run_steps()
            returned = self.returned = await self._return_values()
        finally:
            if not self.is_inner:
                self.forget()
        plain: dict[str, Any] = await computed(size_of(returned, limits.INLINE_BYTES), partial(settled, returned))
        if not self.workflow.name.startswith("."):
            await self._publish(returned, plain)
        return plain

    async def _run_steps(self) -> None:
        """Run the steps, then those of `onFailure` and `finally`.

        Raises WorkflowFailed if any list has failed. A cancelled job runs neither of them.
        """
        workflow, failed = self.workflow, None
        try:
            await self._run_in_time()
        except WorkflowFailed as failure:
            failed = failure
        if not workflow.on_failure and not workflow.finally_:
            if failed is not None:
                raise failed
            return
        self.scope.variables[ERROR] = None if failed is None else {"message": str(failed)}
        afterwards = {"onFailure": workflow.on_failure if failed is not None else (), "finally": workflow.finally_}
        for key, steps in afterwards.items():
            try:
                await _Steps(self, steps).run()
            except WorkflowFailed as failure:
                failed = _both(failed, key, failure)
        if failed is not None:
            raise failed

    async def _run_in_time(self) -> None:
        """Run the steps within the workflow's time limit, counted from its first start."""
        steps = self.workflow.steps
        if self.workflow.timeout is None:
            await _Steps(self, steps).run()
            return
        name, journal = self.workflow.name, self.job.journal
        try:
            limit_s = required_seconds(
                "timeout", (await self.job.evaluate(self.workflow.timeout, self.scope.values))[0]
            )
        except (ActionFailed, ExpressionError) as error:
            raise WorkflowFailed(f"workflow {name!r}: {error}") from error
        began, now = journal.find(decision_path(self.path, "began")), self.job.deps.clock.now()
        passed_s = 0.0 if began is None else (now - began.started_at).total_seconds()
        await self._decide("began")
        expired = decision_path(self.path, "expired")
        late = f"workflow {name!r} exceeded its timeout of {limit_s:g} s."
        if journal.find(expired) is not None:
            await self._decide("expired")
            with suppress(WorkflowFailed):
                await _Steps(self.replay(), steps).run()
            raise WorkflowFailed(late)
        try:
            with staying():  # the limit counts in this process
                async with asyncio.timeout(limit_s if began is None else max(LATE_S, limit_s - passed_s)):
                    await _Steps(self, steps).run()
        except TimeoutError:
            await cancel_abandoned(self.job)
            await self._decide("expired")
            raise WorkflowFailed(late) from None

    async def _decide(self, what: str) -> None:
        """Record that something has happened to the workflow."""
        await run_recorded(self.job, decision_path(self.path, what), what, _nothing, is_replay=self.is_replay)

    def item(self, path: str, variables: Mapping[str, Any]) -> "WorkflowRun":
        """Return this run as one item of a loop sees it."""
        run = copy.copy(self)
        run.path = path
        run.scope = self.scope.within(variables)
        run.sizes = {}
        return run

    def nested(self, workflow: Workflow, path: str) -> "WorkflowRun":
        """Return the run of a macro or workflow, whose variables this run keeps."""
        run = WorkflowRun(self.job, self.component, workflow, path, self.depth + 1, self.is_replay)
        run.is_inner, run.sizes = True, self.sizes
        return run

    def set_variable(self, variable: str, value: Any) -> None:
        """Set a variable. Raises WorkflowFailed if that is too much."""
        most = limits.VARIABLES_BYTES
        place, size = (self.path, variable), size_of(value, most)
        self.job.variables.take(size - self.sizes.get(place, 0))
        self.sizes[place] = size
        self.scope.variables[variable] = value

    def forget(self) -> None:
        """Give back what the variables of this run or item count for."""
        self.job.variables.give_back(sum(self.sizes.values()))
        self.sizes.clear()

    def replay(self) -> "WorkflowRun":
        run = copy.copy(self)
        run.is_replay = True
        return run

    async def _return_values(self) -> dict[str, Any]:
        returned: dict[str, Any] = {}
        size, most = 0, limits.VALUES_BYTES
        for name, template in self.workflow.returns.items():
            try:
                returned[name], warnings = await self.job.evaluate(template, self.scope.values, keeps_texts=True)
            except ExpressionError as error:
                raise WorkflowFailed(f"workflow {self.workflow.name!r}: return value {name!r}: {error}") from error
            at_least = size_of(returned[name], limits.INLINE_BYTES)
            size += await computed(at_least, partial(size_of, returned[name], most))
            if size > most:
                raise WorkflowFailed(
                    f"workflow {self.workflow.name!r}: with {name!r}, the return values exceed "
                    f"{most // limits.MIB} MiB ({limits.VALUE_BYTES} bytes for each value, and its "
                    "characters). Return less, such as the address of the data."
                )
            if not self.is_replay:
                for warning in warnings:
                    self.job.journal.log(self.path, "warning", f"Return value {name!r}: {warning}")
        return returned

    async def _publish(self, returned: Mapping[str, Any], plain: Mapping[str, Any]) -> None:
        self.job.state.remember(self.component.path, plain)
        for pin in self.component.pins.values():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.name in returned:
                given = returned[pin.name]
                coerced = partial(coerce_or_warn, pin.type.value_type, given, partial(self._warn_of_type, pin))
                value = await computed(size_of(given, limits.INLINE_BYTES), coerced)
                self.job.state.publish(self.component.path, pin.interface, pin.name, value)

    def _warn_of_type(self, pin: Pin, problem: str) -> None:
        if not self.is_replay:
            text = f"Signal {pin.key} has a value of a different type: {problem}"
            self.job.journal.log(self.path, "warning", text)


def _both(failed: WorkflowFailed | None, key: str, failure: WorkflowFailed) -> WorkflowFailed:
    if failed is None:
        return failure
    return WorkflowFailed(
        f"{failed} Then '{key}' failed: {failure}",
        propagates=failed.propagates,
        is_refusal=failed.is_refusal or failure.is_refusal,
    )


async def _nothing() -> Mapping[str, Any]:
    return {}


async def _others_first(done: int, count: int) -> None:
    """Let other tasks run after each _AT_ONCE of many steps."""
    if done < count and done % _AT_ONCE == 0:
        with staying():
            await asyncio.sleep(0)


class _Steps:
    """The waiting, running and failed steps of one list of a run."""

    def __init__(self, run: WorkflowRun, steps: Sequence[Step]) -> None:
        self._run = run
        self._steps = steps
        self._place = {step.name: number for number, step in enumerate(self._steps)}
        self._waiting = {step.name: step for step in self._steps}
        self._running: Tasks[Mapping[str, Any], Step] = Tasks()
        self._phases = Phases(self._steps)
        self._failures: dict[str, str] = {}
        self._is_refusal = False
        self._set_by: dict[str, Step] = {}
        self._rounds: dict[str, int] = {}
        self._percents: dict[str, int] = {}
        self._percent_sum = 0  # adding up thousands of them after each step would take seconds
        self._report_percent = (
            report_percent.get()
        )  # of the step that called this workflow, here or in another instance
        self._begun_before: set[str] = set()
        self._failed_before: set[str] = set()

    async def _look_back(self) -> None:
        """Find the steps that began before a crash."""
        run = self._run
        for start in range(0, len(self._steps), _AT_ONCE):
            for step in self._steps[start : start + _AT_ONCE]:
                record = run.job.journal.find(step_path(run.path, step.name))
                if record is not None:
                    self._begun_before.add(step.name)
                    if record.has_failed:
                        self._failed_before.add(step.name)
            await _others_first(start + _AT_ONCE, len(self._steps))

    async def run(self) -> None:
        """Run them all. Raises WorkflowFailed."""
        await self._look_back()
        candidates: Iterable[Step] = self._steps
        try:
            while True:
                await self._start_ready(candidates)
                if not self._running:
                    break
                was_held = bool(self._failed_before)
                freed: dict[str, Step] = {}
                ended = sorted(await self._running.ended(), key=lambda each: self._place[each[1].name])
                for number, (task, step) in enumerate(ended, 1):
                    self._finish(step, task)
                    freed.update((each.name, each) for each in self._phases.end(step))
                    await _others_first(number, len(ended))
                candidates = sorted(freed.values(), key=lambda each: self._place[each.name])
                if was_held and not self._failed_before:
                    candidates = list(self._waiting.values())
        finally:
            await self._running.cancel()
        if self._waiting and not self._failures:
            self._failures[next(iter(self._waiting))] = self._explain_deadlock()
        if self._failures:
            # In the order of the manifest, so that a repetition reports the same.
            messages = [self._failures[name] for name in sorted(self._failures, key=self._place.__getitem__)]
            raise WorkflowFailed(
                f"workflow {self._run.workflow.name!r}: {' '.join(messages)}", is_refusal=self._is_refusal
            )

    async def _start_ready(self, candidates: Iterable[Step]) -> None:
        pace = self._run.job.deps.pace
        starts_new = not self._failures and not self._failed_before and not self._run.is_replay
        for step in candidates:
            may_start = step.name in self._waiting and (starts_new or step.name in self._begun_before)
            if may_start and self._phases.is_ready(step):
                del self._waiting[step.name]
                await paced(pace)  # thousands of new tasks would all run in the same pass of the loop
                self._running.start(self._run_step(step), step)

    async def _run_step(self, step: Step) -> Mapping[str, Any]:
        report_percent.set(partial(self._show_percent, step))  # in this task only
        return await run_step(self._run, step)

    def _show_percent(self, step: Step, percent: int) -> None:
        if not self._run.is_replay:
            self._run.job.journal.progress(step_path(self._run.path, step.name), percent)
            self._report(step, percent)

    def _report(self, step: Step, percent: int) -> None:
        """Report how far the whole workflow is to the step that called it."""
        before = self._percents.get(step.name, 0)
        if percent > before:
            self._percents[step.name] = percent
            self._percent_sum += percent - before
        self._report_percent(min(_UNFINISHED, self._percent_sum // len(self._steps)))

    def _finish(self, step: Step, task: asyncio.Task[Mapping[str, Any]]) -> None:
        journal = self._run.job.journal
        path = step_path(self._run.path, step.name)
        if not self._run.is_replay:
            self._report(step, 100)
        self._failed_before.discard(step.name)
        if task.cancelled():  # by its own action: run() doesn't get here if the workflow is cancelled
            text = f"The action {step.action!r} cancelled its own step."
            journal.fail(path, step.name, text, 1)
            self._failures[step.name] = f"step {step.name!r} failed: {text}"
            return
        try:
            outputs = task.result()
        except StepFailed as failure:
            self._is_refusal = self._is_refusal or failure.is_refusal
            if not failure.ignored:
                self._failures[step.name] = f"step {step.name!r} failed: {failure}"
            elif step.name not in self._begun_before:
                journal.log(path, "warning", "Ignored the failure (ignoreFail).")
            return
        try:
            for variable, output in step.outputs.items():
                self._set(step, variable, outputs.get(output))
        except WorkflowFailed as failure:
            self._failures[step.name] = f"with the outputs of step {step.name!r}, {failure}"

    def _set(self, step: Step, variable: str, value: Any) -> None:
        """Set a variable.

        Of parallel steps that set the same one, the last in the manifest always wins.
        """
        setter = self._set_by.get(variable)
        if setter is not None and self._rank(setter) > self._rank(step):
            return
        self._set_by[variable] = step
        self._run.set_variable(variable, value)

    def _rank(self, step: Step) -> tuple[int, int]:
        if not self._rounds:
            self._rounds = rounds(self._steps)
        return self._rounds[step.name], self._place[step.name]

    def _explain_deadlock(self) -> str:
        names = ", ".join(repr(name) for name in self._waiting)
        if self._run.is_replay:
            return f"it was interrupted before {names}."
        return f"the steps {names} wait for each other's phases and can't start. Break the cycle of precedingPhases."


async def run_triggered(job: JobRun, component: Component, name: str) -> None:
    """Run a workflow for a trigger or the manifest's own schedule. Raises WorkflowFailed."""
    if name not in component.workflows:
        raise WorkflowFailed(f"workflow {name!r} no longer exists.")
    trigger_pins = tuple(key for key, workflow in signal_triggers(component).items() if workflow == name)
    await run_if_present(job, component, name, trigger_pins)


async def run_if_present(job: JobRun, component: Component, name: str, trigger_pins: tuple[str, ...] = ()) -> None:
    """Run a workflow if the component has it; either way, its trigger pins count as seen. Raises WorkflowFailed."""
    workflow = component.workflows.get(name)
    if workflow is None:
        mark_seen(job.manifest, job.state, job.parent_signals, component, trigger_pins)
        return
    path = workflow_path(component.path, name)
    await WorkflowRun(job, component, workflow, path, 0, trigger_pins=trigger_pins).run({})
