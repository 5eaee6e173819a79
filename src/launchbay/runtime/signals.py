"""Signals between components: which values a component consumes, from whom, and what they trigger.

Signals come from components of the instance, from linked instances, and from the parent instance.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import CompiledManifest, Component, Peer, Pin, Target
from launchbay.manifest.scaling import template_path
from launchbay.manifest.v1 import outer_values
from launchbay.model.instance import Link
from launchbay.model.scalars import settled
from launchbay.model.types import PinKind, Type
from launchbay.model.values import CoercionError, coerce
from launchbay.runtime.contract import JobRun, LinkedInstance
from launchbay.runtime.state import InstanceState

OnWarning = Callable[[str], None]


def coerce_or_warn(declared: Type | None, value: Any, on_warning: OnWarning | None = None) -> Any:
    """Coerce a value to the declared type; keep a value that doesn't match, and warn of it. None stays None.

    The result has no numbers that remember their text.

    The compiler only warns of ends with different types, so a mismatch isn't an error here either.
    """
    if value is None or declared is None:
        return settled(value)
    try:
        return coerce(declared, value)
    except CoercionError as error:
        if on_warning is not None:
            on_warning(str(error))
        return settled(value)


def coerce_all(
    declared: Mapping[str, Type | None], values: Mapping[str, Any], on_warning: OnWarning | None = None
) -> dict[str, Any]:
    def of(name: str) -> OnWarning | None:
        return None if on_warning is None else lambda problem: on_warning(f"{name!r}: {problem}")

    return {name: coerce_or_warn(declared.get(name), value, of(name)) for name, value in values.items()}


async def refresh_linked_signals(job: JobRun) -> None:
    """Publish the present return values of linked instances as signals (language §8)."""
    for component, link in linked_components(job.manifest, job.links):
        path = component.path
        if not link.is_instance or not job.state.is_launched(path):
            continue
        try:
            linked = await job.linked_instances.get(link)
        except WorkflowFailed as failure:
            job.journal.log(None, "warning", f"Component {path!r}: {failure} It keeps its present signals.")
        else:
            publish_linked(job, component, link, linked)


def link_of(path: str, links: Mapping[str, Link]) -> Link | None:
    """Return a component's link. Members of a Scaler share the link of their template."""
    return links.get(path) or links.get(template_path(path))


def linked_components(manifest: CompiledManifest, links: Mapping[str, Link]) -> Iterator[tuple[Component, Link]]:
    if links:
        for path, component in manifest.components.items():
            link = link_of(path, links)
            if link is not None:
                yield component, link


def publish_linked(job: JobRun, component: Component, link: Link, linked: LinkedInstance) -> None:
    """Publish the linked instance's return values as the component's signals."""
    for pin, value in linked_signals(component, link, job.secrets.opened(linked.return_values)):
        job.state.publish(component.path, pin.interface, pin.name, value)


def linked_signals(component: Component, link: Link, return_values: Mapping[str, Any]) -> Iterator[tuple[Pin, Any]]:
    """Yield the component's signals with their values among an instance's return values."""
    values = outer_values(return_values)
    for key, pin in component.pins.items():
        name = link.key(key)
        if pin.type.kind is PinKind.PUBLISH_SIGNAL and name is not None and name in values:
            yield pin, coerce_or_warn(pin.type.value_type, values[name])


# What the parent instance provides for the application's needs: `interface.pin` → peer → value.
ParentSignals = Mapping[str, Mapping[str, Any]]


def named_peers(component: Component, interface: str) -> Iterator[tuple[str, Peer]]:
    """Yield the peers of an interface in binding order, each with its id, the component's path."""
    used: set[str] = set()
    for peer in component.peers.get(interface, ()):
        # A component may fill an interface twice, with two of its interfaces.
        name = peer.component if peer.component not in used else f"{peer.component}#{peer.interface}"
        used.add(name)
        yield name, peer


def consumed(
    manifest: CompiledManifest, state: InstanceState, parent_signals: ParentSignals, component: Component, key: str
) -> dict[str, Any]:
    """Return the values of a consumed signal `interface.pin` by peer, without peers that have no value.

    They are the state's own: nobody may change them.
    """
    interface, _, pin = key.partition(".")
    values: dict[str, Any] = {}
    for name, peer in named_peers(component, interface):
        if pin in peer.pins:
            has_value, value = state.signal(peer.pins[pin])
            if has_value:
                values[name] = value
    values.update(parent_signal_values(manifest, parent_signals, component, key))
    return values


