"""How the components of a manifest look from outside, and where their pins lead: the ground for binds and bindings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from launchbay.limits import MANIFEST_BOUND_PINS, NAME_CHARS
from launchbay.manifest.graph import SCALER, ComponentType, Pin, Target
from launchbay.manifest.syntax import WILDCARD, BoundPin, ComponentSyntax, TypedPin
from launchbay.model.findings import Findings, Place, shorten_names
from launchbay.model.types import PinKind, PinType, parse_pin_type


@dataclass(frozen=True, slots=True)
class PublicPin:
    """A pin as seen from outside a component: a leaf's own pin, or what a composite's pin is bound to."""

    type: PinType
    targets: tuple[Target, ...]
    label: str | None
    suggestions: Mapping[str, Any] | None


PublicPins: TypeAlias = Mapping[str, Mapping[str, PublicPin]]  # interface → pin name → pin


@dataclass(frozen=True, slots=True)
class Leaf:
    """A component that does something, with every pin by `interface.pin`.

    `builtin` names the interfaces that its type brought and it did not declare; `scaler` is the Scaler around it.
    """

    syntax: ComponentSyntax
    type: str
    pins: Mapping[str, Pin]
    builtin: frozenset[str]
    scaler: str | None


@dataclass(slots=True)
class Layout:
    """All components by path: the leaves, the composites ("" is the application) and how each looks from outside."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    composites: dict[str, ComponentSyntax] = field(default_factory=dict)
    public_pins: dict[str, PublicPins] = field(default_factory=dict)


def find_pin(public_pins: PublicPins, key: str) -> PublicPin | None:
    """Return the pin `interface.pin`; names of interfaces and pins may have dots themselves."""
    if len(key) > 2 * NAME_CHARS + 1:  # longer than any pin's, and every dot in it would be tried
        return None
    for interface, name in _splits(key):
        pins = public_pins.get(interface)
        if pins is not None and name in pins:
            return pins[name]
    return None


def absolute(composite: ComponentSyntax, component: str) -> str:
    """Return the path from the application to a component that is named from inside a composite."""
    return f"{composite.path}.{component}" if composite.path else component


def _splits(key: str) -> Iterator[tuple[str, str]]:
    dot = key.find(".")
    while dot >= 0:
        yield key[:dot], key[dot + 1 :]
        dot = key.find(".", dot + 1)


def build_layout(application: ComponentSyntax, types: Mapping[str, ComponentType], findings: Findings) -> Layout:
    """Return the layout of a manifest; what cannot be resolved becomes a finding and is left out."""
    builder = _Builder(types, findings)
    builder.composite(application, None)
    return builder.layout


@lru_cache(maxsize=256)
def _builtin_type(text: str) -> PinType:
    return parse_pin_type(text)


