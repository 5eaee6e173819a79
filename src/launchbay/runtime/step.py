"""One step of a workflow: its parameters, attempts and outcome (manifest-language §5, "Steps")."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace
from structlog.contextvars import bind_contextvars

from launchbay import limits
from launchbay.actions.parameters import given_parameters
from launchbay.clock import to_ms
from launchbay.concurrency import cancel_all
from launchbay.errors import ActionFailed, ExpressionError, Fenced, LaunchbayError, WorkflowFailed, describe, is_refusal
from launchbay.machines.dry_run import about_made_up_answers
from launchbay.manifest.expressions import Template
from launchbay.manifest.formulas import kind
from launchbay.manifest.graph import Step
from launchbay.manifest.workflow_rules import EACH, IDENTITY, OUTPUT, SECRETS
from launchbay.model.durations import parse_duration_s
from launchbay.model.identity import AUDIENCE, identity_problem
from launchbay.model.job import StepStatus, StepWait, attempt_path, decision_path, item_path, owner_of, step_path
from launchbay.model.redaction import REDACTED
from launchbay.model.secret_reference import parse_secret_reference, secrets_problem
from launchbay.model.types import BOOL, INT
from launchbay.model.values import CoercionError, coerce, size_of
from launchbay.runtime.commands import cancel_abandoned
from launchbay.runtime.context import (
    StepRun,
    WorkflowContext,
    call_commands,
    call_workflow,
    failure_level,
    report_percent,
    split_command,
)
from launchbay.runtime.contract import JobRun
from launchbay.runtime.machines import is_dry_run
from launchbay.runtime.slot import paced, staying, uninterruptible
from launchbay.telemetry.tracing import Attributes, tracing

_FAILURES_SHOWN = 10
LATE_S = 1.0  # after a crash, what has begun may end in this time; a repetition of recorded steps takes less
NO_VARIABLES: Mapping[str, Any] = {}
_OF_THE_RUNTIME = frozenset({"retryCount", "ignoreFail"})
# Instead of its value, which who may read the instance but not the environment must not see.
OF_A_POLICY = f"{REDACTED} (set by a policy of the environment)"


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
            f"The action's outputs have {len(encoded)} bytes (limit: {limits.STEP_OUTPUT_BYTES}). "
            "Let it return less, such as the part that is needed.",
            retryable=False,
        )
    most = limits.STEP_OUTPUT_SIZE_BYTES
    if size_of(outputs, most) > most:
        raise ActionFailed(
            f"The action's outputs exceed {_size_text(most)} Let it return less, such as the part that is needed.",
            retryable=False,
        )
    try:
        decoded: dict[str, Any] = msgspec.json.decode(encoded, type=dict[str, Any])
    except (ValueError, RecursionError) as error:
        raise ActionFailed(f"The action's outputs aren't a map: {error}", retryable=False) from error
    return decoded


class StepFailed(LaunchbayError):
    """The final failure of a step.

    If `ignored`, the workflow continues; never after a refusal.
    """

    def __init__(self, message: str, *, ignored: bool, is_refusal: bool = False) -> None:
        super().__init__(message)
        self.ignored = ignored
        self.is_refusal = is_refusal


async def run_step(workflow: WorkflowContext, step: Step, *, is_counted: bool = False) -> Mapping[str, Any]:
    """Run a step with its retries and return its outputs.

    Raises StepFailed if the last attempt fails.

    `is_counted` says that the budget of the job has it already.
    """
    return await _Execution(workflow, step).run(is_counted=is_counted)


class _Execution:
    def __init__(self, workflow: WorkflowContext, step: Step) -> None:
        self.workflow = workflow
        self.job = workflow.job
        self.step = step
        self.path = step_path(workflow.path, step.name)
        self.action = self.job.deps.actions.find(step.action)
        self.control = step.control
        self.has_effect = self.action is not None and not self.action.pure and self.control.each is None
        # What the first start has decided must hold after a crash.
        self.is_decided = self.control.when is not None or self.control.timeout is not None
        self.earlier = self.job.journal.find(self.path)
        self.step_run = StepRun(
            workflow,
            self.path,
            step.action,
            self.job.deps.clock.now() if self.earlier is None else self.earlier.started_at,
        )

    async def run(self, *, is_counted: bool) -> Mapping[str, Any]:
        earlier = self.earlier
        if earlier is not None and earlier.status is StepStatus.SUCCEEDED and earlier.outputs is not None:
            return self._replayed(earlier.outputs) if earlier.attempt else {}  # none: it was skipped
        # What a record says stays, also if a resumed job has other parameters.
        ignored = earlier is not None and earlier.is_ignored
        parameters: dict[str, Any] = {}
        try:
            if not is_counted:
                self.job.budget.take()
            when = self.control.when if earlier is None else None
            if when is not None and not _condition("when", await self._value(when)):
                self.job.journal.skip(self.path, self.step.name)
                return {}
            if self.control.each is not None:
                return await self._run_loop(self.control.each)
            policies = self.job.environment.step_policies(self.step.action)
            retries = _retry_count(await self._setting("retryCount", self.step.retry_count, policies))
            setting = await self._setting("ignoreFail", self.step.ignore_fail, policies)
            ignored = ignored or _ignore_fail(setting)
            if ignored:
                failure_level.set("warning")  # in the task of this step, and of those inside it
            if not self._borrows:
                parameters = await self._parameters(policies)
            async with uninterruptible() if self.has_effect else nullcontext():
                outputs = await self._in_time(parameters, retries, policies)
        except (ActionFailed, ExpressionError, WorkflowFailed) as error:
            message = str(error) or f"The action {self.step.action!r} failed without a message."
            if is_refusal(error):
                ignored = False
            if self._borrows:  # the steps around it show it later, when its secrets aren't known anymore
                message = self.job.secrets.redact(message)
            if is_dry_run(self.job):
                message += about_made_up_answers(parameters)
            if not self.workflow.is_replay and (earlier is None or earlier.status is not StepStatus.FAILED):
                self.job.journal.log(self.path, failure_level.get(), message)
                self.job.journal.fail(self.path, self.step.name, message, self.step_run.attempt, is_ignored=ignored)
            raise StepFailed(message, ignored=ignored, is_refusal=is_refusal(error)) from error
        finally:
            self.job.secrets.release_passing(self.path)
        return outputs

    def _replayed(self, outputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return recorded outputs, and apply them to the instance's machines."""
        try:
            self.step_run.apply_outputs(self.action, outputs)
        except ActionFailed as error:
            raise StepFailed(str(error), ignored=False) from error
        return dict(outputs)

    async def _value(self, template: Template) -> Any:
        return (await self.job.evaluate(template, self.workflow.scope.values))[0]

    async def _setting(self, name: str, template: Template | None, policies: Mapping[str, Any]) -> Any:
        """Return a parameter of the runtime.

        It is read first, so it also applies if other parameters are invalid.
        """
        if name in policies:
            return policies[name]
        return None if template is None else await self._value(template)

    async def _parameters(self, policies: Mapping[str, Any], own: Mapping[str, Any] = NO_VARIABLES) -> dict[str, Any]:
        """Evaluate the parameters just before the step starts; policies of the environment override them.

        `own` are variables of this step alone.
        """
        scope = self.workflow.scope.within(own) if own else self.workflow.scope
        value, warnings = await self.job.evaluate(self.step.parameters, scope.values, keeps_texts=True)
        if self.earlier is None:  # otherwise they are in the log
            for warning in warnings:
                self.job.journal.log(self.path, "warning", warning)
            for name in policies:  # not its value, which may be a secret
                self.job.journal.log(self.path, "info", f"An environment policy sets the parameter {name!r}.")
        parameters: dict[str, Any] = dict(value or {})
        set_by_policy = {name: policy for name, policy in policies.items() if name not in _OF_THE_RUNTIME}
        parameters.update(set_by_policy)
        if self.action is not None and self.step.parameters.has_written:
            parameters = given_parameters(self.action.parameters, parameters)
        self._note_inputs({**parameters, **dict.fromkeys(set_by_policy, OF_A_POLICY)})
        return parameters

    def _note_inputs(self, inputs: Mapping[str, Any]) -> None:
        """Show what the step is sent, unless it has ended."""
        is_over = self.earlier is not None and self.earlier.status is not StepStatus.EXECUTING
        if not is_over and not self.workflow.is_replay:
            self.job.journal.note_inputs(self.path, inputs)

    @property
    def _borrows(self) -> bool:
        """Whether attempts have variables of their own, which nothing keeps."""
        return self.control.identity is not None or self.control.secrets is not None

    async def _borrowed(self) -> Mapping[str, Any]:
        """Return the variables of this attempt alone. Raises ActionFailed."""
        if not self.has_effect:
            raise ActionFailed(
                f"{IDENTITY} and {SECRETS} have no effect on {self.step.action!r}, which sends and starts nothing.",
                "Write it at the step that does.",
                retryable=False,
            )
        found: dict[str, Any] = {}
        if self.control.identity is not None:
            self.step_run.identity = await self._token(await self._value(self.control.identity))
            found[IDENTITY] = {"token": self.step_run.identity}
        if self.control.secrets is not None:
            found[SECRETS] = await self._secrets(await self._value(self.control.secrets))
        if not is_dry_run(self.job):
            await self.job.journal.keep_passing(self.path, self.step_run.attempt, found)
        return found

    async def _token(self, value: Any) -> str:
        problem = identity_problem(value)
        if problem is not None:
            raise ActionFailed(f"{IDENTITY}: {problem}.", retryable=False)
        if is_dry_run(self.job):
            return "dry-run"  # nobody accepts it
        token = await self.job.deps.identities.token(self.job, self.path, value[AUDIENCE])
        self.job.secrets.register_passing(token, self.path)
        return token

    async def _secrets(self, value: Any) -> Mapping[str, Any]:
        problem = secrets_problem(value)
        if problem is not None:
            raise ActionFailed(f"{SECRETS}: {problem}.", retryable=False)
        if is_dry_run(self.job):
            return dict.fromkeys(value, "dry-run")
        references = {name: parse_secret_reference(text) for name, text in value.items()}
        found = await self.job.deps.secret_source.read(self.job, self.path, self.step_run.attempt, references)
        self.job.secrets.register_passing(found, self.path)
        return found

    async def _in_time(
        self, parameters: dict[str, Any], retries: int, policies: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Run the attempts within the step's time limit, counted from its first start."""
        if self.control.timeout is None or self.workflow.is_replay:
            return await self._attempts(parameters, retries, policies)
        limit_s = required_seconds("timeout", await self._value(self.control.timeout))
        passed_s = (self.job.deps.clock.now() - self.step_run.started_at).total_seconds()
        try:
            with staying():  # the limit counts in this process
                async with asyncio.timeout(limit_s if self.earlier is None else max(LATE_S, limit_s - passed_s)):
                    return await self._attempts(parameters, retries, policies)
        except TimeoutError:
            await cancel_abandoned(self.job)
            raise ActionFailed(f"The step exceeded its timeout of {limit_s:g} s.", retryable=False) from None

    async def _run_loop(self, each: Template) -> Mapping[str, Any]:
        """Run the step once for each item.

        Returns each output as a list, or as a map by the keys of a map.
        """
        workflow = self.workflow
        has_failed = self.earlier is not None and self.earlier.status is StepStatus.FAILED
        if has_failed:
            workflow = workflow.replay()
        else:
            await self._begin(1)
        path = decision_path(self.path, "each")
        loop = await run_recorded(self.job, path, "each", partial(self._items, each), is_replay=workflow.is_replay)
        keys, values = loop["keys"] or range(len(loop["values"])), loop["values"]
        if not has_failed and not workflow.is_replay:
            self._note_inputs({EACH: values if loop["keys"] is None else dict(zip(loop["keys"], values, strict=True))})
            self.job.journal.note(self.path, self.step.name, StepStatus.EXECUTING)
        body = replace(self.step, control=replace(self.control, when=None, each=None, parallel=None))
        items = [
            _Item(item_path(self.path, number), {EACH: {"key": key, "value": value, "index": number}})
            for number, (key, value) in enumerate(zip(keys, values, strict=True))
        ]
        results, failures = await self._run_items(workflow.item(self.path, {}), items, body)
        if has_failed:
            assert self.earlier is not None
            raise ActionFailed(self.earlier.error or "The loop failed.", retryable=False)
        if failures:
            shown = [f"item {keys[number]!r}: {text}" for number, text in sorted(failures.items())[:_FAILURES_SHOWN]]
            more = f" and {len(failures) - _FAILURES_SHOWN} more" if len(failures) > _FAILURES_SHOWN else ""
            raise WorkflowFailed(f"{len(failures)} of {len(items)} failed: {' '.join(shown)}{more}")
        self._succeed({})
        outputs = dict.fromkeys(self.step.outputs.values())
        if loop["keys"] is None:
            return {output: [result.get(output) for result in results] for output in outputs}
        return {output: dict(zip(keys, (each.get(output) for each in results), strict=True)) for output in outputs}

    async def _items(self, each: Template) -> Mapping[str, Any]:
        """Return the items of the loop, to be recorded."""
        found = await self._value(each)
        if not isinstance(found, list | dict):
            raise ActionFailed(f"each: expected a list or a map, not {kind(found)}.", retryable=False)
        if len(found) > limits.EACH_ITEMS:
            raise ActionFailed(f"each: {len(found)} items (limit: {limits.EACH_ITEMS}).", retryable=False)
        return (
            {"keys": list(found), "values": list(found.values())}
            if isinstance(found, dict)
            else {
                "keys": None,
                "values": found,
            }
        )

    async def _run_items(
        self, workflow: WorkflowContext, items: Sequence["_Item"], body: Step
    ) -> tuple[list[Mapping[str, Any]], dict[int, str]]:
        """Run the items in their order, until one fails.

        `workflow` has the variables as they were when the loop began: a thousand copies of many at once would be large.
        Returns the outputs of each, and the failures by number. After a crash, items with a record come first, as steps
        do in `runtime/workflow.py`.
        """
        parallel = 1 if self.control.parallel is None else await self._parallel(self.control.parallel)
        records = [self.job.journal.find(step_path(item.path, body.name)) for item in items]
        begun = {number for number, record in enumerate(records) if record is not None}
        failed_before = {n for n, record in enumerate(records) if record and record.has_failed}
        succeeded_before = {n for n, record in enumerate(records) if record and record.status is StepStatus.SUCCEEDED}
        results: list[Mapping[str, Any]] = [{} for _ in items]
        failures: dict[int, str] = {}
        kept, size, most = set(self.step.outputs.values()), 0, limits.LOOP_OUTPUT_BYTES
        waiting, running = list(range(len(items))), dict[asyncio.Task[Mapping[str, Any]], int]()
        try:
            while waiting or running:
                starts_new = not failures and not failed_before and not workflow.is_replay
                for number in list(waiting):
                    if number in begun or (starts_new and len(running) < parallel):
                        waiting.remove(number)
                        try:
                            # Before the item has a task: loops in loops would have more of them than a job has steps.
                            if number not in succeeded_before:
                                self.job.budget.take()
                        except WorkflowFailed as failure:
                            failures[number] = str(failure)
                            break
                        running[asyncio.create_task(_run_item(workflow, items[number], body))] = number
                if not running:
                    break
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    number = running.pop(task)
                    failed_before.discard(number)
                    try:
                        result = task.result()
                        results[number] = {name: result.get(name) for name in kept}
                        size += size_of(results[number], most)
                        if size > most:
                            results[number] = {}
                            failures[number] = f"with its outputs, those of the loop exceed {_size_text(most)}"
                    except StepFailed as failure:
                        if not failure.ignored:
                            failures[number] = str(failure)
                report_percent.get()((len(items) - len(waiting) - len(running)) * 100 // len(items))
        finally:
            await cancel_all(running)
        if waiting and not failures:
            failures[waiting[0]] = "it was interrupted."
        return results, failures

    async def _parallel(self, template: Template) -> int:
        count = await self._value(template)
        if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= limits.EACH_PARALLEL_MAX:
            raise ActionFailed(
                f"parallel: expected a number from 1 to {limits.EACH_PARALLEL_MAX}, not {kind(count)}.", retryable=False
            )
        return count

    async def _attempts(
        self, parameters: dict[str, Any], retries: int, policies: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        earlier = self.earlier
        if earlier is not None and earlier.status is StepStatus.FAILED:
            await self._replay_failed_attempts(parameters, earlier.attempt)
            if await was_refused(self.job, self.path):
                raise WorkflowFailed(earlier.error or "The step was refused.", is_refusal=True)
            raise ActionFailed(earlier.error or "The step failed.", retryable=False)
        # After a crash the step repeats the interrupted attempt: a crash doesn't count as a failed attempt.
        attempt = 1 if earlier is None else earlier.attempt
        await self._replay_failed_attempts(parameters, attempt - 1)
        failures = 0 if self.control.until is not None else attempt - 1
        failed = 0 if earlier is None else earlier.failed
        first = attempt  # in this process: its values of an earlier claim are those of a command that it adopts
        bind_contextvars(step=self.path)  # of the lines that an action logs; the task ends with the step
        while True:
            self.step_run.attempt = attempt
            if attempt > first:
                self.job.secrets.release_passing(self.path)  # the attempt before has ended, and all it said is masked
            if attempt > 1:
                # A retry does the same as what failed, but another round of `until` something new (decision 0151).
                number = 1 if self.control.until is None else attempt - failed
                key_path = self.job.key_path(self.path)
                round_path = key_path if number == 1 else f"{key_path}~({number})"
                self.job.key_paths[attempt_path(self.path, attempt)] = round_path
            await self._begin(attempt)
            try:
                with self._span(attempt):
                    if self._borrows:  # each attempt anew: they are of minutes
                        parameters = await self._parameters(policies, await self._borrowed())
                    outputs = await self._run_attempt(self.workflow, self.step_run, parameters)
            except (ActionFailed, WorkflowFailed) as error:
                failures += 1
                failed += 1
                is_final = failures > retries or (isinstance(error, ActionFailed) and not error.retryable)
                if is_final or is_refusal(error) or self.workflow.is_replay:
                    raise
                await self._pause(failures, retries, error)
                attempt += 1
                continue
            if self.control.until is not None and not await self._is_reached(self.control.until, outputs):
                await self._pause_round(attempt)
                attempt += 1
                continue
            self._succeed(outputs)
            return outputs

    async def _is_reached(self, until: Template, outputs: Mapping[str, Any]) -> bool:
        variables = {variable: outputs.get(output) for variable, output in self.step.outputs.items()}
        scope = self.workflow.scope.within({**variables, OUTPUT: dict(outputs)})
        return _condition("until", (await self.job.evaluate(until, scope.values))[0])

    async def _pause_round(self, attempt: int) -> None:
        if self.workflow.is_replay:
            raise WorkflowFailed(f"step {self.step.name!r} was interrupted.")
        if attempt >= limits.UNTIL_ROUNDS:
            raise ActionFailed(f"The condition of 'until' isn't true after {attempt} attempts.", retryable=False)
        delay_s = limits.UNTIL_DELAY_S
        if self.control.delay is not None:
            delay_s = required_seconds("delay", await self._value(self.control.delay))
        self.job.journal.log(
            self.path, "info", f"The condition of 'until' isn't true yet. Next attempt in {delay_s:g} s."
        )
        made = f"has made {attempt} attempt{'' if attempt == 1 else 's'}"
        await self._rest(delay_s, made, "the condition of 'until' isn't true yet")

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
        elif self.has_effect or attempt > 1 or self.is_decided:
            # The success of a call isn't recorded, but its attempts are: the calls of earlier attempts have ended.
            # The start of a wait is as good as its record: if a crash takes that, it starts again at most LAZY_S later.
            durable = attempt > 1 or self.is_decided or not getattr(self.action, "starts_unnoticed", False)
            await self.job.journal.start(self.path, self.step.name, attempt, self.step_run.started_at, durable=durable)
            if durable:  # one write records the starts of many
                await paced(self.job.deps.pace)
        else:
            self.job.journal.note(self.path, self.step.name, StepStatus.EXECUTING)

    async def _pause(self, failures: int, retries: int, error: Exception) -> None:
        delay_s = self.job.deps.retry_backoff.delay_s(failures)
        self.job.journal.attempt_failed(self.path, str(error), delay_s)
        text = f"Attempt {failures} of {retries + 1} failed: {error} Retrying in {delay_s:g} s."
        self.job.journal.log(self.path, "warning", text)
        await self._rest(delay_s, f"failed in attempt {failures} of {retries + 1}", str(error) or "it gave no reason")

    async def _rest(self, delay_s: float, what: str, why: str) -> None:
        """Sleep until the next attempt, and show it: `what` the step has done, and `why` it isn't over."""
        until = self.job.deps.clock.now() + timedelta(seconds=delay_s)
        step = f"Step {self.step.name!r} of {owner_of(self.path)!r}"
        begins = f"the next attempt begins at {until.strftime('%Y-%m-%dT%H:%M:%SZ')}"
        wait = StepWait(
            kind="retry",
            text=f"{step} {what}; {begins}: {why.rstrip('.')}.",
            ends_when="The pause is over.",
            until=to_ms(until),
        )
        with self.job.journal.waiting(self.path, wait):
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
            outputs = await running.run_action(self.action, parameters, self.step.parameters.expressions)
            return validate_outputs(self.job.secrets.without_passing(outputs))
        most = limits.VALUES_BYTES
        if name and size_of(parameters, most) > most:
            raise ActionFailed(
                f"The arguments of {name!r} exceed {_size_text(most)} Pass less, such as the address of the data.",
                retryable=False,
            )
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


class _Item(NamedTuple):
    path: str
    variables: Mapping[str, Any]


async def _run_item(workflow: WorkflowContext, about: _Item, body: Step) -> Mapping[str, Any]:
    report_percent.set(lambda _: None)  # in this task only: the loop counts its items
    await paced(workflow.job.deps.pace)
    item = workflow.item(about.path, about.variables)
    try:
        return await run_step(item, body, is_counted=True)
    finally:
        item.forget()


def _size_text(most: int) -> str:
    return f"{most // limits.MIB} MiB ({limits.VALUE_BYTES} bytes for each value, and its characters)."


def _condition(key: str, value: Any) -> bool:
    try:
        return bool(coerce(BOOL, value))
    except CoercionError as error:
        raise ActionFailed(f"{key}: {error}", retryable=False) from error


def required_seconds(key: str, value: Any) -> float:
    """Return the duration that a control key gives. Raises ActionFailed."""
    try:
        return parse_duration_s(value)
    except ValueError as error:
        raise ActionFailed(f"{key}: {error}", retryable=False) from error


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


async def was_refused(job: JobRun, path: str) -> bool:
    """Return whether a recorded failure is a refusal of what wasn't approved."""
    return job.plan.held and await job.deps.approved_plans.refusal(job, path) is not None


async def run_recorded(
    job: JobRun, path: str, name: str, work: Callable[[], Awaitable[Mapping[str, Any]]], *, is_replay: bool = False
) -> Mapping[str, Any]:
    """Do the work and return its outputs, or its recorded outputs.

    `path` is its place in the job's plan.

    Work that a crash interrupted is repeated. `is_replay` only returns the recorded outcome. Raises WorkflowFailed.
    """
    journal, clock = job.journal, job.deps.clock
    earlier = journal.find(path)
    if earlier is not None and earlier.status is StepStatus.SUCCEEDED and earlier.outputs is not None:
        return earlier.outputs
    if earlier is not None and earlier.status is StepStatus.FAILED:
        raise WorkflowFailed(earlier.error or f"{name} failed.", is_refusal=await was_refused(job, path))
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
            message = str(error) if isinstance(error, ActionFailed) else f"{name} failed: {describe(error)}"
            journal.log(path, failure_level.get(), message)
            journal.fail(path, name, message, 1)
            raise WorkflowFailed(message, is_refusal=is_refusal(error)) from error
        journal.succeed(path, outputs)
        return outputs
