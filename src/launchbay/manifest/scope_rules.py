"""What variables in workflows mean, and which of them there are (manifest-language §5, "Scope of a workflow")."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain

from launchbay.manifest.graph import ConfigurationPin, Workflow
from launchbay.manifest.layout import Leaf
from launchbay.manifest.syntax import WorkflowSyntax
from launchbay.manifest.templates import variables_by_place
from launchbay.manifest.tree import Node
from launchbay.model.findings import Findings, Hints
from launchbay.model.types import PinKind

INNER = "~"  # `{$.step~variable}` is a variable inside the workflow that the step called


def always_configured(workflows: Mapping[str, Workflow], configured: Collection[str]) -> frozenset[str]:
    """Return the names of configuration pins that values returned under the same name never hide.

    Otherwise what a workflow returned comes later than the configuration. But where a workflow makes a value out of
    the variable of its own name (`stats-url: "http://{$.host}{$.stats-url}"`), its author means the configured one: the
    other way round the value would grow with every run. Giving a variable back as it is makes nothing out of it.
    """
    return frozenset(
        name
        for workflow in workflows.values()
        if not workflow.name.startswith(".")  # what a macro returns is not kept
        for name, template in workflow.returns.items()
        if name in configured and name in template.variables() and not template.is_variable(name)
    )


class ScopeRules:
    """Checks the variables in all workflows of one component.

    The scope is taken as generously as it can be at run time: values returned by any workflow of the component count,
    and so do the arguments of any step that calls the workflow. The order within the workflow is not looked at.
    """

    def __init__(
        self,
        leaf: Leaf,
        configuration: Mapping[str, ConfigurationPin],
        workflows: Mapping[str, Workflow],
        findings: Findings,
        hints: Hints,
    ) -> None:
        self._leaf = leaf
        self._workflows = workflows
        self._findings = findings
        self._hints = hints
        with_value = {pin.pin for pin in configuration.values() if pin.has_default or pin.parameter is not None}
        self._without_value = {leaf.pins[key].name: key for key in configuration if key not in with_value}
        self._everywhere = {leaf.pins[key].name for key in with_value}
        self._everywhere.update(name for workflow in workflows.values() for name in workflow.returns)
        self._own = {name: self._variables_of(workflow) for name, workflow in workflows.items()}
        for called, arguments in self._arguments():
            if called in self._own:
                self._own[called].update(arguments)
        self._calls = {
            name: {step.name: step.action for step in workflow.steps if step.action in workflows}
            for name, workflow in workflows.items()
        }

    def check(self) -> None:
        """Warn once of each variable in each workflow that is not in scope."""
        for name, workflow in self._workflows.items():
            missing: set[str] = set()
            for nodes, used in _uses(self._leaf.syntax.workflows.workflows[name], workflow):
                wanting = {
                    variable for variable in used if variable not in missing and self._is_missing(variable, name)
                }
                if wanting:
                    missing |= wanting
                    self._report(name, nodes, wanting)

    def _variables_of(self, workflow: Workflow) -> set[str]:
        own = set(workflow.parameters)
        for step in workflow.steps:
            own.update(step.outputs)
        return own

    def _arguments(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield what workflows are called with: as commands, and by steps of the component."""
        for pin in self._leaf.pins.values():
            if pin.type.kind is PinKind.RECEIVE_COMMAND and pin.type.signature is not None:
                yield pin.name, pin.type.signature.arguments
        for workflow in self._leaf.syntax.workflows.workflows.values():
            for step in workflow.steps:
                if step.action is not None:
                    yield step.action.text, step.parameters

    def _is_missing(self, variable: str, workflow: str) -> bool:
        if variable in self._own[workflow] or variable in self._everywhere:
            return False
        step, _, inner = variable.partition(INNER)
        called = self._calls[workflow].get(step)
        return called is None or not (inner in self._own[called] or inner in self._everywhere)

    def _report(self, workflow: str, nodes: Iterable[Node], wanting: set[str]) -> None:
        for variable, place in variables_by_place(nodes, wanting).items():
            message = f"{self._leaf.syntax.title}: workflow '{workflow}': the variable '{variable}' is not in scope"
            key = self._without_value.get(variable)
            if key is not None:
                message = f"{message}, for nothing gives the configuration pin '{key}' a value"
            hint = self._hints.nearest(variable, chain(self._own[workflow], self._everywhere)) if key is None else ""
            self._findings.warning("VariableNotInScope", f"{message}.{hint}", place)


def _uses(syntax: WorkflowSyntax, workflow: Workflow) -> Iterator[tuple[Iterable[Node], Iterable[str]]]:
    """Yield nodes that hold expressions, with the variables that those name."""
    steps = {step.name: step for step in syntax.steps}
    for step in workflow.steps:
        written = steps[step.name]
        yield written.parameters.values(), step.parameters.variables()
        for node, template in ((written.retry_count, step.retry_count), (written.ignore_fail, step.ignore_fail)):
            if node is not None and template is not None:
                yield (node,), template.variables()
    for name, template in workflow.returns.items():
        yield (syntax.returns[name].value,), template.variables()
