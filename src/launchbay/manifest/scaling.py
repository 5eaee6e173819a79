"""`composite.Scaler`: a graph with templates, expanded to one with members (manifest-language §4). Pure.

The content of a Scaler `cluster`, such as `cluster.node.vm`, is a template. With a quantity of 2, the members
`cluster.node[0].vm` and `cluster.node[1].vm` replace it in the graph: a component bound to the template has several
peers, a value of a configuration pin goes to each member, and a binding between two templates connects those of the
same member. A Scaler inside of another one is a template too: each member has a copy, with a number of members of its
own (`cluster.node[0].group.web[1]`). Other modules work on the expanded graph, without templates.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import replace
from typing import Any

from launchbay import limits
from launchbay.manifest.graph import (
    SCALER,
    ApplicationPin,
    CompiledManifest,
    Component,
    Configuration,
    ConfigurationPin,
    Peer,
    Target,
    UrlTarget,
)

QUANTITY = "configuration.quantity"
MIN_QUANTITY = "configuration.minQuantity"

_NUMBER = re.compile(r"\[(\d+)\](?=\.|$)")


def scalers(manifest: CompiledManifest) -> list[str]:
    return [path for path, component in manifest.components.items() if component.type == SCALER]


def configured_quantity(configuration: Mapping[str, Any]) -> int:
    """Return the number of members in a Scaler's own configuration. Default: 1.

    A number beyond the limits means none, and the Scaler's launch reports the reason.
    """
    least = configuration.get(MIN_QUANTITY)
    wanted = configuration.get(QUANTITY)
    if wanted is None:
        wanted = 1 if least is None else least
    quantity: int = max(least or 0, wanted)
    return quantity if 0 <= quantity <= limits.SCALER_MEMBERS else 0


def minimum_quantity(configuration: Mapping[str, Any]) -> int:
    """Return the minimum number of members in a Scaler's own configuration."""
    least = configuration.get(MIN_QUANTITY)
    return 0 if least is None else max(0, least)


def template_path(path: str) -> str:
    """Return the path of the template that the component at this path is a member of, or the path itself."""
    return _NUMBER.sub("", path)


def component_at(manifest: CompiledManifest, path: str) -> Component | None:
    """Return the component at a path; for a member, its template if the manifest isn't expanded."""
    return manifest.components.get(path) or manifest.components.get(template_path(path))


def member_number(path: str, scaler: str) -> int | None:
    """Return the number of the member of a Scaler that the component at this path belongs to, or None."""
    if not path.startswith(f"{scaler}."):
        return None
    found = _NUMBER.search(path, len(scaler))
    return None if found is None else int(found[1])


def members(manifest: CompiledManifest, scaler: str, numbers: Container[int]) -> list[str]:
    """Return the paths of these members in an expanded manifest, in launch order."""
    return [path for path in manifest.order if member_number(path, scaler) in numbers]


Quantity = Callable[[str, int], int]  # path of a Scaler, its configured number → the number of members


def scaled(
    manifest: CompiledManifest, configuration: Configuration, quantity: Quantity
) -> tuple[CompiledManifest, Configuration]:
    """Return the manifest and the values of its pins, with members instead of templates.

    Outer Scalers come first: each member of theirs has inner Scalers of its own. The copies of one Scaler have at most
    SCALER_MEMBERS members together, and those beyond have none. A manifest without templates is returned unchanged.
    """
    filled = {component.scaler for component in manifest.components.values()}
    waiting = deque(path for path in scalers(manifest) if manifest.components[path].scaler is None and path in filled)
    total: Counter[str] = Counter()
    while waiting:
        path = waiting.popleft()
        number = quantity(path, configured_quantity(configuration.get(path, {})))
        total[template_path(path)] += number
        if total[template_path(path)] > limits.SCALER_MEMBERS:
            number = 0
        inner = [each for each in scalers(manifest) if manifest.components[each].scaler == path and each in filled]
        copies = [_member(each, path, place) for place in range(number) for each in inner]
        filled.update(copies)
        waiting.extend(copies)
        configuration = _with_values_of_members(manifest, configuration, path, number)
        manifest = _Expansion(manifest, path, number).manifest()
    return manifest, configuration


def expanded(manifest: CompiledManifest, quantities: Mapping[str, int]) -> CompiledManifest:
    """Return the manifest with members instead of templates; a Scaler without a quantity has none."""
    return scaled(manifest, {}, lambda path, _: quantities.get(path, 0))[0]


