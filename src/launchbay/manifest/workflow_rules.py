"""Rules of the workflows of one `workflow.Instance`, and of the variables in them (manifest-language §5)."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol, TypeAlias

from launchbay.limits import EACH_PARALLEL_MAX, STEP_RETRIES_MAX
from launchbay.manifest.expressions import variables_by_use
from launchbay.manifest.graph import Component, ConfigurationPin, Peer, Pin, Target, Workflow
from launchbay.manifest.layout import Leaf
from launchbay.manifest.source import Source
from launchbay.manifest.syntax import Named, StepSyntax, WorkflowSyntax
from launchbay.manifest.tree import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    is_null,
    kind_of,
    plain,
    unquoted_expression,
)
from launchbay.model.cron import parse as parse_cron
from launchbay.model.durations import parse_duration_s
from launchbay.model.findings import Findings, Place
from launchbay.model.identity import identity_problem
from launchbay.model.secret_reference import secrets_problem
from launchbay.model.types import UNREADABLE_PIN, ListType, PinKind, parse_type
from launchbay.model.values import CoercionError, coerce

IMPLICIT_PHASE = "provision"  # if no step declares it, every step without a phase and preceding phases


def preceding_phases(steps: Sequence[StepSyntax]) -> list[tuple[str, ...]]:
    """Return the phases that each step waits for: the name of a step means its phase (language §5).

    The implicit phase means itself if a step declares it, else the steps that have neither phases nor preceding ones.
    """
    if not any(step.preceding_phases for step in steps):
        return [()] * len(steps)
    declared = {step.phase or step.name for step in steps}
    phase_of = {step.name: step.phase for step in steps if step.phase is not None}
    implied = [step.name for step in steps if step.phase is None and not step.preceding_phases]

    def meant(name: str) -> Sequence[str]:
        if name in declared:
            return (name,)
        if name in phase_of:
            return (phase_of[name],)
        return implied if name == IMPLICIT_PHASE else (name,)

    return [tuple(dict.fromkeys(chain(*(meant(phase.text) for phase in step.preceding_phases)))) for step in steps]


def deadlocked_steps(steps: Sequence[tuple[str, str, Sequence[str]]]) -> list[str]:
    """Return the names of steps, each given as (name, phase, preceding phases), that can never start.

    A step starts when no other unfinished step has one of its preceding phases; its own phase doesn't block it. Takes
    time linear in the number of steps and phases.
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
        # With one step left in the phase, that step is unblocked if it waits for its own phase; with none, all are.
        for number in waiting.get(phase, ()):
            if (steps[number][1] == phase) == (unfinished[phase] == 1):
                blocked[number] -= 1
                if blocked[number] == 0:
                    ready.append(number)
    return [name for number, (name, _, _) in enumerate(steps) if blocked[number]]


class ParameterShape(Protocol):
    """What is known of a parameter of an action."""

    @property
    def type(self) -> str | None:
        """Its type; None if any value is right."""

    @property
    def required(self) -> bool:
        """Whether the action fails without it."""

    @property
    def other_name(self) -> str | None:
        """The name of a parameter that is as good."""

    @property
    def check(self) -> Callable[[Any], object] | None:
        """What raises `ValueError` for a wrong value, beyond the type."""


class ActionShape(Protocol):
    """What is known of an action. `extra_parameters` and `default_role` are attributes of some actions."""

    @property
    def parameters(self) -> Mapping[str, ParameterShape]:
        """The parameters by name."""

    @property
    def outputs(self) -> Mapping[str, str]:
        """The outputs by name."""


KnownActions: TypeAlias = Collection[str] | Mapping[str, ActionShape]  # a map checks what steps give and take, too


