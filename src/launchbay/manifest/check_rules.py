"""Rules of what checks of drift run: a plan, and workflows that only read."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice, pairwise
from typing import Any

from launchbay.limits import NAME_CHARS, RECURRING_SHORTEST_S
from launchbay.manifest.graph import WORKFLOW_INSTANCE, CheckTimes
from launchbay.manifest.layout import Leaf
from launchbay.manifest.syntax import ChecksSyntax, ComponentSyntax, Named, StepSyntax, WorkflowSyntax
from launchbay.manifest.tree import plain
from launchbay.manifest.workflow_rules import IDENTITY, SECRETS, KnownActions, has_expression
from launchbay.model.cron import parse
from launchbay.model.findings import Findings
from launchbay.model.schedule import zone_of

PLAN = "plan"  # of the component's launch
FINDINGS = "findings"  # what a workflow returns that a check runs
_SOME_DAY = datetime(2026, 1, 1, tzinfo=UTC)  # a check of a manifest has no clock
NOT_READING = "this action may change something"


def may_change(action: object, parameters: Mapping[str, Any]) -> str:
    """Return why an action may change something outside.

    "" if it only reads with these parameters. An action that doesn't say so may.
    """
    says = getattr(action, "may_change", None)
    if says is None:
        return NOT_READING
    try:
        return str(says(parameters))
    except Exception as error:  # noqa: BLE001 - an action is foreign code
        return f"this action can't say whether it changes something ({type(error).__name__})"


class CheckRules:
    """Checks what a component lets checks run.

    `default` is what its application says for components that say nothing.
    """

    def __init__(
        self, leaf: Leaf, known_actions: KnownActions, findings: Findings, default: ChecksSyntax | None = None
    ) -> None:
        self._leaf = leaf
        self._default = default
        self._workflows = leaf.syntax.workflows.workflows
        self._known_actions = known_actions
        self._findings = findings.at(leaf.syntax.label)
        self._seen: set[str] = set()

    def check(self) -> tuple[str, ...] | None:
        """Report what is wrong; return what checks run, None if unsaid."""
        own = self._leaf.syntax.checks
        if self._leaf.type != WORKFLOW_INSTANCE:
            if own is not None:
                message = f"'checks' has no effect on a {self._leaf.type}. Write it at a {WORKFLOW_INSTANCE}."
                self._findings.warning("IgnoredValue", message, own)
            return None
        checks = own or self._default
        if checks is None or checks.run is None:
            return None
        names = [name for name in checks.run if own is not None or name.text in (PLAN, *self._workflows)]
        for name in names:
            workflow = self._workflows.get(name.text)
            if name.text == PLAN:
                continue
            if workflow is None:
                report_unknown(name, self._workflows, self._findings)
            elif FINDINGS not in workflow.returns:
                message = (
                    f"Workflow '{name.text}' returns no '{FINDINGS}', which 'checks' needs. Return a list of them."
                )
                self._findings.error("CheckWithoutFindings", message, name)
            else:
                self._check_workflows(workflow)
        return tuple(dict.fromkeys(name.text for name in names))

    def _check_workflows(self, workflow: WorkflowSyntax) -> None:
        """Report each step that may change something, also of workflows that it calls."""
        left = [workflow]
        while left:
            each = left.pop()
            if each.name not in self._seen:
                self._seen.add(each.name)
                left += filter(None, [self._called(each, step) for step in each.all_steps])

    def _called(self, workflow: WorkflowSyntax, step: StepSyntax) -> WorkflowSyntax | None:
        """Report what a step may change, and return the workflow that it calls."""
        if step.action is None:
            return None
        why = next((f"'{key}' borrows something for it" for key in (IDENTITY, SECRETS) if key in step.control), "")
        name = step.action.text
        if name in self._known_actions:
            if isinstance(self._known_actions, Mapping):
                literal = {key: plain(node) for key, node in step.parameters.items() if not has_expression(node)}
                why = why or may_change(self._known_actions[name], literal)
        elif name not in self._workflows:
            why = why or "it runs a command of another component"
        if why:
            message = f"A check must only read, and {why}: '{name}'. Use it in a workflow that no check runs."
            self._findings.at(workflow.name, step.name).error("CheckMayChange", message, step.action)
        return None if name in self._known_actions else self._workflows.get(name)


def report_unknown(name: Named, workflows: Iterable[str], findings: Findings) -> None:
    """Report the name of a workflow that isn't there."""
    hint = findings.hints.nearest(name.text, (PLAN, *workflows))
    findings.error("UnknownWorkflow", f"'checks' names unknown workflow '{name.text}'.{hint}", name)


def check_application(syntax: ComponentSyntax, leaves: Iterable[Leaf], findings: Findings) -> CheckTimes | None:
    """Report what is wrong with the checks of an application.

    Return when they are made, None for never.
    """
    checks = syntax.checks
    if checks is None:
        return None
    workflows = {name for leaf in leaves for name in leaf.syntax.workflows.workflows}
    for name in checks.run or ():
        if name.text != PLAN and name.text not in workflows:
            report_unknown(name, sorted(workflows), findings)
    if checks.cron is None:
        if checks.zone is not None:
            findings.error("MalformedSchedule", "'zone' has no 'cron'. Example: cron: 0 3 * * *", checks.zone)
        return None
    times = CheckTimes(checks.cron.text, "UTC" if checks.zone is None else checks.zone.text)
    if checks.zone is not None:
        try:
            zone_of(times.zone)
        except ValueError as error:
            findings.error("MalformedSchedule", str(error), checks.zone)
    try:
        for warning in _warnings(times.cron):
            findings.warning("UnusualSchedule", warning, checks.cron)
    except ValueError as error:
        findings.error("MalformedSchedule", f"{error} Example: 0 3 * * *", checks.cron)
    return times


def _warnings(text: str) -> Sequence[str]:
    """Return what the author of an expression may not expect.

    Raises ValueError if it can't be one of checks.
    """
    if len(text) > NAME_CHARS:
        raise ValueError(f"Invalid schedule: expected at most {NAME_CHARS} characters, found {len(text)}.")
    cron = parse(text)
    times = list(islice(cron.times(_SOME_DAY), 3))
    if not times:
        raise ValueError("Invalid schedule: it never fires again.")
    if any((later - earlier).total_seconds() < RECURRING_SHORTEST_S for earlier, later in pairwise(times)):
        raise ValueError(f"Invalid schedule: it fires more often than every {RECURRING_SHORTEST_S} seconds.")
    return cron.warnings
