"""The values of all configuration pins of one launch or reconfiguration (manifest-language §3, value order)."""

from collections.abc import Mapping
from typing import Any

from launchbay.errors import BadRequest
from launchbay.manifest.graph import CompiledManifest, ConfigurationPin
from launchbay.manifest.v1 import COMPONENT, INPUT
from launchbay.model.types import OBJECT, ListType, MapType, Type
from launchbay.model.values import CoercionError, coerce, coerce_text

_NAMES_SHOWN = 20


def configure(manifest: CompiledManifest, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the value of each configuration pin that has one: component path → `interface.pin` → value.

    `given` are parameters by the names of `manifest.parameters`; those not given get the manifest's defaults. The
    values are fresh and belong to the caller. Undeclared parameters of a workflow manifest become variables of it.

    Raises `BadRequest` with a sentence for each unknown parameter (component manifests only), one that names every
    missing parameter, and one for each value that does not fit its pin.
    """
    unknown = [name for name in given if name not in manifest.parameters]
    problems: dict[str, None] = {}  # in order, each once: a value may go to several pins
    if manifest.is_component_manifest:
        problems.update(dict.fromkeys(_unknown(name, manifest) for name in unknown[:_NAMES_SHOWN]))
    missing = [name for name in manifest.required_parameters if name not in given]
    if missing:
        problems[f"Parameters without a default are missing: {', '.join(missing)}. Give each of them a value."] = None
    configured: dict[str, dict[str, Any]] = {}
    if not manifest.is_component_manifest:
        for name in unknown:
            _put(configured, (COMPONENT, f"{INPUT}.{name}"), OBJECT, given[name], f"The parameter '{name}'", problems)
    for name, parameter in manifest.parameters.items():
        if name in given:
            for target in parameter.targets:
                pin = manifest.configuration_pins[target.component][target.pin]
                place = (target.component, target.pin)
                _put(configured, place, pin.type, given[name], f"The parameter '{name}'", problems)
    for path, pins in manifest.configuration_pins.items():
        for key, pin in pins.items():
            if pin.has_default and key not in configured.get(path, {}):
                _put(configured, (path, key), pin.type, pin.default, _default_title(pin), problems)
    if problems:
        raise BadRequest(*problems, code="InvalidParameters")
    return configured


def _put(
    configured: dict[str, dict[str, Any]],
    place: tuple[str, str],
    value_type: Type,
    value: Any,
    title: str,
    problems: dict[str, None],
) -> None:
    """Set the pin at (component path, `interface.pin`) to the value as its type, or note why that is impossible.

    Where two parameters lead to one pin, the first of them counts.
    """
    path, key = place
    try:
        coerced = _coerced(value_type, value)
    except CoercionError as error:
        problems[f"{title} does not fit: {error}"] = None
        coerced = None
    configured.setdefault(path, {}).setdefault(key, coerced)


def _coerced(value_type: Type, value: Any) -> Any:
    """Return the value as the type; lists and maps may also come as JSON inside a text, as forms send them."""
    if isinstance(value, str) and isinstance(value_type, ListType | MapType):
        return coerce_text(value_type, value)
    return coerce(value_type, value)


def _unknown(name: str, manifest: CompiledManifest) -> str:
    known = ", ".join(list(manifest.parameters)[:_NAMES_SHOWN]) or "none"
    shown = name if len(name) <= 100 else f"{name[:100]}…"
    return f"The parameter '{shown}' is unknown. This application has: {known}."


def _default_title(pin: ConfigurationPin) -> str:
    if pin.parameter is not None:
        return f"The default of the parameter '{pin.parameter}'"
    return f"The value of '{pin.pin}' of the component '{pin.component}'"