class ActionRules:
    """Checks what the steps of one component give to actions, and what they take from them.

    Everything here is a warning: a policy of the environment can set a parameter, and an action ignores others.
    """

    def __init__(self, leaf: Leaf, actions: Mapping[str, ActionShape], findings: Findings) -> None:
        self._actions = actions
        self._findings = findings
        self._own = leaf.syntax.workflows.workflows
        self._roles: set[str] | None = set(leaf.syntax.interfaces)  # None if they can't be known
        for workflow in self._own.values():
            for step in workflow.all_steps:
                self._add_role(step)

    def check(self, step: StepSyntax, findings: Findings) -> None:
        """Check one step; `findings` are of it."""
        if step.action is None or step.action.text in self._own:
            return
        action = self._actions.get(step.action.text)
        if action is None:
            return
        self._check_parameters(step.action, action.parameters, step.parameters, findings)
        takes_more = getattr(action, "extra_parameters", False)
        for name in step.parameters if action.parameters else ():
            if name in action.parameters:
                continue
            # Of an action that takes any parameter, only a misspelled one has no effect.
            if takes_more and not get_close_matches(name, action.parameters, n=1, cutoff=_MISSPELLED):
                continue
            hint = self._findings.hints.nearest(name, action.parameters)
            message = f"Action '{step.action.text}' has no parameter '{name}', so it has no effect.{hint}"
            findings.warning("UnknownStepParameter", message, step.parameter_places[name])
        for variable, output in step.outputs.items():
            if action.outputs and output.text not in action.outputs:
                hint = self._findings.hints.nearest(output.text, action.outputs)
                message = (
                    f"Action '{step.action.text}' has no output '{output.text}', so '{variable}' has no value.{hint}"
                )
                findings.warning("UnknownOutput", message, output)
        if "roles" in action.parameters:
            self._check_roles(step.parameters.get("roles"), findings)

    def _check_parameters(
        self, action: Named, known: Mapping[str, ParameterShape], written: Mapping[str, Node], findings: Findings
    ) -> None:
        for name, parameter in known.items():
            node = written.get(name)
            if node is None:
                if parameter.required and parameter.other_name not in written:
                    message = f"Action '{action.text}' needs the parameter '{name}'."
                    findings.warning("MissingStepParameter", message, action)
            elif (problem := _problem(parameter, node)) is not None:
                findings.warning("WrongStepParameter", f"Parameter '{name}': {problem}", node)

    def _add_role(self, step: StepSyntax) -> None:
        action = None if step.action is None else self._actions.get(step.action.text)
        if action is None or self._roles is None:
            return
        default_role: str | None = getattr(action, "default_role", None)
        if default_role is not None:
            role = step.parameters.get("roleName")
            if role is None:
                self._roles.add(default_role)
            elif isinstance(role, ScalarNode) and not _is_expression(role):
                self._roles.add(role.text)
            else:
                self._roles = None
        elif hasattr(action, "apply_outputs") and "roleName" not in action.parameters and action.parameters:
            self._roles = None  # an installed action that changes roles in a way of its own

    def _check_roles(self, node: Node | None, findings: Findings) -> None:
        items = node.children if isinstance(node, SequenceNode) else (node,)
        for item in items:
            if not isinstance(item, ScalarNode) or self._roles is None or is_null(item) or _is_expression(item):
                continue
            if item.text not in self._roles:
                hint = self._findings.hints.nearest(item.text, self._roles)
                message = f"No step creates machines of the role '{item.text}', and no interface has this name.{hint}"
                findings.warning("UnknownMachineRole", message, item)


_MISSPELLED = 0.85  # the similarity from which a name is another one with a typo
_parsed = lru_cache(maxsize=256)(parse_type)  # the types of parameters of actions: step after step has the same


def _problem(parameter: ParameterShape, node: Node) -> str | None:
    """Return why a literal value is wrong; values with expressions are known only at run time."""
    if is_null(node) or has_expression(node) or _has_unquoted(node):
        return None
    value = plain(node)
    try:
        if parameter.type is not None:
            type_ = _parsed(parameter.type)
            # A single value stands for a list of one.
            coerce(type_, [value] if isinstance(type_, ListType) and not isinstance(value, list) else value)
        if parameter.check is not None:
            parameter.check(value)
    except (CoercionError, ValueError) as error:
        return str(error)
    return None


def has_expression(node: Node) -> bool:
    """Return whether a value is known only at run time."""
    if isinstance(node, ScalarNode):
        return isinstance(node.value, str) and "$" in node.value
    return any(map(has_expression, node.children.values() if isinstance(node, MappingNode) else node.children))


