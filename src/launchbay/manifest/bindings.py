"""Which interfaces each binding connects, and the launch order that follows (manifest-language §3, "Bindings")."""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from launchbay.manifest.graph import (
    ADDRESS,
    EXECUTOR_PINS,
    HTTP_ENDPOINT,
    URL_PARTS,
    ApplicationPin,
    CompiledManifest,
    Component,
    Peer,
    Target,
    UrlTarget,
    is_workflow_service,
)
from launchbay.manifest.layout import Layout, PublicPins, absolute
from launchbay.manifest.syntax import BindingSyntax, ComponentSyntax, Endpoint
from launchbay.model.findings import Findings, shorten_names
from launchbay.model.types import UNREADABLE_PIN, PinKind, PinType, Type

NodeT = TypeVar("NodeT", bound=Hashable)


def difference(need: PinType, offer: PinType) -> str | None:
    """Return the first difference between a need and an offer as a phrase, or None.

    Arguments and results match by name, not order. Results that the needing end doesn't declare are ignored.
    """
    if UNREADABLE_PIN in (need, offer):
        return None
    if need.signature is None or offer.signature is None:
        return None if need.value_type == offer.value_type else f"{need.value_type} and {offer.value_type}"
    return _first("argument", need.signature.arguments, offer.signature.arguments) or _first(
        "result", need.signature.results, offer.signature.results
    )


def _first(what: str, needed: Mapping[str, Type], offered: Mapping[str, Type]) -> str | None:
    for name, needed_type in needed.items():
        offered_type = offered.get(name)
        if offered_type is None:
            return f"only one side has the {what} '{name}'"
        if offered_type != needed_type:
            return f"the {what} '{name}' is {needed_type} on one side and {offered_type} on the other"
    return None


Peers: TypeAlias = Mapping[str, Mapping[str, list[Peer]]]  # leaf path → interface with needs → peers in binding order


class _Side:
    """One end of a binding: its needs by interface, and its interfaces by the pins that they offer."""

    def __init__(
        self,
        path: str,
        interfaces: PublicPins,
        builtin: frozenset[str],
        *,
        is_endpoint: bool,
        has_workflow_service: bool,
    ) -> None:
        self.path = path
        self.is_endpoint = is_endpoint
        self.interfaces = interfaces
        self.builtin = builtin
        self.has_workflow_service = has_workflow_service
        self.needs: dict[str, dict[str, PinKind]] = {}
        self.offers: dict[tuple[str, PinKind], list[str]] = {}
        self.has_unreadable = False
        self._matches: dict[frozenset[tuple[str, PinKind]], list[str]] = {}
        for interface, pins in interfaces.items():
            for name, pin in pins.items():
                kind = pin.type.kind
                filled_by = kind.complement
                if pin.type == UNREADABLE_PIN:
                    self.has_unreadable = True
                    for any_kind in PinKind:
                        self.offers.setdefault((name, any_kind), []).append(interface)
                elif kind.is_need and filled_by is not None:
                    self.needs.setdefault(interface, {})[name] = filled_by
                else:
                    self.offers.setdefault((name, kind), []).append(interface)

    def matching(self, wanted: Mapping[str, PinKind]) -> list[str]:
        """Return the interfaces that offer all wanted pins in their kinds."""
        key = frozenset(wanted.items())
        known = self._matches.get(key)
        if known is None:
            offering = sorted((self.offers.get(pin, ()) for pin in key), key=len)
            fits = set(offering[0]).intersection(*offering[1:])
            known = self._matches[key] = [interface for interface in offering[0] if interface in fits]
        return known


