"""What a `reference.Service` asks of its environment, read from the shape of its interfaces (manifest-language §8)."""

from collections.abc import Mapping
from typing import TypeAlias

from launchbay.manifest.component_types import SUBMODULE
from launchbay.manifest.graph import CompiledManifest, Component, Pin
from launchbay.model.types import PinKind

REFERENCE_SERVICE = "reference.Service"
PROPERTIES = "properties"
EXECUTOR_PINS = frozenset({"execute-workflow", "execute-command"})

Shape: TypeAlias = Mapping[str, Mapping[str, PinKind]]  # interface → pin → what it is on the side of the service


def markers(component: Component) -> list[Pin]:
    """Return the pins that are markers: interface M with the one pin `M: publish-signal(unit)`."""
    return [
        pin
        for pin in component.pins.values()
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.interface == pin.name and str(pin.type.value_type) == "unit"
    ]


def properties(component: Component) -> list[Pin]:
    """Return the pins of the interface `properties`."""
    return [
        pin
        for pin in component.pins.values()
        if pin.interface == PROPERTIES and pin.type.kind is PinKind.PUBLISH_SIGNAL
    ]


def service_shape(component: Component) -> dict[str, dict[str, PinKind]]:
    """Return the interfaces that only a service can fill: neither marker, properties nor the built-in executor."""
    environment_pins = {pin.key for pin in (*markers(component), *properties(component))}
    shape: dict[str, dict[str, PinKind]] = {}
    for pin in component.pins.values():
        is_own = pin.key in environment_pins or pin.name in EXECUTOR_PINS or pin.type.kind is PinKind.CONFIGURATION
        if not is_own:
            shape.setdefault(pin.interface, {})[pin.name] = pin.type.kind
    return shape


def required_providers(manifest: CompiledManifest) -> set[str]:
    """Return the components that something cannot do without.

    That is what fills a required interface, and what is bound to a submodule: a need of a submodule is one of its whole
    application (language §3).
    """
    return {
        target.component
        for component in manifest.components.values()
        for interface in (component.peers if component.type == SUBMODULE else component.required)
        for peer in component.peers.get(interface, ())
        for target in peer.pins.values()
    }
