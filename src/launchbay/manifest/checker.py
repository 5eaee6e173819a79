"""The rules that hold for single components, whatever their bindings (manifest-language §3, §4 and §7)."""

from collections.abc import Collection, Mapping
from itertools import chain

from launchbay.manifest.bindings import Peers
from launchbay.manifest.graph import CONSTANTS, LOCATOR, SERVICE, SUBMODULE, ComponentType, is_workflow_service
from launchbay.manifest.layout import Layout, Leaf, find_pin
from launchbay.manifest.syntax import ComponentSyntax
from launchbay.manifest.tree import children_of, plain
from launchbay.model.findings import Findings, Hints
from launchbay.model.types import PinKind
from launchbay.model.values import CoercionError, coerce

_LOCATOR_PREFIX = "__locator."
_VALUES = "configuration.values"


class ComponentChecker:
    """Checks all components of one manifest."""

    def __init__(self, layout: Layout, types: Mapping[str, ComponentType], findings: Findings, hints: Hints) -> None:
        self._layout = layout
        self._types = types
        self._findings = findings
        self._hints = hints

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

    def _check_composite(self, composite: ComponentSyntax) -> None:
        face = self._layout.public_pins[composite.path]
        for key, node in composite.configuration.items():
            pin = find_pin(face, key)
            if pin is None or pin.type.kind is not PinKind.CONFIGURATION:
                known = (f"{interface}.{name}" for interface, pins in face.items() for name in pins)
                message = f"{composite.title}: '{key}' is configured, but it is no configuration pin of its interfaces."
                self._findings.warning("UnknownConfiguration", f"{message}{self._hints.nearest(key, known)}", node)
        if composite.required:
            message = f"{composite.title}: 'required' has no meaning on a composite; name the interface inside."
            self._findings.warning("UnknownKey", message, composite.required[0])

    def _check_type(self, leaf: Leaf) -> None:
        written = leaf.syntax.type
        if written is not None and leaf.type not in self._types:
            message = f"{leaf.syntax.title}: the component type '{leaf.type}' is unknown."
            hint = self._hints.nearest(leaf.type, self._types) or f" Known are {', '.join(self._types)}."
            self._findings.error("UnknownComponentType", f"{message}{hint}", written)

    def _check_configuration(self, leaf: Leaf) -> None:
        known_type = self._types.get(leaf.type)
        if known_type is None:
            return
        face = self._layout.public_pins[leaf.syntax.path]
        for key, node in leaf.syntax.configuration.items():
            pin = leaf.pins.get(key)
            if pin is None and known_type.is_composite:
                bound = find_pin(face, key)
                kind = None if bound is None else bound.type.kind
            else:
                kind = None if pin is None else pin.type.kind
            if kind is PinKind.CONFIGURATION or key in known_type.settings or key.startswith(_LOCATOR_PREFIX):
                continue
            known = chain(leaf.pins, known_type.settings)
            message = f"{leaf.syntax.title}: '{key}' is configured, but it is no configuration pin of the component."
            self._findings.warning("UnknownConfiguration", f"{message}{self._hints.nearest(key, known)}", node)

    def _check_required(
        self, leaf: Leaf, peers: Mapping[str, object], exposed_needs: Collection[tuple[str, str]]
    ) -> None:
        face = self._layout.public_pins[leaf.syntax.path]
        for name in leaf.syntax.required:
            pins = face.get(name.text)
            if pins is None:
                message = f"{leaf.syntax.title}: the required interface '{name.text}' does not exist."
                hint = self._hints.nearest(name.text, face)
                self._findings.warning("UnknownInterface", f"{message}{hint}", name)
                continue
            needs = [pin for pin, there in pins.items() if there.type.kind.is_need]
            exposed = any((leaf.syntax.path, f"{name.text}.{pin}") in exposed_needs for pin in needs)
            if needs and not exposed and name.text not in peers and not is_workflow_service(SERVICE, pins):
                message = f"{leaf.syntax.title}: nothing is bound to the required interface '{name.text}'."
                self._findings.warning("UnboundInterface", f"{message} Add a binding that fills its needs.", name)

    def _check_constants(self, leaf: Leaf) -> None:
        what = f"{leaf.syntax.title}: '{_VALUES}'"
        values = children_of(leaf.syntax.configuration.get(_VALUES), what, self._findings)
        for key, node in values.items():
            pin = leaf.pins.get(key)
            if pin is None or pin.type.kind is not PinKind.PUBLISH_SIGNAL:
                message = f"{what} has '{key}', which is no publish-signal pin of the component."
                self._findings.warning("UnknownConfiguration", f"{message}{self._hints.nearest(key, leaf.pins)}", node)
                continue
            try:
                coerce(pin.type.value_type, plain(node))
            except CoercionError as error:
                self._findings.warning("ValueOfWrongType", f"{what}: '{key}' cannot be published: {error}", node)
        for key, pin in leaf.pins.items():
            if pin.type.kind is PinKind.PUBLISH_SIGNAL and key not in values:
                message = f"{what} has no value for the signal '{key}', which will never be published."
                self._findings.warning("MissingValue", message, leaf.syntax)

    def _check_locator(self, leaf: Leaf) -> None:
        if LOCATOR not in leaf.syntax.configuration:
            message = f"{leaf.syntax.title} names no application; set '{LOCATOR}' to an application's id or name."
            self._findings.warning("MissingLocator", message, leaf.syntax)
