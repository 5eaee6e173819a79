"""Reads workflows, steps, parameters, returns and triggers of a `workflow.Instance` (manifest-language §5)."""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.shapes import children_of, entries_of, is_absent, is_name, names_of, text_or_none
from launchbay.manifest.syntax import (
    Named,
    ParameterSyntax,
    ReturnSyntax,
    StepSyntax,
    WorkflowsSyntax,
    WorkflowSyntax,
)
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, is_null, kind_of, plain
from launchbay.model.findings import Findings, Place
from launchbay.model.types import Type, parse_type

WORKFLOW_KEYS = frozenset({"parameters", "steps", "return"})
WORKFLOW_CONFIGURATION = frozenset(
    {"configuration.workflows", "configuration.triggers", "configuration.schedule", "configuration.propagateStatus"}
)

_WORKFLOW_NOTES = frozenset({"description", "name"})
_STEP_KEYS = frozenset({"action", "phase", "precedingPhases", "parameters", "output"})
_STEP_NOTES = frozenset({"description", "name"})
_BESIDE = frozenset({"phase", "retryCount", "ignoreFail"})


def read_workflows(configuration: Mapping[str, Node], title: str, findings: Findings) -> WorkflowsSyntax:
    """Return what `configuration` of a `workflow.Instance` says about workflows, triggers, schedule and status."""
    workflows = children_of(configuration.get("configuration.workflows"), f"{title}: 'workflows'", findings)
    triggers = configuration.get("configuration.triggers")
    schedule = configuration.get("configuration.schedule")
    propagate = configuration.get("configuration.propagateStatus")
    return WorkflowsSyntax(
        {
            name: read_workflow(name, node, title, findings)
            for name, node in workflows.items()
            if is_name(name, f"{title}: 'workflows'", node, findings)
        },
        _named_texts(triggers, f"{title}: 'triggers'", findings),
        _named_texts(schedule, f"{title}: 'schedule'", findings),
        tuple(_named(name) for name in names_of(propagate, f"{title}: 'propagateStatus'", findings)),
    )


def read_workflow(name: str, node: Node, title: str, findings: Findings) -> WorkflowSyntax:
    """Return one workflow; a null one has no steps."""
    where = f"{title}: workflow '{name}'"
    parts = children_of(node, where, findings)
    for key in parts:
        if key not in WORKFLOW_KEYS and key not in _WORKFLOW_NOTES:
            message = f"{where}: the key '{key}' is unknown and ignored; known are parameters, steps and return."
            findings.warning("UnknownKey", message, _key_place(node, key))
    return WorkflowSyntax(
        name,
        read_parameters(parts.get("parameters"), where, findings),
        _read_steps(parts.get("steps"), where, findings),
        _read_returns(parts.get("return"), where, findings),
        node.line,
        node.column,
    )


def read_parameters(node: Node | None, where: str, findings: Findings) -> Mapping[str, ParameterSyntax]:
    """Return declared parameters; an entry may be null, which declares the bare name."""
    parameters: dict[str, ParameterSyntax] = {}
    for name, child, place in entries_of(node, f"{where}: 'parameters'", findings):
        if name in parameters:
            findings.error("DuplicateParameter", f"{where}: the parameter '{name}' is declared twice; keep one.", place)
            continue
        what = f"{where}: parameter '{name}'"
        parts = children_of(child, what, findings)
        default = parts.get("default")
        parameters[name] = ParameterSyntax(
            name,
            _parameter_type(parts.get("type"), what, findings),
            default is not None,
            None if default is None else plain(default),
            text_or_none(parts.get("description"), f"{what}: 'description'", findings),
            text_or_none(parts.get("name"), f"{what}: 'name'", findings),
            read_suggestions(parts.get("suggestions") or parts.get("enum"), what, findings),
            place.line,
            place.column,
        )
    return parameters


def read_suggestions(node: Node | None, what: str, findings: Findings) -> Mapping[str, Any] | None:
    """Return label → value; a plain list (`enum` of workflow manifests) labels each value with itself."""
    if isinstance(node, SequenceNode):
        return {_label(item): plain(item) for item in node.children}
    if isinstance(node, MappingNode):
        return {label: plain(child) for label, child in node.items()}
    if node is not None and not is_null(node):
        message = f"{what}: 'suggestions' must map labels to values, but it is {kind_of(node)}."
        findings.error("UnexpectedKind", message, node)
    return None


