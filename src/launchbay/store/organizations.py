"""Organizations (`queries/organizations.sql`)."""

from dataclasses import dataclass

import msgspec

from launchbay.ids import NamedRow
from launchbay.store.statements import load

_sql = load("organizations")
list_by_user = _sql.rows("of_user", NamedRow)
any_exists = _sql.value("any_exists", bool)
insert = _sql.change("insert")
rename = _sql.change("rename")


@dataclass(frozen=True, slots=True)
class Organization:
    """One organization."""

    id: str
    name: str


# A whole organization as it is stored (`queries/archives.sql`).
#
# Documents are texts in it, for the order of their keys.


class StoredService(msgspec.Struct, rename="camel"):
    """A service, the names of its secret parameters, and kind and name of what it keeps as a vault."""

    id: str
    name: str
    type_id: str
    parameters: str
    secrets: list[str]
    kept: list[tuple[str, str]]


class StoredEnvironment(msgspec.Struct, rename="camel"):
    """An environment with the ids of its services."""

    id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    services: list[str]


class StoredRevision(msgspec.Struct, rename="camel"):
    """A revision."""

    id: str
    name: str
    version: int
    parameters: str
    environment_id: str | None
    submodules: str


class StoredApplication(msgspec.Struct, rename="camel"):
    """An application with the texts of all versions, the first one first."""

    id: str
    name: str
    source_url: str | None
    sealed_source: str | None  # base64
    manifests: list[str]
    revisions: list[StoredRevision]


class StoredRole(msgspec.Struct):
    """A role."""

    id: str
    name: str
    kind: str
    permissions: str


class StoredUser(msgspec.Struct):
    """A member with the names of their roles."""

    id: str
    email: str
    name: str
    roles: list[str]


class StoredOrganization(msgspec.Struct):
    """The organization. `webhooks` are what is shown of their addresses."""

    name: str
    services: list[StoredService]
    environments: list[StoredEnvironment]
    applications: list[StoredApplication]
    roles: list[StoredRole]
    users: list[StoredUser]
    webhooks: list[str]


_archives_sql = load("archives")
get_contents = _archives_sql.value("contents", str)
read_contents = msgspec.json.Decoder(StoredOrganization).decode
