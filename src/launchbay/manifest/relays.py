"""`cobalt.common.HttpEndpoint` relays what it is bound to: whoever reads it reads the source (manifest-language §4).

The relay is resolved in the graph, so a changed source is seen at once and nothing has to pass it on.
"""

from collections.abc import Mapping
from dataclasses import replace

from launchbay.manifest.bindings import Peers
from launchbay.manifest.component_types import HTTP_ENDPOINT
from launchbay.manifest.graph import ApplicationPin, Target
from launchbay.manifest.layout import Layout
from launchbay.model.types import PinKind


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