def _has_unquoted(node: Node) -> bool:
    """Return whether an expression lacks its quotes somewhere; the reader has said so."""
    if isinstance(node, ScalarNode):
        return False
    children = node.children.values() if isinstance(node, MappingNode) else node.children
    return unquoted_expression(node) is not None or any(map(_has_unquoted, children))


_CRON_CHARS = 400
_GET_SIGNALS = "getSignals"
_TRIGGERING = frozenset({PinKind.CONFIGURATION, PinKind.CONSUME_SIGNAL})


class WorkflowRules:
    """Checks the workflows, triggers and schedule of one component."""

    def __init__(self, leaf: Leaf, known_actions: KnownActions, findings: Findings) -> None:
        self._leaf = leaf
        self._syntax = leaf.syntax.workflows
        self._known_actions = known_actions
        self._findings = findings.at(leaf.syntax.label)
        self._actions = ActionRules(leaf, known_actions, self._findings) if isinstance(known_actions, Mapping) else None
        self._published: set[str] = set()
        self._commands: set[str] = set()  # that the component sends, by `interface.pin`
        self._results: dict[str, set[str]] = {}  # of the commands that the component receives, by bare name
        self._triggering_by_interface: dict[str, list[Pin]] = {}
        for pin in leaf.pins.values():
            self._classify(pin)
        self._called = {
            step.action.text
            for workflow in self._syntax.workflows.values()
            for step in workflow.all_steps
            if step.action
        }

    def _classify(self, pin: Pin) -> None:
        kind = pin.type.kind
        if pin.type == UNREADABLE_PIN:  # it may be of every kind
            self._published.add(pin.name)
            self._commands.add(pin.key)
        if kind is PinKind.PUBLISH_SIGNAL:
            self._published.add(pin.name)
        elif kind is PinKind.SEND_COMMAND:
            self._commands.add(pin.key)
        elif kind is PinKind.RECEIVE_COMMAND:
            results = pin.type.signature.results if pin.type.signature else ()
            self._results.setdefault(pin.name, set()).update(results)
        else:
            self._triggering_by_interface.setdefault(pin.interface, []).append(pin)

    def check(self, exposed: Collection[tuple[str, str]] = ()) -> Mapping[str, str]:
        """Report what is wrong, and return the triggers with wildcards expanded: `interface.pin` → workflow.

        `exposed` are (component path, `interface.pin`) of the signals that the application shows.
        """
        for workflow in self._syntax.workflows.values():
            for step in workflow.all_steps:
                self._check_step(workflow, step)
            for steps in (workflow.steps, workflow.on_failure, workflow.finally_):
                self._check_phases(workflow, steps)
            check_literal("timeout", workflow.timeout, self._findings.at(workflow.name))
            self._check_returns(workflow)
        self._check_commands()
        self._check_names()
        self._check_results(exposed)
        for name, cron in self._syntax.schedule.items():
            self._check_schedule(name, cron)
        for propagating in self._syntax.propagate_status:
            if propagating.text not in self._syntax.workflows:
                self._unknown_workflow(self._findings.warning, "'propagateStatus'", propagating.text, propagating)
        return self._triggers()

    def _check_step(self, workflow: WorkflowSyntax, step: StepSyntax) -> None:
        findings = self._findings.at(workflow.name, step.name)
        action = step.action
        if action is not None and not self._is_known_action(action.text):
            known = chain(self._known_actions, self._syntax.workflows, self._commands)
            hint = self._findings.hints.nearest(action.text, known)
            findings.error("UnknownAction", f"Unknown action '{action.text}'.{hint}", action)
        if self._actions is not None:
            self._actions.check(step, findings)
        _check_retry_count(step.retry_count, findings)
        _check_ignore_fail(step.ignore_fail, findings)
        for key, node in step.control.items():
            check_literal(key, node, findings)
        for key, needed in (("parallel", "each"), ("delay", "until")):
            if key in step.control and needed not in step.control:
                message = f"'{key}' has no effect without '{needed}'. Add '{needed}', or remove '{key}'."
                findings.warning("IgnoredValue", message, step.control_places[key])
        for key in (IDENTITY, SECRETS):
            if key in step.control and action is not None and self._is_known_action(action.text):
                self._check_borrower(key, action, step.control_places[key], findings)

    def _check_borrower(self, key: str, action: Named, place: Place, findings: Findings) -> None:
        """Report an identity of what sends nothing itself: calls store their arguments."""
        known = self._known_actions.get(action.text) if isinstance(self._known_actions, Mapping) else None
        calls = action.text in self._syntax.workflows or action.text in self._commands
        if calls or (known is not None and getattr(known, "pure", False)):
            what = f"'{key}' has no effect on '{action.text}', which sends and starts nothing itself."
            findings.error("MalformedControl", f"{what} Write it at the step that does.", place)

    def _is_known_action(self, name: str) -> bool:
        return name in self._known_actions or name in self._syntax.workflows or name in self._commands

    def _check_phases(self, workflow: WorkflowSyntax, steps: Sequence[StepSyntax]) -> None:
        if not any(step.preceding_phases for step in steps):
            return
        declared = {name for step in steps for name in (step.phase, step.name) if name is not None}
        findings = self._findings.at(workflow.name)
        for step in steps:
            unknown = [
                phase for phase in step.preceding_phases if phase.text not in declared and phase.text != IMPLICIT_PHASE
            ]
            if unknown:
                names = ", ".join(f"'{phase.text}'" for phase in unknown[:10])
                hint = self._findings.hints.nearest(unknown[0].text, declared)
                message = f"No step has the phase or name {names}. Launchbay treats it as finished.{hint}"
                findings.at(step.name).warning("UnknownPhase", message, unknown[0])
        preceding = preceding_phases(steps)
        stuck = deadlocked_steps(
            [(step.name, step.phase or step.name, phases) for step, phases in zip(steps, preceding, strict=True)]
        )
        if stuck:
            names = ", ".join(f"'{name}'" for name in stuck[:10])
            message = f"Steps {names} wait for each other and never start. Break the cycle of 'precedingPhases'."
            findings.warning("StuckSteps", message, workflow)

    def _check_returns(self, workflow: WorkflowSyntax) -> None:
        if workflow.name in self._called or workflow.name.startswith("."):
            return  # its return values are outputs of the calling step
        results = self._results.get(workflow.name, set())
        for entry in workflow.returns.values():
            if entry.name not in self._published and entry.name not in results:
                hint = self._findings.hints.nearest(entry.name, chain(self._published, results))
                message = f"Return value '{entry.name}' matches no publish-signal pin and no result of a command.{hint}"
                self._findings.at(workflow.name).warning("ReturnWithoutPin", message, entry)

    def _check_commands(self) -> None:
        for pin in self._leaf.pins.values():
            if pin.type.kind is PinKind.RECEIVE_COMMAND and pin.name not in self._syntax.workflows:
                declared = self._leaf.syntax.interfaces.get(pin.interface, {}).get(pin.name, self._leaf.syntax)
                hint = self._findings.hints.nearest(pin.name, self._syntax.workflows)
                message = f"Command '{pin.key}' needs a workflow named '{pin.name}'. Calls to it fail.{hint}"
                self._findings.warning("CommandWithoutWorkflow", message, declared)

    def _check_names(self) -> None:
        """Warn about unused workflows with nearly the name of one that Launchbay runs."""
        own = self._syntax
        used = self._called | {workflow.text for workflow in own.triggers.values()} | set(own.schedule)
        is_rewritten = not self._leaf.syntax.label  # each workflow of a workflow manifest is a command
        if not is_rewritten:
            used.update(pin.name for pin in self._leaf.pins.values() if pin.type.kind is PinKind.RECEIVE_COMMAND)
        meant = ("launch", "destroy", "application") if is_rewritten else ("launch", "destroy")
        for name, workflow in own.workflows.items():
            for wanted in meant:
                if wanted not in own.workflows and name not in used and _is_near(name, wanted):
                    message = f"Nothing calls the workflow '{name}'. Did you mean '{wanted}'?"
                    self._findings.warning("UnusedWorkflow", message, workflow.name_place)

    def _check_results(self, exposed: Collection[tuple[str, str]]) -> None:
        """Warn about signals that the application shows, but no workflow returns."""
        returned = {name for workflow in self._syntax.workflows.values() for name in workflow.returns}
        for pin in self._leaf.pins.values():
            is_exposed = (self._leaf.syntax.path, pin.key) in exposed
            if not is_exposed or pin.type.kind is not PinKind.PUBLISH_SIGNAL or pin.name in returned:
                continue
            declared = self._leaf.syntax.interfaces.get(pin.interface, {}).get(pin.name, self._leaf.syntax)
            hint = self._findings.hints.nearest(pin.name, returned)
            message = f"No workflow returns the exposed signal '{pin.key}', so it never has a value.{hint}"
            self._findings.warning("SignalWithoutReturn", message, declared)

    def _check_schedule(self, name: str, cron: Named) -> None:
        if name not in self._syntax.workflows:
            self._unknown_workflow(self._findings.error, "'schedule'", name, cron)
        if len(cron.text) > _CRON_CHARS:
            message = f"Invalid schedule: expected at most {_CRON_CHARS} characters, found {len(cron.text)}."
            self._findings.at(name).error("MalformedSchedule", message, cron)
            return
        try:
            for warning in parse_cron(cron.text, quartz_only=True).warnings:
                self._findings.at(name).warning("UnusualSchedule", warning, cron)
        except ValueError as error:
            self._findings.at(name).error("MalformedSchedule", f"{error} Example: 0 30 4 * * ?", cron)

    def _triggers(self) -> Mapping[str, str]:
        triggers: dict[str, str] = {}
        wildcards: dict[str, str] = {}
        for key, workflow in self._syntax.triggers.items():
            if workflow.text not in self._syntax.workflows:
                self._unknown_workflow(self._findings.error, f"Trigger '{key}'", workflow.text, workflow)
                continue
            pins = self._triggering(key)
            if not pins:
                known = (pin.key for pin in self._leaf.pins.values() if pin.type.kind in _TRIGGERING)
                message = f"Trigger '{key}' never fires: it isn't a configuration or consume-signal pin."
                self._findings.warning("UnknownPin", f"{message}{self._findings.hints.nearest(key, known)}", workflow)
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
        hint = self._findings.hints.nearest(name, self._syntax.workflows)
        report("UnknownWorkflow", f"{subject} names unknown workflow '{name}'.{hint}", place)


