"""The workflow interpreter: runs the steps of one workflow of one component (manifest-language §5).

Ready steps run in parallel. When a step fails for good no new step starts, running siblings finish, and the workflow
fails. The interpreter keeps no record of its own: after a crash the whole workflow is interpreted again, and steps with
a record in the journal give their recorded outcome at once.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay import limits
from launchbay.errors import ExpressionError
from launchbay.manifest.graph import Component, Step, Workflow
from launchbay.model.values import PinKind
from launchbay.runtime.phases import ready_steps
from launchbay.runtime.run import JobRun, WorkflowFailed
from launchbay.runtime.scope import WorkflowScope
from launchbay.runtime.signals import ConsumedSignals
from launchbay.runtime.step import StepFailed, run_step


@dataclass(slots=True)
class WorkflowRun:
    """One run of one workflow. `path` is its place in the plan, and `depth` how many calls lie around it."""

    job: JobRun
    component: Component
    workflow: Workflow
    path: str
    depth: int
    scope: WorkflowScope = field(init=False)
    signals: ConsumedSignals = field(init=False)

    def __post_init__(self) -> None:
        """Take the signals as they are now: the workflow sees them so until it refreshes them."""
        self.signals = ConsumedSignals(self.job, self.component)
        self.signals.refresh()

    async def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow and return its return values; publishes them as signals unless it is a macro.

        Raises WorkflowFailed with the sentence for the instance's error message.
        """
        if self.depth > limits.RUNTIME_NESTING:
            raise WorkflowFailed(
                f"Workflow {self.workflow.name!r} of component {self.component.path!r} is nested more than "
                f"{limits.RUNTIME_NESTING} calls deep; does it call itself?"
            )
        self.scope = WorkflowScope(
            self.workflow,
            self.job.configuration.get(self.component.path, {}),
            self.job.state.component(self.component.path).variables,
            arguments,
        )
        await self._run_steps()
        returned = self._return_values()
        if not self.workflow.name.startswith("."):
            self._publish(returned)
        return returned

    def nested(self, component: Component, workflow: Workflow, path: str) -> "WorkflowRun":
        """Return a run of another workflow, called from this one."""
        return WorkflowRun(self.job, component, workflow, path, self.depth + 1)

    async def _run_steps(self) -> None:
        waiting = {step.name: step for step in self.workflow.steps}
        running: dict[asyncio.Task[Mapping[str, Any]], Step] = {}
        failures: list[str] = []
        try:
            while waiting or running:
                if not failures:
                    for step in ready_steps(waiting.values(), running.values()):
                        running[asyncio.create_task(run_step(self, step))] = waiting.pop(step.name)
                if not running:
                    if not failures:
                        failures.append(self._explain_deadlock(waiting))
                    break
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                # Outputs are taken in the order of the manifest, so that a rerun fills variables in the same order.
                for task in sorted(done, key=lambda task: self.workflow.steps.index(running[task])):
                    self._finish(running.pop(task), task, failures)
        finally:
            for task in running:
                task.cancel()
            if running:
                await asyncio.wait(running)
        if failures:
            raise WorkflowFailed(f"workflow {self.workflow.name!r}: {' '.join(failures)}")

    def _finish(self, step: Step, task: asyncio.Task[Mapping[str, Any]], failures: list[str]) -> None:
        try:
            outputs = task.result()
        except StepFailed as failure:
            if failure.ignored:
                self.job.journal.log(f"{self.path}/{step.name}", "warning", "The failure is ignored (ignoreFail).")
            else:
                failures.append(f"step {step.name!r} failed: {failure}")
            return
        for variable, output in step.outputs.items():
            self.scope.set(variable, outputs.get(output))

    def _explain_deadlock(self, waiting: Mapping[str, Step]) -> str:
        names = ", ".join(sorted(waiting))
        return (
            f"the steps {names} wait for each other's phases and can never start; break the circle of precedingPhases."
        )

    def _return_values(self) -> dict[str, Any]:
        returned: dict[str, Any] = {}
        for name, template in self.workflow.returns.items():
            try:
                returned[name], warnings = template.evaluate(self.scope.values)
            except ExpressionError as error:
                raise WorkflowFailed(f"workflow {self.workflow.name!r}: return value {name!r}: {error}") from error
            for warning in warnings:
                self.job.journal.log(self.path, "warning", f"Return value {name!r}: {warning}")
        return returned

    def _publish(self, returned: Mapping[str, Any]) -> None:
        self.job.state.remember(self.component.path, returned)
        for pin in self.component.pins.values():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.name in returned:
                self.job.state.publish(self.component.path, pin.interface, pin.name, returned[pin.name])
