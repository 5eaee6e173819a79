"""The order in which components start, and cycles that make it impossible (manifest-language §3, `required`)."""

from collections.abc import Mapping, Sequence

from launchbay.manifest.bindings import Peers
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.types import PinKind


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
