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


class StandingRow(NamedTuple):
    """How an instance stands."""

    status: str
    job_id: str | None
    state: str


_sql = load("clouds")
installation = _sql.value("installation", str)
claim_sweep = _sql.value("claim_sweep", str)
of_environment = _sql.rows("of_environment", AccountRow)
account = _sql.row("account", AccountRow)
keep_sign_in = _sql.change("keep_sign_in")
sign_in_id = _sql.value("sign_in_id", str)
sign_in = _sql.value("sign_in", bytes)
hold_account = _sql.value("hold_account", bool)
users_of_account = _sql.rows("users_of_account", NameRow)
note_place = _sql.change("note_place")
note_place_of_instance = _sql.change("note_place_of_instance")
places = _sql.rows("places", PlaceRow)
places_of_instance = _sql.rows("places_of_instance", PlaceRow)
standing = _sql.row("standing", StandingRow)


class HostKeyRow(NamedTuple):
    """A pinned key; `host` is an address with its port."""

    host: str
    public_key: str
    pinned_at: datetime


_host_keys_sql = load("host_keys")
get = _host_keys_sql.value("get", str)
pin = _host_keys_sql.change("pin")
forget = _host_keys_sql.change("forget")
of_organization = _host_keys_sql.rows("of_organization", HostKeyRow)
