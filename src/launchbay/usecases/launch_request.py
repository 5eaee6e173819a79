"""The body of a launch, in its two forms (reference §4, launch). Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay import limits
from launchbay.errors import BadRequest

_DIGITS = re.compile(r"-?[0-9]{1,18}")
_SETTINGS = {
    "revisionId",
    "version",
    "environmentId",
    "destroyInterval",
    "instanceName",
    "parameters",
    "submodules",
}


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What to launch. `destroy_interval_ms` counts from the request; -1 is never."""

    revision_id: str | None = None
    version: int | None = None
    environment_id: str | None = None
    destroy_interval_ms: int = limits.DESTROY_INTERVAL_DEFAULT_MS
    instance_name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)


def read_launch_request(body: Mapping[str, Any]) -> LaunchRequest:
    """Return the request from its body.

    In the obsolete form the parameters stand at the top level beside the settings (reference §4, rule 2); parameters
    given in both places are taken from `parameters`. Null counts as left out. Raises BadRequest naming the field.
    """
    given = {name: value for name, value in body.items() if value is not None}
    beside = {name: value for name, value in body.items() if name not in _SETTINGS}
    return LaunchRequest(
        revision_id=_text(given, "revisionId"),
        version=_whole_number(given, "version"),
        environment_id=_text(given, "environmentId"),
        destroy_interval_ms=_destroy_interval(given),
        instance_name=_name(given),
        parameters={**beside, **_map(given, "parameters")},
        submodules=_map(given, "submodules"),
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a string.", code="InvalidField")
    return value


def _name(given: Mapping[str, Any]) -> str | None:
    name = (_text(given, "instanceName") or "").strip()
    if len(name) > limits.NAME_CHARS:
        raise BadRequest(f"instanceName has {len(name)} characters; at most {limits.NAME_CHARS}.", code="InvalidName")
    return name or None


def _map(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise BadRequest(f"{name} must be an object, name to value.", code="InvalidField")
    return value


def _whole_number(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise BadRequest(f"{name} must be a whole number.", code="InvalidField")
    return value


def _destroy_interval(given: Mapping[str, Any]) -> int:
    value = _whole_number(given, "destroyInterval")
    if value is None:
        return limits.DESTROY_INTERVAL_DEFAULT_MS
    if value != -1 and not 0 < value <= limits.INTERVAL_LONGEST_MS:
        raise BadRequest(
            f"destroyInterval is {value}; give milliseconds above 0, or -1 for never.", code="InvalidDestroyInterval"
        )
    return value
