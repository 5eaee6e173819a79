"""The live state of an instance: the signals, variables and machines of each component.

One document per instance. Only its running job changes it, and the end of the job writes it in the same transaction.
Within the job the journal is authoritative: a repetition after a crash starts from the stored document and makes the
same changes.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from launchbay import limits
from launchbay.errors import WorkflowFailed
from launchbay.manifest.graph import (
    CompiledManifest,
    Configuration,
    Target,
    UrlTarget,
    Workflow,
    compose_url,
)
from launchbay.manifest.paths import Scope
from launchbay.manifest.scaling import Quantity, member_number, scaled
from launchbay.model.instance import Scale, effective_scale
from launchbay.model.machine import Machine, exclude_machines, merge_machines
from launchbay.model.values import size_of

# Increase it if an older version would lose data by rewriting the state, for example a new field.
STATE_VERSION = 1


class ComponentState(msgspec.Struct):
    """One component.

    `signals` is interface → pin → value; `variables` are return values of earlier workflows.

    `seen` has the last seen values by peer of consumed signals with a trigger (`runtime/signals.py`). `machines` are
    those that its steps created or adopted, sorted by number. `scale` is set for a `composite.Scaler`. `rounds` counts
    the runs of triggered workflows since the signals last settled.
    """

    launched: bool = False
    signals: dict[str, dict[str, Any]] = {}
    variables: dict[str, Any] = {}
    seen: dict[str, dict[str, Any]] = {}
    machines: list[Machine] = []
    scale: Scale | None = None
    rounds: dict[str, int] = {}


class InstanceState:
    """The states of all components by path; tasks can wait for the next change."""

    def __init__(self, components: dict[str, ComponentState]) -> None:
        self._components = components
        self._launched_before = frozenset(path for path, state in components.items() if state.launched)
        self._changed = asyncio.Event()
        self._watched: list[tuple[set[str], Callable[[], None]]] = []
        self._abandoned: set[str] = set()
        self._awaited: Counter[tuple[str, str]] = Counter()
        # What this job has destroyed. It can't launch it again, because its records would apply.
        self.retired: set[str] = set()
        self._machine_number = max((each.number for _, each in self.machines()), default=0)
        self._size: int | None = None  # of all signals and variables, once it is needed

    @classmethod
    def from_text(cls, text: str) -> "InstanceState":
        return cls(_decoder.decode(text))

    def to_text(self) -> str:
        return msgspec.json.encode(self._components).decode()

    def component(self, path: str) -> ComponentState:
        """Return a component's state; create it if it doesn't exist."""
        state = self._components.get(path)
        if state is None:
            state = self._components[path] = ComponentState()
        return state

    def is_launched(self, path: str) -> bool:
        return path in self._components and self._components[path].launched

    def was_launched(self, path: str) -> bool:
        """Return whether the component was launched before the job started."""
        return path in self._launched_before

    def begin_launch(self, paths: Iterable[str]) -> None:
        """Mark components as not launched, so that a repeated launch has the same order as the first."""
        for path in paths:
            if path in self._components:
                self._components[path].launched = False

    def forget(self, path: str) -> None:
        self._components.pop(path, None)
        self._size = None

    def mark_launched(self, path: str) -> None:
        self.component(path).launched = True
        self._announce(path)

    def has_signal(self, target: Target) -> bool:
        if isinstance(target, UrlTarget):
            # The host's component publishes its other parts together with the host, or has none.
            others = (part for _, part in target.parts if part.component != target.component)
            return self.has_signal(_host(target)) and all(map(self.has_signal, others))
        interface, _, pin = target.pin.partition(".")
        state = self._components.get(target.component)
        return state is not None and pin in state.signals.get(interface, {})

    def signal(self, target: Target) -> tuple[bool, Any]:
        """Return whether a signal has a value, and the value. Nobody may change it."""
        if not self.has_signal(target):
            return False, None
        if isinstance(target, UrlTarget):
            values = {name: self.signal(part)[1] for name, part in (("host", _host(target)), *target.parts)}
            return True, compose_url(values)
        interface, _, pin = target.pin.partition(".")
        return True, self._components[target.component].signals[interface][pin]

    def publish(self, path: str, interface: str, pin: str, value: Any) -> None:
        """Give a signal its value. Raises WorkflowFailed if the instance would keep too much."""
        pins = self.component(path).signals.setdefault(interface, {})
        self._admit(f"{path} › {interface}.{pin}", pins.get(pin), value)
        pins[pin] = value
        self._announce(path)

    def remember(self, path: str, values: Mapping[str, Any]) -> None:
        """Store return values, which later workflows see as variables. Raises WorkflowFailed."""
        variables = self.component(path).variables
        for name, value in values.items():
            self._admit(f"{path} › {name}", variables.get(name), value)
            variables[name] = value

    def see(self, path: str, key: str, values: dict[str, Any]) -> None:
        """Store what a workflow has seen of a signal, by peer. Raises WorkflowFailed."""
        seen = self.component(path).seen
        self._admit(f"{path} › {key}, as last seen", seen.get(key), values)
        seen[key] = values

    def _admit(self, name: str, before: Any, after: Any) -> None:
        """Count a value in place of the one before it. Less is always admitted."""
        most = limits.VALUES_BYTES
        if self._size is None:
            self._size = sum(_size(state, most) for state in self._components.values())
        size = size_of(after, most)
        added = size - size_of(before, most)
        if added > 0 and self._size + added > most:
            raise WorkflowFailed(
                f"{name}: with this value of {size} bytes or more, the instance's signals and "
                f"variables exceed {most // limits.MIB} MiB. Publish less, such as the address of the data."
            )
        self._size += added

    def drop_returned(self, path: str, pins: Iterable[str]) -> None:
        """Drop return values with the names of changed configuration pins `interface.pin`."""
        for pin in pins:
            self.component(path).variables.pop(pin.rpartition(".")[2], None)
        self._size = None

    def quantity(self, scaler: str) -> int:
        state = self._components.get(scaler)
        return 0 if state is None or state.scale is None else state.scale.quantity

    def scale(self, scaler: str, quantity: int) -> None:
        state = self.component(scaler)
        configured = quantity if state.scale is None else state.scale.configured
        state.scale = Scale(configured, quantity)

    def paths(self) -> list[str]:
        """Return the paths of all components that have a state."""
        return list(self._components)

    def machines(self) -> list[tuple[str, Machine]]:
        """Return all machines of the instance, each with its component's path."""
        return [(path, machine) for path, state in self._components.items() for machine in state.machines]

    @property
    def had_machines(self) -> bool:
        """Whether a recorded step has ever created or adopted a machine."""
        return self._machine_number > 0

    def allocate_machine_numbers(self, count: int) -> list[int]:
        first = self._machine_number + 1
        self._machine_number += count
        return list(range(first, first + count))

    def add_machines(self, path: str, machines: Iterable[Machine]) -> None:
        state = self.component(path)
        state.machines = merge_machines(state.machines, machines)
        self._machine_number = max((self._machine_number, *(machine.number for machine in state.machines)))

    def remove_machines(self, path: str, machines: Iterable[Machine]) -> None:
        state = self.component(path)
        state.machines = exclude_machines(state.machines, machines)

    def is_abandoned(self, path: str) -> bool:
        """Return whether the component won't be launched: its launch failed, or another failure prevented it."""
        return path in self._abandoned

    def abandon(self, paths: Iterable[str]) -> None:
        """Mark components that won't be launched, and wake the tasks that wait for them."""
        self._abandoned.update(paths)
        self._announce()

    @contextmanager
    def awaiting_launch(self, sender: str, receiver: str) -> Iterator[None]:
        """Record that a command of one component waits for another's launch during the block."""
        self._awaited[sender, receiver] += 1
        try:
            yield
        finally:
            self._awaited[sender, receiver] -= 1

    def awaited_by(self, sender: str) -> set[str]:
        """Return the components whose launch the sender's commands wait for."""
        return {receiver for (each, receiver), count in self._awaited.items() if each == sender and count}

    async def changed(self) -> None:
        """Wait for the next published signal, launch or abandoned launch."""
        await self._changed.wait()

    @contextmanager
    def watched(self, notify: Callable[[], None]) -> Iterator[set[str]]:
        """Collect the paths of the components that change during the block.

        `notify` is called for each change.
        """
        changed: set[str] = set()
        self._watched.append((changed, notify))
        try:
            yield changed
        finally:
            self._watched = [each for each in self._watched if each[0] is not changed]

    def _announce(self, *paths: str) -> None:
        for changed, notify in self._watched:
            changed.update(paths)
            notify()
        self._changed.set()
        self._changed = asyncio.Event()


