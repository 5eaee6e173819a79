"""The body of a launch, in its two forms (reference §4, launch). Pure."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import Any, Self

import msgspec
from msgspec import UNSET, UnsetType

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.ids import canonical_id
from launchbay.limits import SUBMODULE_LEVELS
from launchbay.manifest.graph import SUBMODULE, CompiledManifest
from launchbay.manifest.scaling import template_path
from launchbay.model.labels import read_labels
from launchbay.model.scalars import decode_json
from launchbay.planning.arguments import check_size
from launchbay.store.applications import Revision
from launchbay.usecases.context import validate_name

_DIGITS = re.compile(r"-?[0-9]{1,30}")
_SETTINGS = {"revisionId", "version", "environmentId", "destroyInterval", "instanceName", "parameters", "submodules"}


_ADDED = frozenset({"labels"})  # fields of ours: in an old body, a parameter may have the same name


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """What to launch. `destroy_interval_ms` counts from the request; -1 is never.

    It is None if the request doesn't say how long the instance lives. `added` are fields that the reference doesn't
    have, until `with_declared` decides whether they are parameters.
    """

    revision_id: str | None = None
    version: int | None = None
    environment_id: str | None = None
    destroy_interval_ms: int | None = None
    instance_name: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    added: Mapping[str, Any] = field(default_factory=dict)
    is_current: bool = False  # the body has `parameters`, so nothing beside it is one

    def with_declared(self, names: Collection[str]) -> Self:
        """Return the request for a manifest with these parameters.

        Raises BadRequest for additions that are wrong.
        """
        parameters = {name: value for name, value in self.added.items() if name in names and not self.is_current}
        labels = None if "labels" in parameters else self.added.get("labels")
        if labels is not None and not isinstance(labels, Mapping):
            raise BadRequest('labels must be an object of strings, such as {"team": "web"}.', code="InvalidField")
        return replace(self, parameters={**parameters, **self.parameters}, labels=read_labels(labels or {}), added={})


def read_launch_request(body: Mapping[str, Any]) -> LaunchRequest:
    """Return the request from its body.

    In the obsolete form parameters and settings are on one level (reference §4, rule 2); `parameters` takes precedence.
    Next to such parameters, or if the application declares it, `labels` is one of them: older clients know no labels.
    Null is the same as omitted. Raises BadRequest with the field.
    """
    check_size(body)
    given = {name: value for name, value in body.items() if value is not None}
    obsolete = {name: value for name, value in body.items() if name not in _SETTINGS}
    added = {name: obsolete.pop(name) for name in obsolete.keys() & _ADDED} if obsolete.keys() <= _ADDED else {}
    return LaunchRequest(
        revision_id=_id(given, "revisionId"),
        version=_whole_number(given, "version"),
        environment_id=_id(given, "environmentId"),
        destroy_interval_ms=_destroy_interval(given),
        instance_name=_name(given),
        parameters={**obsolete, **_map(given, "parameters")},
        submodules=_map(given, "submodules"),
        added=added,
        is_current="parameters" in given,
    )


def _text(given: Mapping[str, Any], name: str) -> str | None:
    value = given.get(name)
    if value is not None and not isinstance(value, str):
        raise BadRequest(f"{name} must be a string.", code="InvalidField")
    return value


def _id(given: Mapping[str, Any], name: str) -> str | None:
    text = _text(given, name)
    return None if text is None else canonical_id(text)


def _name(given: Mapping[str, Any]) -> str | None:
    """Return the name, or None without one. Forms send only spaces for none."""
    name = _text(given, "instanceName")
    return validate_name(name, "instanceName") if name and name.strip(" ") else None


def _map(given: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = given.get(name, {})
    if not isinstance(value, Mapping):
        raise BadRequest(f"{name} must be an object, name to value.", code="InvalidField")
    return value


def _whole_number(given: Mapping[str, Any], name: str, shown: str = "") -> int | None:
    """Return a number, also from digits in a string.

    `shown` is its way through the body, if that isn't its name.
    """
    value = given.get(name)
    if value is None:
        return None
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_field(shown or name, "a whole number")
    return value


def _destroy_interval(given: Mapping[str, Any]) -> int | None:
    """Return the interval in milliseconds; -1 is never.

    So is one that no date can hold: old builders send the largest long.
    """
    value = _whole_number(given, "destroyInterval")
    if value is None:
        return None
    if value != -1 and value <= 0:
        raise BadRequest(
            f"destroyInterval is {value}; give milliseconds above 0, or -1 for never.",
            code="InvalidDestroyInterval",
            field="destroyInterval",
        )
    return -1 if value > limits.INTERVAL_LONGEST_MS else value


class RevisionRequest(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new or changed revision: an instance's state, or a version with settings.

    In a change, omitted fields stay unchanged; `environmentId: null` removes the environment.
    """

    name: str | None = None
    instance_id: str | None = None
    version: int | None = None
    parameters: dict[str, Any] | None = None
    environment_id: str | UnsetType | None = UNSET
    submodules: dict[str, Any] | None = None

    def has_settings(self) -> bool:
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
        parameters={**decode_json(revision.parameters), **request.parameters},
        submodules=merge_submodules(decode_json(revision.submodules), request.submodules),
    )


