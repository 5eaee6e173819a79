"""The values of all configuration pins of one launch or reconfiguration (manifest-language §3, value order)."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from launchbay.errors import BadRequest
from launchbay.manifest.graph import CompiledManifest, Configuration, ConfigurationPin
from launchbay.manifest.v1 import COMPONENT, INPUT
from launchbay.model.instance import Link
from launchbay.model.scalars import same, settled
from launchbay.model.types import OBJECT, ListType, MapType, Type
from launchbay.model.values import CoercionError, coerce, coerce_text, coerced_if_possible

_NAMES_SHOWN = 20


def configure(manifest: CompiledManifest, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the value of each configuration pin that has one: component path → `interface.pin` → value.

    `given` are parameters by the names of `manifest.parameters`; the others have the manifest's defaults. The values
    are new and belong to the caller. Undeclared parameters of a workflow manifest become its variables.

    Raises `BadRequest` with a message for each unknown parameter (component manifests only), one with every missing
    parameter, and one for each value that doesn't match its pin.
    """
    unknown = [name for name in given if name not in manifest.parameters]
    problems: dict[str, None] = {}  # in order, each once: a value may go to several pins
    if manifest.is_component_manifest:
        problems.update(dict.fromkeys(_unknown(name, manifest) for name in unknown[:_NAMES_SHOWN]))
    missing = [name for name in manifest.required_parameters if name not in given]
    if missing:
        plural = "s" if len(missing) > 1 else ""
        problems[f"Missing required parameter{plural}: {', '.join(missing)}."] = None
    configured: dict[str, dict[str, Any]] = {}
    if not manifest.is_component_manifest:
        for name in unknown:
            _put(configured, (COMPONENT, f"{INPUT}.{name}"), OBJECT, given[name], f"parameter '{name}'", problems)
    for name, parameter in manifest.parameters.items():
        if name in given:
            for target in parameter.targets:
                pin = manifest.configuration_pins[target.component][target.pin]
                place = (target.component, target.pin)
                _put(configured, place, pin.type, given[name], f"parameter '{name}'", problems)
    for path, pins in manifest.configuration_pins.items():
        for key, pin in pins.items():
            if pin.has_default and key not in configured.get(path, {}):
                _put(configured, (path, key), pin.type, pin.default, _default_title(pin), problems)
    if problems:
        raise BadRequest(*problems, code="InvalidParameters")
    return configured


def query_hint(name: str) -> str:
    """Return a sentence if the query of a launch has a parameter of this name."""
    return f"It is a parameter of the query: send POST …/launch?{name}=fail." if name == "ifExists" else ""


