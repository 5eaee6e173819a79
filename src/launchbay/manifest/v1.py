"""Workflow manifests (v1), rewritten to component manifests with one `workflow.Instance` (manifest-language §2).

Findings don't name the component `workflow`, since the author of such a manifest never wrote it.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.manifest.graph import SERVICE, WORKFLOW_INSTANCE, CompiledManifest, is_workflow_service
from launchbay.manifest.parser import (
    NO_WORKFLOWS,
    read_checks,
    read_concurrency,
    read_interfaces,
    read_on_difference,
    read_workflow,
)
from launchbay.manifest.syntax import (
    BindingSyntax,
    BindTarget,
    BoundPin,
    ComponentSyntax,
    Endpoint,
    Interfaces,
    ManifestSyntax,
    Named,
    ParameterSyntax,
    PinSyntax,
    ReturnSyntax,
    TypedPin,
    WorkflowsSyntax,
    WorkflowSyntax,
)
from launchbay.manifest.tree import MappingNode, Node, children_of, is_name, text_of
from launchbay.model.findings import Findings
from launchbay.model.types import OBJECT, UNREADABLE_PIN, PinKind, PinType, Signature, Type

COMPONENT = "workflow"
INPUT, RESULT, ACTIONS = "input", "result", "actions"
_ABOUT = frozenset({"version", "header"})
_HEADER_KEYS = ("services", "concurrency", "checks", "onDifference")
_VERSIONS = ("1.0", "1.1")
_NOT_COMMANDS = frozenset({"launch", "destroy"})
_SERVICES = ("header", "services")  # where an author writes them, as findings show it


def in_component(path: str, message: str) -> str:
    """Return a message after the component that it is about.

    The component of a workflow manifest has no name there, because the author wrote none.
    """
    return message[:1].upper() + message[1:] if path == COMPONENT else f"Component {path!r}: {message}"


def read_workflow_manifest(document: MappingNode, findings: Findings) -> ManifestSyntax:
    """Return the component manifest that means the same as the workflow manifest."""
    _check_version(document, findings)
    services = _services(document, findings)
    workflows = {
        name: read_workflow(name, document.place_of(name), node, findings)
        for name, node in document.items()
        if name not in _ABOUT and is_name(name, "the manifest", node, findings)
    }
    launch = workflows.get("launch")
    own: dict[str, Mapping[str, PinSyntax]] = {
        **services,
        INPUT: {name: _input(parameter) for name, parameter in launch.parameters.items()} if launch else {},
        RESULT: _results(workflows),
        ACTIONS: {name: _command(workflow) for name, workflow in workflows.items() if _is_command(name)},
    }
    line, column = document.line, document.column
    required = tuple(Named(name, line, column) for name in services)
    header = document.get("header")
    about = header.children if isinstance(header, MappingNode) else {}
    checks = read_checks(about.get("checks"), findings.at("header"), has_times=True)
    replans = read_on_difference(about.get("onDifference"), findings.at("header"))
    workflow = _component(COMPONENT, "", WORKFLOW_INSTANCE, own, document, WorkflowsSyntax(workflows), required)
    workflow = msgspec.structs.replace(workflow, replans=replans)
    components = {COMPONENT: workflow, **_service_components(services, document)}
    bindings = tuple(
        _binding(interface, document)
        for interface, pins in services.items()
        if _is_connecting(interface, pins, document, findings)
    )
    bound = {interface: _bind_all(interface, own[interface]) for interface in (INPUT, RESULT, ACTIONS)}
    limits = read_concurrency(about.get("concurrency"), findings.at("header"))
    application = ComponentSyntax(
        "", "", None, bound, {}, (), components, bindings, NO_WORKFLOWS, line, column, concurrency=limits, checks=checks
    )
    return ManifestSyntax(application, is_component_manifest=False)


def _check_version(document: MappingNode, findings: Findings) -> None:
    version = text_of(document.get("version"), "'version'", findings)
    if version is not None and version not in _VERSIONS:
        known = " and ".join(_VERSIONS)
        message = f"Unknown version {version}. Launchbay reads it as {_VERSIONS[-1]}. Valid versions: {known}."
        findings.warning("UnknownVersion", message, document.place_of("version"))


def _input(parameter: ParameterSyntax) -> TypedPin:
    pin_type = PinType(PinKind.CONFIGURATION, parameter.type or OBJECT)
    label = parameter.label or parameter.description
    return TypedPin(parameter.name, pin_type, label, parameter.suggestions, parameter.line, parameter.column)


def _is_command(name: str) -> bool:
    return name not in _NOT_COMMANDS and "." not in name


def _results(workflows: Mapping[str, WorkflowSyntax]) -> dict[str, PinSyntax]:
    """Return a signal for each name that exposed workflows return, `launch` first."""
    exposed = [name for name in workflows if name in _NOT_COMMANDS or _is_command(name)]
    exposed.sort(key=lambda name: name != "launch")
    found: dict[str, PinSyntax] = {}
    for workflow in exposed:
        for name, entry in workflows[workflow].returns.items():
            found.setdefault(name, _result(entry))
    return found


def _result(entry: ReturnSyntax) -> TypedPin:
    return TypedPin(entry.name, PinType(PinKind.PUBLISH_SIGNAL, OBJECT), None, None, entry.line, entry.column)


def _command(workflow: WorkflowSyntax) -> TypedPin:
    arguments: dict[str, Type] = {name: parameter.type or OBJECT for name, parameter in workflow.parameters.items()}
    results: dict[str, Type] = dict.fromkeys(workflow.returns, OBJECT)
    pin_type = PinType(PinKind.RECEIVE_COMMAND, signature=Signature(arguments, {}, results))
    return TypedPin(workflow.name, pin_type, None, None, workflow.line, workflow.column)


def _bind_all(interface: str, pins: Mapping[str, PinSyntax]) -> Mapping[str, PinSyntax]:
    return {
        name: BoundPin(name, (BindTarget(COMPONENT, f"{interface}.{name}"),), pin.line, pin.column)
        for name, pin in pins.items()
    }


def _services(document: MappingNode, findings: Findings) -> Interfaces:
    """Return what `header.services` declares: the interfaces that the workflow needs of its environment."""
    header_node = document.get("header")
    header = children_of(header_node, "'header'", findings, _HEADER_KEYS)
    services = read_interfaces(header.get("services"), "'services'", findings.at(*_SERVICES))
    for interface in services:
        if interface in {INPUT, RESULT, ACTIONS}:
            message = f"The name '{interface}' is reserved. Rename the service."
            findings.at(*_SERVICES).error("BadName", message, document.place_of("header"))
    return services


def _is_connecting(interface: str, pins: Mapping[str, PinSyntax], document: MappingNode, findings: Findings) -> bool:
    """Return whether a service has something to connect. The warning for the binding would name what nobody wrote."""
    types = [pin.type for pin in pins.values() if isinstance(pin, TypedPin)]
    is_link = any(type_.kind.complement is not None or type_ == UNREADABLE_PIN for type_ in types)
    if is_link or is_workflow_service(SERVICE, pins):
        return True
    message = f"Service '{interface}' connects nothing. Add a signal or command pin."
    findings.at(*_SERVICES).warning("UselessBinding", message, document)
    return False


def _binding(interface: str, document: MappingNode) -> BindingSyntax:
    line, column = document.line, document.column
    own = Endpoint(COMPONENT, interface, line, column)
    return BindingSyntax(own, Endpoint(_service_name(interface), interface, line, column), line, column)


def _service_components(services: Interfaces, document: MappingNode) -> Mapping[str, ComponentSyntax]:
    components: dict[str, ComponentSyntax] = {}
    for interface, pins in services.items():
        mirrored = {name: _mirrored(pin) for name, pin in pins.items() if isinstance(pin, TypedPin)}
        name = _service_name(interface)
        components[name] = _component(
            name, " › ".join((*_SERVICES, interface)), SERVICE, {interface: mirrored}, document, NO_WORKFLOWS, ()
        )
    return components


def _service_name(interface: str) -> str:
    return f"service {interface}"  # with a space, so that it can never be the workflow's


def _mirrored(pin: TypedPin) -> TypedPin:
    kind = pin.type.kind.complement or pin.type.kind
    pin_type = PinType(kind, pin.type.value_type, pin.type.signature)
    return TypedPin(pin.name, pin_type, pin.label, pin.suggestions, pin.line, pin.column)


def _component(
    path: str,
    label: str,
    type_name: str,
    interfaces: Interfaces,
    document: Node,
    workflows: WorkflowsSyntax,
    required: tuple[Named, ...],
) -> ComponentSyntax:
    return ComponentSyntax(
        path,
        label,
        Named(type_name, document.line, document.column),
        interfaces,
        {},
        required,
        {},
        (),
        workflows,
        document.line,
        document.column,
    )


# The names by which a module knows the pins of an application inside of it (manifest-language §2 and §7).
#
# The API has plain names for a workflow manifest: `size`, `url`. For a module around it, its pins are in the interfaces
# that the rewriting adds: `input.size`, `result.url`, `actions.grow`.


def outer_names(manifest: CompiledManifest) -> frozenset[str]:
    """Return the keys `interface.pin` of all pins of the application."""
    pins = {INPUT: manifest.parameters, RESULT: manifest.results, ACTIONS: manifest.commands}
    if manifest.is_component_manifest:
        return frozenset((*(key for named in pins.values() for key in named), *manifest.needs))
    return frozenset(f"{interface}.{name}" for interface, named in pins.items() for name in named)


def inner_name(manifest: CompiledManifest, key: str) -> str:
    """Return the API's name for what a module around the application calls `interface.pin`."""
    interface, _, name = key.partition(".")
    is_plain = not manifest.is_component_manifest and interface in {INPUT, RESULT, ACTIONS}
    return name if is_plain and name else key


def outer_values(return_values: Mapping[str, Any]) -> dict[str, Any]:
    """Return return values by both names; those of a component manifest have an interface already."""
    plain = {f"{RESULT}.{name}": value for name, value in return_values.items() if "." not in name}
    return {**return_values, **plain}
