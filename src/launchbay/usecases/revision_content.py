"""What a revision holds, and what it means for a launch (reference §4, launch, `revisionId`). Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from launchbay.store.applications import Revision
from launchbay.usecases.launch_request import LaunchRequest


class RevisionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new revision, or what changes in one: the state of an instance, or a version with what goes with it.

    In a change, what is left out stays as it is; `environmentId: null` takes the environment away.
    """

    name: str | None = None
    instance_id: str | None = None
    version: int | None = None
    parameters: dict[str, Any] | None = None
    environment_id: str | UnsetType | None = UNSET
    submodules: dict[str, Any] | None = None

    def gives_parts(self) -> bool:
        """Tell whether it names any of the parts that an instance would bring."""
        parts = (self.version, self.parameters, self.submodules)
        return any(part is not None for part in parts) or self.environment_id is not UNSET


def with_revision(request: LaunchRequest, revision: Revision) -> LaunchRequest:
    """Return the request with what it leaves open taken from the revision.

    What the request gives wins: version and environment as a whole, parameters and submodules one by one.
    """
    return replace(
        request,
        version=revision.version if request.version is None else request.version,
        environment_id=revision.environment_id if request.environment_id is None else request.environment_id,
        parameters={**msgspec.json.decode(revision.parameters), **request.parameters},
        submodules=merged_submodules(msgspec.json.decode(revision.submodules), request.submodules),
    )


def merged_submodules(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a revision says of submodules, with what a request gives for them over it, one by one."""
    merged = dict(kept)
    for name, value in given.items():
        # What is no object is refused where submodules are read.
        both = isinstance(value, Mapping) and name in kept
        merged[name] = _merged_one(kept[name], value) if both else value
    return merged


def _merged_one(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**kept, **{name: value for name, value in given.items() if value is not None}}
    if given.get("revisionId") is not None and given.get("manifestVersion") is None:
        merged.pop("manifestVersion", None)  # it was meant for the other revision
    for part, join in (("parameters", _joined), ("submodules", merged_submodules)):
        if isinstance(kept.get(part), Mapping) and isinstance(given.get(part), Mapping):
            merged[part] = join(kept[part], given[part])
    return merged


def _joined(kept: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    return {**kept, **given}
