"""Reads interfaces and their pins, in the short form (a type or a bind) and the map form (manifest-language §3)."""

from collections.abc import Mapping
from functools import lru_cache

from launchbay.manifest.references import WILDCARD, parse_bind
from launchbay.manifest.shapes import children_of, is_absent, is_name, text_or_none
from launchbay.manifest.syntax import BoundPin, Interfaces, PinSyntax, TypedPin
from launchbay.manifest.tree import MappingNode, Node, ScalarNode, kind_of
from launchbay.manifest.workflows import read_suggestions
from launchbay.model.findings import Findings
from launchbay.model.types import parse_pin_type

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
