"""The rules for the workflows of one `workflow.Instance`, all but those on variables (manifest-language §5)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain

from launchbay.limits import STEP_RETRIES_MAX
from launchbay.manifest.expressions import variables_by_place
from launchbay.manifest.graph import ConfigurationPin, Pin, Workflow
from launchbay.manifest.layout import Leaf
from launchbay.manifest.syntax import Named, StepSyntax, WorkflowSyntax
from launchbay.manifest.tree import Node, ScalarNode, is_null, kind_of
from launchbay.model.findings import Findings, Hints, Place
from launchbay.model.schedule import CronError, due_times
from launchbay.model.types import PinKind

IMPLICIT_PHASE = "provision"  # where no step declares it, it means every step without a phase and preceding phases


def deadlocked_steps(steps: Sequence[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Return the names of steps, each given as (name, phase, preceding phases), that can never start.

    A step starts when no other unfinished step has one of its preceding phases; a step's own place in such a phase does
    not hold it up. Takes time in proportion to the number of steps and phases.
    """
    unfinished: dict[str, int] = {}
    for _, phase, _ in steps:
        unfinished[phase] = unfinished.get(phase, 0) + 1
    waiting: dict[str, list[int]] = {}
    blocked: list[int] = []
    ready: list[int] = []
    for number, (_, phase, preceding) in enumerate(steps):
        blockers = [name for name in dict.fromkeys(preceding) if unfinished.get(name, 0) > (name == phase)]
        for name in blockers:
            waiting.setdefault(name, []).append(number)
        blocked.append(len(blockers))
        if not blockers:
            ready.append(number)
    while ready:
        phase = steps[ready.pop()][1]
        unfinished[phase] -= 1
        if unfinished[phase] > 1:
            continue
        # With one step left in the phase only that step comes free, if it waits for its own phase; with none, all do.
        for number in waiting.get(phase, ()):
            if (steps[number][1] == phase) == (unfinished[phase] == 1):
                blocked[number] -= 1
                if blocked[number] == 0:
                    ready.append(number)
    return [name for number, (name, _, _) in enumerate(steps) if blocked[number]]


_CRON_CHARS = 400
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)  # whether a schedule is well formed does not depend on it
_TRIGGERING = frozenset({PinKind.CONFIGURATION, PinKind.CONSUME_SIGNAL})