def _size(state: ComponentState, most: int) -> int:
    return sum(size_of(values, most) for values in (state.signals, state.variables, state.seen))


def _host(target: UrlTarget) -> Target:
    return Target(target.component, target.pin)


_decoder = msgspec.json.Decoder(dict[str, ComponentState])


class Graph:
    """A manifest with its configuration values, expanded by the quantities of a state."""

    def __init__(self, manifest: CompiledManifest, configuration: Configuration) -> None:
        self.compiled = manifest
        self._configuration = configuration
        self._has_scalers = any(component.scaler for component in manifest.components.values())
        self._key: dict[str, int] | None = None
        self._now = (manifest, configuration)

    def apply_quantity(self, state: InstanceState) -> None:
        """Apply configured quantities that have changed since the state applied them.

        So a quantity that a command set stays until a different one is configured.
        """

        def quantity(path: str, configured: int) -> int:
            component = state.component(path)
            component.scale = effective_scale(component.scale, configured)
            return component.scale.quantity

        if self._has_scalers:
            scaled(self.compiled, self._configuration, quantity)

    def manifest(self, state: InstanceState) -> CompiledManifest:
        """Return the graph with the target members."""
        return self._at(state)[0] if self._has_scalers else self.compiled

    def configuration(self, state: InstanceState) -> Configuration:
        """Return the values of all configuration pins, including members."""
        return self._at(state)[1] if self._has_scalers else self._configuration

    def _at(self, state: InstanceState) -> tuple[CompiledManifest, Configuration]:
        if self._key is None or any(state.quantity(path) != number for path, number in self._key.items()):
            found: dict[str, int] = {}

            def quantity(path: str, configured: int) -> int:
                if state.component(path).scale is None:  # of a member that a command has just added
                    state.component(path).scale = Scale(configured, configured)
                found[path] = state.quantity(path)
                return found[path]

            self._now = scaled(self.compiled, self._configuration, quantity)
            self._key = found  # only the latest is cached: there may be a thousand members
        return self._now


