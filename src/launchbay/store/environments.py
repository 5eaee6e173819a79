"""Environments, and the services that they offer (`queries/environments.sql`)."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class EnvironmentRow(NamedTuple):
    """An environment as lists show it."""

    id: str
    name: str
    is_default: bool


class OfferedService(NamedTuple):
    """A service in brief."""

    id: str
    name: str
    type_id: str


class IdRow(NamedTuple):
    """Nothing but an id."""

    id: str


_sql = load("environments")
get_default_id = _sql.value("default_id", str)
list_by_organization = _sql.rows("of_organization", EnvironmentRow)
insert = _sql.change("insert")
clone = _sql.value("clone", str)
set_policies = _sql.change("set_policies")
set_markers = _sql.change("set_markers")
set_properties = _sql.change("set_properties")
rename = _sql.change("rename")
lock = _sql.value("lock", bool)
lock_services = _sql.value("lock_services", str)
count_instances = _sql.value("instance_count", int)
delete = _sql.change("delete")
lock_defaults = _sql.value("lock_defaults", str)
clear_default = _sql.change("clear_default")
make_default = _sql.change("make_default")
list_services = _sql.rows("services", OfferedService)
list_known_services = _sql.rows("known_services", IdRow)
remove_services = _sql.change("remove_services")
add_services = _sql.change("add_services")


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment. `policies`, `markers` and `properties` are JSON texts, because their order matters."""

    id: str
    organization_id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    created_at: datetime


class OfferedInstance(NamedTuple):
    """An instance that is offered as a service."""

    id: str
    name: str
    application_id: str
    version: int
    status: str


class BoundServiceRow(NamedTuple):
    """A service as it is now; its secret parameters are apart."""

    id: str
    name: str
    type_id: str
    parameters: str


class SealedRow(NamedTuple):
    """A secret parameter, sealed."""

    service_id: str
    name: str
    sealed: bytes


_offers_sql = load("offers")
list_offered_instances = _offers_sql.rows("offered_instances", OfferedInstance)
list_environments_by_instance = _offers_sql.rows("environments_of", IdRow)
list_known_environments = _offers_sql.rows("known_environments", IdRow)
lock_instance = _offers_sql.value("lock_instance", str)
delete_offers = _offers_sql.change("withdraw")
insert_offers = _offers_sql.change("offer")
list_dependent_instances = _offers_sql.rows("standing_on", IdRow)
lock_links = _offers_sql.value("lock_links", bool)
list_bound_services = _offers_sql.rows("bound_services", BoundServiceRow)
list_sealed_parameters = _offers_sql.rows("sealed_parameters", SealedRow)
