"""Services with their secret parameters and zones, resource pools, and vault entries."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.environments import OfferedService
from launchbay.store.statements import load

_sql = load("services")


@dataclass(frozen=True, slots=True)
class Service:
    """One service. `parameters` is a JSON string, because key order matters."""

    id: str
    organization_id: str
    zone_id: str
    name: str
    type_id: str
    parameters: str
    status: str
    status_pending: bool
    created_at: datetime


class ChangeableRow(NamedTuple):
    """The fields of a service that can change."""

    name: str
    parameters: str


class SecretRow(NamedTuple):
    """A parameter encrypted with the server's secret key."""

    name: str
    sealed: bytes


class FullService(NamedTuple):
    """A service with its open parameters, which are JSON."""

    id: str
    name: str
    type_id: str
    parameters: str


class SecretOfService(NamedTuple):
    """A parameter of a service encrypted with the server's secret key."""

    service_id: str
    name: str
    sealed: bytes


class EntryOfVault(NamedTuple):
    """An entry of a vault, without its secret."""

    service_id: str
    kind: str
    name: str


class PartOfApplication(NamedTuple):
    """A revision or an instance, with its application."""

    id: str
    is_revision: bool
    application_id: str


list_by_organization = _sql.rows("list_by_organization", OfferedService)
list_full = _sql.rows("list_full", FullService)
list_all_secrets = _sql.rows("list_all_secrets", SecretOfService)
list_all_entries = _sql.rows("list_all_entries", EntryOfVault)
list_offering = _sql.column("list_offering", str)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
update = _sql.change("update")
set_parameters = _sql.change("set_parameters")
delete = _sql.change("delete")
exists = _sql.value("exists", bool)
insert_offer = _sql.change("insert_offer")
list_secrets = _sql.rows("list_secrets", SecretRow)
put_secret = _sql.change("put_secret")
delete_secrets_except = _sql.change("delete_secrets_except")
list_zones = _sql.rows("list_zones", NamedRow)
insert_zone = _sql.change("insert_zone")
get_zone_name = _sql.value("get_zone_name", str)
list_offered_by_type = _sql.rows("list_offered_by_type", NamedRow)
list_revisions_and_instances = _sql.rows("list_revisions_and_instances", PartOfApplication)


class PoolResourceRow(NamedTuple):
    """A resource that was acquired at least once.

    `changed_at`: when it was last acquired or released.
    """

    resource_id: str
    holder: str | None
    changed_at: datetime


class UsersRow(NamedTuple):
    """How many instances use a service."""

    id: str
    users: int


count_users = _sql.rows("count_users", UsersRow)


class UserRow(NamedTuple):
    """An instance that uses a service, its last job, and its components or regions."""

    id: str
    name: str
    status: str
    job_outcome: str | None
    is_asking: bool
    is_asleep: bool
    is_ending: bool
    is_incomplete: bool
    application_id: str
    application: str
    environment_id: str
    environment: str
    parts: str


class SharedRow(NamedTuple):
    """An instance of a catalog, its last job, and how many others use it."""

    id: str
    name: str
    status: str
    job_outcome: str | None
    is_asking: bool
    is_asleep: bool
    is_ending: bool
    is_incomplete: bool
    application_id: str
    application: str
    environment_id: str
    environment: str
    version: int
    users: int


class HolderRow(NamedTuple):
    """An instance that holds a resource, and where it is."""

    id: str
    name: str
    application_id: str
    environment_id: str


class RevisionRow(NamedTuple):
    """A named revision of an application."""

    id: str
    name: str
    application_id: str
    application: str


list_users = _sql.rows("list_users", UserRow)
list_shared = _sql.rows("list_shared", SharedRow)
list_revisions = _sql.rows("list_revisions", RevisionRow)
list_acquired = _sql.rows("list_acquired", PoolResourceRow)
acquire_resource = _sql.change("acquire_resource")
release_resource = _sql.value("release_resource", str)
delete_silent_waiters = _sql.change("delete_silent_waiters")
enqueue_waiter = _sql.value("enqueue_waiter", int)
count_ahead = _sql.value("count_ahead", int)
list_waiting = _sql.column("list_waiting", str)
count_waiting = _sql.value("count_waiting", int)
list_instance_names = _sql.rows("list_instance_names", HolderRow)
dequeue_waiter = _sql.change("dequeue_waiter")


class EntryRow(NamedTuple):
    """A vault entry without its secret.

    Only key pairs have an algorithm and a public key.
    """

    id: str
    name: str
    algorithm: str | None
    public_key: str | None
    created_at: datetime
    changed_at: datetime


class SealedEntry(NamedTuple):
    """A vault entry with its encrypted secret."""

    id: str
    name: str
    sealed: bytes
    algorithm: str | None
    public_key: str | None


class OfferedEntry(NamedTuple):
    """A vault entry with its encrypted secret and its vault."""

    id: str
    name: str
    sealed: bytes
    public_key: str | None
    service_id: str
    service_name: str


list_entries = _sql.rows("list_entries", EntryRow)
get_entry = _sql.row("get_entry", SealedEntry)
count_other_entries = _sql.value("count_other_entries", int)
insert_entry = _sql.change("insert_entry")
update_entry = _sql.change("update_entry")
delete_entry = _sql.change("delete_entry")
list_entries_in_environment = _sql.rows("list_entries_in_environment", OfferedEntry)
list_vaults_with = _sql.rows("list_vaults_with", NamedRow)