def existing_quantity(state: InstanceState) -> Quantity:
    """Return a quantity that includes every member with a state, regardless of the target."""
    paths = state.paths()

    def quantity(path: str, configured: int) -> int:  # noqa: ARG001 - what a `Quantity` takes
        numbers = [number for each in paths if (number := member_number(each, path)) is not None]
        return max(numbers, default=-1) + 1

    return quantity


class WorkflowScope:
    """The variables of one workflow run.

    Later sources win: parameter defaults, configuration pins by bare name, return values of the component's earlier
    workflows, arguments, step outputs. Return values don't hide `always_configured` pins
    (`manifest/workflow_rules.py`).
    """

    def __init__(
        self,
        workflow: Workflow,
        configuration: Mapping[str, Any],
        returned_before: Mapping[str, Any],
        arguments: Mapping[str, Any],
        always_configured: Collection[str] = (),
        now_s: int = 0,
    ) -> None:
        variables: dict[str, Any] = {
            name: parameter.default for name, parameter in workflow.parameters.items() if parameter.has_default
        }
        configured = {key.rpartition(".")[2]: value for key, value in configuration.items()}
        variables.update(configured)
        variables.update(returned_before)
        variables.update({name: configured[name] for name in always_configured if name in configured})
        variables.update(arguments)
        self.variables = variables
        self._inner: dict[str, Mapping[str, Any]] = {}
        self.values = Scope(variables, self._inner, now_s)  # what templates evaluate against

    def within(self, variables: Mapping[str, Any]) -> "WorkflowScope":
        """Return a scope inside this one, with further variables of its own."""
        inner = copy.copy(self)
        inner.variables = {**self.variables, **variables}
        steps = dict(self._inner)
        inner._inner = steps  # noqa: SLF001 - of the same class
        inner.values = Scope(inner.variables, steps, self.values.now_s)
        return inner

    def set_inner(self, step: str, variables: Mapping[str, Any]) -> None:
        """Make the variables of a step's macro available as `{$.step~variable}` (§6)."""
        self._inner[step] = variables
