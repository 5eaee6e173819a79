"""Matching of a `reference.Service` with the services of an environment (manifest-language §8). Pure.

As in bindings (§3), interface names don't have to match, but one interface of the service must offer every pin of one
interface of the component. If several do, the one of the same name is preferred. One service fills all interfaces of
the component.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from launchbay.manifest.graph import EXECUTOR_PINS, SERVICE, SUBMODULE, CompiledManifest, Component, Pin
from launchbay.model.environment import EnvironmentView
from launchbay.model.findings import shorten_names
from launchbay.model.instance import LinkKind
from launchbay.model.types import PinKind

PROPERTIES = "properties"
Shape: TypeAlias = Mapping[str, Mapping[str, PinKind]]  # interface → pin → its kind in the component


def markers(component: Component) -> list[Pin]:
    """Return the pins that are markers: interface M with the one pin `M: publish-signal(unit)`."""
    return [
        pin
        for pin in component.pins.values()
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.interface == pin.name and str(pin.type.value_type) == "unit"
    ]


def properties(component: Component) -> list[Pin]:
    return [
        pin
        for pin in component.pins.values()
        if pin.interface == PROPERTIES and pin.type.kind is PinKind.PUBLISH_SIGNAL
    ]


def service_shape(component: Component) -> dict[str, dict[str, PinKind]]:
    """Return the interfaces that only a service can fill: no markers, properties or built-in executor."""
    environment_pins = {pin.key for pin in (*markers(component), *properties(component))}
    shape: dict[str, dict[str, PinKind]] = {}
    for pin in component.pins.values():
        is_own = pin.key in environment_pins or pin.name in EXECUTOR_PINS or pin.type.kind is PinKind.CONFIGURATION
        if not is_own:
            shape.setdefault(pin.interface, {})[pin.name] = pin.type.kind
    return shape


def service_shapes(manifest: CompiledManifest) -> dict[str, Shape]:
    """Return what each component that stands for a service needs of it."""
    return {
        path: shape
        for path, component in manifest.components.items()
        if component.type == SERVICE and (shape := service_shape(component))
    }


def required_providers(manifest: CompiledManifest) -> set[str]:
    """Return the components that others require.

    These fill a required interface, or are bound to a submodule, since a need of a submodule is a need of its
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
    """A pin of a service. `key` is the service's own name of the command or signal."""

    kind: PinKind
    key: str


@dataclass(frozen=True, slots=True)
class ServiceOffer:
    """A service of an environment; `title` names it in messages.

    `unusable` is the reason why it can't be used although it is offered, as the end of a sentence.
    """

    id: str
    title: str
    kind: LinkKind
    interfaces: Mapping[str, Mapping[str, OfferedPin]]
    unusable: str | None = None


@dataclass(frozen=True, slots=True)
class ServiceMatch:
    """A matching service. `pins` maps a pin of the component, `interface.pin`, to the service's name for it.

    `has_same_names`: the interfaces have the component's names. `choice` are interfaces of the service that match
    equally well.
    """

    offer: ServiceOffer
    pins: Mapping[str, str]
    has_same_names: bool
    choice: tuple[str, ...] = ()


class ServiceOffers:
    """The services of an environment, indexed by pins, so that matching doesn't read all of them."""

    def __init__(self, offers: Iterable[ServiceOffer]) -> None:
        self._offers = list(offers)
        self._places: dict[tuple[str, PinKind], dict[tuple[int, str], None]] = {}
        for number, offer in enumerate(self._offers):
            for interface, pins in offer.interfaces.items():
                for name, pin in pins.items():
                    self._places.setdefault((name, pin.kind), {})[number, interface] = None

    def matching(self, shape: Shape) -> list[ServiceMatch]:
        """Return every service that offers the entire shape, in their order."""
        fits_of = {interface: self._interfaces(wanted) for interface, wanted in shape.items()}
        if not fits_of:
            return []
        numbers = sorted(set.intersection(*(set(matches) for matches in fits_of.values())))
        return [
            _match(self._offers[number], shape, {interface: fits[number] for interface, fits in fits_of.items()})
            for number in numbers
        ]

    def _interfaces(self, wanted: Mapping[str, PinKind]) -> dict[int, list[str]]:
        """Return the matching interfaces of each service that has some."""
        places = sorted((self._places.get(pin, {}) for pin in wanted.items()), key=len)
        found: dict[int, list[str]] = {}
        for number, interface in places[0]:
            if all((number, interface) in others for others in places[1:]):
                found.setdefault(number, []).append(interface)
        return found


def choose(component: str, shape: Shape, matches: list[ServiceMatch], former_id: str | None) -> ServiceMatch | str:
    """Return the service to use, or a message if none or more than one matches.

    `former_id` is the component's present service, which is preferred while it matches.
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
        return f"{needs}, but the environment has none.{reasons} Add one, or offer an instance there that has them."
    if len(pool) == 1:
        interfaces = ", ".join(pool[0].choice)
        return (
            f"{needs}, and several interfaces of {pool[0].offer.title} match: {interfaces}. Rename the component's"
            " interface to one of them."
        )
    titles = ", ".join(fit.offer.title for fit in pool[:_NAMES_SHOWN])
    more = f" and {len(pool) - _NAMES_SHOWN} more" if len(pool) > _NAMES_SHOWN else ""
    return f"{needs}, and several match: {titles}{more}. Offer only one of them in the environment."


def choose_all(
    manifest: CompiledManifest, offers: ServiceOffers, former_ids: Mapping[str, str]
) -> tuple[dict[str, ServiceMatch], list[str]]:
    """Return the service of each component, and a message for each conflict.

    Conflicts are needs of required interfaces that nothing meets, and choices that nothing decides. `former_ids` are
    the present services of components.
    """
    required = required_providers(manifest)
    chosen: dict[str, ServiceMatch] = {}
    conflicts: list[str] = []
    for path, shape in service_shapes(manifest).items():
        fits = offers.matching(shape)
        match = choose(path, shape, fits, former_ids.get(path))
        if isinstance(match, ServiceMatch):
            chosen[path] = match
        elif path in required or any(fit.offer.unusable is None for fit in fits):
            conflicts.append(match)
    return chosen, conflicts


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
    """Return a message for each required marker and property that the environment lacks."""
    required = required_providers(manifest)
    problems: list[str] = []
    for path, component in manifest.components.items():
        if component.type != SERVICE or path not in required:
            continue
        problems.extend(
            f"Component {path!r} needs marker {pin.name!r}. Add it to the environment."
            for pin in markers(component)
            if pin.name not in view.markers
        )
        problems.extend(
            f"Component {path!r} needs property {pin.name!r}. Add it to the environment."
            for pin in properties(component)
            if pin.name not in view.properties
        )
    return problems
