"""Nodes to the typed manifest: components, interfaces and their pins, workflows (manifest-language §3 and §5).

What can't be read becomes a finding and is omitted.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from launchbay.manifest.graph import WORKFLOW_INSTANCE
from launchbay.manifest.syntax import (
    WILDCARD,
    BindingSyntax,
    BoundPin,
    ChecksSyntax,
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
    is_name,
    is_null,
    items_of,
    kind_of,
    names_of,
    plain,
    report_kind,
    text_of,
    unquoted_expression,
    written_data,
)
from launchbay.model.findings import Findings, Place
from launchbay.model.places import ConcurrencyLimit, read_limits
from launchbay.model.types import PRIMITIVES, UNREADABLE_PIN, Type, TypeSyntaxError, parse_pin_type, parse_type
from launchbay.model.values import coerced_if_possible

_APPLICATION = "application"  # its label in findings
COMPONENT_KEYS = ("type", "interfaces", "configuration", "required", "components", "bindings", "checks", "onDifference")
_PIN_KEYS = ("type", "name", "suggestions", "arguments", "results", "description")
_APPLICATION_KEYS = (*COMPONENT_KEYS, "concurrency")
_WORKFLOW_KEYS = (
    "parameters",
    "steps",
    "onFailure",
    "finally",
    "timeout",
    "concurrency",
    "return",
    "description",
    "name",
)
_CONTROL_KEYS = ("when", "each", "parallel", "until", "delay", "timeout", "identity", "secrets")
_CONTROL = frozenset(_CONTROL_KEYS)
_STEP_KEYS = ("action", "phase", "precedingPhases", *_CONTROL_KEYS, "parameters", "output", "description", "name")
_PARAMETER_KEYS = ("type", "default", "description", "name", "suggestions", "enum")
_RETURN_KEYS = ("value", "description")
_CHECKS_KEYS = ("run",)
_CHECK_TIMES = ("cron", "zone")  # of the application
_BARE_TYPES = ("map", "list")  # of parameters in public manifests; they say nothing that can be checked
_NOT_PARAMETERS = frozenset({"phase", "retryCount", "ignoreFail"})  # written among a step's parameters
WORKFLOW_CONFIGURATION = (
    "configuration.workflows",
    "configuration.triggers",
    "configuration.schedule",
    "configuration.propagateStatus",
)
NO_WORKFLOWS = WorkflowsSyntax()
# The same types appear in manifest after manifest, and a `PinType` is immutable: each string is parsed once.
_parse_pin_type = lru_cache(maxsize=4096)(parse_pin_type)


def read_component(path: str, node: Node, findings: Findings, *, replans: bool = False) -> ComponentSyntax:
    """Return the component at `path` with everything inside it.

    The application is at "". `findings` are of all parts. What surrounds it says whether it `replans` by default.
    """
    label = path or _APPLICATION
    own = findings.at(label)
    parts = children_of(node, "A component", own, COMPONENT_KEYS if path else _APPLICATION_KEYS)
    type_node = parts.get("type")
    type_name = text_of(type_node, "'type'", own)
    configuration_node = parts.get("configuration")
    configuration = children_of(configuration_node, "'configuration'", own)
    replans = read_on_difference(parts.get("onDifference"), own, default=replans)
    if "onDifference" in parts and type_name not in (None, WORKFLOW_INSTANCE) and "components" not in parts:
        message = f"'onDifference' has no effect on a {type_name}. Write it at a {WORKFLOW_INSTANCE}."
        own.warning("IgnoredValue", message, node.place_of("onDifference") if isinstance(node, MappingNode) else node)
    workflows = NO_WORKFLOWS
    if type_name == WORKFLOW_INSTANCE:
        workflows = _read_workflows(configuration, own)
        configuration = {key: child for key, child in configuration.items() if key not in WORKFLOW_CONFIGURATION}
    return ComponentSyntax(
        path,
        label,
        None if type_node is None or type_name is None else Named(type_name, type_node.line, type_node.column),
        read_interfaces(parts.get("interfaces"), "'interfaces'", own),
        configuration,
        _named(names_of(parts.get("required"), "'required'", own)),
        _read_components(path, parts.get("components"), findings, replans=replans),
        tuple(_read_bindings(parts.get("bindings"), own)),
        workflows,
        node.line,
        node.column,
        configuration_node.keys if isinstance(configuration_node, MappingNode) else {},
        () if path else read_concurrency(parts.get("concurrency"), own),
        read_checks(parts.get("checks"), own, has_times=not path),
        replans,
    )


def read_on_difference(node: Node | None, findings: Findings, *, default: bool = False) -> bool:
    """Return whether what stops because it isn't as approved is planned again.

    Anything but `stop` and `replan` had no meaning in older manifests, and still has none.
    """
    if node is None or is_null(node):
        return default
    value = plain(node)
    if value not in ("stop", "replan"):
        findings.warning("IgnoredValue", "Can't read 'onDifference' (ignored). Write stop or replan.", node)
        return default
    return bool(value == "replan")


def read_concurrency(node: Node | None, findings: Findings) -> tuple[ConcurrencyLimit, ...]:
    """Return limits of jobs: a number, a map or a list of maps.

    Anything else under that key had no meaning in older manifests, and still has none.
    """
    if node is None or is_null(node):
        return ()
    value = plain(node)
    try:
        return read_limits(value, "application")
    except ValueError as error:
        maps = value if isinstance(value, list) else [value]
        is_meant = any(isinstance(each, dict) and each.keys() & {"key", "limit", "when"} for each in maps)
        report, ignored = (findings.error, "") if is_meant else (findings.warning, " (ignored)")
        report("MalformedConcurrency", f"Can't read 'concurrency'{ignored}: {error}.", node)
        return ()


def read_checks(node: Node | None, findings: Findings, *, has_times: bool) -> ChecksSyntax | None:
    """Return what checks run; None where nobody says it.

    Those of the application also say when (`has_times`). Anything but a map with `run`, `cron` or `zone` had no meaning
    in older manifests, and still has none.
    """
    if node is None or is_null(node):
        return None
    if not isinstance(node, MappingNode) or node.children.keys().isdisjoint((*_CHECKS_KEYS, *_CHECK_TIMES)):
        findings.warning("MalformedChecks", "Can't read 'checks' (ignored). Write a map such as {run: [plan]}.", node)
        return None
    for key in _CHECK_TIMES:
        if key in node.children and not has_times:
            message = f"'{key}' isn't of a component: a check is of the whole instance. Write it at the application."
            findings.error("UnknownKey", message, node.place_of(key))
    parts = children_of(node, "'checks'", findings, (*_CHECKS_KEYS, *_CHECK_TIMES), strict=True)
    run = None if "run" not in parts else _named(names_of(parts["run"], "'run'", findings))
    cron, zone = (_named_text(parts.get(key), f"'{key}'", findings) for key in _CHECK_TIMES)
    return ChecksSyntax(run, node.line, node.column, cron, zone)


def _named_text(node: Node | None, what: str, findings: Findings) -> Named | None:
    text = text_of(node, what, findings)
    return None if node is None or text is None else Named(text, node.line, node.column)


def _read_components(
    path: str, node: Node | None, findings: Findings, *, replans: bool
) -> Mapping[str, ComponentSyntax]:
    own = findings.at(path or _APPLICATION)
    components: dict[str, ComponentSyntax] = {}
    for name, child in children_of(node, "'components'", own).items():
        assert isinstance(node, MappingNode)  # the name came out of this map
        place = node.place_of(name)
        inner = f"{path}.{name}" if path else name
        if not is_name(name, "'components'", place, own):
            continue
        if name != name.strip() or any(mark in name for mark in ".#,()"):
            message = f"Invalid component name '{name}'. Omit dots, '#', ',', parentheses and outer spaces."
            own.error("BadName", message, place)
        elif is_null(child):
            findings.at(inner).error("NullComponent", "The component is empty. Add its type, or remove it.", place)
        elif not isinstance(child, MappingNode):
            report_kind(child, "A component", "a map", findings.at(inner))
        elif is_null(child.get("type")) and is_null(child.get("components")):
            message = "The component has neither a type nor components. Add one of them."
            findings.at(inner).error("MissingType", message, place)
        else:
            components[name] = read_component(inner, child, findings, replans=replans)
    return components


def _read_bindings(node: Node | None, findings: Findings) -> Iterator[BindingSyntax]:
    for item in items_of(node, "'bindings'", findings):
        ends = item.children if isinstance(item, SequenceNode) else ()
        if len(ends) != 2 or not all(isinstance(end, ScalarNode) for end in ends):
            shown = f"a list of {len(ends)}" if isinstance(item, SequenceNode) else kind_of(item)
            message = f"A binding must be a list of two components, [a, b], not {shown}."
            findings.error("MalformedBinding", message, item)
            continue
        first, second = (_read_endpoint(end, findings) for end in ends)
        if first is not None and second is not None:
            yield BindingSyntax(first, second, item.line, item.column)


def _read_endpoint(node: Node, findings: Findings) -> Endpoint | None:
    try:
        return parse_endpoint(text_of(node, "An end of a binding", findings) or "", node.line, node.column)
    except ValueError as error:
        findings.error("MalformedBinding", str(error), node)
        return None


def read_interfaces(node: Node | None, what: str, findings: Findings) -> Interfaces:
    """Return interface → pin name → pin, each in its short form (a type or a bind) or as a map."""
    interfaces: dict[str, Mapping[str, PinSyntax]] = {}
    for interface, child in children_of(node, what, findings).items():
        if not is_name(interface, what, child, findings):
            continue
        pins: dict[str, PinSyntax] = {}
        for name, pin_node in children_of(child, f"Interface '{interface}'", findings).items():
            if is_name(name, f"interface '{interface}'", pin_node, findings):
                pin = _read_pin(name, pin_node, findings.at(f"{interface}.{name}"))
                if pin is not None:
                    pins[name] = pin
        interfaces[interface] = pins
    return interfaces


def _read_pin(name: str, node: Node, findings: Findings) -> PinSyntax | None:
    if isinstance(node, ScalarNode) and node.value is not None:
        return _pin(name, node, node, None, None, findings)
    if not isinstance(node, MappingNode):
        message = f"A pin must be a type, a bind or a map with a 'type', not {kind_of(node)}."
        findings.error("MalformedPin", message, node)
        return _unreadable(name, node)
    parts = children_of(node, "A pin", findings, _PIN_KEYS)
    type_node = parts.get("type")
    if type_node is None or is_null(type_node):
        findings.error("MalformedPin", "The pin has no 'type'. Add one, such as configuration(string).", node)
        return _unreadable(name, node)
    return _pin(
        name, node, type_node, text_of(parts.get("name"), "'name'", findings), parts.get("suggestions"), findings
    )


def _pin(
    name: str, node: Node, type_node: Node, label: str | None, suggestions: Node | None, findings: Findings
) -> PinSyntax | None:
    text = text_of(type_node, "'type'", findings)
    if text is None:
        return _unreadable(name, node)
    try:
        if text.lstrip().startswith("bind"):
            return BoundPin(name, parse_bind(text), node.line, node.column)
        pin_type = _parse_pin_type(text)
    except (ValueError, TypeSyntaxError) as error:
        cut = text.count("(") > text.count(")")
        hint = " Inside { }, quote values that contain a comma." if cut else ""
        findings.error("MalformedPin", f"{error}{hint}", type_node)
        return _unreadable(name, node)
    if name == WILDCARD:
        findings.error("MalformedPin", "Pin '*' must be a bind, such as bind(component#interface.*).", type_node)
        return None
    values = _typed_suggestions(_read_suggestions(suggestions, findings), pin_type.value_type)
    return TypedPin(name, pin_type, label, values, node.line, node.column)


def _unreadable(name: str, node: Node) -> TypedPin | None:
    """Return a pin in place of one that is an error.

    So nothing that names the pin makes a second error.
    """
    return None if name == WILDCARD else TypedPin(name, UNREADABLE_PIN, None, None, node.line, node.column)


def _read_suggestions(node: Node | None, findings: Findings) -> Mapping[str, Any] | None:
    """Return label → value; a plain list (`enum` of workflow manifests) labels each value with itself."""
    if isinstance(node, SequenceNode):
        return {_label(item): written_data(item) for item in node.children}
    if isinstance(node, MappingNode):
        return {label: written_data(child) for label, child in node.items()}
    if node is not None and not is_null(node):
        report_kind(node, "'suggestions'", "a map from labels to values", findings)
    return None


def _typed_suggestions(written: Mapping[str, Any] | None, value_type: Type | None) -> Mapping[str, Any] | None:
    """Return suggestions as values of their type, if they match it."""
    return (
        None if written is None else {label: coerced_if_possible(value_type, value) for label, value in written.items()}
    )


def _label(item: Node) -> str:
    return item.text if isinstance(item, ScalarNode) else str(plain(item))


def _read_workflows(configuration: Mapping[str, Node], findings: Findings) -> WorkflowsSyntax:
    workflows_node = configuration.get("configuration.workflows")
    workflows = children_of(workflows_node, "'workflows'", findings)
    places: Mapping[str, Place] = workflows_node.keys if isinstance(workflows_node, MappingNode) else {}
    return WorkflowsSyntax(
        {
            name: read_workflow(name, places[name], node, findings)
            for name, node in workflows.items()
            if is_name(name, "'workflows'", node, findings)
        },
        _named_texts(configuration.get("configuration.triggers"), "triggers", findings),
        _named_texts(configuration.get("configuration.schedule"), "schedule", findings),
        _propagating(configuration.get("configuration.propagateStatus"), findings),
    )


def _propagating(node: Node | None, findings: Findings) -> tuple[Named, ...]:
    """Return the workflows of `propagateStatus`. Of `- update: [result]`, in older manifests, the key counts."""
    if isinstance(node, ScalarNode):
        return _named(names_of(node, "'propagateStatus'", findings))
    found: list[Named] = []
    for name, child, place in entries_of(node, "'propagateStatus'", findings):
        found.append(Named(name, place.line, place.column))
        if not is_null(child):
            message = f"The value of '{name}' in 'propagateStatus' has no effect: write only the name of the workflow."
            findings.warning("IgnoredValue", message, place)
    return tuple(found)


def read_workflow(name: str, place: Place, node: Node, findings: Findings) -> WorkflowSyntax:
    """Return one workflow; a null one has no steps. `findings` are of its component."""
    own = findings.at(name)
    parts = children_of(node, "A workflow", own, _WORKFLOW_KEYS)
    names: set[str] = set()
    return WorkflowSyntax(
        name,
        place,
        _read_parameters(parts.get("parameters"), own),
        _read_steps(parts.get("steps"), "steps", names, own),
        _read_returns(parts.get("return"), own),
        node.line,
        node.column,
        _read_steps(parts.get("onFailure"), "onFailure", names, own),
        _read_steps(parts.get("finally"), "finally", names, own),
        parts.get("timeout"),
        read_concurrency(parts.get("concurrency"), own),
    )


def _read_parameters(node: Node | None, findings: Findings) -> Mapping[str, ParameterSyntax]:
    """Return declared parameters; an entry may be null, which declares the bare name."""
    parameters: dict[str, ParameterSyntax] = {}
    if node is None:
        return parameters
    for name, child, place in entries_of(node, "'parameters'", findings):
        if name in parameters:
            findings.error("DuplicateParameter", f"Duplicate parameter '{name}'. Keep one.", place)
            continue
        own = findings.at(name)
        parts = children_of(child, "A parameter", own, _PARAMETER_KEYS)
        default = parts.get("default")
        type_ = _parameter_type(parts.get("type"), own)
        parameters[name] = ParameterSyntax(
            name,
            type_,
            default is not None,
            None if default is None else written_data(default),
            text_of(parts.get("description"), "'description'", own),
            text_of(parts.get("name"), "'name'", own),
            _typed_suggestions(_read_suggestions(parts.get("suggestions") or parts.get("enum"), own), type_),
            place.line,
            place.column,
        )
    return parameters


def _parameter_type(node: Node | None, findings: Findings) -> Type | None:
    text = text_of(node, "'type'", findings)
    try:
        return None if text is None else parse_type(text)
    except TypeSyntaxError as error:
        if node is not None and text is not None and text.strip() not in _BARE_TYPES:
            hint = findings.hints.nearest(text.strip(), PRIMITIVES)
            findings.warning("UnknownType", f"{error} Launchbay doesn't check values of this parameter.{hint}", node)
        return None


def _read_steps(node: Node | None, key: str, names: set[str], findings: Findings) -> tuple[StepSyntax, ...]:
    """Return a list of steps, and add their names to those of the workflow."""
    if node is None:
        return ()
    steps: list[StepSyntax] = []
    for name, child, place in entries_of(node, f"'{key}'", findings):
        if name in names:
            findings.error("DuplicateStep", f"Two steps have the name '{name}'. Rename one.", place)
        elif is_name(name, f"'{key}'", place, findings):
            names.add(name)
            steps.append(_read_step(name, child, place, findings.at(name)))
    return tuple(steps)


def _read_step(name: str, node: Node, place: Place, findings: Findings) -> StepSyntax:
    parts = children_of(node, "A step", findings, _STEP_KEYS)
    parameters, parameter_places = _read_map(parts.get("parameters"), "'parameters'", findings)
    action = parts.get("action")
    action_name = text_of(action, "'action'", findings)
    if is_null(action) and (isinstance(node, MappingNode) or is_null(node)):  # anything else is an error already
        findings.error("MissingAction", "The step has no action. Add 'action:'.", place)
    return StepSyntax(
        name,
        None if action is None or action_name is None else Named(action_name, action.line, action.column),
        text_of(parts.get("phase") or parameters.get("phase"), "'phase'", findings),
        _named(names_of(parts.get("precedingPhases"), "'precedingPhases'", findings)),
        parameters
        if _NOT_PARAMETERS.isdisjoint(parameters)
        else {key: child for key, child in parameters.items() if key not in _NOT_PARAMETERS},
        parameters.get("retryCount"),
        parameters.get("ignoreFail"),
        _read_outputs(parts.get("output"), findings),
        place.line,
        place.column,
        parameter_places,
        {} if _CONTROL.isdisjoint(parts) else {key: parts[key] for key in _CONTROL_KEYS if not is_null(parts.get(key))},
        node.keys if isinstance(node, MappingNode) else {},
    )


def _read_map(node: Node | None, what: str, findings: Findings) -> tuple[Mapping[str, Node], Mapping[str, Place]]:
    """Return the entries of a map or a list of one-key maps, with their places."""
    if isinstance(node, MappingNode):
        return node.children, node.keys
    children: dict[str, Node] = {}
    places: dict[str, Place] = {}
    for key, child, place in entries_of(node, what, findings):
        children[key], places[key] = child, place
    return children, places


def _read_outputs(node: Node | None, findings: Findings) -> Mapping[str, Named]:
    outputs: dict[str, Named] = {}
    if node is None:
        return outputs
    for variable, child, place in entries_of(node, "'output'", findings):
        output = text_of(child, f"Output '{variable}'", findings)
        if output is not None:
            outputs[variable] = Named(output, child.line, child.column)
        elif is_null(child):
            message = f"Variable '{variable}' names no output of the action. Write {variable}: OUTPUT."
            findings.error("MissingOutput", message, place)
    return outputs


def _read_returns(node: Node | None, findings: Findings) -> Mapping[str, ReturnSyntax]:
    returns: dict[str, ReturnSyntax] = {}
    if node is None:
        return returns
    for name, child, place in entries_of(node, "'return'", findings):
        expression = unquoted_expression(child)
        is_map = isinstance(child, MappingNode) and expression is None
        value = children_of(child, "A return value", findings.at(name), _RETURN_KEYS).get("value") if is_map else None
        if value is None:
            wanted = "…" if expression is None else f'"{expression[:80]}"'
            message = f"Return value '{name}' has no 'value'. Write {name}: {{value: {wanted}}}."
            findings.error("MissingValue", message, place)
        elif name in returns:
            findings.error("DuplicateReturn", f"'{name}' is returned twice. Keep one.", place)
        else:
            returns[name] = ReturnSyntax(name, value, place.line, place.column)
    return returns


def _named_texts(node: Node | None, section: str, findings: Findings) -> Mapping[str, Named]:
    texts: dict[str, Named] = {}
    for key, child, place in entries_of(node, f"'{section}'", findings):
        text = text_of(child, f"'{key}' in '{section}'", findings)
        if text is not None:
            texts[key] = Named(text, place.line, place.column)
        elif is_null(child):
            findings.error("MissingValue", f"'{key}' in '{section}' has no value. Add it.", place)
    return texts


def _named(nodes: Iterable[ScalarNode]) -> tuple[Named, ...]:
    return tuple([Named(node.text, node.line, node.column) for node in nodes])
