"""One step of a workflow: its parameters, attempts and outcome (manifest-language §5, "Steps")."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import msgspec
from structlog.contextvars import bound_contextvars

from launchbay import limits
from launchbay.errors import ActionFailed, ExpressionError, Fenced, LaunchbayError, WorkflowFailed
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import Step
from launchbay.model.job import StepStatus, attempt_path, step_path
from launchbay.model.types import BOOL, INT
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.context import StepRun, WorkflowContext, call_commands, call_workflow, describe, split_command
from launchbay.runtime.contract import JobRun
from launchbay.runtime.slot import uninterruptible
from launchbay.telemetry.tracing import Attributes, tracing

_OF_THE_RUNTIME = frozenset({"retryCount", "ignoreFail"})


def validate_outputs(outputs: object) -> dict[str, Any]:
    """Return the outputs as the journal will return them, so that a repetition after a crash decides the same.

    Raises ActionFailed if they aren't a JSON object or are too large.
    """
    try:
        encoded = msgspec.json.encode(outputs)
    except (TypeError, ValueError, RecursionError) as error:
        raise ActionFailed(f"The action's outputs aren't valid JSON: {error}", retryable=False) from error
    if len(encoded) > limits.STEP_OUTPUT_BYTES:
        raise ActionFailed(
            f"The action's outputs have {len(encoded)} bytes (limit: {limits.STEP_OUTPUT_BYTES}).", retryable=False
        )
    try:
        decoded: dict[str, Any] = msgspec.json.decode(encoded, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise ActionFailed(f"The action's outputs aren't a map: {error}", retryable=False) from error
    return decoded


class StepFailed(LaunchbayError):
    """The final failure of a step. If `ignored`, the workflow continues."""

    def __init__(self, message: str, *, ignored: bool) -> None:
        super().__init__(message)
        self.ignored = ignored


async def run_step(workflow: WorkflowContext, step: Step) -> Mapping[str, Any]:
    """Run a step with its retries and return its outputs. Raises StepFailed if the last attempt fails."""
    return await _Execution(workflow, step).run()


class _Execution:
    def __init__(self, workflow: WorkflowContext, step: Step) -> None:
        self.workflow = workflow
        self.job = workflow.job
        self.step = step
        self.path = step_path(workflow.path, step.name)
        self.action = self.job.deps.actions.find(step.action)
        self.has_effect = self.action is not None and not self.action.pure
        self.earlier = self.job.journal.find(self.path)
        self.step_run = StepRun(
            workflow,
            self.path,
            step.action,
            self.job.deps.clock.now() if self.earlier is None else self.earlier.started_at,
        )

    async def run(self) -> Mapping[str, Any]:
        earlier = self.earlier
        if earlier is not None and earlier.status is StepStatus.SUCCEEDED and earlier.outputs is not None:
            return self._replayed(earlier.outputs)
        ignored = False
        try:
            self.job.budget.take()
            policies = self.job.environment.step_policies(self.step.action)
            retries = _retry_count(self._setting("retryCount", self.step.retry_count, policies))
            ignored = _ignore_fail(self._setting("ignoreFail", self.step.ignore_fail, policies))
            parameters = self._parameters(policies)
            async with uninterruptible() if self.has_effect else nullcontext():
                outputs = await self._attempts(parameters, retries)
        except (ActionFailed, ExpressionError, WorkflowFailed) as error:
            message = str(error) or f"The action {self.step.action!r} failed without a message."
            if not self.workflow.is_replay and (earlier is None or earlier.status is not StepStatus.FAILED):
                self.job.journal.log(self.path, "error", message)
                self.job.journal.fail(self.path, self.step.name, message, self.step_run.attempt)
            raise StepFailed(message, ignored=ignored) from error
        return outputs

    def _replayed(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return recorded outputs, and apply them to the instance's machines."""
        try:
            self.step_run.apply_outputs(self.action, outputs)
        except ActionFailed as error:
            raise StepFailed(str(error), ignored=False) from error
        return dict(outputs)

    def _setting(self, name: str, template: Template | None, policies: Mapping[str, Any]) -> Any:
        """Return a parameter of the runtime. It is read first, so it also applies if other parameters are invalid."""
        if name in policies:
            return policies[name]
        return None if template is None else template.evaluate(self.workflow.scope.values)[0]

    def _parameters(self, policies: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate the parameters just before the step starts; policies of the environment override them."""
        value, warnings = self.step.parameters.evaluate(self.workflow.scope.values)
        if self.earlier is None:  # otherwise they are in the log
            for warning in warnings:
                self.job.journal.log(self.path, "warning", warning)
            for name in policies:  # not its value, which may be a secret
                self.job.journal.log(self.path, "info", f"An environment policy sets the parameter {name!r}.")
        parameters: dict[str, Any] = dict(value or {})
        parameters.update({name: policy for name, policy in policies.items() if name not in _OF_THE_RUNTIME})
        return parameters

    async def _attempts(self, parameters: dict[str, Any], retries: int) -> Mapping[str, Any]:
        earlier = self.earlier
        if earlier is not None and earlier.status is StepStatus.FAILED:
            await self._replay_failed_attempts(parameters, earlier.attempt)
            raise ActionFailed(earlier.error or "The step failed.", retryable=False)
        # After a crash the step repeats the interrupted attempt: a crash doesn't count as a failed attempt.
        attempt = 1 if earlier is None else earlier.attempt
        await self._replay_failed_attempts(parameters, attempt - 1)
        while True:
            self.step_run.attempt = attempt
            await self._begin(attempt)
            try:
                with bound_contextvars(step=self.path), self._span(attempt):
                    outputs = await self._run_attempt(self.workflow, self.step_run, parameters)
            except (ActionFailed, WorkflowFailed) as error:
                is_final = attempt > retries or (isinstance(error, ActionFailed) and not error.retryable)
                if is_final or self.workflow.is_replay:
                    raise
                await self._pause(attempt, retries, error)
                attempt += 1
                continue
            self._succeed(outputs)
            return outputs

    def _span(self, attempt: int) -> AbstractContextManager[Any]:
        if self.step.action is None or not tracing.is_on:
            return nullcontext()
        about: Attributes = {
            "launchbay.step": self.path,
            "launchbay.action": self.step.action,
            "launchbay.attempt": attempt,
        }
        return tracing.span(f"step {self.step.name}", about)

    async def _replay_failed_attempts(self, parameters: dict[str, Any], attempts: int) -> None:
        """Repeat what failed attempts changed in the instance's state through the workflows that they called."""
        if self.has_effect:
            return
        past = self.workflow.replay()
        for attempt in range(1, attempts + 1):
            running = StepRun(past, self.path, self.step.action, self.step_run.started_at)
            running.attempt = attempt
            try:
                await self._run_attempt(past, running, parameters)
            except (ActionFailed, WorkflowFailed):
                continue

    async def _begin(self, attempt: int) -> None:
        if self.workflow.is_replay:
            if self.has_effect:
                raise WorkflowFailed(f"step {self.step.name!r} was interrupted.")
        elif self.has_effect or attempt > 1:
            # The success of a call isn't recorded, but its attempts are: the calls of earlier attempts have ended.
            # The start of a wait is as good as its record: if a crash takes that, it starts again at most LAZY_S later.
            durable = attempt > 1 or not getattr(self.action, "starts_unnoticed", False)
            await self.job.journal.start(self.path, self.step.name, attempt, self.step_run.started_at, durable=durable)
        else:
            self.job.journal.note(self.path, self.step.name, StepStatus.EXECUTING)

    async def _pause(self, attempt: int, retries: int, error: Exception) -> None:
        delay_s = self.job.deps.retry_backoff.delay_s(attempt)
        self.job.journal.attempt_failed(self.path, str(error), delay_s)
        text = f"Attempt {attempt} of {retries + 1} failed: {error} Retrying in {delay_s:g} s."
        self.job.journal.log(self.path, "warning", text)
        await self.step_run.sleep(delay_s)

    def _succeed(self, outputs: Mapping[str, Any]) -> None:
        if self.workflow.is_replay:
            return
        if self.has_effect:
            self.step_run.apply_outputs(self.action, outputs)
            self.job.journal.succeed(self.path, outputs)
        else:
            self.job.journal.note(self.path, self.step.name, StepStatus.SUCCEEDED)

    async def _run_attempt(
        self, workflow: WorkflowContext, running: StepRun, parameters: dict[str, Any]
    ) -> Mapping[str, Any]:
        """Run what the step's `action` names: an action, a workflow, or a peer's command."""
        name = self.step.action
        if self.action is not None:
            return validate_outputs(await running.run_action(self.action, parameters, self.step.parameters.expressions))
        component = workflow.component
        path = attempt_path(self.path, running.attempt)
        if name in component.workflows:
            return await call_workflow(workflow, self.step.name, name, parameters, path)
        interface, command = split_command(component, name)
        if interface is not None:
            return await call_commands(workflow, interface, command, parameters, path, timeout_s=None)
        raise ActionFailed(
            f"Unknown action, workflow or command {name!r}. Install the package that provides the action, "
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
        raise ActionFailed(f"retryCount must be 0 to {limits.STEP_RETRIES_MAX}, not {count}.", retryable=False)
    return count


def _ignore_fail(value: Any) -> bool:
    if value is None:
        return False
    try:
        return bool(coerce(BOOL, value))
    except CoercionError as error:
        raise ActionFailed(f"ignoreFail: {error}", retryable=False) from error


async def run_recorded(
    job: JobRun, path: str, name: str, work: Callable[[], Awaitable[Mapping[str, Any]]], *, is_replay: bool = False
) -> Mapping[str, Any]:
    """Do the work and return its outputs, or its recorded outputs. `path` is its place in the job's plan.

    Work that a crash interrupted is repeated. `is_replay` only returns the recorded outcome. Raises WorkflowFailed.
    """
    journal, clock = job.journal, job.deps.clock
    earlier = journal.find(path)
    if earlier is not None and earlier.status is StepStatus.SUCCEEDED and earlier.outputs is not None:
        return earlier.outputs
    if earlier is not None and earlier.status is StepStatus.FAILED:
        raise WorkflowFailed(earlier.error or f"{name} failed.")
    if is_replay:
        raise WorkflowFailed(f"{name} was interrupted.")
    async with uninterruptible():
        await journal.start(path, name, 1, clock.now() if earlier is None else earlier.started_at)
        try:
            outputs = validate_outputs(await work())
        except (WorkflowFailed, Fenced):
            raise
        except Exception as error:
            # Providers and packaged types are foreign code: any exception of theirs fails this work, not the worker.
            message = f"{name} failed: {describe(error)}" if not isinstance(error, ActionFailed) else str(error)
            journal.log(path, "error", message)
            journal.fail(path, name, message, 1)
            raise WorkflowFailed(message) from error
        journal.succeed(path, outputs)
        return outputs
