"""The signals that a component consumes, as its running workflow sees them (manifest-language §9, getSignals)."""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.graph import Component, Target
from launchbay.model.types import PinKind
from launchbay.runtime.peers import consumed, fed_values, named_peers
from launchbay.runtime.run import JobRun
from launchbay.runtime.triggers import see


class ConsumedSignals:
    """A snapshot of the consumed signals of one component; `refresh` takes a new one.

    `marks` are the signals whose triggers count as served by this look (`runtime/triggers.py`).
    """

    def __init__(self, job: JobRun, component: Component, marks: tuple[str, ...] = ()) -> None:
        self._job = job
        self._first = component
        self._marks = marks
        self._consumed: dict[str, list[str]] = {}
        for pin in component.pins.values():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                self._consumed.setdefault(pin.interface, []).append(pin.name)
        self._seen: dict[str, dict[str, dict[str, Any]]] = {}

    @property
    def _component(self) -> Component:
        """The component with its peers as they are now: a Scaler may have grown since the workflow began."""
        return self._job.manifest.components.get(self._first.path, self._first)

    def refresh(self) -> None:
        """Take the signals as they are now."""
        self._seen = {interface: self._read(interface, pins) for interface, pins in self._consumed.items()}
        if self._marks:
            see(self._job.manifest, self._job.state, self._job.fed, self._component, self._marks)

    def single(self) -> Mapping[str, Mapping[str, Any]]:
        """Return `result[interface][signal]`, each from the first peer that has it."""
        result: dict[str, dict[str, Any]] = {}
        for interface, peers in self._seen.items():
            merged: dict[str, Any] = {}
            for values in peers.values():
                for pin, value in values.items():
                    merged.setdefault(pin, value)
            result[interface] = merged
        return result

    def multi(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return `result[interface][peer id][signal]`; the id is the peer's path, and empty peers are left out."""
        return {
            interface: {peer: dict(values) for peer, values in peers.items() if values}
            for interface, peers in self._seen.items()
        }

    def peers_with_values(self, interface: str) -> int:
        """Return how many peers of the interface have a value now for every signal that it takes from them."""
        return sum(1 for targets in self._targets(interface) if not self._missing(targets)) + self._fed(interface)

    def peers(self, interface: str) -> int:
        """Return how many peers the interface has."""
        return len(self._targets(interface)) + self._fed(interface)

    def peers_to_come(self, interface: str) -> int:
        """Return how many peers have values now or can still get them: their components are not given up."""
        given_up = self._job.state.is_given_up
        to_come = sum(
            1
            for targets in self._targets(interface)
            if not any(given_up(target.component) for target in self._missing(targets))
        )
        return to_come + self._fed(interface)

    def interfaces(self) -> list[str]:
        """Return the names of the interfaces that consume signals."""
        return list(self._consumed)

    def _read(self, interface: str, pins: list[str]) -> dict[str, dict[str, Any]]:
        peers: dict[str, dict[str, Any]] = {name: {} for name, _ in named_peers(self._component, interface)}
        job = self._job
        for pin in pins:
            key = f"{interface}.{pin}"
            for peer, value in consumed(job.manifest, job.state, job.fed, self._component, key).items():
                peers.setdefault(peer, {})[pin] = value
        return peers

    def _fed(self, interface: str) -> int:
        """Return how many peers in the parent instance give values for every signal of the interface."""
        job = self._job
        given = [
            set(fed_values(job.manifest, job.fed, self._component, f"{interface}.{pin}"))
            for pin in self._consumed.get(interface, [])
        ]
        return len(set.intersection(*given)) if given else 0

    def _targets(self, interface: str) -> list[list[Target]]:
        """Return for each peer of the interface the pins that fill signals of it."""
        pins = self._consumed.get(interface, [])
        peers = self._component.peers.get(interface, ())
        return [targets for peer in peers if (targets := [peer.pins[pin] for pin in pins if pin in peer.pins])]

    def _missing(self, targets: list[Target]) -> list[Target]:
        return [target for target in targets if not self._job.state.has_signal(target)]


def required_components(component: Component) -> set[str]:
    """Return the components that must be launched before this one."""
    return {
        target.component
        for interface in component.required
        for peer in component.peers.get(interface, ())
        for target in peer.pins.values()
    }


def missing_for_launch(job: JobRun, component: Component) -> list[str]:
    """Return, as phrases, what the component's required interfaces still lack (manifest-language §3, `required`)."""
    missing: list[str] = []
    for interface in component.required:
        for peer in component.peers.get(interface, ()):
            for pin, target in peer.pins.items():
                if not job.state.is_launched(target.component):
                    missing.append(f"{interface}.{pin}: component {target.component!r} is not running")
                elif _is_signal(component, interface, pin) and not job.state.has_signal(target):
                    missing.append(
                        f"{interface}.{pin}: component {target.component!r} has not published {target.pin!r}"
                    )
    return missing


def _is_signal(component: Component, interface: str, pin: str) -> bool:
    return component.pins[f"{interface}.{pin}"].type.kind is PinKind.CONSUME_SIGNAL
