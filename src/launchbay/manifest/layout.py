"""Components as seen from outside: their public pins, and the leaf pins that these are bound to."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import msgspec

from launchbay.limits import MANIFEST_BOUND_PINS, NAME_CHARS
from launchbay.manifest.graph import SCALER, ComponentType, Pin, Target
from launchbay.manifest.syntax import WILDCARD, BoundPin, ComponentSyntax, TypedPin
from launchbay.model.findings import Findings, Place, shorten_names
from launchbay.model.types import UNREADABLE_PIN, PinKind, PinType, parse_pin_type


class PublicPin(msgspec.Struct, frozen=True, gc=False):
    """A pin as seen from outside a component: a leaf's own pin, or what a composite's pin is bound to."""

    type: PinType
    targets: tuple[Target, ...]
    label: str | None
    suggestions: Mapping[str, Any] | None


PublicPins: TypeAlias = Mapping[str, Mapping[str, PublicPin]]  # interface → pin name → pin


class Leaf(msgspec.Struct, frozen=True, gc=False):
    """A component that does something, with every pin by `interface.pin`.

    `builtin` names the interfaces that only its type declares; `scaler` is the path of the Scaler around it.
    """

    syntax: ComponentSyntax
    type: str
    pins: Mapping[str, Pin]
    builtin: frozenset[str]
    scaler: str | None


@dataclass(slots=True)
class Layout:
    """All components by path: the leaves, the composites ("" is the application), and the public pins of each."""

    leaves: dict[str, Leaf] = field(default_factory=dict)
    composites: dict[str, ComponentSyntax] = field(default_factory=dict)
    public_pins: dict[str, PublicPins] = field(default_factory=dict)


def find_pin(public_pins: PublicPins, key: str) -> PublicPin | None:
    """Return the pin `interface.pin`; names of interfaces and pins may contain dots themselves."""
    if len(key) > 2 * NAME_CHARS + 1:  # longer than any pin's key, and every dot in it would be tried
        return None
    for interface, name in _splits(key):
        pins = public_pins.get(interface)
        if pins is not None and name in pins:
            return pins[name]
    return None


def absolute(composite: ComponentSyntax, component: str) -> str:
    """Return the path from the application to a component that a composite names."""
    return f"{composite.path}.{component}" if composite.path else component


def _splits(key: str) -> Iterator[tuple[str, str]]:
    dot = key.find(".")
    while dot >= 0:
        yield key[:dot], key[dot + 1 :]
        dot = key.find(".", dot + 1)


def build_layout(
    application: ComponentSyntax,
    types: Mapping[str, ComponentType],
    findings: Findings,
    bound_pins_max: int = MANIFEST_BOUND_PINS,
) -> Layout:
    """Return the layout of a manifest; what can't be resolved becomes a finding and is omitted."""
    builder = _Builder(types, findings, bound_pins_max)
    builder.composite(application, None)
    return builder.layout


_builtin_type = lru_cache(maxsize=256)(parse_pin_type)


