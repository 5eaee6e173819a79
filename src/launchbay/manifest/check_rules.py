"""Rules of what checks of drift run: a plan, and workflows that only read."""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.graph import WORKFLOW_INSTANCE
from launchbay.manifest.layout import Leaf
from launchbay.manifest.syntax import StepSyntax, WorkflowSyntax
from launchbay.manifest.tree import plain
from launchbay.manifest.workflow_rules import IDENTITY, SECRETS, KnownActions, has_expression
from launchbay.model.findings import Findings

PLAN = "plan"  # of the component's launch
FINDINGS = "findings"  # what a workflow returns that a check runs
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
    """Checks what a component lets checks run."""

    def __init__(self, leaf: Leaf, known_actions: KnownActions, findings: Findings) -> None:
        self._leaf = leaf
        self._workflows = leaf.syntax.workflows.workflows
        self._known_actions = known_actions
        self._findings = findings.at(leaf.syntax.label)
        self._seen: set[str] = set()

    def check(self) -> tuple[str, ...] | None:
        """Report what is wrong; return what checks run, None if unsaid."""
        checks = self._leaf.syntax.checks
        if checks is None:
            return None
        if self._leaf.type != WORKFLOW_INSTANCE:
            message = f"'checks' has no effect on a {self._leaf.type}. Write it at a {WORKFLOW_INSTANCE}."
            self._findings.warning("IgnoredValue", message, checks)
            return None
        for name in checks.run:
            workflow = self._workflows.get(name.text)
            if name.text == PLAN:
                continue
            if workflow is None:
                hint = self._findings.hints.nearest(name.text, (PLAN, *self._workflows))
                self._findings.error("UnknownWorkflow", f"'checks' names unknown workflow '{name.text}'.{hint}", name)
            elif FINDINGS not in workflow.returns:
                message = (
                    f"Workflow '{name.text}' returns no '{FINDINGS}', which 'checks' needs. Return a list of them."
                )
                self._findings.error("CheckWithoutFindings", message, name)
            else:
                self._check_workflows(workflow)
        return tuple(dict.fromkeys(name.text for name in checks.run))

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
