"""The live state of an instance: what each component has published and remembers.

One document per instance, changed only by its one running job and written with the job's end in one transaction. Within
the job the journal is the truth: a rerun after a crash starts from the stored document and repeats the same changes.
"""

import asyncio
import copy
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from launchbay.manifest.graph import CompiledManifest, Configuration, Target, Workflow
from launchbay.manifest.paths import Scope
from launchbay.manifest.scaling import (
    configured_quantity,
    expanded,
    expanded_configuration,
    member_number,
    scalers,
)
from launchbay.model.instance import Scale, effective_scale
from launchbay.model.machine import Machine, exclude_machines, merge_machines

# Raised when an older program would lose something by reading the state and writing it again: a new field does that.
STATE_VERSION = 1


class ComponentState(msgspec.Struct):
    """One component. `signals` is interface → pin → value; `variables` are values returned by its earlier workflows.

    `seen` holds, for consumed signals with a trigger, the values by peer that were seen last (`runtime/signals.py`).
    `machines` are those that its steps made or adopted, each in a role, in the order of their numbers. `scale` is there
    for a `composite.Scaler`.
    """

    launched: bool = False
    signals: dict[str, dict[str, Any]] = {}
    variables: dict[str, Any] = {}
    seen: dict[str, dict[str, Any]] = {}
    machines: list[Machine] = []
    scale: Scale | None = None


class InstanceState:
    """The states of all components by path, with a way to wait for the next change."""

    def __init__(self, components: dict[str, ComponentState]) -> None:
        self._components = components
        self._launched_before = frozenset(path for path, state in components.items() if state.launched)
        self._changed = asyncio.Event()
        self._changed_components: set[str] = set()
        self._abandoned: set[str] = set()
        self._awaited: Counter[tuple[str, str]] = Counter()
        self._retired: set[str] = set()
        self._machine_number = max((each.number for _, each in self.machines()), default=0)

    @classmethod
    def from_text(cls, text: str) -> "InstanceState":
        """Return the state from its stored form."""
        return cls(_decoder.decode(text))

    def to_text(self) -> str:
        """Return the stored form."""
        return msgspec.json.encode(self._components).decode()

    def component(self, path: str) -> ComponentState:
        """Return a component's state, a fresh one at first."""
        state = self._components.get(path)
        if state is None:
            state = self._components[path] = ComponentState()
        return state

    def is_launched(self, path: str) -> bool:
        """Tell whether the component's launch has succeeded."""
        return path in self._components and self._components[path].launched

    def was_launched(self, path: str) -> bool:
        """Tell whether the component had been launched when the job began."""
        return path in self._launched_before

    def begin_launch(self, paths: Iterable[str]) -> None:
        """Forget that these components were launched before: a repeated launch keeps the order of the first one."""
        for path in paths:
            if path in self._components:
                self._components[path].launched = False

    def forget(self, path: str) -> None:
        """Drop a component that is not there any more."""
        self._components.pop(path, None)

    def mark_launched(self, path: str) -> None:
        """Note that the component's launch has succeeded."""
        self.component(path).launched = True
        self._announce(path)

    def has_signal(self, target: Target) -> bool:
        """Tell whether the signal of that pin has a value."""
        interface, _, pin = target.pin.partition(".")
        state = self._components.get(target.component)
        return state is not None and pin in state.signals.get(interface, {})

    def signal(self, target: Target) -> tuple[bool, Any]:
        """Return whether the signal of that pin has a value, and a copy of it."""
        if not self.has_signal(target):
            return False, None
        interface, _, pin = target.pin.partition(".")
        return True, copy.deepcopy(self._components[target.component].signals[interface][pin])

    def publish(self, path: str, interface: str, pin: str, value: Any) -> None:
        """Set a signal's value."""
        self.component(path).signals.setdefault(interface, {})[pin] = value
        self._announce(path)

    def remember(self, path: str, values: Mapping[str, Any]) -> None:
        """Keep values that a workflow returned; later workflows of the component see them as variables."""
        self.component(path).variables.update(values)

    def drop_returned(self, path: str, pins: Iterable[str]) -> None:
        """Drop the values returned under the names of configuration pins `interface.pin` that have changed."""
        for pin in pins:
            self.component(path).variables.pop(pin.rpartition(".")[2], None)

    def quantity(self, scaler: str) -> int:
        """Return how many members a Scaler has."""
        scale = self.component(scaler).scale
        return 0 if scale is None else scale.quantity

    def scale(self, scaler: str, quantity: int) -> None:
        """Note that a Scaler has so many members now."""
        state = self.component(scaler)
        configured = quantity if state.scale is None else state.scale.configured
        state.scale = Scale(configured, quantity)

    def retire(self, path: str) -> None:
        """Note that this job has taken a component down: what it records of it must not serve for another one."""
        self._retired.add(path)

    @property
    def retired(self) -> Iterable[str]:
        """The components that this job has taken down."""
        return sorted(self._retired)

    def is_retired(self, path: str) -> bool:
        """Tell whether this job has taken the component down."""
        return path in self._retired

    def paths(self) -> list[str]:
        """Return the paths of all components that have a state."""
        return list(self._components)

    def machines(self) -> list[tuple[str, Machine]]:
        """Return all machines of the instance, each with the path of the component that it belongs to."""
        return [(path, machine) for path, state in self._components.items() for machine in state.machines]

    def allocate_machine_numbers(self, count: int) -> list[int]:
        """Return numbers for so many new machines; none is given out twice."""
        first = self._machine_number + 1
        self._machine_number += count
        return list(range(first, first + count))

    def add_machines(self, path: str, machines: Iterable[Machine]) -> None:
        """Note that a component has these machines now."""
        state = self.component(path)
        state.machines = merge_machines(state.machines, machines)
        self._machine_number = max((self._machine_number, *(machine.number for machine in state.machines)))

    def remove_machines(self, path: str, machines: Iterable[Machine]) -> None:
        """Note that machines of a component are gone."""
        state = self.component(path)
        state.machines = exclude_machines(state.machines, machines)

    def is_abandoned(self, path: str) -> bool:
        """Tell whether the component will not be launched any more: its launch failed, or was not begun in time."""
        return path in self._abandoned

    def abandon(self, paths: Iterable[str]) -> None:
        """Note that these components will not be launched any more, and let those know that wait for one."""
        self._abandoned.update(paths)
        self._announce()

    @contextmanager
    def awaiting_launch(self, sender: str, receiver: str) -> Iterator[None]:
        """Note that a command of one component waits for the launch of another, for as long as the block lasts."""
        self._awaited[sender, receiver] += 1
        try:
            yield
        finally:
            self._awaited[sender, receiver] -= 1

    def awaited_by(self, sender: str) -> set[str]:
        """Return the components whose launch a component's commands wait for now."""
        return {receiver for (each, receiver), count in self._awaited.items() if each == sender and count}

    @property
    def next_change(self) -> asyncio.Event:
        """What will be set when a signal or a launch is announced, or that there will be none."""
        return self._changed

    async def changed(self) -> None:
        """Wait for the next change."""
        await self._changed.wait()

    def take_changed_components(self) -> set[str]:
        """Return the components that have published or been launched since this was last asked."""
        news, self._changed_components = self._changed_components, set()
        return news

    def _announce(self, *paths: str) -> None:
        self._changed_components.update(paths)
        self._changed.set()
        self._changed = asyncio.Event()


