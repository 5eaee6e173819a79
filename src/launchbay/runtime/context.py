"""What a running step can do: the runtime's side of `actions.contract.StepContext`, and calls to others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Any, Protocol

from launchbay import limits
from launchbay.actions.contract import (
    Action,
    ActionCall,
    Document,
    LogLevel,
    SignalsView,
)
from launchbay.actions.parameters import refuse_lost
from launchbay.actions.plan import ActionPlan, plan_action
from launchbay.clock import to_ms
from launchbay.egress.http import EgressClient
from launchbay.egress.mail import MailServer
from launchbay.errors import ActionFailed, Fenced, NotApproved, WorkflowFailed, describe
from launchbay.machines.contract import ProviderContext
from launchbay.manifest.graph import Component, Workflow
from launchbay.model.durations import parse_duration_s
from launchbay.model.job import Question, StepStatus, StepWait, Verdict, attempt_path, step_name
from launchbay.model.machine import CommandResult, ImageRun, Machine, PlannedImageRun
from launchbay.model.types import PinKind, Signature
from launchbay.model.waits import TIME_IS_OVER, time_message
from launchbay.runtime.commands import SentCommand, cancel_abandoned, collect_results, send, unbound
from launchbay.runtime.contract import SYSTEM, DocumentKey, JobRun
from launchbay.runtime.machines import (
    AttemptSecrets,
    ComponentMachines,
    image_runner,
    is_dry_run,
    provider_context,
    provider_of,
)
from launchbay.runtime.signals import ConsumedSignals, coerce_all
from launchbay.runtime.slot import Rest, interruptible, leaving, resting, slot_released, staying
from launchbay.runtime.state import WorkflowScope

CALL_TIMEOUT = "commandCallTimeout"


# Takes the percentage of the step that this code runs in, or of the whole call in which it runs.
report_percent: ContextVar[Callable[[int], None]] = ContextVar("report of a percentage", default=lambda _: None)
# The level of errors in the log: inside a step whose failure is ignored, they are warnings.
failure_level: ContextVar[str] = ContextVar("level of errors", default="error")


class WorkflowContext(Protocol):
    """The workflow whose step runs.

    `is_replay` marks the repetition of a run that failed or timed out before a crash. It only repeats what that run
    changed in the instance's state: it starts, awaits and writes nothing.
    """

    job: JobRun
    component: Component
    path: str
    depth: int
    is_replay: bool
    scope: WorkflowScope
    signals: ConsumedSignals

    def nested(self, workflow: Workflow, path: str) -> "WorkflowContext":
        """Return a run of another workflow of the same component, called from this one."""

    def item(self, path: str, variables: Mapping[str, Any]) -> "WorkflowContext":
        """Return this run as one item of a loop sees it."""

    def replay(self) -> "WorkflowContext":
        """Return this run as a replay, to repeat a step's past attempt."""

    def forget(self) -> None:
        """Give back what the variables of an item count for."""

    async def run(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Run the workflow and return its return values. Raises WorkflowFailed."""


def split_command(component: Component, action: str) -> tuple[str | None, str]:
    """Split `interface.command` if the component has that send-command pin; otherwise return (None, action)."""
    pin = component.pins.get(action)
    if pin is not None and pin.type.kind is PinKind.SEND_COMMAND:
        return pin.interface, pin.name
    return None, action


async def call_workflow(
    context: WorkflowContext, step: str, name: str, arguments: Mapping[str, Any], path: str
) -> Mapping[str, Any]:
    """Run a macro or workflow of the component and return its return values.

    Raises WorkflowFailed.
    """
    workflow = context.component.workflows[name]
    inner = context.nested(workflow, path)
    types = {parameter.name: parameter.type for parameter in workflow.parameters.values()}
    try:
        return await inner.run(coerce_all(types, arguments))
    finally:
        context.scope.set_inner(step, inner.scope.variables)


async def call_commands(
    context: WorkflowContext,
    interface: str,
    command: str,
    parameters: Mapping[str, Any],
    path: str,
    timeout_s: float | None,
) -> Mapping[str, Any]:
    """Send a command to every receiver of an interface and return its results.

    One receiver returns its results by name; several return, by name, a list in binding order. The parameter
    `commandCallTimeout` (seconds, or "5 minutes") limits the call unless `timeout_s` does.
    Raises ActionFailed or WorkflowFailed.
    """
    pin = context.component.pins.get(f"{interface}.{command}")
    if pin is None or pin.type.kind is not PinKind.SEND_COMMAND:
        raise ActionFailed(
            f"Component {context.component.path!r} has no send-command pin {interface}.{command}. Declare it.",
            retryable=False,
        )
    arguments = dict(parameters)
    own_timeout_s = _timeout_s(arguments.pop(CALL_TIMEOUT, None))
    bound_s = own_timeout_s if timeout_s is None else timeout_s
    sent = SentCommand(
        sender=context.component.path,
        interface=interface,
        command=command,
        arguments=arguments,
        path=path,
        depth=context.depth + 1,
        is_replay=context.is_replay,
    )
    try:
        # A limit counts from the call in this process.
        with nullcontext() if bound_s is None else staying():
            async with asyncio.timeout(bound_s):
                results = await send(context.job, sent)
    except TimeoutError:
        await cancel_abandoned(context.job)
        raise ActionFailed(f"The command {interface}.{command} exceeded its timeout of {bound_s:g} s.") from None
    if not results:
        raise ActionFailed(unbound(sent), retryable=False)
    named = [_named(pin.type.signature, result) for result in results]
    return named[0] if len(named) == 1 else collect_results(named)


def _timeout_s(value: Any) -> float | None:
    if value is None:
        return None
    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise ActionFailed(f"{CALL_TIMEOUT}: {error}", retryable=False) from error


def _named(signature: Signature | None, results: Mapping[str, Any]) -> Mapping[str, Any]:
    """Coerce results to the types that the pin declares; missing results are null."""
    declared = {} if signature is None else signature.results
    return {**dict.fromkeys(declared), **coerce_all(declared, results)}


class StepRun:
    """One step while it runs; implements StepContext for all of its attempts."""

    def __init__(self, workflow: WorkflowContext, path: str, action: str, started_at: datetime) -> None:
        job = workflow.job
        self._workflow = workflow
        self._job = job
        self._action = action
        self._is_pure = False
        self._is_resting = False
        self._has_begun = False  # in this process, what somebody approved
        self.attempt = 1
        self.identity: str | None = None
        self._secrets: AttemptSecrets | None = None
        self.used_machines = False  # a plan is unknown if earlier steps leave others
        self.instance_id = job.instance_id
        self.organization_id = job.organization_id
        self.environment_id = job.environment_id
        self.job_id = job.job_id
        self.step_path = path
        self.started_at = started_at
        self.clock = job.deps.clock
        self.programs = job.deps.programs

    @property
    def idempotency_key(self) -> str:
        return self._job.idempotency_key(attempt_path(self.step_path, self.attempt))

    async def run_action(self, action: Action, parameters: Mapping[str, Any], expressions: Mapping[str, str]) -> object:
        """Run the action once. Raises ActionFailed, also for a defect of a third-party action."""
        self._is_pure = action.pure
        try:
            async with self.noting_refusal() if self._job.plan.held else nullcontext():
                call = await self._call(action, parameters, expressions)
                refuse_lost(call, action.parameters)
                simulated = self._simulate(action, parameters)
                if simulated is not None:
                    return simulated
                async with self.noting_failure():
                    with staying() if action.pure else nullcontext():  # one with an effect is counted as such
                        return await action.run(call)
        except (ActionFailed, WorkflowFailed, Fenced, KeyboardInterrupt):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise ActionFailed(f"The action {action.name!r} cancelled its own task.") from error
        # An action is foreign code: any exception of its own, even SystemExit, fails the step, not the worker.
        except BaseException as error:
            raise ActionFailed(f"The action {action.name!r} crashed: {describe(error)}") from error

    @asynccontextmanager
    async def noting_refusal(self) -> AsyncIterator[None]:
        """Note that a step of a held job isn't as approved, before anybody learns of it."""
        try:
            yield
        except NotApproved as error:
            plans, replans = self._job.deps.approved_plans, self._workflow.component.replans
            reason = self._job.secrets.redact(error.messages[0])
            await plans.refuse(self._job, self.step_path, reason, replans=replans)
            raise

    @asynccontextmanager
    async def noting_failure(self) -> AsyncIterator[None]:
        """Note a failure of what was approved.

        How far it came is in its error, and another attempt looks again.
        """
        try:
            yield
        except (NotApproved, WorkflowFailed, Fenced):  # it has done nothing, or nobody knows
            raise
        except Exception:
            if self._has_begun:
                await self._job.deps.approved_plans.end(self._job, self.step_path)
            raise

    async def _call(self, action: Action, parameters: Mapping[str, Any], expressions: Mapping[str, str]) -> ActionCall:
        """Return the call, with the artifact of the step's approved plan, if any.

        Raises NotApproved.
        """
        if action.pure or not self._job.plan.held or is_dry_run(self._job):
            return ActionCall(parameters, self, expressions)
        artifact = await self._job.deps.approved_plans.artifact(self._job, self.step_path)
        if artifact is None:
            return ActionCall(parameters, self, expressions)
        return await self.approved_call(artifact, parameters, expressions)

    async def approved_call(
        self, artifact: bytes, parameters: Mapping[str, Any], expressions: Mapping[str, str]
    ) -> ActionCall:
        """Return the call of what was approved, which knows if it began before."""
        plans, job, path = self._job.deps.approved_plans, self._job, self.step_path
        attempt = f"{job.job_id} {self.attempt}"

        async def begin() -> None:
            await plans.begin(job, path, attempt)
            self._has_begun = True

        begun_by = await plans.begun_by(job, path)
        return ActionCall(
            parameters,
            self,
            expressions,
            artifact,
            has_begun=begun_by is not None,
            continues=begun_by == attempt or (begun_by == "" and self._is_repeated()),
            begin=begin,
        )

    def _is_repeated(self) -> bool:
        """Return whether a crash interrupted this attempt.

        A server of an earlier version notes no attempt.
        """
        earlier = None if self._job.plan.resumes else self._job.journal.find(self.step_path)
        return earlier is not None and earlier.status is StepStatus.EXECUTING and earlier.attempt == self.attempt

    async def plan_action(
        self, action: Action, parameters: Mapping[str, Any], expressions: Mapping[str, str]
    ) -> ActionPlan:
        """Return what the action would do.

        Raises ActionFailed, also for a defect of a third-party action.
        """
        try:
            call = ActionCall(parameters, self, expressions)
            refuse_lost(call, action.parameters)
            return await plan_action(action, call, self.step_path)
        except ActionFailed:
            raise
        except Exception as error:
            raise ActionFailed(f"The action {action.name!r} crashed: {describe(error)}") from error

    def apply_outputs(self, action: Action | None, outputs: Mapping[str, Any]) -> None:
        """Apply a step's success to the component's machines, now or again after a crash.

        Raises ActionFailed if the action can't read the outputs.
        """
        if action is not None and hasattr(action, "apply_outputs"):  # isinstance of a protocol takes ten times as long
            try:
                action.apply_outputs(outputs, _Roles(self._workflow))
            except Exception as error:
                raise ActionFailed(
                    f"Can't read the machines in the outputs of action {self._action!r}: {describe(error)}",
                    retryable=False,
                ) from error

    def _simulate(self, action: Action, parameters: Mapping[str, Any]) -> object:
        """Return the simulated outputs of a dry run, or None to run the action."""
        if action.pure or getattr(action, "on_machines", False):
            return None
        provider = provider_of(self._job)
        return None if provider is None else provider.simulate(self._provider_context(), parameters)

    def _provider_context(self) -> ProviderContext:
        def log(level: str, text: str) -> None:
            self.log(level, text)

        component = self._workflow.component.path
        if self._secrets is None or self._secrets.attempt != self.attempt:
            self._secrets = AttemptSecrets(self._job, self.step_path, self.attempt)
        return provider_context(self._job, component, self._action, self.step_path, log, self.attempt, self._secrets)

    @property
    def machines(self) -> ComponentMachines:
        self.used_machines = True
        what = f"{self._action!r} in step {self.step_path}"
        return ComponentMachines(self._job, self._workflow.component.path, self._provider_context(), what)

    @property
    def egress(self) -> EgressClient:
        job = self._job
        return job.deps.egress.for_environment(job.organization_id, job.environment_id, job.environment.policies)

    @property
    def documents(self) -> "_Documents":
        return _Documents(self._job, self._workflow.component.path, self._action)

    def register_secret(self, value: Any) -> None:
        self._job.secrets.register_secret(value)

    @property
    def mail(self) -> MailServer:
        if self._job.deps.mail is None:
            raise ActionFailed(
                "This installation has no mail server.",
                "The server's administrator must set LAUNCHBAY_SMTP_HOST and LAUNCHBAY_SMTP_SENDER.",
                retryable=False,
            )
        return self._job.deps.mail

    @property
    def signals(self) -> SignalsView:
        return self._workflow.signals

    def redact(self, text: str) -> str:
        return self._job.secrets.redact(text)

    def log(self, level: LogLevel | str, text: str, stream: str = SYSTEM) -> None:
        if self._workflow.is_replay:
            return
        # Mask before cutting: a cut secret couldn't be recognized.
        for line in self._job.secrets.redact(str(text)).splitlines() or [""]:
            shown = failure_level.get() if level == "error" else str(level)
            self._job.journal.log(self.step_path, shown, line[: limits.LOG_LINE_CHARS], stream)

    async def progress(self, percent: int) -> None:
        if not self._workflow.is_replay:
            self._job.journal.progress(self.step_path, int(percent))
            report_percent.get()(int(percent))

    async def sleep(self, seconds: float) -> None:
        """Wait; releases the job's slot unless the wait is short."""
        if self._workflow.is_replay:
            return
        if self._is_resting or seconds < limits.SLOT_RELEASED_FROM_S:
            # Not interruptible either: finishing the step is faster than repeating it.
            await asyncio.sleep(seconds)
            return
        with slot_released():
            await asyncio.sleep(seconds)

    def resting(self, seconds: float) -> AbstractContextManager[None]:
        if self._workflow.is_replay or seconds < limits.SLOT_RELEASED_FROM_S:
            return nullcontext()
        return self._resting(seconds)

    @contextmanager
    def _resting(self, seconds: float) -> Iterator[None]:
        ends_at_s = asyncio.get_running_loop().time() + seconds
        wait = StepWait(
            kind="time",
            text=time_message(step_name(self.step_path), self.step_path),
            ends_when=TIME_IS_OVER,
            until=to_ms(self._job.deps.clock.now()) + round(seconds * 1000),
        )
        self._is_resting = True
        try:
            # Until the job leaves its process, the journal shows what the step waits for.
            with (
                self._job.journal.waiting(self.step_path, wait),
                resting(Rest(ends_at_s, step=(self.job_id, self.step_path))),
            ):
                yield
        finally:
            self._is_resting = False

    async def run_image(self, run: ImageRun) -> CommandResult:
        return await image_runner(self._job).run_image(self._provider_context(), run)

    async def plan_image(self, run: ImageRun) -> PlannedImageRun:
        return await image_runner(self._job).plan_image(self._provider_context(), run)

    async def ask(self, question: Question) -> Verdict:
        return await self._job.deps.approvals.ask(self._job, self.step_path, question)

    async def notify_webhooks(self, notification: Mapping[str, Any]) -> int:
        return await self._job.deps.notifier.notify(self._job, attempt_path(self.step_path, self.attempt), notification)

    async def wait_peers(self, interfaces: Mapping[str, int], timeout_s: float | None) -> None:
        self._must_be_pure("waits for peers")
        signals = self._workflow.signals
        for interface in interfaces:
            if interface not in signals.interfaces():
                known = ", ".join(signals.interfaces()) or "none"
                raise ActionFailed(
                    f"The component has no signal-consuming interface {interface!r}. It has: {known}.", retryable=False
                )
        bound_s = limits.WAIT_PEERS_S if timeout_s is None else timeout_s
        until_ms = to_ms(self._job.deps.clock.now()) + int(bound_s * 1000)
        try:
            async with asyncio.timeout(bound_s):
                while short := [name for name, n in interfaces.items() if signals.peers_with_values(name) < n]:
                    failed = [name for name in short if self._can_never_be_met(name, interfaces[name])]
                    if failed or self._workflow.is_replay:
                        raise ActionFailed(
                            f"Peers of {', '.join(failed)} weren't launched, so their values will never arrive.",
                            retryable=False,
                        )
                    wait = self._wait_for_peers(short, interfaces, until_ms)
                    with self._job.journal.waiting(self.step_path, wait), interruptible():
                        await self._job.state.changed()
        except TimeoutError:
            lacking = ", ".join(f"{name} has {signals.peers_with_values(name)} of {interfaces[name]}" for name in short)
            raise ActionFailed(f"Too few peers after {bound_s:g} s: {lacking}.") from None
        signals.refresh()

    async def call_command(
        self, interface: str, command: str, arguments: Mapping[str, Any], timeout_s: float | None
    ) -> Mapping[str, Any]:
        self._must_be_pure("sends commands")
        path = attempt_path(self.step_path, self.attempt)
        with leaving():  # `run_action` keeps the job here for the action itself
            return await call_commands(self._workflow, interface, command, arguments, path, timeout_s)

    def _wait_for_peers(self, short: Sequence[str], wanted: Mapping[str, int], until_ms: int) -> StepWait:
        signals = self._workflow.signals
        lacking = ", ".join(f"{name} has {signals.peers_with_values(name)} of {wanted[name]}" for name in short)
        name, component = self.step_path.rpartition("/")[2], self._workflow.component.path
        return StepWait(
            kind="peers",
            text=f"Step {name!r} of {component!r} waits for values of peers: {lacking}.",
            ends_when="The peers are launched and publish their values, or the step's time is over.",
            until=until_ms,
        )

    def _can_never_be_met(self, interface: str, wanted: int) -> bool:
        signals = self._workflow.signals
        return signals.peers_still_expected(interface) < min(wanted, signals.peers(interface))

    def _must_be_pure(self, what: str) -> None:
        if not self._is_pure:
            raise ActionFailed(
                f"The action {what} but isn't pure: after a crash, its record would hide what the call changed. "
                "Split the action, or declare it pure.",
                retryable=False,
            )


class _Documents:
    """Implements `actions.contract.Documents` for one action of a component."""

    def __init__(self, job: JobRun, component: str, action: str) -> None:
        self._job = job
        self._component = component
        self._action = action

    async def read(self, name: str) -> Document | None:
        return await self._job.deps.documents.read(self._job, self._key(name))

    async def write(self, name: str, data: bytes, version: int) -> int:
        if len(data) > limits.STEP_DOCUMENT_BYTES:
            raise ActionFailed(
                f"The document {name!r} has {len(data)} bytes (limit: {limits.STEP_DOCUMENT_BYTES}).", retryable=False
            )
        return await self._job.deps.documents.write(self._job, self._key(name), Document(data, version))

    async def delete(self, name: str) -> None:
        await self._job.deps.documents.delete(self._job, self._key(name))

    def _key(self, name: str) -> DocumentKey:
        return DocumentKey(self._component, self._action, name)


class _Roles:
    """Implements `actions.contract.Roles` for the component of a workflow."""

    def __init__(self, workflow: WorkflowContext) -> None:
        self._state = workflow.job.state
        self._component = workflow.component.path

    def add(self, machines: Iterable[Machine]) -> None:
        self._state.add_machines(self._component, machines)

    def remove(self, machines: Iterable[Machine]) -> None:
        self._state.remove_machines(self._component, machines)