class _Builder:
    """Walks the tree from the inside out, since a composite's pins need the public pins of what it contains."""

    def __init__(self, types: Mapping[str, ComponentType], findings: Findings, bound_pins_max: int) -> None:
        self.layout = Layout()
        self._bound_pins_max = bound_pins_max
        self._types = types
        self._findings = findings
        self._builtin: dict[str, tuple[Pin, ...]] = {}
        self._bound_pins = 0
        self._is_full = False  # `bound_pins_max` is reached: nothing more is resolved

    def composite(self, syntax: ComponentSyntax, scaler: str | None) -> None:
        self.layout.composites[syntax.path] = syntax
        for inner in syntax.components.values():
            self._component(inner, scaler)
        self.layout.public_pins[syntax.path] = self._composite_public_pins(syntax)

    def _at(self, syntax: ComponentSyntax) -> Findings:
        return self._findings.at(syntax.label)

    def _component(self, syntax: ComponentSyntax, scaler: str | None) -> None:
        if syntax.type is None:
            self.composite(syntax, scaler)
            return
        component_type = self._types.get(syntax.type.text, ComponentType(syntax.type.text))
        if component_type.is_composite:
            self._typed_composite(syntax, component_type, scaler)
            return
        if syntax.components or syntax.bindings:
            message = f"A {syntax.type.text} can't contain components or bindings. Remove its type or its content."
            self._at(syntax).error("UnexpectedComponents", message, syntax)
        self._leaf(syntax, component_type, scaler)

    def _typed_composite(self, syntax: ComponentSyntax, component_type: ComponentType, scaler: str | None) -> None:
        if not syntax.components:
            message = "The component has no inner component. Add one under 'components'."
            self._at(syntax).error("MissingComponents", message, syntax)
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
                        f"Pin '{interface}.{name}' is bound, but the component contains no others. Give the pin a type,"
                        " such as configuration(string)."
                    )
                    self._at(syntax).error("UnexpectedBind", message, pin)
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
                where = f"Pin '{interface}.{name}'"
                if isinstance(pin, TypedPin):
                    if syntax.type is None:
                        message = f"{where} needs a bind to a component's pin. Write bind(component#interface.pin)."
                        self._at(syntax).error("MissingBind", message, pin)
                elif name != WILDCARD:
                    bound = self._named_pin(syntax, pin, where)
                    if bound is not None:
                        pins[name] = bound
            wildcard = declared.get(WILDCARD)
            if isinstance(wildcard, BoundPin):
                for name, bound in self._wildcard_pins(syntax, wildcard, f"Pin '{interface}.{WILDCARD}'").items():
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
                message = f"{where} is a single pin, but binds to all of '{target}'. Name it '*', or name one target."
                self._at(composite).error("WildcardBind", message, pin)
                continue
            there = find_pin(public_pins, target.pin)
            if there is None:
                message = f"{where} binds to unknown pin '{target}'."
                known = shorten_names(_similar_keys(public_pins, target.pin))
                self._at(composite).error("UnknownPin", f"{message} Pins of '{target.component}': {known}.", pin)
                continue
            found.append(there)
        return self._join(found, composite, where, pin)

    def _wildcard_pins(self, composite: ComponentSyntax, pin: BoundPin, where: str) -> Mapping[str, PublicPin]:
        found: dict[str, list[PublicPin]] = {}
        for target in () if self._is_full else pin.targets:
            public_pins = self._public_pins(composite, target.component, where, pin)
            if public_pins is None:
                continue
            interface = target.wildcard_interface
            if interface is None:
                message = f"{where} means all pins, but '{target}' is one. Write '{target.component}#interface.*'."
                self._at(composite).error("WildcardBind", message, pin)
                continue
            if interface not in public_pins:
                message = f"{where} binds to unknown interface '{target.component}#{interface}'."
                known = shorten_names(public_pins)
                self._at(composite).error(
                    "UnknownInterface", f"{message} Interfaces of '{target.component}': {known}.", pin
                )
                continue
            for name, there in public_pins[interface].items():
                found.setdefault(name, []).append(there)
        joined = ((name, self._join(pins, composite, f"{where} ('{name}')", pin)) for name, pins in found.items())
        return {name: public_pin for name, public_pin in joined if public_pin is not None}

    def _public_pins(self, composite: ComponentSyntax, component: str, where: str, place: Place) -> PublicPins | None:
        public_pins = self.layout.public_pins.get(absolute(composite, component))
        if public_pins is None:
            message = f"{where} binds to unknown component '{component}'."
            known = shorten_names(composite.components)
            self._at(composite).error("UnknownComponent", f"{message} Components here: {known}.", place)
        return public_pins

    def _join(self, found: list[PublicPin], composite: ComponentSyntax, where: str, place: Place) -> PublicPin | None:
        """Return the pin that several targets make together; None without targets or beyond the bound of pins."""
        if not found:
            return None
        first = found[0]
        self._bound_pins += sum(len(pin.targets) for pin in found)
        if self._bound_pins > self._bound_pins_max:
            if not self._is_full:
                message = f"With {where[0].lower()}{where[1:]}, more than {self._bound_pins_max} pins are bound."
                self._at(composite).error("TooManyPins", f"{message} Bind fewer.", place)
            self._is_full = True
            return None
        if len(found) == 1:
            return first
        if any(pin.type.kind is not PinKind.CONFIGURATION for pin in found):
            message = f"{where} has several targets, but only configuration pins can. Keep one."
            self._at(composite).error("SeveralTargets", message, place)
            return first
        for other in found[1:]:
            if other.type != first.type and UNREADABLE_PIN not in (other.type, first.type):
                message = f"{where} binds pins of different types, {first.type} and {other.type}."
                self._at(composite).warning("DifferentTypes", message, place)
        targets = dict.fromkeys(target for pin in found for target in pin.targets)
        label = next((pin.label for pin in found if pin.label is not None), None)
        suggestions = next((pin.suggestions for pin in found if pin.suggestions is not None), None)
        return PublicPin(first.type, tuple(targets), label, suggestions)


def _add(public_pins: dict[str, dict[str, PublicPin]], pins: dict[str, Pin], path: str, pin: Pin) -> None:
    key = pin.key
    pins[key] = pin
    public_pins[pin.interface][pin.name] = PublicPin(pin.type, (Target(path, key),), pin.label, pin.suggestions)


def _similar_keys(public_pins: PublicPins, wanted: str) -> Iterator[str]:
    """Yield the pins that could be meant: those of the same interface if it exists, or all."""
    interface = wanted.partition(".")[0]
    for name in [interface] if interface in public_pins else public_pins:
        for pin in public_pins[name]:
            yield f"{name}.{pin}"