def parent_signal_values(
    manifest: CompiledManifest, parent_signals: ParentSignals, component: Component, key: str
) -> Mapping[str, Any]:
    """Return the parent instance's values of a consumed signal, by peer."""
    values: dict[str, Any] = {}
    if parent_signals:
        for need in manifest.needs.values():
            if any(target.component == component.path and target.pin == key for target in need.targets):
                values.update(parent_signals.get(need.key, {}))
    return values


def submodule_signals(
    manifest: CompiledManifest, state: InstanceState, parent_signals: ParentSignals, component: Component
) -> dict[str, Any]:
    """Return the signals for a submodule, `interface.pin` → peer → value; empty if it needs none."""
    return {
        key: consumed(manifest, state, parent_signals, component, key)
        for key, pin in component.pins.items()
        if pin.type.kind is PinKind.CONSUME_SIGNAL
    }


def return_values(manifest: CompiledManifest, state: InstanceState) -> dict[str, Any]:
    """Return the application's published signals that have a value, by API name."""
    values: dict[str, Any] = {}
    for key, pin in manifest.results.items():
        for target in pin.targets:
            has_value, value = state.signal(target)
            if has_value:
                values[key] = value
                break
    return values


# Triggers: workflows that run because a consumed signal changed (manifest-language §5, Triggers).
#
# For each consumed signal with a trigger, a component remembers the values that its `launch` or the triggered workflow
# saw last. The end of every job compares them with the present values. So a signal that arrived too late for the launch
# is noticed like any later change, and several changes cause one run.


def signal_triggers(component: Component) -> dict[str, str]:
    """Return the triggers on consumed signals: `interface.pin` → workflow."""
    return {
        key: workflow
        for key, workflow in component.triggers.items()
        if key in component.pins and component.pins[key].type.kind is PinKind.CONSUME_SIGNAL
    }


def mark_seen(
    manifest: CompiledManifest,
    state: InstanceState,
    parent_signals: ParentSignals,
    component: Component,
    pins: Iterable[str],
) -> None:
    """Record that a workflow has seen the present values. Raises WorkflowFailed."""
    for key in pins:
        state.see(component.path, key, consumed(manifest, state, parent_signals, component, key))


def due_triggers(
    manifest: CompiledManifest, state: InstanceState, parent_signals: ParentSignals
) -> list[tuple[str, str]]:
    """Return (component, workflow) for each workflow whose signals changed since it last saw them."""
    due: dict[tuple[str, str], None] = {}
    for path in manifest.order:
        component = manifest.components[path]
        if not component.triggers or not state.is_launched(path):
            continue
        seen = state.component(path).seen
        for key, workflow in signal_triggers(component).items():
            if consumed(manifest, state, parent_signals, component, key) != seen.get(key, {}):
                due[path, workflow] = None
    return list(due)


def count_round(state: InstanceState, ran: tuple[str, str] | None, due: Collection[tuple[str, str]]) -> str | None:
    """Count the run of a triggered workflow that ends with these triggers due.

    `ran` is (component, workflow), or None for any other job, which starts a new chain. Returns an error that names
    the cycle if a due workflow has run `TRIGGER_ROUNDS` times since the signals last settled.
    """
    if ran is None or not due:
        for path in state.paths():
            state.component(path).rounds.clear()
    if ran is None:
        return None
    path, workflow = ran
    rounds = state.component(path).rounds
    if due:
        rounds[workflow] = rounds.get(workflow, 0) + 1
    if not any(state.component(path).rounds.get(workflow, 0) >= limits.TRIGGER_ROUNDS for path, workflow in due):
        return None
    cycle = [
        f"{path} › {workflow}"
        for path in state.paths()
        for workflow, count in state.component(path).rounds.items()
        if count >= limits.TRIGGER_ROUNDS - 1
    ]
    return (
        f"The triggers don't settle: after {limits.TRIGGER_ROUNDS} rounds, {', '.join(cycle)} still change the signals "
        "that start them. Return the same values if nothing has changed, or remove one of the triggers."
    )


