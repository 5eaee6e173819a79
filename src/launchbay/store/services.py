"""Service instances, their sealed parameters, and zones (`queries/services.sql`)."""

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
of_organization = _sql.rows("of_organization", OfferedService)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
update = _sql.change("update")
set_parameters = _sql.change("set_parameters")
delete = _sql.change("delete")
exists = _sql.value("exists", bool)
offer = _sql.change("offer")
secrets = _sql.rows("secrets", SecretRow)
put_secret = _sql.change("put_secret")
delete_secrets_but = _sql.change("delete_secrets_but")
zones = _sql.rows("zones", NamedRow)
insert_zone = _sql.change("insert_zone")
zone_name = _sql.value("zone_name", str)
offered_of_type = _sql.rows("offered_of_type", OfferedOfType)
revisions_and_instances = _sql.rows("revisions_and_instances", PartOfApplication)