def check_signals(leaf: Leaf, peers: Mapping[str, Sequence[Peer]], findings: Findings) -> None:
    """Warn about `getSignals` without `multi` where several peers give the same signal (language §5)."""
    several = [
        interface
        for interface, found in peers.items()
        if any(
            sum(pin.name in peer.pins for peer in found) > 1
            for pin in leaf.pins.values()
            if pin.interface == interface and pin.type.kind is PinKind.CONSUME_SIGNAL
        )
    ]
    for workflow in leaf.syntax.workflows.workflows.values() if several else ():
        for step in workflow.all_steps:
            if step.action is not None and step.action.text == _GET_SIGNALS and is_null(step.parameters.get("multi")):
                message = f"Interface '{several[0]}' has several peers, and without 'multi' one of them is returned."
                own = findings.at(leaf.syntax.label, workflow.name, step.name)
                own.warning("OnePeerOfSeveral", f"{message} Set 'multi: true'.", step.action)


def started_workflows(components: Mapping[str, Component]) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """Return which workflows each workflow starts by a signal that it returns (language §5).

    Each is a component and a name. Constants are left out: they change nothing the second time.
    """
    triggered: dict[Target, list[tuple[str, str]]] = {}
    for path, component in components.items():
        for interface, peers in component.peers.items():
            for name, target in chain.from_iterable(peer.pins.items() for peer in peers):
                workflow = component.triggers.get(f"{interface}.{name}")
                if workflow is not None:
                    triggered.setdefault(target, []).append((path, workflow))
    return {
        (path, workflow.name): [
            each
            for pin in component.pins.values()
            if pin.name in workflow.returns and workflow.returns[pin.name].variables
            for each in triggered.get(Target(path, pin.key), ())
        ]
        for path, component in components.items()
        for workflow in component.workflows.values()
    }


