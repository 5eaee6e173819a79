"""What workflows would do, step by step, without running them.

It follows steps in the order in which they would run. Pure actions that only compute give their outputs. What other
steps give is unknown, and so is each step that needs it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec

from launchbay.actions.builtin import CommandCall, GetInstanceContext
from launchbay.actions.contract import Action, ChangesRoles, Document
from launchbay.actions.own_plan import PLAN
from launchbay.actions.parameters import given_parameters
from launchbay.actions.plan import ActionPlan, PlansTeardown, SupportsPlan, bounded, unknown
from launchbay.errors import ActionFailed, ExpressionError, NotThereYet, WorkflowFailed, describe
from launchbay.manifest.expressions import Template
from launchbay.manifest.graph import COMPUTE, Component, Step, Workflow
from launchbay.model.effect import Effect, EffectKind
from launchbay.model.job import step_path, workflow_path
from launchbay.model.machine import DRY_RUN
from launchbay.model.price import Price
from launchbay.model.types import BOOL
from launchbay.model.values import CoercionError, coerce
from launchbay.planning.names import DESTROY, LAUNCH
from launchbay.runtime.context import StepRun, split_command
from launchbay.runtime.contract import DocumentKey, JobRun, StepDocuments
from launchbay.runtime.lifecycle import TEARDOWN, teardown_artifact, teardown_call
from launchbay.runtime.machines import PROVISION, RELEASE, is_dry_run
from launchbay.runtime.signals import coerce_all
from launchbay.runtime.state import WorkflowScope
from launchbay.runtime.workflow import WorkflowRun, rounds

_OF_THE_RUNTIME = frozenset({"retryCount", "ignoreFail"})
_NESTING = 16
_NAMED = 3
_NOW = re.compile(r"\bnow\s*\(")


class StepPlan(NamedTuple):
    """What one step would do. `path` is its place in the job."""

    path: str
    component: str
    action: str
    plan: ActionPlan


class ReadOnlyDocuments:
    """Documents of steps for a plan, which must not change any.

    `seen` are those that the step at hand has read. `changed_by` has the names of steps that would change one,
    `open_by` those of unknown steps that may change any of their action and component, and `destroyed` those of which
    a step would leave nothing. `released` are the addresses of machines that a step releases.
    """

    def __init__(self, documents: StepDocuments) -> None:
        self._documents = documents
        self.list_by_instance = documents.list_by_instance
        self.seen: set[DocumentKey] = set()
        self.changed_by: dict[DocumentKey, str] = {}
        self.open_by: dict[tuple[str, str], str] = {}  # by component and action
        self.destroyed: set[DocumentKey] = set()
        self.released: set[str] = set()

    async def read(self, job: JobRun, key: DocumentKey) -> Document | None:
        """Return the document as it is before the first step."""
        self.seen.add(key)
        return await self._documents.read(job, key)

    def left_by(self, key: DocumentKey) -> str | None:
        """Return the step that leaves the document otherwise than it is, or may."""
        return self.changed_by.get(key) or self.open_by.get((key.component, key.action))

    async def write(self, *_: object) -> int:
        raise ActionFailed("A plan must not write documents.", retryable=False)

    async def delete(self, *_: object) -> None:
        raise ActionFailed("A plan must not delete documents.", retryable=False)


def reading_only(job: JobRun, documents: ReadOnlyDocuments) -> JobRun:
    """Return the job with surroundings that it can't change."""
    return replace(job, deps=replace(job.deps, documents=documents))