_decoder = msgspec.json.Decoder(dict[str, ComponentState])


class Graph:
    """A manifest and the values of its configuration pins, seen through the quantities of a state."""

    def __init__(self, manifest: CompiledManifest, configuration: Configuration) -> None:
        self.compiled = manifest
        self._configuration = configuration
        templates = {component.scaler for component in manifest.components.values()}
        self._scalers = [path for path in scalers(manifest) if path in templates]
        self._key: tuple[int, ...] = ()
        self._now = (manifest, configuration)

    def apply_quantity(self, state: InstanceState) -> None:
        """Bring the quantities of a state to the configuration, where it has another one than they came from.

        So a quantity that a command has set stays until another one is configured.
        """
        for path in self._scalers:
            configured = configured_quantity(self._configuration.get(path, {}))
            component = state.component(path)
            component.scale = effective_scale(component.scale, configured)

    def manifest(self, state: InstanceState) -> CompiledManifest:
        """Return the graph with the members that there are to be."""
        return self._at(state)[0] if self._scalers else self.compiled

    def configuration(self, state: InstanceState) -> Configuration:
        """Return the values of all configuration pins, those of members too."""
        return self._at(state)[1] if self._scalers else self._configuration

    def _at(self, state: InstanceState) -> tuple[CompiledManifest, Configuration]:
        quantities = {path: state.quantity(path) for path in self._scalers}
        key = tuple(quantities.values())
        if key != self._key:  # only the latest is kept: there may be a thousand members
            self._now = (
                expanded(self.compiled, quantities),
                expanded_configuration(self.compiled, self._configuration, quantities),
            )
            self._key = key
        return self._now


def existing_quantities(manifest: CompiledManifest, state: InstanceState) -> Mapping[str, int]:
    """Return the quantities that take in every member with a state, whatever there is to be."""
    found: dict[str, int] = {}
    for scaler in scalers(manifest):
        numbers = [number for path in state.paths() if (number := member_number(path, scaler)) is not None]
        found[scaler] = max(numbers, default=-1) + 1
    return found


class WorkflowScope:
    """One workflow run's variables. Later sources win: parameter defaults, configuration pins by bare name, values
    returned by earlier workflows of the component, arguments, step outputs.

    Pins that are `always_configured` are not hidden by returned values (`manifest/workflow_rules.py`).
    """

    def __init__(
        self,
        workflow: Workflow,
        configuration: Mapping[str, Any],
        returned_before: Mapping[str, Any],
        arguments: Mapping[str, Any],
        always_configured: Collection[str] = (),
    ) -> None:
        variables: dict[str, Any] = {
            name: parameter.default for name, parameter in workflow.parameters.items() if parameter.has_default
        }
        configured = {key.rpartition(".")[2]: value for key, value in configuration.items()}
        variables.update(configured)
        variables.update(returned_before)
        variables.update({name: configured[name] for name in always_configured if name in configured})
        variables.update(arguments)
        self._variables = variables
        self._inner: dict[str, Mapping[str, Any]] = {}

    @property
    def values(self) -> Scope:
        """Return the scope in the form that templates evaluate against."""
        return Scope(self._variables, self._inner)

    @property
    def variables(self) -> Mapping[str, Any]:
        """Return the variables by name."""
        return self._variables

    def set(self, variable: str, value: Any) -> None:
        """Set a variable to a step's output."""
        self._variables[variable] = value

    def set_inner(self, step: str, variables: Mapping[str, Any]) -> None:
        """Make the variables of the macro that a step called reachable as `{$.step~variable}` (§6)."""
        self._inner[step] = variables