def _is_near(name: str, wanted: str) -> bool:
    """Return whether at most one edit separates two names, ignoring case.

    An edit adds, removes or replaces a letter, or swaps two neighbors.
    """
    name = name.lower()
    if abs(len(name) - len(wanted)) > 1:
        return False
    longer, shorter = (name, wanted) if len(name) > len(wanted) else (wanted, name)
    if len(longer) > len(shorter):
        return any(longer[:at] + longer[at + 1 :] == shorter for at in range(len(longer)))
    different = [at for at in range(len(name)) if name[at] != wanted[at]]
    if len(different) < 2:
        return True
    first, *others = different
    return others == [first + 1] and name[first] == wanted[first + 1] and name[first + 1] == wanted[first]


def _check_retry_count(node: Node | None, findings: Findings) -> None:
    if node is None or is_null(node) or _is_expression(node):
        return
    text = node.text.strip() if isinstance(node, ScalarNode) and not isinstance(node.value, bool) else ""
    expected = f"'retryCount' must be a number from 0 to {STEP_RETRIES_MAX}"
    if not (text.isascii() and text.isdigit()):
        findings.error("MalformedRetryCount", f"{expected}, not {kind_of(node)}.", node)
    elif len(text) > 9 or int(text) > STEP_RETRIES_MAX:
        findings.warning("MalformedRetryCount", f"{expected}, not {text[:20]}. The step will fail.", node)


