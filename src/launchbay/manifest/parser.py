"""Reads interfaces and their pins, in the short form (a type or a bind) and the map form (manifest-language §3)."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from launchbay.manifest.syntax import (
    WILDCARD,
    BindingSyntax,
    BoundPin,
    ComponentSyntax,
    Endpoint,
    Interfaces,
    Named,
    ParameterSyntax,
    PinSyntax,
    ReturnSyntax,
    StepSyntax,
    TypedPin,
    WorkflowsSyntax,
    WorkflowSyntax,
    parse_bind,
    parse_endpoint,
)
from launchbay.manifest.tree import (
    MappingNode,
    Node,
    ScalarNode,
    SequenceNode,
    children_of,
    entries_of,
    is_absent,
    is_name,
    is_null,
    items_of,
    kind_of,
    names_of,
    plain,
    text_or_none,
)
from launchbay.model.findings import Findings, Place
from launchbay.model.types import Type, parse_pin_type, parse_type

WORKFLOW_KEYS = frozenset({"parameters", "steps", "return"})
WORKFLOW_CONFIGURATION = frozenset(
    {"configuration.workflows", "configuration.triggers", "configuration.schedule", "configuration.propagateStatus"}
)
_WORKFLOW_NOTES = frozenset({"description", "name"})
_STEP_KEYS = frozenset({"action", "phase", "precedingPhases", "parameters", "output"})
_STEP_NOTES = frozenset({"description", "name"})
_COMPONENT_KEYS = frozenset({"phase", "retryCount", "ignoreFail"})


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
        {key: child for key, child in parameters.items() if key not in _COMPONENT_KEYS},
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


_PIN_KEYS = frozenset({"type", "name", "suggestions", "arguments", "results", "description"})
# The same types stand in manifest after manifest, and a `PinType` is immutable: each text is parsed once.
_parse = lru_cache(maxsize=4096)(parse_pin_type)


def read_interfaces(node: Node | None, title: str, findings: Findings) -> Interfaces:
    """Return interface → pin name → pin; pins that cannot be read become findings and are left out."""
    interfaces: dict[str, Mapping[str, PinSyntax]] = {}
    for interface, child in children_of(node, f"{title}: 'interfaces'", findings).items():
        if not is_name(interface, f"{title}: 'interfaces'", child, findings):
            continue
        pins: dict[str, PinSyntax] = {}
        for name, pin_node in children_of(child, f"{title}: interface '{interface}'", findings).items():
            if is_name(name, f"{title}: interface '{interface}'", pin_node, findings):
                pin = _read_pin(name, pin_node, f"{title}: the pin '{interface}.{name}'", findings)
                if pin is not None:
                    pins[name] = pin
        interfaces[interface] = pins
    return interfaces


def _read_pin(name: str, node: Node, what: str, findings: Findings) -> PinSyntax | None:
    if isinstance(node, ScalarNode) and node.value is not None:
        return _pin(name, node, node, None, None, what, findings)
    if not isinstance(node, MappingNode):
        message = f"{what} must be a type, a bind or a map with a `type`, but it is {kind_of(node)}."
        findings.error("MalformedPin", message, node)
        return None
    for key in node.children:
        if key not in _PIN_KEYS:
            message = f"{what}: the key '{key}' is unknown and ignored; known are type, name and suggestions."
            findings.warning("UnknownKey", message, node.place_of(key))
    type_node = node.get("type")
    if type_node is None or is_absent(type_node):
        findings.error("MalformedPin", f"{what} has no `type`; write one such as configuration(string).", node)
        return None
    label = text_or_none(node.get("name"), f"{what}: 'name'", findings)
    return _pin(name, node, type_node, label, node.get("suggestions"), what, findings)


def _pin(
    name: str, node: Node, type_node: Node, label: str | None, suggestions: Node | None, what: str, findings: Findings
) -> PinSyntax | None:
    text = text_or_none(type_node, f"{what}: 'type'", findings)
    if text is None:
        return None
    try:
        if text.lstrip().startswith("bind"):
            return BoundPin(name, parse_bind(text), node.line, node.column)
        pin_type = _parse(text)
    except ValueError as error:
        cut = text.count("(") > text.count(")")
        hint = " Between { and } a text with a comma must stand in quotes." if cut else ""
        findings.error("MalformedPin", f"{what}: {error}{hint}", type_node)
        return None
    if name == WILDCARD:
        findings.error("MalformedPin", f"{what} can only be a bind, such as bind(component#interface.*).", type_node)
        return None
    return TypedPin(name, pin_type, label, read_suggestions(suggestions, what, findings), node.line, node.column)


WORKFLOW_INSTANCE = "workflow.Instance"
KNOWN_KEYS = ("type", "interfaces", "configuration", "required", "components", "bindings")
_NO_WORKFLOWS = WorkflowsSyntax()


def read_component(path: str, node: Node, findings: Findings) -> ComponentSyntax:
    """Return the component at `path` with everything inside it; "" is the application."""
    title = f"Component '{path}'" if path else "Application"
    parts = children_of(node, title, findings)
    for key in parts:
        if key not in KNOWN_KEYS:
            message = f"{title}: the key '{key}' is unknown and ignored; known are {', '.join(KNOWN_KEYS)}."
            findings.warning("UnknownKey", message, _component_key_place(node, key))
    type_name = _read_type(parts, title, findings)
    configuration = children_of(parts.get("configuration"), f"{title}: 'configuration'", findings)
    workflows = _NO_WORKFLOWS
    if type_name is not None and type_name.text == WORKFLOW_INSTANCE:
        workflows = read_workflows(configuration, title, findings)
        configuration = {key: child for key, child in configuration.items() if key not in WORKFLOW_CONFIGURATION}
    return ComponentSyntax(
        path,
        type_name,
        read_interfaces(parts.get("interfaces"), title, findings),
        configuration,
        tuple(
            Named(name.text, name.line, name.column)
            for name in names_of(parts.get("required"), f"{title}: 'required'", findings)
        ),
        _read_components(path, parts.get("components"), title, findings),
        tuple(_read_bindings(parts.get("bindings"), title, findings)),
        workflows,
        node.line,
        node.column,
    )


def _read_type(parts: Mapping[str, Node], title: str, findings: Findings) -> Named | None:
    node = parts.get("type")
    text = text_or_none(node, f"{title}: 'type'", findings)
    return None if node is None or text is None else Named(text, node.line, node.column)


def _read_components(path: str, node: Node | None, title: str, findings: Findings) -> Mapping[str, ComponentSyntax]:
    components: dict[str, ComponentSyntax] = {}
    for name, child in children_of(node, f"{title}: 'components'", findings).items():
        place = _component_key_place(node, name)
        inner = f"{path}.{name}" if path else name
        if not is_name(name, f"{title}: 'components'", place, findings):
            continue
        if name != name.strip() or any(mark in name for mark in ".#,()"):
            message = f"{title}: '{name}' cannot name a component; use a name without dots, '#', ',' and brackets."
            findings.error("BadName", message, place)
        elif is_null(child):
            message = f"Component '{inner}' is empty; give it a type, or remove it."
            findings.error("NullComponent", message, place)
        elif not isinstance(child, MappingNode):
            message = f"Component '{inner}' must be a map, but it is {kind_of(child)}."
            findings.error("UnexpectedKind", message, child)
        elif is_absent(child.get("type")) and is_absent(child.get("components")):
            message = f"Component '{inner}' has neither a type nor components; give it one of them."
            findings.error("MissingType", message, place)
        else:
            components[name] = read_component(inner, child, findings)
    return components


def _read_bindings(node: Node | None, title: str, findings: Findings) -> list[BindingSyntax]:
    bindings: list[BindingSyntax] = []
    for item in items_of(node, f"{title}: 'bindings'", findings):
        ends = item.children if isinstance(item, SequenceNode) else ()
        if len(ends) != 2 or not all(isinstance(end, ScalarNode) for end in ends):
            message = f"{title}: a binding must be a list of two components, [a, b], but it is {_shown(item)}."
            findings.error("MalformedBinding", message, item)
            continue
        first, second = (_read_endpoint(end, title, findings) for end in ends)
        if first is not None and second is not None:
            bindings.append(BindingSyntax(first, second, item.line, item.column))
    return bindings


def _read_endpoint(node: Node, title: str, findings: Findings) -> Endpoint | None:
    text = text_or_none(node, f"{title}: an end of a binding", findings)
    try:
        return parse_endpoint(text or "", node.line, node.column)
    except ValueError as error:
        findings.error("MalformedBinding", f"{title}: {error}", node)
        return None


def _shown(node: Node) -> str:
    return f"a list of {len(node.children)}" if isinstance(node, SequenceNode) else kind_of(node)


def _component_key_place(node: Node | None, key: str) -> Place:
    assert isinstance(node, MappingNode)  # the key came out of this map
    return node.place_of(key)
