"""The signals that a component consumes, as its running workflow sees them (manifest-language §9, getSignals)."""

from collections.abc import Mapping
from typing import Any

from launchbay.manifest.graph import Component
from launchbay.model.values import PinKind
from launchbay.runtime.run import JobRun


class ConsumedSignals:
    """A snapshot of the consumed signals of one component; `refresh` takes a new one."""

    def __init__(self, job: JobRun, component: Component) -> None:
        self._job = job
        self._component = component
        self._consumed: dict[str, list[str]] = {}
        for pin in component.pins.values():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                self._consumed.setdefault(pin.interface, []).append(pin.name)
        self._seen: dict[str, dict[str, dict[str, Any]]] = {}

    def refresh(self) -> None:
        """Take the signals as they are now."""
        self._seen = {interface: self._read(interface, pins) for interface, pins in self._consumed.items()}

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
        """Return how many peers of the interface have a value now for every signal that it needs."""
        pins = self._consumed.get(interface, [])
        return sum(1 for values in self._read(interface, pins).values() if len(values) == len(pins))

    def interfaces(self) -> list[str]:
        """Return the names of the interfaces that consume signals."""
        return list(self._consumed)

    def _read(self, interface: str, pins: list[str]) -> dict[str, dict[str, Any]]:
        peers: dict[str, dict[str, Any]] = {}
        for peer in self._component.peers.get(interface, ()):
            values = peers.setdefault(peer.component, {})
            for pin in pins:
                if pin in peer.pins:
                    has_value, value = self._job.state.signal(peer.pins[pin])
                    if has_value:
                        values[pin] = value
        return peers


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
                elif _is_signal(component, interface, pin) and not job.state.signal(target)[0]:
                    missing.append(
                        f"{interface}.{pin}: component {target.component!r} has not published {target.pin!r}"
                    )
    return missing


def _is_signal(component: Component, interface: str, pin: str) -> bool:
    return component.pins[f"{interface}.{pin}"].type.kind is PinKind.CONSUME_SIGNAL