def _with_values_of_members(
    manifest: CompiledManifest, configuration: Configuration, scaler: str, quantity: int
) -> Configuration:
    found = dict(configuration)
    for path, component in manifest.components.items():
        if path in configuration and _is_inside(component, scaler):
            values = found.pop(path)
            for number in range(quantity):
                found[_member(path, scaler, number)] = values
    return found


def _is_inside(component: Component, scaler: str) -> bool:
    """Return whether a component is in the template of a Scaler, at any depth."""
    return component.scaler is not None and (component.scaler == scaler or component.scaler.startswith(f"{scaler}."))


class _Expansion:
    """The expansion of one Scaler's templates to members."""

    def __init__(self, manifest: CompiledManifest, scaler: str, quantity: int) -> None:
        self._manifest = manifest
        self._scaler = scaler
        self._numbers = range(quantity)

    def manifest(self) -> CompiledManifest:
        source = self._manifest
        components: dict[str, Component] = {}
        for path, component in source.components.items():
            for copy in self._copies(path, component):
                components[copy.path] = copy
        return replace(
            source,
            components=components,
            order=tuple(self._order()),
            parameters=self._pins(source.parameters),
            results=self._pins(source.results),
            commands=self._pins(source.commands),
            needs=self._pins(source.needs),
            configuration_pins=self._configuration_pins(),
        )

    def _is_template(self, path: str) -> bool:
        component = self._manifest.components.get(path)
        return component is not None and _is_inside(component, self._scaler)

    def _copies(self, path: str, component: Component) -> Iterator[Component]:
        if not self._is_template(path):
            peers = {
                interface: tuple(copy for peer in found for copy in self._peers_outside(peer))
                for interface, found in component.peers.items()
            }
            yield component if peers == component.peers else replace(component, peers=peers)
            return
        for number in self._numbers:
            own = {
                interface: tuple(self._peer(peer, number) for peer in found)
                for interface, found in component.peers.items()
            }
            assert component.scaler is not None
            inner = None if component.scaler == self._scaler else _member(component.scaler, self._scaler, number)
            yield replace(component, path=_member(path, self._scaler, number), peers=own, scaler=inner)

    def _peers_outside(self, peer: Peer) -> Iterator[Peer]:
        """Yield the peers of a component outside the Scaler: one for each member if the peer is in a template."""
        if any(self._is_template(target.component) for target in peer.pins.values()):
            for number in self._numbers:
                yield self._peer(peer, number)
        else:
            yield peer

    def _peer(self, peer: Peer, number: int) -> Peer:
        """Return a peer as seen by one member, or of that member if the peer is in a template."""
        pins = {name: self._target(target, number) for name, target in peer.pins.items()}
        if pins == peer.pins:
            return peer
        if peer.component.startswith(f"{self._scaler}."):
            name = _member(peer.component, self._scaler, number)
        else:  # a composite around the template, which binds its pins
            name = f"{peer.component}[{number}]"
        return Peer(name, peer.interface, pins)

    def _target(self, target: Target, number: int) -> Target:
        if isinstance(target, UrlTarget):
            host = self._target(Target(target.component, target.pin), number)
            parts = tuple((name, self._target(part, number)) for name, part in target.parts)
            return UrlTarget(host.component, host.pin, parts)
        if not self._is_template(target.component):
            return target
        return Target(_member(target.component, self._scaler, number), target.pin)

    def _targets(self, targets: tuple[Target, ...]) -> tuple[Target, ...]:
        return tuple(
            copy
            for target in targets
            for copy in (
                (self._target(target, number) for number in self._numbers)
                if self._is_template(target.component)
                else (target,)
            )
        )

    def _pins(self, pins: Mapping[str, ApplicationPin]) -> Mapping[str, ApplicationPin]:
        return {name: replace(pin, targets=self._targets(pin.targets)) for name, pin in pins.items()}

    def _configuration_pins(self) -> Mapping[str, Mapping[str, ConfigurationPin]]:
        found: dict[str, Mapping[str, ConfigurationPin]] = {}
        for path, pins in self._manifest.configuration_pins.items():
            if not self._is_template(path):
                found[path] = pins
                continue
            for number in self._numbers:
                member = _member(path, self._scaler, number)
                found[member] = {key: replace(pin, component=member) for key, pin in pins.items()}
        return found

    def _order(self) -> Iterator[str]:
        for path in self._manifest.order:
            if self._is_template(path):
                yield from (_member(path, self._scaler, number) for number in self._numbers)
            else:
                yield path


def _member(path: str, scaler: str, number: int) -> str:
    """Return `cluster.node[2].vm` for `cluster.node.vm`."""
    inner, dot, rest = path[len(scaler) + 1 :].partition(".")
    return f"{scaler}.{inner}[{number}]{dot}{rest}"