class ConsumedSignals:
    """A snapshot of a component's consumed signals; `refresh` takes a new one.

    Each refresh marks `trigger_pins` as seen.
    """

    def __init__(self, job: JobRun, component: Component, trigger_pins: tuple[str, ...] = ()) -> None:
        self._job = job
        self._first = component
        self._trigger_pins = trigger_pins
        self._consumed: dict[str, list[str]] = {}
        for pin in component.pins.values():
            if pin.type.kind is PinKind.CONSUME_SIGNAL:
                self._consumed.setdefault(pin.interface, []).append(pin.name)
        self._seen: dict[str, dict[str, dict[str, Any]]] = {}

    @property
    def _component(self) -> Component:
        """The component with its present peers: a Scaler may have grown since the workflow started."""
        return self._job.manifest.components.get(self._first.path, self._first)

    def refresh(self) -> None:
        self._seen = {interface: self._read(interface, pins) for interface, pins in self._consumed.items()}
        if self._trigger_pins:
            mark_seen(
                self._job.manifest, self._job.state, self._job.parent_signals, self._component, self._trigger_pins
            )

    def single(self) -> Mapping[str, Mapping[str, Any]]:
        """Return copies, `result[interface][signal]`, of the first peer with a value."""
        result: dict[str, dict[str, Any]] = {}
        for interface, peers in self._seen.items():
            merged: dict[str, Any] = {}
            for values in peers.values():
                for pin, value in values.items():
                    merged.setdefault(pin, value)
            result[interface] = merged
        copies: dict[str, dict[str, Any]] = _copied(result, {})
        return copies

    def multi(self) -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
        """Return copies, `result[interface][peer id][signal]`.

        Empty peers are left out; the id is the peer's path.
        """
        found = {
            interface: {peer: values for peer, values in peers.items() if values}
            for interface, peers in self._seen.items()
        }
        copies: dict[str, dict[str, dict[str, Any]]] = _copied(found, {})
        return copies

    def peers_with_values(self, interface: str) -> int:
        """Return how many peers have a value for every signal that the interface consumes from them."""
        return sum(1 for targets in self._targets(interface) if not self._missing(targets)) + self._parent_peers(
            interface
        )

    def peers(self, interface: str) -> int:
        return len(self._targets(interface)) + self._parent_peers(interface)

    def peers_still_expected(self, interface: str) -> int:
        """Return how many peers have values or can still get them, because no component is abandoned."""
        is_abandoned = self._job.state.is_abandoned
        expected = sum(
            1
            for targets in self._targets(interface)
            if not any(is_abandoned(target.component) for target in self._missing(targets))
        )
        return expected + self._parent_peers(interface)

    def interfaces(self) -> list[str]:
        """Return the names of interfaces that consume signals."""
        return list(self._consumed)

    def _read(self, interface: str, pins: list[str]) -> dict[str, dict[str, Any]]:
        peers: dict[str, dict[str, Any]] = {name: {} for name, _ in named_peers(self._component, interface)}
        job = self._job
        for pin in pins:
            key = f"{interface}.{pin}"
            for peer, value in consumed(job.manifest, job.state, job.parent_signals, self._component, key).items():
                peers.setdefault(peer, {})[pin] = value
        return peers

    def _parent_peers(self, interface: str) -> int:
        """Return how many peers in the parent instance have values for every signal of the interface."""
        job = self._job
        given = [
            set(parent_signal_values(job.manifest, job.parent_signals, self._component, f"{interface}.{pin}"))
            for pin in self._consumed.get(interface, [])
        ]
        return len(set.intersection(*given)) if given else 0

    def _targets(self, interface: str) -> list[list[Target]]:
        """Return for each peer of the interface the pins that provide its signals."""
        pins = self._consumed.get(interface, [])
        peers = self._component.peers.get(interface, ())
        return [targets for peer in peers if (targets := [peer.pins[pin] for pin in pins if pin in peer.pins])]

    def _missing(self, targets: list[Target]) -> list[Target]:
        return [target for target in targets if not self._job.state.has_signal(target)]


def _copied(value: Any, known: dict[int, Any]) -> Any:
    """Return a copy of a JSON value.

    What it has several times is copied once.
    """
    if not isinstance(value, dict | list):
        return value
    copy = known.get(id(value))
    if copy is None:
        if isinstance(value, dict):
            copy = {name: _copied(each, known) for name, each in value.items()}
        else:
            copy = [_copied(each, known) if isinstance(each, dict | list) else each for each in value]
        known[id(value)] = copy
    return copy


def missing_for_launch(job: JobRun, component: Component) -> list[str]:
    """Describe what the component's required interfaces still lack (manifest-language §3, `required`)."""
    missing: list[str] = []
    for interface in component.required:
        for peer in component.peers.get(interface, ()):
            for pin, target in peer.pins.items():
                if not job.state.is_launched(target.component):
                    missing.append(f"{interface}.{pin}: component {target.component!r} isn't running")
                elif _is_signal(component, interface, pin) and not job.state.has_signal(target):
                    missing.append(f"{interface}.{pin}: component {target.component!r} hasn't published {target.pin!r}")
    return missing


def _is_signal(component: Component, interface: str, pin: str) -> bool:
    return component.pins[f"{interface}.{pin}"].type.kind is PinKind.CONSUME_SIGNAL
