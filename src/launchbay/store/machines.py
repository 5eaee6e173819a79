"""Where machines are made with whose credentials, and which installation this is (`queries/clouds.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class AccountRow(NamedTuple):
    """A cloud account; its parameters are JSON, without the secret ones."""

    id: str
    name: str
    parameters: str


class PlaceRow(NamedTuple):
    """Where machines may be, and on whose behalf some were made there last."""

    account_id: str
    region: str
    organization_id: str
    environment_id: str


class NameRow(NamedTuple):
    """Nothing but a name."""

    name: str


class OwnedMachineRow(NamedTuple):
    """How an instance stands."""

    status: str
    job_id: str | None
    state: str


_sql = load("clouds")
get_installation = _sql.value("installation", str)
claim_sweep = _sql.value("claim_sweep", str)
list_accounts_by_environment = _sql.rows("of_environment", AccountRow)
get_account = _sql.row("account", AccountRow)
insert_sign_in = _sql.change("keep_sign_in")
get_sign_in_id = _sql.value("sign_in_id", str)
get_sign_in = _sql.value("sign_in", bytes)
lock_account = _sql.value("hold_account", bool)
list_users_of_account = _sql.rows("users_of_account", NameRow)
record_place = _sql.change("note_place")
record_place_of_instance = _sql.change("note_place_of_instance")
list_places = _sql.rows("places", PlaceRow)
list_places_by_instance = _sql.rows("places_of_instance", PlaceRow)
get_owner_status = _sql.row("standing", OwnedMachineRow)


class HostKeyRow(NamedTuple):
    """A pinned key; `host` is an address with its port."""

    host: str
    public_key: str
    pinned_at: datetime


_host_keys_sql = load("host_keys")
get_host_key = _host_keys_sql.value("get", str)
insert_host_key = _host_keys_sql.change("pin")
delete_host_key = _host_keys_sql.change("forget")
list_host_keys_by_organization = _host_keys_sql.rows("of_organization", HostKeyRow)