class Connector:
    """Connects the ends of all bindings of a layout."""

    def __init__(self, layout: Layout, findings: Findings) -> None:
        self._layout = layout
        self._findings = findings
        self._sides: dict[tuple[str, str | None], _Side] = {}
        self._peers: dict[str, dict[str, dict[tuple[str, str], Peer]]] = {}

    def connect(self) -> Peers:
        """Return the peers of every leaf; an invalid binding becomes a finding and connects nothing."""
        for composite in self._layout.composites.values():
            seen: set[tuple[str, str]] = set()
            for binding in composite.bindings:
                pair = (str(binding.first), str(binding.second))
                if pair not in seen:
                    seen.add(pair)
                    self._connect(composite, binding)
        return {
            leaf: {interface: list(peers.values()) for interface, peers in interfaces.items()}
            for leaf, interfaces in self._peers.items()
        }

    def _connect(self, composite: ComponentSyntax, binding: BindingSyntax) -> None:
        first = self._side(composite, binding.first)
        second = self._side(composite, binding.second)
        if first is None or second is None:
            return
        findings = self._findings.at(composite.label)
        links: list[str] = []
        # What takes the URL of an endpoint isn't what the endpoint stands for, even if it publishes a host.
        for needing, offering in sorted(((first, second), (second, first)), key=lambda pair: pair[0].is_endpoint):
            if not links or not needing.is_endpoint or offering.is_endpoint:
                links += self._links(needing, offering, findings, binding)
        is_unclear = any(side.has_workflow_service or side.has_unreadable for side in (first, second))
        if not (links or is_unclear):
            message = f"Binding {_shown(binding)} connects nothing. {_lacking(first, second)}"
            findings.warning("UselessBinding", message, binding)

    def _side(self, composite: ComponentSyntax, endpoint: Endpoint) -> _Side | None:
        path = absolute(composite, endpoint.component)
        key = (path, endpoint.interface)
        if key in self._sides:
            return self._sides[key]
        public_pins = self._layout.public_pins.get(path)
        if public_pins is None:
            message = f"A binding names unknown component '{endpoint.component}'."
            known = shorten_names(composite.components)
            self._findings.at(composite.label).error(
                "UnknownComponent", f"{message} Components here: {known}.", endpoint
            )
            return None
        if endpoint.interface is not None:
            if endpoint.interface not in public_pins:
                message = f"A binding names unknown interface '{endpoint}'."
                known = shorten_names(public_pins)
                self._findings.at(composite.label).error(
                    "UnknownInterface", f"{message} Interfaces of '{endpoint.component}': {known}.", endpoint
                )
                return None
            public_pins = {endpoint.interface: public_pins[endpoint.interface]}
        leaf = self._layout.leaves.get(path)
        type_name = "" if leaf is None else leaf.type
        connectable = {name: pins for name, pins in public_pins.items() if not is_workflow_service(type_name, pins)}
        side = _Side(
            path,
            connectable,
            frozenset() if leaf is None else leaf.builtin,
            is_endpoint=type_name == HTTP_ENDPOINT,
            has_workflow_service=len(connectable) < len(public_pins),
        )
        self._sides[key] = side
        return side

    def _links(self, needing: _Side, offering: _Side, findings: Findings, binding: BindingSyntax) -> list[str]:
        """Connect each interface of one side that has needs, and return these interfaces."""
        links: list[str] = []
        for interface, all_wanted in needing.needs.items():
            wanted = all_wanted
            if needing.is_endpoint and interface == ADDRESS:
                wanted = {} if links else _address(offering)
                if not wanted:
                    continue
            fits = offering.matching(wanted)
            chosen = _choose(interface, fits, offering.builtin)
            if chosen is not None:
                links.append(interface)
                self._link(needing, interface, list(wanted), offering, chosen, findings, binding)
            elif fits and interface not in needing.builtin:  # a need that only the type declares may stay unbound
                choice = ", ".join(f"{offering.path}#{fit}" for fit in fits[:5])
                message = f"Binding {_shown(binding)} is ambiguous: '{needing.path}#{interface}' matches {choice}."
                findings.error("AmbiguousBinding", f"{message} Name one of them in the binding.", binding)
                links.append(interface)
        return links

    def _link(
        self,
        needing: _Side,
        interface: str,
        names: Sequence[str],
        offering: _Side,
        chosen: str,
        findings: Findings,
        binding: BindingSyntax,
    ) -> None:
        offers = offering.interfaces[chosen]
        pins: dict[tuple[str, str], dict[str, Target]] = {}
        for name in names:
            need, offer = needing.interfaces[interface][name], offers[name]
            what = difference(need.type, offer.type)
            if what is not None and not (needing.is_endpoint and interface == ADDRESS):
                message = (
                    f"In binding {_shown(binding)}, '{interface}.{name}' and '{chosen}.{name}' have different types"
                )
                findings.warning("DifferentTypes", f"{message}: {what}.", binding)
            for target in need.targets:
                leaf_pin = self._layout.leaves[target.component].pins[target.pin]
                pins.setdefault((target.component, leaf_pin.interface), {})[leaf_pin.name] = offer.targets[0]
        for (leaf, leaf_interface), filled in pins.items():
            peers = self._peers.setdefault(leaf, {}).setdefault(leaf_interface, {})
            identity = (offering.path, chosen)
            known = peers.get(identity)
            peers[identity] = Peer(offering.path, chosen, filled if known is None else {**known.pins, **filled})


