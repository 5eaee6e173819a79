"""Finds the value that each configuration pin has before anything is given (manifest-language §3, value order)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launchbay.manifest.component_types import WORKFLOW_INSTANCE
from launchbay.manifest.graph import ConfigurationPin
from launchbay.manifest.layout import Layout, Leaf, find_pin
from launchbay.manifest.tree import Node, ScalarNode, plain
from launchbay.model.findings import Findings
from launchbay.model.types import STRING, PinKind, Type
from launchbay.model.values import CoercionError, coerce


def configuration_pins(
    layout: Layout, parameters: Mapping[tuple[str, str], str], findings: Findings
) -> Mapping[str, Mapping[str, ConfigurationPin]]:
    """Return every configuration pin by component path and `interface.pin`.

    `parameters` maps (component path, `interface.pin`) to the application pin that is bound to it. A default that does
    not fit the pin's type is a warning here and refused by `configure`, since another value may be given.
    """
    outer = _outer_defaults(layout)
    return {path: dict(_pins_of(leaf, outer, parameters, findings)) for path, leaf in layout.leaves.items()}


def _outer_defaults(layout: Layout) -> Mapping[tuple[str, str], Sequence[Node]]:
    """Return what the application and the composites configure for each pin, the outermost first."""
    found: dict[tuple[str, str], list[Node]] = {}
    for path, composite in layout.composites.items():
        face = layout.faces[path]
        for key, node in composite.configuration.items():
            pin = find_pin(face, key)
            for target in () if pin is None else pin.targets:
                found.setdefault((target.component, target.pin), []).append(node)
    return found


def _pins_of(
    leaf: Leaf,
    outer: Mapping[tuple[str, str], Sequence[Node]],
    parameters: Mapping[tuple[str, str], str],
    findings: Findings,
) -> Iterator[tuple[str, ConfigurationPin]]:
    path = leaf.syntax.path
    for key, pin in leaf.pins.items():
        if pin.type.kind is not PinKind.CONFIGURATION:
            continue
        has_default, default = False, None
        for node in (*outer.get((path, key), ()), leaf.syntax.configuration.get(key)):
            if node is not None and not has_default:
                has_default, default = _coerced(node, pin.type.value_type, f"{leaf.syntax.title}: '{key}'", findings)
        if not has_default:
            has_default, default = _parameter_default(leaf, pin.name, pin.type.value_type)
        yield key, ConfigurationPin(path, key, pin.type.value_type, parameters.get((path, key)), has_default, default)


def _coerced(node: Node, value_type: Type, what: str, findings: Findings) -> tuple[bool, Any]:
    """Return whether the node gives the pin a value, and that value; null gives none where it does not fit."""
    value = plain(node)
    if (
        value_type == STRING
        and isinstance(node, ScalarNode)
        and isinstance(value, int | float)
        and value not in (True, False)
    ):
        value = node.text  # `1.10` for a string is "1.10"
    try:
        return True, coerce(value_type, value)
    except CoercionError as error:
        if value is None:
            return False, None
        findings.warning("ValueOfWrongType", f"{what} cannot have its default: {error}", node)
        return True, value


def _parameter_default(leaf: Leaf, name: str, value_type: Type) -> tuple[bool, Any]:
    """Return the default of the parameter of `launch` that has the pin's name; others count only in their workflows."""
    launch = leaf.syntax.workflows.workflows.get("launch") if leaf.type == WORKFLOW_INSTANCE else None
    parameter = None if launch is None else launch.parameters.get(name)
    if parameter is None or not parameter.has_default:
        return False, None
    try:
        return True, coerce(value_type, parameter.default)
    except CoercionError:
        # The workflow itself still sees the default as it stands, for parameters have no strict type.
        return False, None