class _Builder:
    """Walks the tree from the inside out, since a composite's pins need the faces of what it holds."""

    def __init__(self, types: Mapping[str, ComponentType], findings: Findings) -> None:
        self.layout = Layout()
        self._types = types
        self._findings = findings
        self._builtin: dict[str, tuple[Pin, ...]] = {}
        self._bound_pins = 0
        self._is_full = False  # the bound on bound pins is reached: nothing more is resolved

    def composite(self, syntax: ComponentSyntax, scaler: str | None) -> None:
        self.layout.composites[syntax.path] = syntax
        for inner in syntax.components.values():
            self._component(inner, scaler)
        self.layout.public_pins[syntax.path] = self._composite_public_pins(syntax)

    def _component(self, syntax: ComponentSyntax, scaler: str | None) -> None:
        if syntax.type is None:
            self.composite(syntax, scaler)
            return
        component_type = self._types.get(syntax.type.text, ComponentType(syntax.type.text))
        if component_type.is_composite:
            self._typed_composite(syntax, component_type, scaler)
            return
        if syntax.components or syntax.bindings:
            message = f"{syntax.title} has the type '{syntax.type.text}', which holds no components and bindings."
            self._findings.error("UnexpectedComponents", f"{message} Remove its type, or what is inside.", syntax)
        self._leaf(syntax, component_type, scaler)

    def _typed_composite(self, syntax: ComponentSyntax, component_type: ComponentType, scaler: str | None) -> None:
        if scaler is not None and component_type.name == SCALER:
            message = f"{syntax.title} is a {SCALER} inside the {SCALER} '{scaler}'; use only one of them."
            self._findings.error("NestedScaler", message, syntax)
        if not syntax.components:
            message = f"{syntax.title} has no inner component; add one under `components`."
            self._findings.error("MissingComponents", message, syntax)
        self._leaf(syntax, component_type, scaler)
        own = self.layout.public_pins[syntax.path]
        self.composite(syntax, syntax.path if component_type.name == SCALER else scaler)
        bound = self.layout.public_pins[syntax.path]
        self.layout.public_pins[syntax.path] = {
            interface: {**own.get(interface, {}), **bound.get(interface, {})} for interface in {**own, **bound}
        }

    def _leaf(self, syntax: ComponentSyntax, component_type: ComponentType, scaler: str | None) -> None:
        pins: dict[str, Pin] = {}
        public_pins: dict[str, dict[str, PublicPin]] = {}
        for interface, declared in syntax.interfaces.items():
            public_pins[interface] = {}
            for name, pin in declared.items():
                if isinstance(pin, TypedPin):
                    _add(public_pins, pins, syntax.path, Pin(interface, name, pin.type, pin.label, pin.suggestions))
                elif not component_type.is_composite:
                    message = (
                        f"{syntax.title}: the pin '{interface}.{name}' is bound, but the component holds no others;"
                        " give it a type such as configuration(string)."
                    )
                    self._findings.error("UnexpectedBind", message, pin)
        for interface in component_type.interfaces:
            public_pins.setdefault(interface, {})
        for builtin in self._builtin_pins(component_type):
            if builtin.key not in pins:
                _add(public_pins, pins, syntax.path, builtin)
        own = frozenset(interface for interface in component_type.interfaces if interface not in syntax.interfaces)
        self.layout.leaves[syntax.path] = Leaf(syntax, component_type.name, pins, own, scaler)
        self.layout.public_pins[syntax.path] = public_pins

    def _builtin_pins(self, component_type: ComponentType) -> tuple[Pin, ...]:
        """Return the built-in pins of a type, which all components of the type share."""
        if component_type.name not in self._builtin:
            self._builtin[component_type.name] = tuple(
                Pin(interface, name, _builtin_type(text))
                for interface, pins in component_type.interfaces.items()
                for name, text in pins.items()
            )
        return self._builtin[component_type.name]

    def _composite_public_pins(self, syntax: ComponentSyntax) -> PublicPins:
        public_pins: dict[str, Mapping[str, PublicPin]] = {}
        for interface, declared in syntax.interfaces.items():
            pins: dict[str, PublicPin] = {}
            for name, pin in declared.items():
                where = f"{syntax.title}: the pin '{interface}.{name}'"
                if isinstance(pin, TypedPin):
                    if syntax.type is None:
                        message = f"{where} must be bound to a component's pin; write bind(component#interface.pin)."
                        self._findings.error("MissingBind", message, pin)
                elif name != WILDCARD:
                    bound = self._named_pin(syntax, pin, where)
                    if bound is not None:
                        pins[name] = bound
            wildcard = declared.get(WILDCARD)
            if isinstance(wildcard, BoundPin):
                where = f"{syntax.title}: the pin '{interface}.{WILDCARD}'"
                for name, bound in self._wildcard_pins(syntax, wildcard, where).items():
                    pins.setdefault(name, bound)
            public_pins[interface] = pins
        return public_pins

    def _named_pin(self, composite: ComponentSyntax, pin: BoundPin, where: str) -> PublicPin | None:
        found: list[PublicPin] = []
        for target in pin.targets:
            public_pins = self._public_pins(composite, target.component, where, pin)
            if public_pins is None:
                continue
            if target.wildcard_interface is not None:
                message = f"{where} is one pin and cannot be bound to '{target}'; name it '*', or name one pin."
                self._findings.error("WildcardBind", message, pin)
                continue
            there = find_pin(public_pins, target.pin)
            if there is None:
                message = f"{where} is bound to '{target}', but '{target.component}' has no pin '{target.pin}'."
                self._findings.error("UnknownPin", f"{message}{_known(public_pins, target.pin)}", pin)
                continue
            found.append(there)
        return self._join(found, where, pin)

    def _wildcard_pins(self, composite: ComponentSyntax, pin: BoundPin, where: str) -> Mapping[str, PublicPin]:
        found: dict[str, list[PublicPin]] = {}
        for target in () if self._is_full else pin.targets:
            public_pins = self._public_pins(composite, target.component, where, pin)
            if public_pins is None:
                continue
            interface = target.wildcard_interface
            if interface is None:
                message = f"{where} stands for all pins, but '{target}' is one; write '{target.component}#interface.*'."
                self._findings.error("WildcardBind", message, pin)
                continue
            if interface not in public_pins:
                message = f"{where} is bound to '{target}', but '{target.component}' has no interface '{interface}'."
                self._findings.error("UnknownInterface", f"{message} It has {shorten_names(public_pins)}.", pin)
                continue
            for name, there in public_pins[interface].items():
                found.setdefault(name, []).append(there)
        joined = ((name, self._join(pins, f"{where} ('{name}')", pin)) for name, pins in found.items())
        return {name: face_pin for name, face_pin in joined if face_pin is not None}

    def _public_pins(self, composite: ComponentSyntax, component: str, where: str, place: Place) -> PublicPins | None:
        public_pins = self.layout.public_pins.get(absolute(composite, component))
        if public_pins is None:
            message = f"{where} is bound to the component '{component}', which does not exist."
            self._findings.error(
                "UnknownComponent", f"{message} Components here: {shorten_names(composite.components)}.", place
            )
        return public_pins

    def _join(self, found: list[PublicPin], where: str, place: Place) -> PublicPin | None:
        """Return what several targets make together; None where there is none or the bound on bound pins is reached."""
        if not found:
            return None
        first = found[0]
        self._bound_pins += sum(len(pin.targets) for pin in found)
        if self._bound_pins > MANIFEST_BOUND_PINS:
            if not self._is_full:
                message = f"{where} takes the number of bound pins beyond {MANIFEST_BOUND_PINS}; bind fewer pins."
                self._findings.error("TooManyPins", message, place)
            self._is_full = True
            return None
        if len(found) == 1:
            return first
        if any(pin.type.kind is not PinKind.CONFIGURATION for pin in found):
            message = f"{where} has several targets, which only configuration pins can have; keep one of them."
            self._findings.error("SeveralTargets", message, place)
            return first
        for other in found[1:]:
            if other.type != first.type:
                message = f"{where} binds pins of different types, {first.type} and {other.type}."
                self._findings.warning("DifferentTypes", message, place)
        targets = dict.fromkeys(target for pin in found for target in pin.targets)
        labels = [pin.label for pin in found if pin.label is not None]
        suggestions = [pin.suggestions for pin in found if pin.suggestions is not None]
        return PublicPin(
            first.type, tuple(targets), labels[0] if labels else None, suggestions[0] if suggestions else None
        )


def _add(public_pins: dict[str, dict[str, PublicPin]], pins: dict[str, Pin], path: str, pin: Pin) -> None:
    key = pin.key
    pins[key] = pin
    public_pins[pin.interface][pin.name] = PublicPin(pin.type, (Target(path, key),), pin.label, pin.suggestions)


def _known(public_pins: PublicPins, wanted: str) -> str:
    """Return a sentence with pins that could be meant: those of the same interface, or all."""
    interface = wanted.partition(".")[0]
    keys = (
        f"{name}.{pin}"
        for name in ([interface] if interface in public_pins else public_pins)
        for pin in public_pins[name]
    )
    return f" It has {shorten_names(keys)}."