def _check_ignore_fail(node: Node | None, findings: Findings) -> None:
    if node is None or is_null(node) or _is_expression(node):
        return
    if not isinstance(node, ScalarNode) or node.text.strip().lower() not in {"true", "false"}:
        findings.error("MalformedIgnoreFail", f"'ignoreFail' must be true or false, not {kind_of(node)}.", node)


def check_literal(key: str, node: Node | None, findings: Findings) -> None:
    """Report a wrong literal of a control key; expressions are checked when the step runs."""
    if node is None or is_null(node) or has_expression(node):
        return
    value = plain(node)
    problem = None
    if key in {"timeout", "delay"}:
        try:
            parse_duration_s(value)
        except ValueError as error:
            problem = str(error).rstrip(".")
    elif key == "parallel":
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= EACH_PARALLEL_MAX:
            problem = f"expected a number from 1 to {EACH_PARALLEL_MAX}"
    elif key == "each":
        if not isinstance(value, list | dict | str):
            problem = "expected a list, a map or an expression, such as $.hosts"
    elif key == IDENTITY:
        problem = identity_problem(value)
    elif key == SECRETS:
        problem = secrets_problem(value)
    elif not isinstance(value, bool | str):
        problem = f"expected true, false or an expression, such as $.size > 3, not {kind_of(node)}"
    if problem is not None:
        findings.error("MalformedControl", f"'{key}': {problem}.", node)


def _is_expression(node: Node) -> bool:
    return isinstance(node, ScalarNode) and isinstance(node.value, str) and ("{$" in node.value or "${" in node.value)


_SHELL_VARIABLE = re.compile(r"\$\{[A-Z_][A-Z0-9_]*\}")  # as shells have them by convention
EACH, OUTPUT, ERROR = "each", "output", "error"  # variables of loops, of `until`, and after a failure
IDENTITY, SECRETS = "identity", "secrets"  # variables of a step with these keys
INNER = "~"  # `{$.step~variable}` is a variable inside the workflow that the step called


def always_configured(workflows: Mapping[str, Workflow], configured: Collection[str]) -> frozenset[str]:
    """Return the names of configuration pins that return values of the same name never hide.

    Other return values override the configuration. But if a workflow builds a value from the variable of its own name
    (`stats-url: "http://{$.host}{$.stats-url}"`), its author means the configured one: otherwise the value would grow
    with every run. Returning a variable unchanged builds nothing.
    """
    return frozenset(
        name
        for workflow in workflows.values()
        if not workflow.name.startswith(".")  # return values of a macro aren't stored
        for name, template in workflow.returns.items()
        if name in configured and name in template.variables and not template.is_variable(name)
    )


