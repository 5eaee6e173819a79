"""Service instances, their sealed parameters, and zones (`queries/services.sql`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.environments import OfferedService
from launchbay.store.statements import load


class ChangeableRow(NamedTuple):
    """What can be changed of a service."""

    name: str
    parameters: str


class SecretRow(NamedTuple):
    """A parameter that is sealed with the server's secret key."""

    name: str
    sealed: bytes


class PartOfApplication(NamedTuple):
    """A revision or an instance, and whose it is."""

    id: str
    is_revision: bool
    application_id: str


class OfferedOfType(NamedTuple):
    """A service that an environment offers."""

    id: str
    name: str


_sql = load("services")
list_by_organization = _sql.rows("of_organization", OfferedService)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
update = _sql.change("update")
set_parameters = _sql.change("set_parameters")
delete = _sql.change("delete")
exists = _sql.value("exists", bool)
insert_offer = _sql.change("offer")
list_secrets = _sql.rows("secrets", SecretRow)
put_secret = _sql.change("put_secret")
delete_secrets_except = _sql.change("delete_secrets_but")
list_zones = _sql.rows("zones", NamedRow)
insert_zone = _sql.change("insert_zone")
get_zone_name = _sql.value("zone_name", str)
list_offered_by_type = _sql.rows("offered_of_type", OfferedOfType)
list_revisions_and_instances = _sql.rows("revisions_and_instances", PartOfApplication)


@dataclass(frozen=True, slots=True)
class Service:
    """One service instance; `parameters` is a JSON text, because key order matters."""

    id: str
    organization_id: str
    zone_id: str
    name: str
    type_id: str
    parameters: str
    status: str
    status_pending: bool
    created_at: datetime


class PoolResourceRow(NamedTuple):
    """A resource that was handed out at least once; `changed_at` is when it was, or when it came back."""

    resource_id: str
    holder: str | None
    changed_at: datetime


_resource_pools_sql = load("resource_pools")
list_acquired = _resource_pools_sql.rows("handed_out", PoolResourceRow)
acquire_resource = _resource_pools_sql.change("take")
release_resource = _resource_pools_sql.value("give_back", str)
delete_silent_waiters = _resource_pools_sql.change("forget_silent")
enqueue_waiter = _resource_pools_sql.value("ask", int)
count_ahead = _resource_pools_sql.value("ahead", int)
count_waiting = _resource_pools_sql.value("waiting", int)
dequeue_waiter = _resource_pools_sql.change("leave")


class EntryRow(NamedTuple):
    """What may be shown of an entry; the algorithm and the public key are those of key pairs."""

    id: str
    name: str
    algorithm: str | None
    public_key: str | None
    created_at: datetime
    changed_at: datetime


class SealedEntry(NamedTuple):
    """An entry to be opened."""

    id: str
    name: str
    sealed: bytes
    algorithm: str | None
    public_key: str | None


class OfferedEntry(NamedTuple):
    """An entry to be opened, and whose it is."""

    id: str
    name: str
    sealed: bytes
    public_key: str | None
    service_id: str
    service_name: str


_vault_sql = load("vault")
list_entries = _vault_sql.rows("entries", EntryRow)
get_entry = _vault_sql.row("find", SealedEntry)
count_other_entries = _vault_sql.value("count_others", int)
insert_entry = _vault_sql.change("insert")
update_entry = _vault_sql.change("replace")
delete_entry = _vault_sql.change("delete")
list_entries_in_environment = _vault_sql.rows("in_environment", OfferedEntry)
list_vaults_with = _vault_sql.rows("vaults_with", NamedRow)
