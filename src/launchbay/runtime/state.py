"""The live state of an instance: what each component has published and remembers.

One document per instance, changed only by its one running job and written with the job's end in one transaction. Within
the job the journal is the truth: a rerun after a crash starts from the stored document and repeats the same changes.
"""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay.manifest.graph import Target


class ComponentState(msgspec.Struct):
    """One component. `signals` is interface → pin → value; `variables` are values returned by its earlier workflows."""

    launched: bool = False
    signals: dict[str, dict[str, Any]] = {}
    variables: dict[str, Any] = {}


class InstanceState:
    """The states of all components by path, with a way to wait for the next change."""

    def __init__(self, components: dict[str, ComponentState]) -> None:
        self._components = components
        self._changed = asyncio.Event()
        self._given_up = False

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

    def mark_launched(self, path: str) -> None:
        """Note that the component's launch has succeeded."""
        self.component(path).launched = True
        self._announce()

    def signal(self, target: Target) -> tuple[bool, Any]:
        """Return whether the signal of that pin has a value, and a copy of it."""
        interface, _, pin = target.pin.partition(".")
        state = self._components.get(target.component)
        if state is None or pin not in state.signals.get(interface, {}):
            return False, None
        return True, copy.deepcopy(state.signals[interface][pin])

    def publish(self, path: str, interface: str, pin: str, value: Any) -> None:
        """Set a signal's value."""
        self.component(path).signals.setdefault(interface, {})[pin] = value
        self._announce()

    def remember(self, path: str, values: Mapping[str, Any]) -> None:
        """Keep values that a workflow returned; later workflows of the component see them as variables."""
        self.component(path).variables.update(values)

    @property
    def is_given_up(self) -> bool:
        """Tell whether the launch under way has failed somewhere: what is not launched by now will not be."""
        return self._given_up

    def give_up(self) -> None:
        """Note that no further component will be launched, and let those know that wait for one."""
        self._given_up = True
        self._announce()

    async def changed(self) -> None:
        """Wait until a signal or a launch is announced."""
        await self._changed.wait()

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_decoder = msgspec.json.Decoder(dict[str, ComponentState])