class PlanOfWorkflows:
    """What the workflows of one change would do, one after the other.

    What an earlier one returns is unknown to those after it. So is the ID of an instance that `is_launch` makes.
    """

    def __init__(self, note: Callable[[StepPlan], None], *, is_launch: bool = False) -> None:
        self._note = note
        self._is_launch = is_launch
        self.at = ""  # the path of the step that is planned
        self._returned: dict[str, dict[str, str]] = {}  # names by component, with the workflow that returns each
        self._earlier = _Earlier({}, [], [])

    async def add(self, job: JobRun, component: str, workflow: str) -> None:
        """Note what each step of a workflow would do, in order.

        `job` has `ReadOnlyDocuments`, one object for all workflows of a change. Raises WorkflowFailed beyond the steps
        of a job, and for a step whose action can plan but fails to.
        """
        found = job.component(component)
        returned = self._returned.setdefault(component, {})
        walk = _Walk(job, self._note, self._begin, dict(returned), self._earlier, is_launch=self._is_launch)
        await walk.workflow(found, found.workflows[workflow], workflow_path(component, workflow), {}, 0)
        returned.update(dict.fromkeys(found.workflows[workflow].returns, workflow))

    def _begin(self, path: str) -> None:
        self.at = path


async def plan_teardown(job: JobRun, component: str | None) -> list[StepPlan]:
    """Return what goes although no step destroys it.

    That is what documents describe, and machines, of a component or of all.
    """
    found: list[StepPlan] = []
    documents = job.deps.documents
    assert isinstance(documents, ReadOnlyDocuments)
    for key in await documents.list_by_instance(job):
        stored = await documents.read(job, key)
        if stored is None or component not in {None, key.component}:
            continue
        path = step_path(workflow_path(key.component, TEARDOWN), f"{key.action} {key.name}")
        if key in documents.destroyed:
            plan = ActionPlan(artifact=teardown_artifact(job.deps.actions.find(key.action), stored))
        elif (earlier := documents.left_by(key)) is not None:
            left = unknown(path, f"Unknown: it depends on what {earlier!r} leaves.").effects
            plan = ActionPlan(effects=(_all_of(key), *left))
        else:
            plan = await _plan_document(job, key, path, stored)
        found.append(StepPlan(path, key.component, key.action, plan))
    machines = [(path, each) for path, each in job.state.machines() if component in {None, path} and not each.adopted]
    for path, machine in machines:
        address = f"{path}: machine {machine.number} of {machine.role}"
        if address in documents.released:
            continue
        note = "a simulated machine" if machine.provider == DRY_RUN else f"{machine.host} ({machine.id}) is released"
        step = step_path(workflow_path(path, RELEASE), f"{machine.role} {machine.number}")
        found.append(_estimate("delete", step, path, RELEASE, address, job.secrets.redact(note)))
    return found


async def _plan_document(job: JobRun, key: DocumentKey, path: str, stored: Document) -> ActionPlan:
    """Return what the teardown of a document destroys.

    It is all of it as one effect if its action can't say more.
    """
    problem, action = "", job.deps.actions.find(key.action)
    if isinstance(action, PlansTeardown):
        call = teardown_call(job, key, path)
        try:
            return bounded(await action.plan_teardown(call, key.name), call.context.redact)
        except ActionFailed as error:
            problem = f"; what that is can't be planned: {error}"
        except Exception as error:  # noqa: BLE001 - an action is foreign code
            problem = f"; what that is can't be planned: the action crashed: {describe(error)}"
    effects = (_all_of(key, job.secrets.redact(problem)),)
    return ActionPlan(effects=effects, artifact=teardown_artifact(action, stored))


def _all_of(key: DocumentKey, problem: str = "") -> Effect:
    return Effect(
        kind="delete",
        address=f"{key.component}: {key.action} {key.name!r}",
        certainty="estimated",
        note=f"all that is left of it goes with the component{problem}",
    )


def plan_machines(job: JobRun, started: Iterable[str]) -> list[StepPlan]:
    """Return the machines that starting components make without a workflow."""
    found: list[StepPlan] = []
    for path in started:
        if job.component(path).type == COMPUTE and not job.state.component(path).machines:
            step = step_path(workflow_path(path, LAUNCH), PROVISION)
            note = "a simulated machine" if is_dry_run(job) else "a machine of the environment's provider"
            price = None if is_dry_run(job) else Price()  # its size isn't known here
            found.append(_estimate("create", step, path, PROVISION, f"{path}: machine", note, price))
    return found


