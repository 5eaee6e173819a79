"""What a reconfiguration changes: two configured graphs → which components start, change, stop or stay (pure)."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import Link

Configuration = Mapping[str, Mapping[str, Any]]  # component path → `interface.pin` → value


class Change(StrEnum):
    """What happens to a component; the words of the preview (api-decisions, "Beyond the reference")."""

    STARTS = "starts"
    CHANGES = "changes"
    STOPS = "stops"
    KEEPS = "keeps"


@dataclass(frozen=True, slots=True)
class PinChange:
    """A configuration pin whose value changes. `reset` says that it goes back to a default because it is not given."""

    pin: str
    before: Any
    after: Any
    reset: bool


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """What happens to one component. `replaced` is set on both halves of a stop and start at the same path."""

    path: str
    change: Change
    pins: tuple[PinChange, ...] = ()
    replaced: bool = False

    @property
    def changed_pins(self) -> frozenset[str]:
        """Return the keys of the changed pins."""
        return frozenset(change.pin for change in self.pins)


@dataclass(frozen=True, slots=True)
class Configured:
    """One side of a comparison: a manifest, the values of its pins, where components lead, parameters given."""

    manifest: CompiledManifest
    configuration: Configuration
    links: Mapping[str, Link] = field(default_factory=dict)
    given: frozenset[str] = frozenset()


def difference(before: Configured, after: Configured) -> list[ComponentChange]:
    """Return what happens to each component: stops first, in reverse launch order, then the rest in launch order.

    A component of another type is replaced, and so is a submodule that leads to another instance: another application,
    or a shared instance in place of its own and the other way round (manifest-language §7).
    """
    stops: list[ComponentChange] = []
    for path in reversed(before.manifest.order):
        replaced = _is_replaced(before, after, path)
        if replaced or path not in after.manifest.components:
            stops.append(ComponentChange(path, Change.STOPS, replaced=replaced))
    rest: list[ComponentChange] = []
    for path in after.manifest.order:
        replaced = _is_replaced(before, after, path)
        pins = _pin_changes(before, after, path)
        if replaced or path not in before.manifest.components:
            rest.append(ComponentChange(path, Change.STARTS, pins, replaced))
        elif pins:
            rest.append(ComponentChange(path, Change.CHANGES, pins))
        else:
            rest.append(ComponentChange(path, Change.KEEPS))
    return stops + rest


def restarting(changes: list[ComponentChange], is_launched: Callable[[str], bool]) -> list[ComponentChange]:
    """Return the changes as they happen: what never came up, because an earlier job failed, starts (§7)."""
    return [
        change
        if change.change in {Change.STOPS, Change.STARTS} or is_launched(change.path)
        else replace(change, change=Change.STARTS)
        for change in changes
    ]


def triggered(manifest: CompiledManifest, changes: list[ComponentChange]) -> list[tuple[str, str]]:
    """Return (component, workflow) for each workflow that the changed pins trigger, once each, in launch order (§5)."""
    runs: list[tuple[str, str]] = []
    for change in changes:
        if change.change is not Change.CHANGES:
            continue
        component = manifest.components[change.path]
        names = dict.fromkeys(workflow for pin, workflow in component.triggers.items() if pin in change.changed_pins)
        runs.extend((change.path, name) for name in names)
    return runs


def _is_replaced(before: Configured, after: Configured, path: str) -> bool:
    old, new = before.manifest.components.get(path), after.manifest.components.get(path)
    return (
        old is not None
        and new is not None
        and (old.type != new.type or before.links.get(path) != after.links.get(path))
    )


def _pin_changes(before: Configured, after: Configured, path: str) -> tuple[PinChange, ...]:
    old, new = before.configuration.get(path, {}), after.configuration.get(path, {})
    pins = after.manifest.configuration_pins.get(path, {})
    changes = []
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) == new.get(key) and (key in old) == (key in new):
            continue
        parameter = pins[key].parameter if key in pins else None
        reset = parameter is not None and parameter in before.given and parameter not in after.given
        changes.append(PinChange(key, old.get(key), new.get(key), reset))
    return tuple(changes)
