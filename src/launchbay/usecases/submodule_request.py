"""The `submodules` part of a launch or reconfiguration (reference §4, launch and configuration). Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launchbay.errors import BadRequest
from launchbay.limits import SUBMODULE_LEVELS
from launchbay.manifest.graph import SUBMODULE, CompiledManifest

_FIELDS = ("revisionId", "manifestVersion", "parameters", "submodules")


@dataclass(frozen=True, slots=True)
class SubmoduleRequest:
    """What is asked of one submodule. Everything is optional; `submodules` is for those inside it, as it was given."""

    revision_id: str | None = None
    manifest_version: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)


def read_submodules(body: Mapping[str, Any], path: str = "submodules") -> dict[str, SubmoduleRequest]:
    """Return the requests by submodule id, having read those inside too.

    Raises BadRequest naming the field, by its way through the body.
    """
    if path.count("/") > SUBMODULE_LEVELS:
        raise BadRequest(
            f"{path}: submodules are nested more than {SUBMODULE_LEVELS} levels deep.", code="InvalidField"
        )
    return {name: _read_one(value, f"{path}/{name}") for name, value in body.items()}


def for_components(
    manifest: CompiledManifest, requests: Mapping[str, SubmoduleRequest], where: str
) -> dict[str, SubmoduleRequest]:
    """Return the requests by component path.

    A submodule's id is its component's path (`references.monitor-child`), or the last part of it where that is clear.
    Raises BadRequest for an id that names no submodule, or several.
    """
    paths = [path for path, component in manifest.components.items() if component.type == SUBMODULE]
    found: dict[str, SubmoduleRequest] = {}
    for name, request in requests.items():
        fitting = [path for path in paths if path == name] or [
            path for path in paths if path.rpartition(".")[2] == name
        ]
        if len(fitting) != 1:
            known = ", ".join(paths) or "none"
            problem = "several submodules" if fitting else "no submodule"
            raise BadRequest(
                f"{where}/{name} names {problem} of the manifest. It has: {known}.", code="UnknownSubmodule"
            )
        found[fitting[0]] = request
    return found


def _read_one(value: Any, path: str) -> SubmoduleRequest:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object")
    for name in value:
        if name not in _FIELDS:
            raise BadRequest(f"{path}/{name} is not known. A submodule has: {', '.join(_FIELDS)}.", code="InvalidField")
    revision_id = value.get("revisionId")
    version = value.get("manifestVersion")
    parameters = value.get("parameters") or {}
    inner = value.get("submodules") or {}
    if revision_id is not None and not isinstance(revision_id, str):
        raise _wrong(f"{path}/revisionId", "a string")
    if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
        raise _wrong(f"{path}/manifestVersion", "a whole number")
    if not isinstance(parameters, Mapping):
        raise _wrong(f"{path}/parameters", "an object, name to value")
    if not isinstance(inner, Mapping):
        raise _wrong(f"{path}/submodules", "an object, submodule id to its configuration")
    read_submodules(inner, f"{path}/submodules")
    return SubmoduleRequest(revision_id, version, parameters, inner)


def _wrong(path: str, kind: str) -> BadRequest:
    return BadRequest(f"{path} must be {kind}.", code="InvalidField")