def plan_ends(submodules: Iterable[str]) -> list[StepPlan]:
    """Return the deletion of the submodules of an instance."""
    note = "the submodule's instance is destroyed with all that it has"
    return [_estimate("delete", workflow_path(name, DESTROY), name, DESTROY, name, note) for name in submodules]


def _estimate(
    kind: EffectKind, step: str, component: str, action: str, address: str, note: str, price: Price | None = None
) -> StepPlan:
    effect = Effect(kind=kind, address=address, certainty="estimated", note=note, price=price)
    return StepPlan(step, component, action, ActionPlan(effects=(effect,)))


class _Walk:
    def __init__(
        self,
        job: JobRun,
        note: Callable[[StepPlan], None],
        begin: Callable[[str], None],
        returned: Mapping[str, str],
        earlier: "_Earlier",
        *,
        is_launch: bool,
    ) -> None:
        self._job = job
        self._noted = note
        self._begin = begin
        self._returned = returned
        self._earlier = earlier
        self._is_launch = is_launch

    async def workflow(
        self,
        component: Component,
        workflow: Workflow,
        path: str,
        arguments: Mapping[str, Any],
        depth: int,
    ) -> None:
        """Follow the steps of a workflow."""
        run = WorkflowRun(self._job, component, workflow, path, depth)
        run.scope = WorkflowScope(
            workflow,
            self._job.configuration.get(component.path, {}),
            self._job.state.component(component.path).variables,
            arguments,
            component.always_configured,
            int(self._job.deps.clock.now().timestamp()),
        )
        # Unknown variables, with the workflow or step that sets each.
        lacking = {name: by for name, by in self._returned.items() if name not in arguments}
        for step in workflow.on_failure:
            self._job.budget.take()
            action = self._job.deps.actions.find(step.action)
            if action is None or not action.pure or isinstance(action, CommandCall):
                at = step_path(path, step.name)
                self._note(run, step, at, unknown(at, "Unknown: it runs only if another step fails."))
        for steps in (workflow.steps, workflow.finally_):
            order = rounds(steps)
            for step in sorted((each for each in steps if each.name in order), key=lambda each: order[each.name]):
                self._job.budget.take()
                await self._step(run, step, lacking, depth)

    async def _step(self, run: WorkflowRun, step: Step, lacking: dict[str, str], depth: int) -> None:
        path = step_path(run.path, step.name)
        self._begin(path)
        action = self._job.deps.actions.find(step.action)
        try:
            if not await self._would_run(run, step, lacking):
                return
            self._require_known(step, lacking)
            parameters = await self._parameters(run, step)
            running = StepRun(run, path, step.action, self._job.deps.clock.now())
            if action is None:
                await self._call(run, step, path, parameters, depth)
            elif getattr(action, "computes", False):
                outputs = await running.run_action(action, parameters, step.parameters.expressions)
                assert isinstance(outputs, Mapping), "actions that compute are built in"
                run.scope.variables.update({name: outputs.get(key) for name, key in step.outputs.items()})
                return
            elif isinstance(action, CommandCall):
                self._note(run, step, path, unknown(path, "Unknown: it runs a command of other components."))
            elif action.pure:
                pass  # it waits, asks or reads
            elif is_dry_run(self._job):
                effect = Effect(kind="run", address=path, note="simulated: the environment is a dry run")
                self._note(run, step, path, ActionPlan(effects=(effect,)))
            else:
                self._note(run, step, path, await self._action(run, running, action, step, parameters))
        except _Unknown as reason:
            self._unknown(run, step, path, reason)
        except (ActionFailed, ExpressionError) as error:
            if _can_plan(action, step):
                raise self._failed(path, error) from error
            self._note(run, step, path, unknown(path, self._job.secrets.redact(f"It can't be planned: {error}")))
        lacking.update(dict.fromkeys(step.outputs, step.name))
        lacking[f"{step.name}~"] = step.name

    def _unknown(self, run: WorkflowRun, step: Step, path: str, reason: "_Unknown") -> None:
        """Note an unknown step, and what it may change."""
        action = self._job.deps.actions.find(step.action)
        if action is None or not action.pure:
            self._note(run, step, path, unknown(path, f"Unknown: {reason}."))
        self._earlier.note(run, step, action)
        if isinstance(action, SupportsPlan) and not reason.knows_documents:
            documents = self._job.deps.documents
            assert isinstance(documents, ReadOnlyDocuments)
            documents.open_by[run.component.path, step.action] = step.name

    async def _action(
        self, run: WorkflowRun, running: StepRun, action: Action, step: Step, parameters: Mapping[str, Any]
    ) -> ActionPlan:
        documents = self._job.deps.documents
        assert isinstance(documents, ReadOnlyDocuments)
        documents.seen.clear()
        problem: ActionFailed | None = None
        try:
            plan = await running.plan_action(action, parameters, step.parameters.expressions)
        except ActionFailed as error:
            problem = error
        if running.used_machines and (steps := self._earlier.left_by(run.component.path, action)):
            raise _Unknown(f"it depends on the machines that {', '.join(map(repr, steps))} leaves")
        if earlier := sorted(filter(None, {documents.left_by(key) for key in documents.seen})):
            documents.changed_by.update(dict.fromkeys(documents.seen, step.name))
            raise _Unknown(f"it depends on what {', '.join(map(repr, earlier))} leaves", knows_documents=True)
        if problem is not None:
            if not _can_plan(action, step):
                raise problem
            if isinstance(problem, NotThereYet) and (steps := self._earlier.acted[-_NAMED:]):
                text = self._job.secrets.redact(str(problem)).rstrip(".")
                raise _Unknown(f"it may need what {', '.join(map(repr, steps))} makes: {text}")
            raise self._failed(running.step_path, problem) from problem
        if plan.effects:
            documents.changed_by.update(dict.fromkeys(documents.seen, step.name))
        if plan.destroys:
            documents.destroyed |= {key for key in documents.seen if key.name == plan.destroys}
        if isinstance(action, ChangesRoles):
            documents.released |= {each.address for each in plan.effects if each.kind == "delete"}
        worked = list(self._earlier.worked)
        if plan.effects:
            self._earlier.note(run, step, action)
        if plan.artifact and worked and running.used_machines and not isinstance(action, ChangesRoles):
            # It was asked before they ran, so the answer may be another one then.
            note = f"It may do something else, because of {', '.join(map(repr, worked))} on the machines before it."
            return msgspec.structs.replace(
                plan, artifact=b"", effects=(*plan.effects, *unknown(running.step_path, note).effects)
            )
        return plan

    def _failed(self, path: str, problem: Exception) -> WorkflowFailed:
        """Return why there is no plan.

        As an unknown step, this one would run without being held to anything.
        """
        text = self._job.secrets.redact(f"Step {path} can't be planned: {problem}")
        return WorkflowFailed(f"{text} Correct that, or make the change without a plan.")

    def _note(self, run: WorkflowRun, step: Step, path: str, plan: ActionPlan) -> None:
        self._noted(StepPlan(path, run.component.path, step.action, plan))
        if plan.effects:
            self._earlier.acted.append(step.name)

    async def _would_run(self, run: WorkflowRun, step: Step, lacking: Mapping[str, str]) -> bool:
        when = step.control.when
        if when is None:
            return True
        self._require(when, lacking, "whether it runs depends")
        value, _ = await self._job.evaluate(when, run.scope.values)
        try:
            return bool(coerce(BOOL, value))
        except CoercionError as error:
            raise ActionFailed(f"when: {error}", retryable=False) from error

    async def _parameters(self, run: WorkflowRun, step: Step) -> dict[str, Any]:
        value, _ = await self._job.evaluate(step.parameters, run.scope.values, keeps_texts=True)
        policies = self._job.environment.step_policies(step.action)
        parameters: dict[str, Any] = dict(value or {})
        parameters.update({name: policy for name, policy in policies.items() if name not in _OF_THE_RUNTIME})
        action = self._job.deps.actions.find(step.action)
        if action is not None and step.parameters.has_written:
            parameters = given_parameters(action.parameters, parameters)
        return parameters

    async def _call(self, run: WorkflowRun, step: Step, path: str, parameters: Mapping[str, Any], depth: int) -> None:
        workflow = run.component.workflows.get(step.action)
        if workflow is not None and depth < _NESTING:
            types = {parameter.name: parameter.type for parameter in workflow.parameters.values()}
            await self.workflow(run.component, workflow, path, coerce_all(types, parameters), depth + 1)
            return
        interface, command = split_command(run.component, step.action)
        what = f"the command {interface}.{command}" if interface else step.action
        self._note(run, step, path, unknown(path, f"Unknown: it runs {what}."))

    def _require_known(self, step: Step, lacking: Mapping[str, str]) -> None:
        """Raise _Unknown unless the parameters of one run are known."""
        if self._is_launch and step.action == GetInstanceContext.name:
            raise _Unknown("the instance gets its ID when it is launched")
        if step.control.each is not None:
            raise _Unknown("it runs once for each item of a list")
        if step.control.until is not None:
            raise _Unknown("it repeats until a condition is true")
        if step.control.identity is not None or step.control.secrets is not None:
            raise _Unknown("it borrows secrets for the attempt, which a plan doesn't")
        self._require(step.parameters, lacking, "its parameters depend")

    @staticmethod
    def _require(template: Template, lacking: Mapping[str, str], what: str) -> None:
        """Raise _Unknown, which names the steps, if a template needs an unknown variable."""
        steps = {
            lacking[name]
            for variable in template.variables
            for name in (variable, variable.partition("~")[0] + "~" if "~" in variable else variable)
            if name in lacking
        }
        if steps:
            raise _Unknown(f"{what} on {', '.join(sorted(map(repr, steps)))}")
        if any(map(_NOW.search, template.texts)):
            raise _Unknown(f"{what} on the time of the run")