def _address(offering: _Side) -> dict[str, PinKind]:
    """Return the parts of a URL that the best interface offers; nothing without a host."""
    kind = PinKind.PUBLISH_SIGNAL
    found = [
        {name: kind for name in URL_PARTS if interface in offering.offers.get((name, kind), ())}
        for interface in offering.matching({"host": kind})
    ]
    return max(found, key=len, default={})


def _shown(binding: BindingSyntax) -> str:
    return f"[{binding.first}, {binding.second}]"


def _choose(interface: str, matches: list[str], builtin: frozenset[str]) -> str | None:
    """Return the interface to connect: the only one, the same name, or the only declared.

    Of several that only the type declares, it is the first.
    """
    if len(matches) == 1:
        return matches[0]
    if interface in matches:
        return interface
    declared = [fit for fit in matches if fit not in builtin]
    if not declared and matches:
        return matches[0]
    return declared[0] if len(declared) == 1 else None


def _lacking(first: _Side, second: _Side) -> str:
    """Return a sentence with a need that the other side doesn't fill."""
    for needing, offering in ((first, second), (second, first)):
        for interface, wanted in needing.needs.items():
            lacking = [name for name, kind in wanted.items() if (name, kind) not in offering.offers]
            if lacking:
                names = ", ".join(f"'{name}'" for name in lacking[:5])
                return f"'{needing.path}#{interface}' needs {names}, which '{offering.path}' doesn't offer."
    if first.needs or second.needs:
        return "No interface of one side offers everything that one of the other needs."
    return "Neither side needs anything."


class Relays:
    """The signals that a `cobalt.common.HttpEndpoint` relays, each with its source (manifest-language §4).

    The source of a URL may be the signals that it is made of. Relays are resolved in the graph: readers of a relay
    read the source, so its changes need no forwarding.
    """

    def __init__(self, layout: Layout, peers: Peers) -> None:
        self._steps: dict[Target, Target] = {}
        for path, leaf in layout.leaves.items():
            if leaf.type != HTTP_ENDPOINT:
                continue
            sources: dict[str, Target] = {}
            for pin in leaf.pins.values():
                if pin.type.kind is PinKind.CONSUME_SIGNAL:
                    for peer in peers.get(path, {}).get(pin.interface, ()):
                        if pin.name in peer.pins:
                            sources.setdefault(pin.name, peer.pins[pin.name])
            for key, pin in leaf.pins.items():
                if pin.type.kind is not PinKind.PUBLISH_SIGNAL:
                    continue
                if pin.name in sources:
                    self._steps[Target(path, key)] = sources[pin.name]
                elif pin.name == "url" and "host" in sources:
                    host = sources["host"]
                    parts = tuple((name, sources[name]) for name in URL_PARTS[1:] if name in sources)
                    self._steps[Target(path, key)] = UrlTarget(host.component, host.pin, parts)

    def source(self, target: Target) -> Target:
        """Return the source of a signal, or the signal itself if endpoints only relay each other."""
        seen = {target}
        found = target
        while found in self._steps:
            found = self._steps[found]
            if found in seen:
                return target
            seen.add(found)
        return found

    def peers(self, peers: Peers) -> Peers:
        """Return the peers with their signals taken from the sources."""
        if not self._steps:
            return peers
        return {
            path: {
                interface: [
                    replace(peer, pins={name: self.source(target) for name, target in peer.pins.items()})
                    for peer in found
                ]
                for interface, found in interfaces.items()
            }
            for path, interfaces in peers.items()
        }

    def pins(self, pins: Mapping[str, ApplicationPin]) -> Mapping[str, ApplicationPin]:
        """Return the application's pins with their signals taken from the sources."""
        return {
            name: replace(pin, targets=tuple(self.source(target) for target in pin.targets))
            for name, pin in pins.items()
        }


