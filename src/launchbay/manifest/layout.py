"""How the components of a manifest look from outside, and where their pins lead: the ground for binds and bindings."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from launchbay.limits import NAME_CHARS
from launchbay.manifest.graph import Pin, Target
from launchbay.manifest.syntax import ComponentSyntax
from launchbay.model.types import PinType


@dataclass(frozen=True, slots=True)
class FacePin:
    """A pin as seen from outside a component: a leaf's own pin, or what a composite's pin is bound to."""

    type: PinType
    targets: tuple[Target, ...]
    label: str | None
    suggestions: Mapping[str, Any] | None


Face: TypeAlias = Mapping[str, Mapping[str, FacePin]]  # interface → pin name → pin


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
    faces: dict[str, Face] = field(default_factory=dict)


def find_pin(face: Face, key: str) -> FacePin | None:
    """Return the pin `interface.pin`; names of interfaces and pins may have dots themselves."""
    if len(key) > 2 * NAME_CHARS + 1:  # longer than any pin's, and every dot in it would be tried
        return None
    for interface, name in _splits(key):
        pins = face.get(interface)
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
