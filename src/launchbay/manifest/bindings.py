"""Finds out which interfaces each binding connects (manifest-language §3, "Bindings")."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from launchbay.manifest.graph import HTTP_ENDPOINT, ApplicationPin, CompiledManifest, Peer, Target, is_workflow_service
from launchbay.manifest.layout import Layout, PublicPin, PublicPins, absolute
from launchbay.manifest.syntax import BindingSyntax, ComponentSyntax, Endpoint
from launchbay.model.findings import Findings, shorten_names
from launchbay.model.types import PinKind, PinType, Type


def difference(need: PinType, offer: PinType) -> str | None:
    """Return a phrase with the first difference between what is needed and what is offered, or None.

    Arguments and results match by name, not order; results that the needing end does not ask for make no difference.
    """
    if need.signature is None or offer.signature is None:
        return None if need.value_type == offer.value_type else f"{need.value_type} and {offer.value_type}"
    return _first("argument", need.signature.arguments, offer.signature.arguments) or _first(
        "result", need.signature.results, offer.signature.results
    )


def _first(what: str, needed: Mapping[str, Type], offered: Mapping[str, Type]) -> str | None:
    for name, needed_type in needed.items():
        offered_type = offered.get(name)
        if offered_type is None:
            return f"the {what} '{name}' exists on one side only"
        if offered_type != needed_type:
            return f"the {what} '{name}' is {needed_type} on one side and {offered_type} on the other"
    return None


Peers: TypeAlias = Mapping[str, Mapping[str, list[Peer]]]  # leaf path → interface with needs → peers in binding order


class _Side:
    """One end of a binding: what it needs, interface by interface, and who in it offers a pin of a kind."""

    def __init__(
        self, path: str, interfaces: PublicPins, builtin: frozenset[str], *, has_workflow_service: bool
    ) -> None:
        self.path = path
        self.interfaces = interfaces
        self.builtin = builtin
        self.has_workflow_service = has_workflow_service
        self.needs: dict[str, dict[str, PinKind]] = {}
        self.offers: dict[tuple[str, PinKind], list[str]] = {}
        self._matches: dict[frozenset[tuple[str, PinKind]], list[str]] = {}
        for interface, pins in interfaces.items():
            for name, pin in pins.items():
                kind = pin.type.kind
                filled_by = kind.complement
                if kind.is_need and filled_by is not None:
                    self.needs.setdefault(interface, {})[name] = filled_by
                else:
                    self.offers.setdefault((name, kind), []).append(interface)

    def matching(self, wanted: Mapping[str, PinKind]) -> list[str]:
        """Return the interfaces that offer all wanted pins, each with its kind."""
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
        """Return the peers of every leaf; a binding that is wrong becomes a finding and connects nothing."""
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
        title = f"{composite.title}: the binding [{binding.first}, {binding.second}]"
        links = [*self._links(first, second, title, binding), *self._links(second, first, title, binding)]
        if not (links or first.has_workflow_service or second.has_workflow_service):
            message = f"{title} connects nothing: no interface of one side offers all that one of the other needs."
            self._findings.warning("UselessBinding", f"{message}{_lacking(first, second)}", binding)

    def _side(self, composite: ComponentSyntax, endpoint: Endpoint) -> _Side | None:
        path = absolute(composite, endpoint.component)
        key = (path, endpoint.interface)
        if key in self._sides:
            return self._sides[key]
        face = self._layout.public_pins.get(path)
        if face is None:
            message = f"{composite.title}: a binding names the component '{endpoint.component}', which does not exist."
            self._findings.error(
                "UnknownComponent", f"{message} Components here: {shorten_names(composite.components)}.", endpoint
            )
            return None
        if endpoint.interface is not None:
            if endpoint.interface not in face:
                message = f"{composite.title}: a binding names the interface '{endpoint}', which does not exist."
                self._findings.error("UnknownInterface", f"{message} Its interfaces: {shorten_names(face)}.", endpoint)
                return None
            face = {endpoint.interface: face[endpoint.interface]}
        leaf = self._layout.leaves.get(path)
        type_name = "" if leaf is None else leaf.type
        kept = {name: pins for name, pins in face.items() if not is_workflow_service(type_name, pins)}
        side = _Side(
            path, kept, frozenset() if leaf is None else leaf.builtin, has_workflow_service=len(kept) < len(face)
        )
        self._sides[key] = side
        return side

    def _links(self, needing: _Side, offering: _Side, title: str, binding: BindingSyntax) -> list[tuple[str, str]]:
        links: list[tuple[str, str]] = []
        for interface, wanted in needing.needs.items():
            fits = offering.matching(wanted)
            chosen = _choose(interface, fits, offering.builtin)
            if chosen is not None:
                links.append((interface, chosen))
                self._link(needing, interface, offering, chosen, title, binding)
            elif fits and interface not in needing.builtin:  # nobody asked for a need that only the type brought
                message = f"{title} is ambiguous: the interface '{interface}' of '{needing.path}' fits"
                choice = ", ".join(f"{offering.path}#{fit}" for fit in fits[:5])
                advice = f"Name one of them in the binding, such as {offering.path}#{fits[0]}."
                self._findings.error("AmbiguousBinding", f"{message} {choice}. {advice}", binding)
                links.append((interface, fits[0]))
        return links

    def _link(
        self, needing: _Side, interface: str, offering: _Side, chosen: str, title: str, binding: BindingSyntax
    ) -> None:
        offers = offering.interfaces[chosen]
        pins: dict[tuple[str, str], dict[str, Target]] = {}
        for name in needing.needs[interface]:
            need, offer = needing.interfaces[interface][name], offers[name]
            self._compare(need, offer, f"{title}: '{interface}.{name}' and '{chosen}.{name}'", binding)
            for target in need.targets:
                leaf_pin = self._layout.leaves[target.component].pins[target.pin]
                pins.setdefault((target.component, leaf_pin.interface), {})[leaf_pin.name] = offer.targets[0]
        for (leaf, leaf_interface), filled in pins.items():
            peers = self._peers.setdefault(leaf, {}).setdefault(leaf_interface, {})
            identity = (offering.path, chosen)
            known = peers.get(identity)
            peers[identity] = Peer(offering.path, chosen, filled if known is None else {**known.pins, **filled})

    def _compare(self, need: PublicPin, offer: PublicPin, title: str, binding: BindingSyntax) -> None:
        what = difference(need.type, offer.type)
        if what is not None:
            self._findings.warning("DifferentTypes", f"{title} have different types: {what}.", binding)


def _choose(interface: str, matches: list[str], builtin: frozenset[str]) -> str | None:
    """Return the interface to connect: the only one, the one of the same name, or the only one that was declared."""
    if len(matches) == 1:
        return matches[0]
    if interface in matches:
        return interface
    declared = [fit for fit in matches if fit not in builtin]
    return declared[0] if len(declared) == 1 else None


def _lacking(first: _Side, second: _Side) -> str:
    """Return a sentence with a need that the other side does not fill, or nothing."""
    for needing, offering in ((first, second), (second, first)):
        for interface, wanted in needing.needs.items():
            lacking = [name for name, kind in wanted.items() if (name, kind) not in offering.offers]
            if lacking:
                return f" '{needing.path}#{interface}' needs {', '.join(lacking[:5])}, which '{offering.path}' lacks."
    return " Neither side needs anything."


# `cobalt.common.HttpEndpoint` relays what it is bound to: whoever reads it reads the source (manifest-language §4).
#
# The relay is resolved in the graph, so a changed source is seen at once and nothing has to pass it on.


class Relays:
    """The signals that are relayed, each with the signal at the end of the way."""

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
                if pin.type.kind is PinKind.PUBLISH_SIGNAL and pin.name in sources:
                    self._steps[Target(path, key)] = sources[pin.name]

    def source(self, target: Target) -> Target:
        """Return where a signal comes from; it is the signal itself where endpoints only relay each other."""
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


def launch_order(needed: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return all components with their providers before them, otherwise in the given order, and one cycle or nothing.

    `needed` maps every component to those that must run before it. A cycle is returned as the components along it, the
    first one repeated at the end; the order is then not complete.
    """
    order: list[str] = []
    done: set[str] = set()
    for start in needed:
        way: dict[str, int] = {}  # components that wait for one further on, with the next provider to look at
        component: str | None = start
        while component is not None and component not in done:
            position = way.setdefault(component, 0)
            if position < len(needed[component]):
                way[component] = position + 1
                following = needed[component][position]
                if following in way:
                    names = list(way)
                    return order, [*names[names.index(following) :], following]
                component = following if following not in done else component
                continue
            del way[component]
            done.add(component)
            order.append(component)
            component = next(reversed(way), None)
    return order, []


def required_needs(manifest: CompiledManifest) -> frozenset[str]:
    """Return the keys of the application's needs for signals that a component of it requires (language §3)."""
    return frozenset(
        need.key
        for need in manifest.needs.values()
        if need.type.kind is PinKind.CONSUME_SIGNAL
        and any(
            target.pin.partition(".")[0] in manifest.components[target.component].required for target in need.targets
        )
    )
