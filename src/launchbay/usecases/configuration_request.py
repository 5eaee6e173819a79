"""The body of a reconfiguration (reference §4, configuration). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.usecases.submodule_request import read_submodules

_FIELDS = ("instanceName", "manifestVersion", "revisionId", "parameters", "submodules")


@dataclass(frozen=True, slots=True)
class ConfigurationRequest:
    """What a reconfiguration asks for. Parameters that are not given go back to their defaults."""

    instance_name: str | None = None
    manifest_version: int | None = None
    revision_id: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)


def read_configuration_request(body: Mapping[str, Any]) -> ConfigurationRequest:
    """Return the request from its body; null counts as left out. Raises BadRequest naming the field."""
    for name in body:
        if name not in _FIELDS:
            raise BadRequest(
                f"{name[:100]} is not known. A configuration has: {', '.join(_FIELDS)}.", code="InvalidField"
            )
    given = {name: value for name, value in body.items() if value is not None}
    version = given.get("manifestVersion")
    if isinstance(version, str) and version.isascii() and version.isdigit() and len(version) < 10:
        version = int(version)
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise _wrong("manifestVersion", "a whole number")
    for name in ("instanceName", "revisionId"):
        if not isinstance(given.get(name, ""), str):
            raise _wrong(name, "a string")
    for name in ("parameters", "submodules"):
        if not isinstance(given.get(name, {}), Mapping):
            raise _wrong(name, "an object")
    instance_name = given.get("instanceName", "").strip() or None
    if instance_name is not None and len(instance_name) > limits.NAME_CHARS:
        raise BadRequest(
            f"instanceName has {len(instance_name)} characters; at most {limits.NAME_CHARS}.", code="InvalidName"
        )
    read_submodules(given.get("submodules", {}))
    return ConfigurationRequest(
        instance_name=instance_name,
        manifest_version=version,
        revision_id=given.get("revisionId"),
        parameters=given.get("parameters", {}),
        submodules=given.get("submodules", {}),
    )


def _wrong(name: str, kind: str) -> BadRequest:
    return BadRequest(f"{name} must be {kind}.", code="InvalidField")
