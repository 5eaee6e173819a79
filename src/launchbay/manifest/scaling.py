"""`composite.Scaler`: a graph with templates, expanded to one with members (manifest-language §4). Pure.

The content of a Scaler `cluster`, such as `cluster.node.vm`, is a template. With a quantity of 2, the members
`cluster.node[0].vm` and `cluster.node[1].vm` replace it in the graph: a component bound to the template has several
peers, a value of a configuration pin goes to each member, and a binding between two templates connects those of the
same member. Other modules work on the expanded graph, without Scalers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
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


def members(manifest: CompiledManifest, scaler: str, numbers: Iterable[int]) -> list[str]:
    """Return the paths of the components of these members of a Scaler, in launch order."""
    templates = [path for path in manifest.order if manifest.components[path].scaler == scaler]
    return [_member(path, scaler, number) for number in numbers for path in templates]


def expanded(manifest: CompiledManifest, quantities: Mapping[str, int]) -> CompiledManifest:
    """Return the manifest with members instead of templates; a Scaler without a quantity has none.

    A manifest that is expanded or has no Scalers is returned unchanged.
    """
    templates = {component.scaler for component in manifest.components.values() if component.scaler is not None}
    for scaler in scalers(manifest):
        if scaler in templates:
            manifest = _Expansion(manifest, scaler, quantities.get(scaler, 0)).manifest()
    return manifest


def expanded_configuration(
    manifest: CompiledManifest, configuration: Configuration, quantities: Mapping[str, int]
) -> Configuration:
    """Return the values with those of templates copied to their members; `manifest` is the one with templates."""
    found = dict(configuration)
    for path, component in manifest.components.items():
        if component.scaler is not None and path in configuration:
            values = found.pop(path)
            for number in range(quantities.get(component.scaler, 0)):
                found[_member(path, component.scaler, number)] = values
    return found


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
        return path in self._manifest.components and self._manifest.components[path].scaler == self._scaler

    def _copies(self, path: str, component: Component) -> Iterator[Component]:
        if not self._is_template(path):
            peers = {
                interface: tuple(copy for peer in found for copy in self._peers_outside(peer))
                for interface, found in component.peers.items()
            }
            yield replace(component, peers=peers)
            return
        for number in self._numbers:
            own = {
                interface: tuple(self._peer(peer, number) for peer in found)
                for interface, found in component.peers.items()
            }
            yield replace(component, path=_member(path, self._scaler, number), peers=own, scaler=None)

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
