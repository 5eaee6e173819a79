"""Who fills the needs of an interface, and with what: peers in the application, and what a parent instance feeds in."""

from collections.abc import Iterator, Mapping
from typing import Any

from launchbay.manifest.graph import CompiledManifest, Component, Peer
from launchbay.runtime.state import InstanceState

Fed = Mapping[str, Mapping[str, Any]]  # what a parent gives to the application's needs: `interface.pin` → peer → value


def named_peers(component: Component, interface: str) -> Iterator[tuple[str, Peer]]:
    """Yield the peers of an interface in binding order, each with its id: the path of the component."""
    taken: set[str] = set()
    for peer in component.peers.get(interface, ()):
        # One component may fill an interface twice, with two of its own.
        name = peer.component if peer.component not in taken else f"{peer.component}#{peer.interface}"
        taken.add(name)
        yield name, peer


def consumed(
    manifest: CompiledManifest, state: InstanceState, fed: Fed, component: Component, key: str
) -> dict[str, Any]:
    """Return the values that a consumed signal `interface.pin` has now, by peer. Peers without a value are left out."""
    interface, _, pin = key.partition(".")
    values: dict[str, Any] = {}
    for name, peer in named_peers(component, interface):
        if pin in peer.pins:
            has_value, value = state.signal(peer.pins[pin])
            if has_value:
                values[name] = value
    values.update(fed_values(manifest, fed, component, key))
    return values


def fed_values(manifest: CompiledManifest, fed: Fed, component: Component, key: str) -> Mapping[str, Any]:
    """Return what the parent instance gives to a consumed signal, by peer."""
    values: dict[str, Any] = {}
    if fed:
        for need in manifest.needs.values():
            if any(target.component == component.path and target.pin == key for target in need.targets):
                values.update(fed.get(need.key, {}))
    return values
