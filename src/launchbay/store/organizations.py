"""Organizations, and everything of one as an archive stores it."""

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from launchbay.ids import NamedRow
from launchbay.store.statements import load

_sql = load("organizations")


class Origin(NamedTuple):
    """The person who created an organization.

    `name` is None if the account doesn't exist anymore.
    """

    id: str
    name: str | None
    is_member: bool


class TenantRow(NamedTuple):
    """An organization that counts for the person who created it."""

    organization_id: str
    creator_id: str


@dataclass(frozen=True, slots=True)
class Organization:
    """One organization."""

    id: str
    name: str


list_by_user = _sql.rows("list_by_user", NamedRow)
lock_first_start = _sql.change("lock_first_start")
any_exists = _sql.value("any_exists", bool)
get_id_by_name = _sql.value("get_id_by_name", str)
insert = _sql.change("insert")
list_tenants = _sql.rows("list_tenants", TenantRow)
administers_server = _sql.value("administers_server", bool)
count_created = _sql.value("count_created", int)
lock_creator = _sql.value("lock_creator", bool)
get_origin = _sql.row("get_origin", Origin)
list_ids_by_name = _sql.column("list_ids_by_name", str)
lock = _sql.value("lock", str)
rename = _sql.change("rename")


class StoredService(msgspec.Struct, rename="camel"):
    """A service, the names of its secret parameters, and kind and name of its vault entries."""

    id: str
    name: str
    type_id: str
    parameters: str
    secrets: list[str]
    kept: list[tuple[str, str]]


class StoredRules(msgspec.Struct):
    """The rules of an application or environment, each as JSON.

    Those about `changes` are YAML.
    """

    lifetime: str | None
    sleep: str | None
    concurrency: str | None
    freeze: str | None
    changes: str | None
    audiences: str | None = None  # of an environment


class StoredEnvironment(msgspec.Struct, rename="camel"):
    """An environment with the IDs of its services."""

    id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    services: list[str]
    labels: dict[str, str]
    rules: StoredRules


class StoredRevision(msgspec.Struct, rename="camel"):
    """A revision, without its application."""

    id: str
    name: str
    version: int
    parameters: str
    environment_id: str | None
    submodules: str


class StoredApplication(msgspec.Struct, rename="camel"):
    """An application without its manifests.

    `manifest_bytes` is the size of all versions. Their numbers begin with 1 and have no gaps.
    """

    id: str
    name: str
    source_url: str | None
    sealed_source: str | None  # base64
    versions: int
    manifest_bytes: int
    labels: dict[str, str]
    rules: StoredRules
    revisions: list[StoredRevision]
    promotion: str | None  # its own order, as JSON


class StoredRole(msgspec.Struct):
    """A role, without its assignments."""

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
    """Everything of an organization. Documents are JSON strings, because key order matters.

    `webhooks` are their URLs, showing only the hosts.
    """

    name: str
    services: list[StoredService]
    environments: list[StoredEnvironment]
    applications: list[StoredApplication]
    roles: list[StoredRole]
    users: list[StoredUser]
    webhooks: list[str]
    promotion: str | None  # its order of environments, as JSON


get_contents = _sql.value("get_contents", str)
read_contents = msgspec.json.Decoder(StoredOrganization).decode