def providers(path: str, required: Sequence[str], peers: Peers) -> list[str]:
    """Return the leaf components that fill the required interfaces of the component at `path`, each once."""
    own = peers.get(path, {})
    found = {
        target.component: None
        for interface in required
        for peer in own.get(interface, ())
        for target in peer.pins.values()
    }
    return list(found)


def launch_order(needed: Mapping[NodeT, Sequence[NodeT]]) -> tuple[list[NodeT], list[NodeT]]:
    """Return all components, providers first and otherwise in the given order, and one cycle or nothing.

    `needed` maps every component to those that must run before it. A cycle is returned as the components along it, the
    first one repeated at the end. The order is then incomplete.
    """
    order: list[NodeT] = []
    done: set[NodeT] = set()
    for start in needed:
        path: dict[NodeT, int] = {}  # components from the start to the current one, each with its next provider
        component: NodeT | None = start
        while component is not None and component not in done:
            position = path.setdefault(component, 0)
            if position < len(needed[component]):
                path[component] = position + 1
                following = needed[component][position]
                if following in path:
                    names = list(path)
                    return order, [*names[names.index(following) :], following]
                component = following if following not in done else component
                continue
            del path[component]
            done.add(component)
            order.append(component)
            component = next(reversed(path), None)
    return order, []


def required_needs(manifest: CompiledManifest) -> frozenset[str]:
    """Return the keys of the needs for signals that a component requires (language §3)."""
    return frozenset(
        need.key
        for need in manifest.needs.values()
        if need.type.kind is PinKind.CONSUME_SIGNAL
        and any(
            target.pin.partition(".")[0] in manifest.components[target.component].required for target in need.targets
        )
    )


def unbound_requirements(manifest: CompiledManifest, provided: Collection[str]) -> list[str]:
    """Return a message for each required interface without a binding (language §3).

    `provided` are the application's needs, `interface.pin`, that its parent fills.
    """
    exposed: dict[tuple[str, str], list[str]] = {}
    for need in manifest.needs.values():
        for target in need.targets:
            exposed.setdefault((target.component, target.pin.partition(".")[0]), []).append(need.key)
    problems: list[str] = []
    for path, component in manifest.components.items():
        for interface in component.required:
            pins = [pin.name for pin in component.pins.values() if pin.interface == interface and pin.type.kind.is_need]
            if not pins or component.peers.get(interface) or EXECUTOR_PINS.issuperset(pins):
                continue
            keys = exposed.get((path, interface), [])
            if any(key in provided for key in keys):
                continue
            fix = "Bind a component to it."
            if keys:
                outer = ", ".join(dict.fromkeys(key.partition(".")[0] for key in keys))
                fix = f"Launch the application as a submodule whose parent binds {outer!r}, or bind a component to it."
            problems.append(
                f"Component {path!r} requires the interface {interface!r} ({shorten_names(pins)}), but nothing is "
                f"bound to it. {fix}"
            )
    return problems


def provided_needs(manifest: CompiledManifest, submodule: Component, provided: Collection[str]) -> frozenset[str]:
    """Return the needs of a submodule, `interface.pin`, that its parent fills.

    Either a component of the application is bound to them, or they are among its own needs that are `provided` to it.
    """
    bound = {
        f"{interface}.{pin}" for interface, peers in submodule.peers.items() for peer in peers for pin in peer.pins
    }
    passed = {
        target.pin
        for need in manifest.needs.values()
        if need.key in provided
        for target in need.targets
        if target.component == submodule.path
    }
    return frozenset(bound | passed)