class ScopeRules:
    """Checks the variables in all workflows of one component.

    The scope is the largest possible at run time: it includes return values of every workflow of the component, and the
    arguments of every step that calls the workflow. The order of steps is ignored.
    """

    def __init__(
        self,
        leaf: Leaf,
        configuration: Mapping[str, ConfigurationPin],
        workflows: Mapping[str, Workflow],
        findings: Findings,
        source: Source,
    ) -> None:
        self._leaf = leaf
        self._source = source
        self._workflows = workflows
        self._findings = findings
        with_value = {
            pin.pin
            for pin in configuration.values()
            if pin.has_default or pin.parameter is not None or leaf.pins[pin.pin].type == UNREADABLE_PIN
        }
        self._without_value = {leaf.pins[key].name: key for key in configuration if key not in with_value}
        self._everywhere = {leaf.pins[key].name for key in with_value}
        self._everywhere.update(name for workflow in workflows.values() for name in workflow.returns)
        self._own = {name: self._variables_of(workflow) for name, workflow in workflows.items()}
        for called, arguments in self._arguments():
            if called in self._own:
                self._own[called].update(arguments)
        self._calls = {
            name: {step.name: step.action for step in workflow.all_steps if step.action in workflows}
            for name, workflow in workflows.items()
        }

    def check(self) -> None:
        """Warn once about each variable in each workflow that isn't in scope."""
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
        for step in workflow.all_steps:
            own.update(step.outputs)
            if step.control.each is not None:
                own.add(EACH)
            if step.control.until is not None:
                own.add(OUTPUT)
            own.update(key for key in (IDENTITY, SECRETS) if key in step.control.templates)
        if workflow.on_failure or workflow.finally_:
            own.add(ERROR)
        return own

    def _arguments(self) -> Iterator[tuple[str, Iterable[str]]]:
        """Yield workflows with the arguments of their calls, by commands and by steps of the component."""
        for pin in self._leaf.pins.values():
            if pin.type.kind is PinKind.RECEIVE_COMMAND and pin.type.signature is not None:
                yield pin.name, pin.type.signature.arguments
        for workflow in self._leaf.syntax.workflows.workflows.values():
            for step in workflow.all_steps:
                if step.action is not None:
                    yield step.action.text, step.parameters

    def _is_missing(self, variable: str, workflow: str) -> bool:
        if variable in self._own[workflow] or variable in self._everywhere:
            return False
        step, _, inner = variable.partition(INNER)
        called = self._calls[workflow].get(step)
        return called is None or not (inner in self._own[called] or inner in self._everywhere)

    def _report(self, workflow: str, nodes: Iterable[Node], wanting: set[str]) -> None:
        for variable, (place, expression) in variables_by_use(nodes, wanting, self._source).items():
            key = self._without_value.get(variable)
            if key is not None:
                hint = f" Configuration pin '{key}' has no value."
            elif _SHELL_VARIABLE.fullmatch(expression):
                hint = f" If the shell is to replace it, write ${expression}."
            else:
                hint = self._findings.hints.nearest(variable, chain(self._own[workflow], self._everywhere))
            message = f"Variable '{variable}' isn't in scope.{hint}"
            self._findings.at(self._leaf.syntax.label, workflow).warning("VariableNotInScope", message, place)


def _uses(syntax: WorkflowSyntax, workflow: Workflow) -> Iterator[tuple[Iterable[Node], Iterable[str]]]:
    """Yield nodes that contain expressions, with the variables that these name."""
    steps = {step.name: step for step in syntax.all_steps}
    if syntax.timeout is not None and workflow.timeout is not None:
        yield (syntax.timeout,), workflow.timeout.variables
    for step in workflow.all_steps:
        written = steps[step.name]
        if step.parameters.variables:
            yield written.parameters.values(), step.parameters.variables
        for node, template in ((written.retry_count, step.retry_count), (written.ignore_fail, step.ignore_fail)):
            if node is not None and template is not None:
                yield (node,), template.variables
        for key, template in step.control.templates.items() if written.control else ():
            yield (written.control[key],), template.variables
    for name, template in workflow.returns.items():
        yield (syntax.returns[name].value,), template.variables
