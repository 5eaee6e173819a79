"""What a `reference.Service` asks of its environment, read from the shape of its interfaces (manifest-language §8)."""

from launchbay.manifest.graph import Component, Pin
from launchbay.model.values import PinKind

REFERENCE_SERVICE = "reference.Service"
PROPERTIES = "properties"
EXECUTOR_PINS = frozenset({"execute-workflow", "execute-command"})


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


def service_interfaces(component: Component) -> list[str]:
    """Return the interfaces that only a service can fill: neither marker, properties nor the built-in executor."""
    environment_pins = {pin.key for pin in (*markers(component), *properties(component))}
    names = dict.fromkeys(
        pin.interface
        for pin in component.pins.values()
        if pin.key not in environment_pins and pin.name not in EXECUTOR_PINS
    )
    return list(names)
