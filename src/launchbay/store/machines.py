"""Cloud accounts, the places where they made machines, this installation's ID, and pinned SSH host keys."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("machines")


class AccountRow(NamedTuple):
    """A cloud account. Its parameters are JSON, without the secret ones."""

    id: str
    name: str
    parameters: str


class PlaceRow(NamedTuple):
    """A region that may have machines, and the last organization and environment that created some there."""

    account_id: str
    region: str
    organization_id: str
    environment_id: str


class OwnedMachineRow(NamedTuple):
    """The instance that owns a machine, locked."""

    status: str
    job_id: str | None
    state: str


get_installation = _sql.value("get_installation", str)
claim_sweep = _sql.value("claim_sweep", str)
list_accounts_by_environment = _sql.rows("list_accounts_by_environment", AccountRow)
get_account = _sql.row("get_account", AccountRow)
insert_sign_in = _sql.change("insert_sign_in")
get_sign_in_id = _sql.value("get_sign_in_id", str)
get_sign_in = _sql.value("get_sign_in", bytes)
lock_account = _sql.value("lock_account", bool)
list_users_of_account = _sql.column("list_users_of_account", str)
record_place = _sql.change("record_place")
record_place_of_instance = _sql.change("record_place_of_instance")
list_places = _sql.rows("list_places", PlaceRow)
list_places_by_instance = _sql.rows("list_places_by_instance", PlaceRow)
get_owner_status = _sql.row("get_owner_status", OwnedMachineRow)


class HostKeyRow(NamedTuple):
    """A pinned key. `host` is an address with its port."""

    host: str
    public_key: str
    pinned_at: datetime


get_host_key = _sql.value("get_host_key", str)
insert_host_key = _sql.change("insert_host_key")
delete_host_key = _sql.change("delete_host_key")
list_host_keys_by_organization = _sql.rows("list_host_keys_by_organization", HostKeyRow)