class _Earlier(NamedTuple):
    """What earlier steps leave.

    `changed` names for each component the step that leaves it other machines, `worked` the steps that run something on
    some. `acted` are all that have effects, or may have some.
    """

    changed: dict[str, str]
    worked: list[str]
    acted: list[str]

    def note(self, run: WorkflowRun, step: Step, action: Action | None) -> None:
        """Note a step that has effects, or may have some."""
        if isinstance(action, ChangesRoles):
            self.changed[run.component.path] = step.name
        elif action is not None and (getattr(action, "on_machines", False) or "roles" in action.parameters):
            self.worked.append(step.name)

    def left_by(self, component: str, action: Action) -> list[str]:
        """Return the steps that leave an action other machines than there are now.

        One that changes machines works on those of its component, others may work on all.
        """
        paths = [component] if isinstance(action, ChangesRoles) else self.changed
        return sorted({self.changed[path] for path in paths if path in self.changed})


def _can_plan(action: Action | None, step: Step) -> bool:
    """Return whether the action says what this step would do.

    Some can only if the step says how, in its parameter `plan`.
    """
    return isinstance(action, SupportsPlan) and (PLAN not in action.parameters or PLAN in step.parameters.names)


class _Unknown(Exception):
    """Why the plan of a step is unknown.

    It may at least be known which documents the step may change.
    """

    def __init__(self, reason: str, *, knows_documents: bool = False) -> None:
        super().__init__(reason)
        self.knows_documents = knows_documents
