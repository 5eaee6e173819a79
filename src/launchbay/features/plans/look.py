"""What the workflows of one instance would do: nothing runs."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth.secret_key import TextSeal
from launchbay.errors import BadRequest, WorkflowFailed
from launchbay.features.plans.ahead import Ahead
from launchbay.features.plans.rules import PlannedStep
from launchbay.ids import id_of_turn, seconds_of
from launchbay.manifest.configuration import Configured
from launchbay.model.effect import Effect
from launchbay.model.environment import EnvironmentView
from launchbay.model.job import workflow_path
from launchbay.model.redaction import Redactor
from launchbay.planning.plans import plan_destroy
from launchbay.runtime.contract import JobRun, NullJournal, RuntimeDeps
from launchbay.runtime.planner import (
    PlanOfWorkflows,
    ReadOnlyDocuments,
    StepPlan,
    plan_ends,
    plan_machines,
    plan_teardown,
    reading_only,
)
from launchbay.runtime.reading import run_check
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.state import Graph, InstanceState
from launchbay.usecases.context import AppContext

_SUBMODULE = "a submodule's step may differ when it runs"
_NOBODY: Any = None  # a plan sends nothing to other instances


async def look(app: AppContext, runtime: RuntimeDeps, plan_id: str, ahead: Ahead, found: "Found") -> None:
    """Note what the steps of one instance would do.

    Raises BadRequest if one can't be planned.
    """
    documents = ReadOnlyDocuments(runtime.documents)
    note = partial(found.add, ahead.path)
    job_of = partial(_job, app, runtime, plan_id, ahead, documents=documents)
    workflows = PlanOfWorkflows(note, is_launch=ahead.is_launched)
    try:
        former = job_of(ahead.before)
        for component, workflow in ahead.stops:
            await workflows.add(former, component, workflow)
        for component in () if ahead.is_destroyed else ahead.removed:
            _note_all(note, await plan_teardown(former, component))
        _note_all(note, plan_ends(ahead.ends))
        job = job_of(ahead.after)
        # As the job itself does before these workflows (`runtime/lifecycle.py`).
        for component, pins in ahead.changed.items():
            job.state.drop_returned(component, pins)
        for component in () if ahead.is_destroyed else ahead.removed:
            job.state.forget(component)
        _note_all(note, plan_machines(job, ahead.started))
        for component, workflow in ahead.others:
            await workflows.add(job, component, workflow)
        for component, workflow in ahead.checks:
            workflows.at = workflow_path(component, workflow)
            note(await run_check(job_of(ahead.after), component, workflow))
        if ahead.is_destroyed:
            _note_all(note, await plan_teardown(job, None))
    except WorkflowFailed as error:
        raise BadRequest(str(error)) from error
    finally:
        found.at = workflows.at


def _job(
    app: AppContext,
    runtime: RuntimeDeps,
    plan_id: str,
    ahead: Ahead,
    configured: Configured,
    *,
    documents: ReadOnlyDocuments,
) -> JobRun:
    """Return a job that nothing runs."""
    secrets = Secrets(
        TextSeal(app.secret_key, ahead.organization_id),
        partial(Redactor, [*ahead.known, *_values(ahead.view)]),
    )
    state = InstanceState.from_text(secrets.opened_json(ahead.state))
    return reading_only(
        JobRun(
            job_id=job_id_of(plan_id, ahead.path),
            instance_id=ahead.instance_id,
            organization_id=ahead.organization_id,
            environment_id=ahead.environment_id,
            plan=plan_destroy("Running"),  # type: ignore[arg-type] # any: none of it runs
            graph=Graph(configured.manifest, configured.configuration),
            environment=ahead.view,
            state=state,
            journal=NullJournal(),
            deps=runtime,
            linked_instances=_NOBODY,
            links=dict(ahead.links),
            secrets=secrets,
        ),
        documents,
    )


def _note_all(note: Callable[[StepPlan], None], steps: Iterable[StepPlan]) -> None:
    for step in steps:
        note(step)


def _values(view: EnvironmentView) -> Sequence[Any]:
    return [view.properties, view.policies]


class Found:
    """What a plan has so far.

    It is counted at once: thousands of steps may each be large.
    """

    def __init__(self) -> None:
        self.steps: list[PlannedStep] = []
        self.artifacts: dict[str, bytes] = {}
        self.result_bytes = 0
        self.artifact_bytes = 0
        self.at = ""  # the path of the last step

    def add(self, instance: Sequence[str], step: StepPlan) -> None:
        """Add what a step of an instance would do.

        Raises BadRequest beyond the bytes of a plan.
        """
        is_held = not instance and bool(step.plan.artifact)
        shown = _shown(step, ".".join(instance), is_held=is_held)
        self.result_bytes += len(msgspec.json.encode(shown))
        self._require(self.result_bytes, limits.PLAN_RESULT_BYTES, "effects")
        self.steps.append(shown)
        if is_held:
            self.artifact_bytes += len(step.plan.artifact)
            self._require(self.artifact_bytes, limits.PLAN_TOTAL_BYTES, "artifacts")
            self.artifacts[step.path] = step.plan.artifact

    @staticmethod
    def _require(size: int, limit: int, what: str) -> None:
        if size > limit:
            raise BadRequest(
                f"The {what} of the plan have more than {limit} bytes.", "Plan a part of it, such as fewer steps."
            )


def _shown(step: StepPlan, instance: str, *, is_held: bool) -> PlannedStep:
    effects = step.plan.effects
    if instance:
        effects = tuple(_of_submodule(each, instance) for each in effects)
    return PlannedStep(
        path=step.path,
        component=step.component,
        action=step.action,
        effects=sorted(effects, key=lambda each: each.kind != "delete"),
        instance=instance,
        warnings=list(step.plan.warnings),
        digest=hashlib.sha256(step.plan.artifact).hexdigest() if is_held else "",
        held=is_held,
    )


def _of_submodule(effect: Effect, instance: str) -> Effect:
    """Return the effect with an address that no pattern for another instance allows."""
    effect = msgspec.structs.replace(effect, address=f"{instance}.{effect.address}")
    if effect.certainty != "exact":
        return effect
    return msgspec.structs.replace(effect, certainty="estimated", note=f"{effect.note}; {_SUBMODULE}".lstrip("; "))


def job_id_of(plan_id: str, instance: Sequence[str]) -> str:
    """Return what stands for the job of an instance in a plan.

    `instance` leads through the submodules. Their steps have the paths of others, and must not have their keys.
    """
    return id_of_turn(seconds_of(plan_id), plan_id, *instance) if instance else plan_id
