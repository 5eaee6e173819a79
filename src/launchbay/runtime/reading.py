"""Workflows that checks of drift run, and that only read.

The compiler refuses steps that may change something (`manifest/check_rules.py`). What it can't see, such as a method
that an expression gives, is asked again just before an action runs. Nothing is recorded, and documents can't change.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from launchbay import limits
from launchbay.actions.contract import Action, ActionCall, ActionParameter
from launchbay.actions.plan import ActionPlan, bounded, unknown
from launchbay.actions.registry import Registry
from launchbay.errors import ActionFailed, WorkflowFailed
from launchbay.manifest.check_rules import FINDINGS, may_change
from launchbay.model.effect import Effect, EffectKind
from launchbay.model.job import workflow_path
from launchbay.runtime.contract import JobRun
from launchbay.runtime.machines import is_dry_run
from launchbay.runtime.planner import StepPlan
from launchbay.runtime.workflow import WorkflowRun

_KEYS = frozenset({"address", "from", "to", "note"})
_EXPECTED = "a list of maps with 'address', and 'from' or 'to' or both, and perhaps 'note'"


async def run_check(job: JobRun, component: str, workflow: str) -> StepPlan:
    """Run a workflow that only reads, and return its findings.

    They are the effects that would put back what differs. `job` is one that nothing else runs. Raises WorkflowFailed,
    also for return values that aren't findings.
    """
    path = workflow_path(component, workflow)
    if is_dry_run(job):
        return StepPlan(path, component, workflow, unknown(path, "Not run: the environment simulates what steps do."))
    found = job.component(component)
    readers = cast("Registry", _Readers(job.deps.actions, frozenset(found.workflows)))
    job = replace(job, deps=replace(job.deps, actions=readers))
    returned = await WorkflowRun(job, found, found.workflows[workflow], path, 0).run({})
    try:
        plan = bounded(ActionPlan(effects=read_findings(returned.get(FINDINGS))), job.secrets.redact)
    except ActionFailed as error:
        raise WorkflowFailed(f"The check {path} failed: {error}") from error
    return StepPlan(path, component, workflow, plan)


def read_findings(value: Any) -> tuple[Effect, ...]:
    """Return the findings that a workflow returned, as what would put them back.

    `from` is what should be there, `to` what is. The effect is the way back, so they are turned round: its `before` is
    `to`. One without `from` is too much, one without `to` is missing, and one
    with the same on both sides is as it should be. Raises ActionFailed for anything else.
    """
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ActionFailed(f"'{FINDINGS}' isn't a list. Return {_EXPECTED}.", retryable=False)
    if len(value) > limits.DRIFT_FINDINGS:
        raise ActionFailed(
            f"'{FINDINGS}' has {len(value)} entries (limit: {limits.DRIFT_FINDINGS}). Return less.", retryable=False
        )
    effects: dict[str, Effect] = {}
    for number, each in enumerate(value):
        effect = _effect(each, f"{FINDINGS}[{number}]")
        if effect.address in effects:
            raise ActionFailed(f"'{FINDINGS}' has the address {effect.address[:200]!r} twice.", retryable=False)
        effects[effect.address] = effect
    return tuple(each for each in effects.values() if each.before != each.after)


def _effect(value: Any, where: str) -> Effect:
    if not isinstance(value, Mapping) or not value.keys() <= _KEYS:
        raise ActionFailed(f"{where} isn't a finding. '{FINDINGS}' is {_EXPECTED}.", retryable=False)
    address, should, found = value.get("address"), value.get("from"), value.get("to")
    if not isinstance(address, str) or not 0 < len(address) <= limits.LOG_LINE_CHARS:
        raise ActionFailed(f"{where} has no 'address' with 1 to {limits.LOG_LINE_CHARS} characters.", retryable=False)
    if should is None and found is None:
        raise ActionFailed(f"{where} has neither 'from' nor 'to': say what should be there, or is.", retryable=False)
    note = "" if value.get("note") is None else str(value["note"])[: limits.LOG_LINE_CHARS]
    kind: EffectKind = "create" if found is None else "delete" if should is None else "change"
    return Effect(kind=kind, address=address, before=found, after=should, certainty="exact", note=note)


class _Readers:
    """The actions as a check sees them.

    What isn't an action must be a workflow of the component.
    """

    def __init__(self, actions: Registry, workflows: frozenset[str]) -> None:
        self._actions = actions
        self._workflows = workflows

    def find(self, name: str) -> "_Reader | None":
        action = self._actions.find(name)
        return None if action is None and name in self._workflows else _Reader(name, action)


class _Reader:
    """An action that runs only if it changes nothing."""

    aliases = ()
    pure = True

    def __init__(self, name: str, action: Action | None) -> None:
        self.name = name
        self._action = action
        self.parameters: Mapping[str, ActionParameter] = {} if action is None else action.parameters
        self.outputs: Mapping[str, str] = {} if action is None else action.outputs

    async def run(self, call: ActionCall) -> Mapping[str, Any]:
        """Run the action, or raise ActionFailed."""
        why = may_change(self._action, call.parameters)
        if self._action is None or why:
            raise ActionFailed(f"A check must only read, and {why}: {self.name!r}.", retryable=False)
        return await self._action.run(call)