class WorkflowRules:
    """Checks the workflows, triggers and schedule of one component."""

    def __init__(self, leaf: Leaf, known_actions: Collection[str], findings: Findings, hints: Hints) -> None:
        self._leaf = leaf
        self._title = leaf.syntax.title
        self._syntax = leaf.syntax.workflows
        self._known_actions = known_actions
        self._findings = findings
        self._hints = hints
        self._published: set[str] = set()
        self._commands: set[str] = set()  # that the component sends, by `interface.pin`
        self._results: dict[str, set[str]] = {}  # of the commands that the component receives, by bare name
        self._triggering_by_interface: dict[str, list[Pin]] = {}
        for pin in leaf.pins.values():
            self._classify(pin)
        self._called = {
            step.action.text for workflow in self._syntax.workflows.values() for step in workflow.steps if step.action
        }

    def _classify(self, pin: Pin) -> None:
        kind = pin.type.kind
        if kind is PinKind.PUBLISH_SIGNAL:
            self._published.add(pin.name)
        elif kind is PinKind.SEND_COMMAND:
            self._commands.add(pin.key)
        elif kind is PinKind.RECEIVE_COMMAND:
            results = pin.type.signature.results if pin.type.signature else ()
            self._results.setdefault(pin.name, set()).update(results)
        else:
            self._triggering_by_interface.setdefault(pin.interface, []).append(pin)

    def check(self) -> Mapping[str, str]:
        """Report what is wrong, and return the triggers with wildcards written out: `interface.pin` → workflow."""
        for workflow in self._syntax.workflows.values():
            for step in workflow.steps:
                self._check_step(workflow, step)
            self._check_phases(workflow)
            self._check_returns(workflow)
        self._check_commands()
        for name, cron in self._syntax.schedule.items():
            self._check_schedule(name, cron)
        for propagating in self._syntax.propagate_status:
            if propagating.text not in self._syntax.workflows:
                self._unknown_workflow(self._findings.warning, "'propagateStatus' names", propagating.text, propagating)
        return self._triggers()

    def _check_step(self, workflow: WorkflowSyntax, step: StepSyntax) -> None:
        where = f"{self._title}: workflow '{workflow.name}': step '{step.name}'"
        action = step.action
        if action is not None and not self._is_known_action(action.text):
            known = chain(self._known_actions, self._syntax.workflows, self._commands)
            hint = self._hints.nearest(action.text, known)
            message = (
                f"{where}: the action '{action.text}' is unknown. It is neither a built-in action, a workflow of the"
            )
            self._findings.error("UnknownAction", f"{message} component nor a command that it sends.{hint}", action)
        _check_retry_count(step.retry_count, where, self._findings)
        _check_ignore_fail(step.ignore_fail, where, self._findings)

    def _is_known_action(self, name: str) -> bool:
        return name in self._known_actions or name in self._syntax.workflows or name in self._commands

    def _check_phases(self, workflow: WorkflowSyntax) -> None:
        declared = {step.phase or step.name for step in workflow.steps}
        where = f"{self._title}: workflow '{workflow.name}'"
        for step in workflow.steps:
            unknown = [
                phase for phase in step.preceding_phases if phase.text not in declared and phase.text != IMPLICIT_PHASE
            ]
            if unknown:
                names = ", ".join(f"'{phase.text}'" for phase in unknown[:10])
                message = f"{where}: step '{step.name}': no step of the workflow declares the phase {names}."
                hint = self._hints.nearest(unknown[0].text, declared)
                self._findings.warning("UnknownPhase", f"{message} It counts as finished.{hint}", unknown[0])
        stuck = deadlocked_steps(
            [
                (step.name, step.phase or step.name, [phase.text for phase in step.preceding_phases])
                for step in workflow.steps
            ]
        )
        if stuck:
            names = ", ".join(f"'{name}'" for name in stuck[:10])
            message = f"{where}: these steps wait for each other and can never start: {names}. The workflow will fail."
            self._findings.warning("StuckSteps", f"{message} Break the circle of their precedingPhases.", workflow)

    def _check_returns(self, workflow: WorkflowSyntax) -> None:
        if workflow.name in self._called or workflow.name.startswith("."):
            return  # what it returns are outputs of the calling step
        results = self._results.get(workflow.name, set())
        for entry in workflow.returns.values():
            if entry.name not in self._published and entry.name not in results:
                message = (
                    f"{self._title}: workflow '{workflow.name}': the return value '{entry.name}' is neither a"
                    " publish-signal pin of the component nor a result of the command."
                )
                hint = self._hints.nearest(entry.name, chain(self._published, results))
                self._findings.warning("ReturnWithoutPin", f"{message}{hint}", entry)

    def _check_commands(self) -> None:
        for pin in self._leaf.pins.values():
            if pin.type.kind is PinKind.RECEIVE_COMMAND and pin.name not in self._syntax.workflows:
                declared = self._leaf.syntax.interfaces.get(pin.interface, {}).get(pin.name, self._leaf.syntax)
                message = f"{self._title}: the command '{pin.key}' has no workflow of the name '{pin.name}'."
                hint = self._hints.nearest(pin.name, self._syntax.workflows)
                self._findings.warning(
                    "CommandWithoutWorkflow", f"{message} It fails when it is called.{hint}", declared
                )

    def _check_schedule(self, name: str, cron: Named) -> None:
        if name not in self._syntax.workflows:
            self._unknown_workflow(self._findings.error, "'schedule' names", name, cron)
        problem = _cron_problem(cron.text)
        if problem is not None:
            message = f"{self._title}: the schedule of '{name}' is wrong. {problem} An example: 0 30 4 * * ?"
            self._findings.error("MalformedSchedule", message, cron)

    def _triggers(self) -> Mapping[str, str]:
        triggers: dict[str, str] = {}
        wildcards: dict[str, str] = {}
        for key, workflow in self._syntax.triggers.items():
            if workflow.text not in self._syntax.workflows:
                self._unknown_workflow(self._findings.error, f"the trigger on '{key}' names", workflow.text, workflow)
                continue
            pins = self._triggering(key)
            if not pins:
                known = (pin.key for pin in self._leaf.pins.values() if pin.type.kind in _TRIGGERING)
                message = f"{self._title}: the trigger on '{key}' can never fire, for the component has no such"
                hint = self._hints.nearest(key, known)
                self._findings.warning("UnknownPin", f"{message} configuration or consume-signal pin.{hint}", workflow)
            chosen = wildcards if key.endswith(".*") else triggers
            chosen.update(dict.fromkeys((pin.key for pin in pins), workflow.text))
        return {**wildcards, **triggers}

    def _triggering(self, key: str) -> Sequence[Pin]:
        if key.endswith(".*"):
            return self._triggering_by_interface.get(key[:-2], ())
        pin = self._leaf.pins.get(key)
        return () if pin is None or pin.type.kind not in _TRIGGERING else (pin,)

    def _unknown_workflow(
        self, report: Callable[[str, str, Place], None], subject: str, name: str, place: Place
    ) -> None:
        hint = self._hints.nearest(name, self._syntax.workflows)
        message = f"{self._title}: {subject} the workflow '{name}', which does not exist.{hint}"
        report("UnknownWorkflow", message, place)


def _cron_problem(text: str) -> str | None:
    if len(text) > _CRON_CHARS:
        return f"It has {len(text)} characters; use at most {_CRON_CHARS}."
    try:
        due_times(text, _ANY_TIME)
    except CronError as error:
        return str(error)
    return None


def _check_retry_count(node: Node | None, where: str, findings: Findings) -> None:
    if node is None or is_null(node) or _is_expression(node):
        return
    text = node.text.strip() if isinstance(node, ScalarNode) and not isinstance(node.value, bool) else ""
    if not (text.isascii() and text.isdigit()):
        message = f"{where}: 'retryCount' must be a number of retries, such as 2, but it is {kind_of(node)}."
        findings.error("MalformedRetryCount", message, node)
    elif len(text) > 9 or int(text) > STEP_RETRIES_MAX:
        message = f"{where}: 'retryCount' is {text[:20]}; it may be 0 to {STEP_RETRIES_MAX}, and the step will fail."
        findings.warning("MalformedRetryCount", message, node)


def _check_ignore_fail(node: Node | None, where: str, findings: Findings) -> None:
    if node is None or is_null(node) or _is_expression(node):
        return
    if not isinstance(node, ScalarNode) or node.text.strip().lower() not in {"true", "false"}:
        message = f"{where}: 'ignoreFail' must be true or false, but it is {kind_of(node)}."
        findings.error("MalformedIgnoreFail", message, node)


def _is_expression(node: Node) -> bool:
    return isinstance(node, ScalarNode) and isinstance(node.value, str) and ("{$" in node.value or "${" in node.value)


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
