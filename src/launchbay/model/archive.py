"""An organization as values by name: the format of its directory (`launchbay export`) and its archive."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import msgspec

ARCHIVE_VERSION = 1


class Revision(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A revision without its version. Revisions of submodules are named as APPLICATION/REVISION."""

    parameters: dict[str, Any] = {}
    environment: str | None = None
    submodules: dict[str, Any] = {}


class PropertyEntry(msgspec.Struct, forbid_unknown_fields=True):
    """A property of an environment."""

    name: str
    type: str
    value: Any


class Environment(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An environment. Omitted parts stay unchanged; services are named."""

    default: bool = False
    policies: dict[str, Any] | None = None
    markers: list[str] | None = None
    properties: list[PropertyEntry] | None = None
    services: list[str] | None = None
    labels: dict[str, str] | None = None


class ArchivedRevision(Revision, forbid_unknown_fields=True, kw_only=True):
    """A revision with its version."""

    version: int


class ArchivedApplication(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An application with all versions of its manifest, oldest first."""

    manifests: list[str]
    source: str | None = None
    labels: dict[str, str] = {}
    revisions: dict[str, ArchivedRevision] = {}


class ArchivedService(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A service without its secrets."""

    type_id: str
    parameters: dict[str, Any] = {}


class ArchivedRole(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, rename="camel"):
    """A role's text."""

    permissions: str
    is_guest: bool = False


class ArchivedUser(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A member of the organization, and the roles that they hold."""

    name: str
    roles: list[str] = []


class Archive(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """An organization in one document, without secrets: `holes` lists what to fill in after the import.

    `mentions` are the IDs in manifests and roles, each with the kind and name of its object: imported objects have
    other IDs.
    """

    format: Literal["launchbay organization"] = "launchbay organization"
    version: int = ARCHIVE_VERSION
    name: str
    services: dict[str, ArchivedService]
    environments: dict[str, Environment]
    applications: dict[str, ArchivedApplication]
    roles: dict[str, ArchivedRole]
    users: dict[str, ArchivedUser]
    mentions: dict[str, tuple[str, str]]
    holes: list[str]


def with_revision_names(submodules: Mapping[str, Any], name_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the submodules of a revision with names instead of IDs of revisions."""
    return _with(submodules, "revisionId", "revision", name_of)


def with_revision_ids(submodules: Mapping[str, Any], id_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the submodules of a revision in the form of the API."""
    return _with(submodules, "revision", "revisionId", id_of)


def revision_names(submodules: Mapping[str, Any]) -> Iterator[str]:
    """Yield the revisions that submodules name, at every depth."""
    for content in submodules.values():
        if isinstance(content, Mapping):
            if isinstance(content.get("revision"), str):
                yield content["revision"]
            if isinstance(content.get("submodules"), Mapping):
                yield from revision_names(content["submodules"])


def _with(submodules: Mapping[str, Any], field: str, other: str, of: Callable[[str], str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, content in submodules.items():
        if not isinstance(content, Mapping):
            found[name] = content  # rejected by the reader of submodules
            continue
        entry = dict(content)
        if entry.get(field):
            entry[other] = of(str(entry.pop(field)))
        if isinstance(entry.get("submodules"), Mapping):
            entry["submodules"] = _with(entry["submodules"], field, other, of)
        found[name] = entry
    return found