def merge_submodules(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the submodules of a revision, overridden by those of a request."""
    merged = dict(stored)
    for name, value in given.items():
        # What is no object is refused where submodules are read.
        both = isinstance(value, Mapping) and name in stored
        merged[name] = _merged_one(stored[name], value) if both else value
    return merged


def without_parameters(submodules: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a revision says of submodules, without parameters."""
    found: dict[str, Any] = {}
    for name, stored in submodules.items():
        found[name] = {part: value for part, value in stored.items() if part != "parameters"}
        if "submodules" in stored:
            found[name]["submodules"] = without_parameters(stored["submodules"])
    return found


def _merged_one(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**stored, **{name: value for name, value in given.items() if value is not None}}
    if "revisionId" in given:
        merged["revisionId"] = given["revisionId"]  # null is a choice: an own child
    if given.get("revisionId") is not None and given.get("manifestVersion") is None:
        merged.pop("manifestVersion", None)  # it was meant for the other revision
    for part in ("parameters", "submodules"):
        old, new = stored.get(part), given.get(part)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            merged[part] = merge_submodules(old, new) if part == "submodules" else {**old, **new}
    return merged


_SUBMODULE_FIELDS = ("revisionId", "manifestVersion", "parameters", "submodules")


@dataclass(frozen=True, slots=True)
class SubmoduleRequest:
    """What is asked of one submodule.

    Everything is optional; `submodules` is for those inside it, as it was given.

    `is_own` means an own child of no revision, instead of the shared or former one: `revisionId` is given and null.
    """

    revision_id: str | None = None
    manifest_version: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)
    is_own: bool = False


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
    That of a Scaler's template is for all members, and `group.child[1]` for one. Raises BadRequest for an id that names
    no submodule, or several.
    """
    paths = [path for path, component in manifest.components.items() if component.type == SUBMODULE]
    found: dict[str, SubmoduleRequest] = {}
    for name, request in requests.items():
        if template_path(name) != name and template_path(name) in paths:
            found[name] = request
            continue
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
        raise _wrong_field(path, "an object")
    revision_id = value.get("revisionId")
    version = _whole_number(value, "manifestVersion", f"{path}/manifestVersion")
    parameters = value.get("parameters") or {}
    inner = value.get("submodules") or {}
    if revision_id is not None and not isinstance(revision_id, str):
        raise _wrong_field(f"{path}/revisionId", "a string")
    if not isinstance(parameters, Mapping):
        raise _wrong_field(f"{path}/parameters", "an object, name to value")
    if not isinstance(inner, Mapping):
        raise _wrong_field(f"{path}/submodules", "an object, submodule id to its configuration")
    read_submodules(inner, f"{path}/submodules")
    is_own = "revisionId" in value and revision_id is None
    revision_id = None if revision_id is None else canonical_id(revision_id)
    return SubmoduleRequest(revision_id, version, parameters, inner, is_own)


_CONFIGURATION_FIELDS = ("instanceName", "manifestVersion", "revisionId", "parameters", "submodules")
NAME_SHOWN = 60  # characters
_FIELDS_SHOWN = 8


def ignored_in_configuration(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Return warnings for a blank name and unknown fields of a configuration.

    Older clients send some, and no endpoint of the reference refuses them (conformance.md, "States").
    """
    unknown = (name[:NAME_SHOWN] for name in body if name not in _CONFIGURATION_FIELDS)
    blank = isinstance(name := body.get("instanceName"), str) and not name.strip(" ")
    stays = ("instanceName is blank, so the instance keeps its name.",) if blank else ()
    return stays + ignored_fields(chain(unknown, unknown_in_submodules(body.get("submodules"))))


