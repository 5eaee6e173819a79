"""Reads the tree of components of a component manifest (manifest-language §3)."""

from collections.abc import Mapping

from launchbay.manifest.pins import read_interfaces
from launchbay.manifest.references import Endpoint, parse_endpoint
from launchbay.manifest.shapes import children_of, is_absent, is_name, items_of, names_of, text_or_none
from launchbay.manifest.syntax import BindingSyntax, ComponentSyntax, Named, WorkflowsSyntax
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, SequenceNode, is_null, kind_of
from launchbay.manifest.workflows import WORKFLOW_CONFIGURATION, read_workflows
from launchbay.model.findings import Findings, Place

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
            findings.warning("UnknownKey", message, _key_place(node, key))
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
        place = _key_place(node, name)
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


def _key_place(node: Node | None, key: str) -> Place:
    assert isinstance(node, MappingNode)  # the key came out of this map
    return node.place_of(key)
