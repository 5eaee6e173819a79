"""Rules of single components, regardless of their bindings (manifest-language §3, §4 and §7)."""

from collections.abc import Collection, Mapping
from itertools import chain

from launchbay.manifest.bindings import Peers
from launchbay.manifest.graph import (
    CONSTANTS,
    LOCATOR,
    SERVICE,
    SUBMODULE,
    WORKFLOW_INSTANCE,
    ComponentType,
    is_workflow_service,
)
from launchbay.manifest.layout import Layout, Leaf, find_pin
from launchbay.manifest.parser import WORKFLOW_CONFIGURATION
from launchbay.manifest.syntax import ComponentSyntax
from launchbay.manifest.tree import MappingNode, children_of, written_data
from launchbay.model.findings import Findings, shorten_names
from launchbay.model.types import UNREADABLE_PIN, PinKind
from launchbay.model.values import CoercionError, coerce

_LOCATOR_PREFIX = "__locator."
_VALUES = "configuration.values"


class ComponentChecker:
    """Checks all components of one manifest."""

    def __init__(self, layout: Layout, types: Mapping[str, ComponentType], findings: Findings) -> None:
        self._layout = layout
        self._types = types
        self._findings = findings

    def check(self, peers: Peers, exposed_needs: Collection[tuple[str, str]]) -> None:
        """Report what is wrong. `exposed_needs` are (component path, `interface.pin`) that the application needs."""
        for composite in self._layout.composites.values():
            if composite.path not in self._layout.leaves:
                self._check_composite(composite)
        for path, leaf in self._layout.leaves.items():
            self._check_type(leaf)
            self._check_configuration(leaf)
            self._check_required(leaf, peers.get(path, {}), exposed_needs)
            if leaf.type == CONSTANTS:
                self._check_constants(leaf)
            elif leaf.type == SUBMODULE:
                self._check_locator(leaf)

    def _at(self, leaf: Leaf) -> Findings:
        return self._findings.at(leaf.syntax.label)

    def _check_composite(self, composite: ComponentSyntax) -> None:
        public_pins = self._layout.public_pins[composite.path]
        findings = self._findings.at(composite.label)
        for key in composite.configuration:
            pin = find_pin(public_pins, key)
            if pin is None or pin.type.kind is not PinKind.CONFIGURATION:
                known = (f"{interface}.{name}" for interface, pins in public_pins.items() for name in pins)
                message = f"Unknown configuration pin '{key}'.{self._findings.hints.nearest(key, known)}"
                findings.warning("UnknownConfiguration", message, composite.configuration_places[key])
        if composite.required:
            message = "'required' has no effect on a composite. Set it on the inner component."
            findings.warning("UnknownKey", message, composite.required[0])

    def _check_type(self, leaf: Leaf) -> None:
        written = leaf.syntax.type
        if written is not None and leaf.type not in self._types:
            hint = self._findings.hints.nearest(leaf.type, self._types) or f" Valid types: {', '.join(self._types)}."
            message = f"Unknown component type '{leaf.type}'.{hint}"
            self._at(leaf).error("UnknownComponentType", message, written)

    def _check_configuration(self, leaf: Leaf) -> None:
        known_type = self._types.get(leaf.type)
        if known_type is None:
            return
        public_pins = self._layout.public_pins[leaf.syntax.path]
        own = WORKFLOW_CONFIGURATION if leaf.type == WORKFLOW_INSTANCE else ()
        for key in leaf.syntax.configuration:
            pin = leaf.pins.get(key)
            if pin is None and known_type.is_composite:
                bound = find_pin(public_pins, key)
                kind = None if bound is None else bound.type.kind
            else:
                kind = None if pin is None else pin.type.kind
            if kind is PinKind.CONFIGURATION or key in known_type.settings or key.startswith(_LOCATOR_PREFIX):
                continue
            known = chain(own, known_type.settings, leaf.pins)
            message = f"Unknown configuration pin '{key}'.{self._findings.hints.nearest(key, known)}"
            self._at(leaf).warning("UnknownConfiguration", message, leaf.syntax.configuration_places[key])

    def _check_required(
        self, leaf: Leaf, peers: Mapping[str, object], exposed_needs: Collection[tuple[str, str]]
    ) -> None:
        public_pins = self._layout.public_pins[leaf.syntax.path]
        for name in leaf.syntax.required:
            pins = public_pins.get(name.text)
            if pins is None:
                component = f"component '{leaf.syntax.label}'" if leaf.syntax.label else "application"
                known = f"Its interfaces: {shorten_names(public_pins)}."
                message = f"'required' names the interface '{name.text}', which the {component} doesn't have. {known}"
                hint = self._findings.hints.nearest(name.text, public_pins)
                self._at(leaf).warning("UnknownInterface", f"{message}{hint}", name)
                continue
            needs = [pin for pin, there in pins.items() if there.type.kind.is_need]
            if not needs or name.text in peers or is_workflow_service(SERVICE, pins):
                continue
            if any((leaf.syntax.path, f"{name.text}.{pin}") in exposed_needs for pin in needs):
                message = (
                    f"Required interface '{name.text}' is exposed, but nothing inside is bound to it. A parent must "
                    "provide it: the application can't be launched alone."
                )
                self._at(leaf).warning("NeedsParent", message, name)
            else:
                message = f"Required interface '{name.text}' is unbound. Add a binding."
                self._at(leaf).warning("UnboundInterface", message, name)

    def _check_constants(self, leaf: Leaf) -> None:
        findings = self._at(leaf)
        values_node = leaf.syntax.configuration.get(_VALUES)
        values = children_of(values_node, f"'{_VALUES}'", findings)
        for key, node in values.items():
            pin = leaf.pins.get(key)
            if pin is None or (pin.type.kind is not PinKind.PUBLISH_SIGNAL and pin.type != UNREADABLE_PIN):
                hint = findings.hints.nearest(key, leaf.pins)
                message = f"'{key}' in '{_VALUES}' isn't a publish-signal pin.{hint}"
                place = values_node.place_of(key) if isinstance(values_node, MappingNode) else node
                findings.warning("UnknownConfiguration", message, place)
                continue
            try:
                coerce(pin.type.value_type, written_data(node))
            except CoercionError as error:
                findings.warning("ValueOfWrongType", f"The value of '{key}' doesn't match its type. {error}", node)
        for key, pin in leaf.pins.items():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and key not in values:
                message = f"Signal '{key}' is never published. Add its value to '{_VALUES}'."
                findings.warning("MissingValue", message, leaf.syntax)

    def _check_locator(self, leaf: Leaf) -> None:
        if LOCATOR not in leaf.syntax.configuration:
            message = f"The submodule names no application. Set '{LOCATOR}' to an application's ID or name."
            self._at(leaf).warning("MissingLocator", message, leaf.syntax)
