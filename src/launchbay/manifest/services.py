"""Finds the service that a `reference.Service` means, by the shape of its interfaces (manifest-language §8). Pure.

As in bindings (§3), interface names need not match, but one interface of the service must offer all that is needed of
one interface of the component, pin by pin; where several do, the one of the same name is preferred. A component stands
for one service, which fills all of its interfaces.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from launchbay.manifest.graph import SUBMODULE, CompiledManifest, Component, Pin
from launchbay.model.environment import EnvironmentView
from launchbay.model.findings import shorten_names
from launchbay.model.instance import LinkKind
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


_NAMES_SHOWN = 20


@dataclass(frozen=True, slots=True)
class OfferedPin:
    """A pin of a service. `key` is the name by which the service knows it: of a command, or of a signal."""

    kind: PinKind
    key: str


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """Something that an environment offers; `title` names it in sentences.

    `unusable` says, as the end of a sentence, why it cannot be used although it is offered.
    """

    id: str
    title: str
    kind: LinkKind
    interfaces: Mapping[str, Mapping[str, OfferedPin]]
    unusable: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceMatch:
    """A service that fits. `pins` maps a pin of the component, `interface.pin`, to the service's name for it.

    `has_same_names` tells whether the interfaces have the component's names; `choice` are the service's interfaces
    among which its shape alone does not decide.
    """

    offer: ServiceOffer
    pins: Mapping[str, str]
    has_same_names: bool
    choice: tuple[str, ...] = ()


class ServiceOffers:
    """What an environment offers, sorted by pins, so that finding a service does not look at each of many."""

    def __init__(self, offers: Iterable[ServiceOffer]) -> None:
        self._offers = list(offers)
        self._places: dict[tuple[str, PinKind], dict[tuple[int, str], None]] = {}
        for number, offer in enumerate(self._offers):
            for interface, pins in offer.interfaces.items():
                for name, pin in pins.items():
                    self._places.setdefault((name, pin.kind), {})[number, interface] = None

    def matching(self, shape: Shape) -> list[ServiceMatch]:
        """Return every service that offers all of the shape, in the order in which they were given."""
        fits_of = {interface: self._interfaces(wanted) for interface, wanted in shape.items()}
        if not fits_of:
            return []
        numbers = sorted(set.intersection(*(set(matches) for matches in fits_of.values())))
        return [
            _match(self._offers[number], shape, {interface: fits[number] for interface, fits in fits_of.items()})
            for number in numbers
        ]

    def _interfaces(self, wanted: Mapping[str, PinKind]) -> dict[int, list[str]]:
        """Return for each service that fits one interface its interfaces that do."""
        places = sorted((self._places.get(pin, {}) for pin in wanted.items()), key=len)
        found: dict[int, list[str]] = {}
        for number, interface in places[0]:
            if all((number, interface) in others for others in places[1:]):
                found.setdefault(number, []).append(interface)
        return found


def choose(component: str, shape: Shape, matches: list[ServiceMatch], former_id: str | None) -> ServiceMatch | str:
    """Return the service to use, or a sentence that says why there is none or more than one.

    `former_id` is the service that the component leads to so far; it is kept while it fits.
    """
    usable = [match for match in matches if match.offer.unusable is None]
    same_names = [fit for fit in usable if fit.has_same_names]
    former = [fit for fit in usable if fit.offer.id == former_id]
    pool = former or same_names or usable
    if len(pool) == 1 and not pool[0].choice:
        return pool[0]
    needs = f"Component {component!r} needs a service with {_describe_shape(shape)}"
    if not pool:
        reasons = "".join(f" It has {fit.offer.title}, but {fit.offer.unusable}." for fit in matches[:_NAMES_SHOWN])
        return (
            f"{needs}, and the environment offers none.{reasons} Add such a service to the environment, or offer an "
            "instance there that has them."
        )
    if len(pool) == 1:
        interfaces = ", ".join(pool[0].choice)
        return (
            f"{needs}, and {pool[0].offer.title} fits in more than one way: {interfaces}. Give the component's "
            "interface the name of one of them."
        )
    titles = ", ".join(fit.offer.title for fit in pool[:_NAMES_SHOWN])
    more = f" and {len(pool) - _NAMES_SHOWN} more" if len(pool) > _NAMES_SHOWN else ""
    return f"{needs}, and several fit: {titles}{more}. Offer only one of them in the environment."


def _match(offer: ServiceOffer, shape: Shape, matches: Mapping[str, list[str]]) -> ServiceMatch:
    pins: dict[str, str] = {}
    choice: list[str] = []
    for interface, wanted in shape.items():
        chosen = interface if interface in matches[interface] else matches[interface][0]
        if chosen != interface and len(matches[interface]) > 1:
            choice += matches[interface]
        pins.update({f"{interface}.{name}": offer.interfaces[chosen][name].key for name in wanted})
    has_same_names = all(interface in matches[interface] for interface in shape)
    return ServiceMatch(offer, pins, has_same_names, tuple(dict.fromkeys(choice)))


def _describe_shape(shape: Shape) -> str:
    interfaces = [f"{interface!r} ({shorten_names(pins)})" for interface, pins in shape.items()]
    return f"the interface{'s' if len(interfaces) > 1 else ''} {shorten_names(interfaces)}"


def unmet_needs(manifest: CompiledManifest, view: EnvironmentView) -> list[str]:
    """Return a sentence for each marker and property that something cannot do without and does not get."""
    required = required_providers(manifest)
    problems: list[str] = []
    for path, component in manifest.components.items():
        if component.type != REFERENCE_SERVICE or path not in required:
            continue
        problems.extend(
            f"The environment has no marker {pin.name!r}, which component {path!r} needs. Add it to the environment."
            for pin in markers(component)
            if pin.name not in view.markers
        )
        problems.extend(
            f"The environment has no property {pin.name!r}, which component {path!r} needs. Add it to the environment."
            for pin in properties(component)
            if pin.name not in view.properties
        )
    return problems
