"""One step of a workflow: its parameters, attempts and outcome (manifest-language §5, "Steps")."""

from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed, ExpressionError
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import Step
from launchbay.model.job import StepStatus
from launchbay.model.values import BOOL, INT, CoercionError, coerce
from launchbay.runtime.caller import Caller
from launchbay.runtime.calls import call_commands, call_workflow, split_command
from launchbay.runtime.context import RunningStep
from launchbay.runtime.outputs import checked_outputs
from launchbay.runtime.run import WorkflowFailed


class StepFailed(Exception):
    """A step has failed for good. `ignored` says that the workflow goes on all the same."""

    def __init__(self, message: str, *, ignored: bool) -> None:
        super().__init__(message)
        self.ignored = ignored


async def run_step(workflow: Caller, step: Step) -> Mapping[str, Any]:
    """Run a step with its retries and return its action's outputs. Raises StepFailed when its last attempt fails."""
    execution = _Execution(workflow, step)
    return await execution.run()


class _Execution:
    def __init__(self, workflow: Caller, step: Step) -> None:
        self.workflow = workflow
        self.job = workflow.job
        self.step = step
        self.path = f"{workflow.path}/{step.name}"
        self.action = self.job.action(step.action)
        self.has_record = self.action is not None and not self.action.pure

    async def run(self) -> Mapping[str, Any]:
        journal = self.job.journal
        ignored = False
        try:
            parameters, retries, ignored = self._parameters()
            outputs = await self._attempts(parameters, retries)
        except (ActionFailed, ExpressionError, WorkflowFailed) as error:
            message = str(error)
            journal.log(self.path, "error", message)
            if self.has_record:
                journal.fail(self.path, message)
            else:
                journal.note(self.path, self.step.name, StepStatus.FAILED)
            raise StepFailed(message, ignored=ignored) from error
        if not self.has_record:
            journal.note(self.path, self.step.name, StepStatus.SUCCEEDED)
        return outputs

    def _parameters(self) -> tuple[dict[str, Any], int, bool]:
        """Interpolate the parameters, just before the step starts, and lay the environment's policies over them."""
        scope = self.workflow.scope.values
        value, warnings = self.step.parameters.evaluate(scope)
        for warning in warnings:
            self.job.journal.log(self.path, "warning", warning)
        parameters: dict[str, Any] = dict(value or {})
        retries = self._evaluate(self.step.retry_count)
        ignored = self._evaluate(self.step.ignore_fail)
        for name, policy in self.job.environment.step_policies(self.step.action).items():
            self.job.journal.log(self.path, "info", f"The environment's policy sets {name} to {policy!r}.")
            if name == "retryCount":
                retries = policy
            elif name == "ignoreFail":
                ignored = policy
            else:
                parameters[name] = policy
        return parameters, _retry_count(retries), _ignore_fail(ignored)

    def _evaluate(self, template: Template | None) -> Any:
        return None if template is None else template.evaluate(self.workflow.scope.values)[0]

    async def _attempts(self, parameters: dict[str, Any], retries: int) -> Mapping[str, Any]:
        journal = self.job.journal
        record = journal.find(self.path) if self.has_record else None
        if record is not None and record.status is StepStatus.SUCCEEDED:
            return dict(record.outputs or {})
        if record is not None and record.status is StepStatus.FAILED:
            raise ActionFailed(record.error or "The step failed.", retryable=False)
        # A step that a crash interrupted repeats its attempt: the crash is no failure of the step.
        attempt = record.attempt if record is not None else 1
        started_at = record.started_at if record is not None else self.job.surroundings.clock.now()
        running = RunningStep(self.workflow, self.step.name, self.path, started_at)
        while True:
            running.attempt = attempt
            if self.has_record:
                await journal.start(self.path, self.step.name, attempt, started_at)
            else:
                journal.note(self.path, self.step.name, StepStatus.EXECUTING)
            try:
                outputs = await self._perform(running, parameters)
            except (ActionFailed, WorkflowFailed) as error:
                if attempt > retries or (isinstance(error, ActionFailed) and not error.retryable):
                    raise
                pause_s = self.job.surroundings.retry_pacing.pause_s(attempt)
                journal.log(
                    self.path, "warning", f"Attempt {attempt} of {retries + 1} failed: {error} Next in {pause_s:g} s."
                )
                await running.sleep(pause_s)
                attempt += 1
                continue
            if self.has_record:
                journal.succeed(self.path, outputs)
            return outputs

    async def _perform(self, running: RunningStep, parameters: dict[str, Any]) -> Mapping[str, Any]:
        """Do what the step's `action` names: a built-in or third-party action, a workflow, or a peer's command."""
        name = self.step.action
        if self.action is not None:
            return checked_outputs(await running.perform(self.action, parameters))
        component = self.workflow.component
        inner_path = self.path if running.attempt == 1 else f"{self.path}~{running.attempt}"
        if name in component.workflows:
            return await call_workflow(self.workflow, self.step.name, name, parameters, inner_path)
        interface, command = split_command(component, name)
        if interface is not None:
            return await call_commands(self.workflow, interface, command, parameters, inner_path, timeout_s=None)
        raise ActionFailed(
            f"There is no action, workflow or command {name!r} here. Install the package that provides the action, "
            "or correct the name.",
            retryable=False,
        )


def _retry_count(value: Any) -> int:
    if value is None:
        return 0
    try:
        count = coerce(INT, value)
    except CoercionError as error:
        raise ActionFailed(f"retryCount: {error}", retryable=False) from error
    if not isinstance(count, int) or not 0 <= count <= limits.STEP_RETRIES_MAX:
        raise ActionFailed(f"retryCount is {count}; it may be 0 to {limits.STEP_RETRIES_MAX}.", retryable=False)
    return count


def _ignore_fail(value: Any) -> bool:
    if value is None:
        return False
    try:
        return bool(coerce(BOOL, value))
    except CoercionError as error:
        raise ActionFailed(f"ignoreFail: {error}", retryable=False) from error