def typed_parameters(manifest: CompiledManifest, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return given parameters whose numbers remember their text as values of their first pins.

    The others, and those that don't fit, are plain numbers and stay what they are.
    """
    if all(settled(value) is value for value in given.values()):
        return given
    return {name: _typed(manifest, name, value) for name, value in given.items()}


def _typed(manifest: CompiledManifest, name: str, value: Any) -> Any:
    parameter = manifest.parameters.get(name)
    if settled(value) is value or parameter is None or not parameter.targets:
        return settled(value)
    target = parameter.targets[0]
    return coerced_if_possible(manifest.configuration_pins[target.component][target.pin].type, value)


def effective_parameters(manifest: CompiledManifest, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the value of each parameter, in the type of its first pin.

    These are the given values and the manifest's defaults. Values that don't fit the manifest stay as they are.
    """
    try:
        configured = configure(manifest, given)
    except BadRequest:
        return dict(given)
    found: dict[str, Any] = {}
    for name, parameter in manifest.parameters.items():
        for target in parameter.targets[:1]:
            if target.pin in configured.get(target.component, {}):
                found[name] = configured[target.component][target.pin]
    return found | {name: value for name, value in given.items() if name not in found}


def _put(
    configured: dict[str, dict[str, Any]],
    place: tuple[str, str],
    value_type: Type,
    value: Any,
    title: str,
    problems: dict[str, None],
) -> None:
    """Set the pin at (component path, `interface.pin`) to the value as its type, or report why that's impossible.

    If two parameters are bound to one pin, the first one applies. `title` is a phrase for the value's origin.
    """
    path, key = place
    try:
        coerced = _coerced(value_type, value)
    except CoercionError as error:
        problems[f"The value of {title} doesn't match its type. {error}"] = None
        coerced = None
    configured.setdefault(path, {}).setdefault(key, coerced)


def _coerced(value_type: Type, value: Any) -> Any:
    """Return the value as the type; lists and maps may also be JSON in a string, as forms send them."""
    if isinstance(value, str) and isinstance(value_type, ListType | MapType):
        return coerce_text(value_type, value)
    return coerce(value_type, value)


def _unknown(name: str, manifest: CompiledManifest) -> str:
    known = ", ".join(list(manifest.parameters)[:_NAMES_SHOWN]) or "none"
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    return f"Unknown parameter '{shown}'. {query_hint(name) or f'Parameters: {known}.'}"


def _default_title(pin: ConfigurationPin) -> str:
    if pin.parameter is not None:
        return f"parameter '{pin.parameter}' (its default)"
    return f"pin '{pin.pin}' of component '{pin.component}'"


class Change(StrEnum):
    """What happens to a component, as the preview calls it (conformance.md, "Beyond the reference")."""

    STARTS = "starts"
    CHANGES = "changes"
    STOPS = "stops"
    KEEPS = "keeps"


STAYS = frozenset({Change.CHANGES, Change.KEEPS})
"""What leaves a component launched."""


@dataclass(frozen=True, slots=True)
class PinChange:
    """A configuration pin whose value changes. `reset`: it returns to its default, since no value is given."""

    pin: str
    before: Any
    after: Any
    reset: bool


@dataclass(frozen=True, slots=True)
class ComponentChange:
    """What happens to one component. `replaced` is set on both the stop and the start at the same path."""

    path: str
    change: Change
    pins: tuple[PinChange, ...] = ()
    replaced: bool = False

    @property
    def changed_pins(self) -> frozenset[str]:
        return frozenset(change.pin for change in self.pins)


@dataclass(frozen=True, slots=True)
class Configured:
    """One side of a comparison: a manifest, values of pins, links, given parameters.

    Of the former side, `stopped` are components that are there no more, and `owed` pins that count as changed.
    """

    manifest: CompiledManifest
    configuration: Configuration
    links: Mapping[str, Link] = field(default_factory=dict)
    given: frozenset[str] = frozenset()
    stopped: frozenset[str] = frozenset()
    owed: Mapping[str, Collection[str]] = field(default_factory=dict)

    def has(self, path: str) -> bool:
        """Return whether this side has a component."""
        return path in self.manifest.components and path not in self.stopped


def difference(before: Configured, after: Configured) -> list[ComponentChange]:
    """Return what happens to each component: stops first, in reverse launch order, then the rest in launch order.

    A component of another type is replaced, and so is a submodule with another instance: of another application, or a
    shared instance instead of its own and vice versa (manifest-language §7).
    """
    stops: list[ComponentChange] = []
    for path in reversed(before.manifest.order):
        replaced = _is_replaced(before, after, path)
        if before.has(path) and (replaced or path not in after.manifest.components):
            stops.append(ComponentChange(path, Change.STOPS, replaced=replaced))
    rest: list[ComponentChange] = []
    for path in after.manifest.order:
        replaced = _is_replaced(before, after, path)
        pins = _pin_changes(before, after, path)
        if replaced or not before.has(path):
            rest.append(ComponentChange(path, Change.STARTS, pins, replaced))
        elif pins:
            rest.append(ComponentChange(path, Change.CHANGES, pins))
        else:
            rest.append(ComponentChange(path, Change.KEEPS))
    return stops + rest


def restarting(changes: list[ComponentChange], is_launched: Callable[[str], bool]) -> list[ComponentChange]:
    """Return the changes as they happen: components that never launched, since an earlier job failed, start (§7)."""
    return [
        change
        if change.change in {Change.STOPS, Change.STARTS} or is_launched(change.path)
        else replace(change, change=Change.STARTS)
        for change in changes
    ]


def triggered(manifest: CompiledManifest, changes: list[ComponentChange]) -> list[tuple[str, str]]:
    """Return (component, workflow) for each workflow that changed pins trigger, once each, in launch order (§5)."""
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
    owed = before.owed.get(path, ())
    changes = []
    for key in dict.fromkeys((*old, *new)):
        if key not in owed and same(old.get(key), new.get(key)) and (key in old) == (key in new):
            continue
        parameter = pins[key].parameter if key in pins else None
        reset = parameter is not None and parameter in before.given and parameter not in after.given
        changes.append(PinChange(key, old.get(key), new.get(key), reset))
    return tuple(changes)