def _label(item: Node) -> str:
    return item.text if isinstance(item, ScalarNode) else str(plain(item))


def _parameter_type(node: Node | None, what: str, findings: Findings) -> Type | None:
    text = text_or_none(node, f"{what}: 'type'", findings)
    if text is None:
        return None
    try:
        return parse_type(text)
    except ValueError:
        # Public manifests write bare words such as `map` and `list` here; they say nothing that can be checked.
        return None


def _read_steps(node: Node | None, where: str, findings: Findings) -> tuple[StepSyntax, ...]:
    steps: dict[str, StepSyntax] = {}
    for name, child, place in entries_of(node, f"{where}: 'steps'", findings):
        if name in steps:
            message = f"{where}: two steps are named '{name}'; give each step its own name."
            findings.error("DuplicateStep", message, place)
        elif is_name(name, f"{where}: 'steps'", place, findings):
            steps[name] = _read_step(name, child, place, where, findings)
    return tuple(steps.values())


def _read_step(name: str, node: Node, place: Place, where: str, findings: Findings) -> StepSyntax:
    what = f"{where}: step '{name}'"
    parts = children_of(node, what, findings)
    for key in parts:
        if key not in _STEP_KEYS and key not in _STEP_NOTES:
            known = "action, phase, precedingPhases, parameters and output"
            message = f"{what}: the key '{key}' is unknown and ignored; known are {known}."
            findings.warning("UnknownKey", message, _key_place(node, key))
    parameters = {
        key: child for key, child, _ in entries_of(parts.get("parameters"), f"{what}: 'parameters'", findings)
    }
    action = parts.get("action")
    action_name = text_or_none(action, f"{what}: 'action'", findings)
    if is_absent(action) and (isinstance(node, MappingNode) or is_null(node)):  # anything else is an error already
        findings.error("MissingAction", f"{what} has no action; add `action:` with the name of one.", place)
    phase = parts.get("phase") or parameters.get("phase")
    return StepSyntax(
        name,
        None if action is None or action_name is None else Named(action_name, action.line, action.column),
        text_or_none(phase, f"{what}: 'phase'", findings),
        tuple(_named(item) for item in names_of(parts.get("precedingPhases"), f"{what}: 'precedingPhases'", findings)),
        {key: child for key, child in parameters.items() if key not in _BESIDE},
        parameters.get("retryCount"),
        parameters.get("ignoreFail"),
        _read_outputs(parts.get("output"), what, findings),
        place.line,
        place.column,
    )


def _read_outputs(node: Node | None, what: str, findings: Findings) -> Mapping[str, str]:
    outputs: dict[str, str] = {}
    for variable, child, place in entries_of(node, f"{what}: 'output'", findings):
        output = text_or_none(child, f"{what}: output '{variable}'", findings)
        if output is not None:
            outputs[variable] = output
        elif is_null(child):
            message = f"{what}: the output variable '{variable}' names no output of the action; write {variable}: name."
            findings.error("MissingOutput", message, place)
    return outputs


def _read_returns(node: Node | None, where: str, findings: Findings) -> Mapping[str, ReturnSyntax]:
    returns: dict[str, ReturnSyntax] = {}
    for name, child, place in entries_of(node, f"{where}: 'return'", findings):
        value = child.get("value") if isinstance(child, MappingNode) else None
        if value is None:
            message = f"{where}: the return value '{name}' has no `value`; write {name}: {{value: …}}."
            findings.error("MissingValue", message, place)
        elif name in returns:
            findings.error("DuplicateReturn", f"{where}: '{name}' is returned twice; keep one.", place)
        else:
            returns[name] = ReturnSyntax(name, value, place.line, place.column)
    return returns


def _named_texts(node: Node | None, what: str, findings: Findings) -> Mapping[str, Named]:
    texts: dict[str, Named] = {}
    for key, child, place in entries_of(node, what, findings):
        text = text_or_none(child, f"{what}: '{key}'", findings)
        if text is not None:
            texts[key] = Named(text, place.line, place.column)
        elif is_null(child):
            findings.error("MissingValue", f"{what}: '{key}' has no value; name a workflow there.", place)
    return texts


def _named(node: ScalarNode) -> Named:
    return Named(node.text, node.line, node.column)


def _key_place(node: Node, key: str) -> Place:
    return node.place_of(key) if isinstance(node, MappingNode) else node