def ignored_in_submodules(submodules: Any) -> tuple[str, ...]:
    """Return a warning for each unknown field of a submodule, at any level."""
    return ignored_fields(unknown_in_submodules(submodules))


def refuse_unknown_in_submodules(submodules: Any) -> None:
    """Raise BadRequest for an unknown field of a submodule.

    This is for bodies that only newer clients send.
    """
    for path in unknown_in_submodules(submodules):
        raise BadRequest(f"{path} is not known. A submodule has: {', '.join(_SUBMODULE_FIELDS)}.", code="InvalidField")


def unknown_in_submodules(submodules: Any, path: str = "submodules") -> Iterator[str]:
    """Yield the way to each unknown field of a submodule.

    Passes over what can't be read.
    """
    if not isinstance(submodules, Mapping):
        return
    for name, value in submodules.items():
        if isinstance(value, Mapping):
            where = f"{path}/{name[:NAME_SHOWN]}"
            yield from (f"{where}/{each[:NAME_SHOWN]}" for each in value if each not in _SUBMODULE_FIELDS)
            yield from unknown_in_submodules(value.get("submodules"), f"{where}/submodules")


def ignored_fields(paths: Iterable[str]) -> tuple[str, ...]:
    """Return a warning for each of the first unknown fields of a body."""
    shown = islice(paths, _FIELDS_SHOWN)
    return tuple(f"The field {path!r} of the body is unknown, and was ignored." for path in shown)


@dataclass(frozen=True, slots=True)
class ConfigurationRequest:
    """What a reconfiguration asks for.

    Parameters that are not given go back to their defaults.
    """

    instance_name: str | None = None
    manifest_version: int | None = None
    revision_id: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    submodules: Mapping[str, Any] = field(default_factory=dict)


def read_configuration_request(body: Mapping[str, Any]) -> ConfigurationRequest:
    """Return the request from its body; null counts as left out.

    Raises BadRequest naming the field.
    """
    check_size(body)
    given = {name: value for name, value in body.items() if value is not None}
    version = _whole_number(given, "manifestVersion")
    _text(given, "instanceName")
    revision_id = _id(given, "revisionId")
    for name in ("parameters", "submodules"):
        if not isinstance(given.get(name, {}), Mapping):
            raise _wrong_field(name, "an object")
    instance_name = _name(given)
    read_submodules(given.get("submodules", {}))
    return ConfigurationRequest(
        instance_name=instance_name,
        manifest_version=version,
        revision_id=revision_id,
        parameters=given.get("parameters", {}),
        submodules=given.get("submodules", {}),
    )


def _wrong_field(name: str, kind: str) -> BadRequest:
    return BadRequest(f"{name} must be {kind}.", code="InvalidField")
