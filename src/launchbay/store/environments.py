"""Environments, and the services and instances that they offer."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from launchbay.store.applications import LabelsRow
from launchbay.store.statements import load

_sql = load("environments")


@dataclass(frozen=True, slots=True)
class Environment:
    """One environment. `policies`, `markers` and `properties` are JSON strings, because their order matters."""

    id: str
    organization_id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    created_at: datetime


class EnvironmentRow(NamedTuple):
    """An environment in a list. `freezes` are its own, as `model/freezes.py` reads them."""

    id: str
    name: str
    is_default: bool
    freezes: str | None


class EnvironmentContents(NamedTuple):
    """An environment with what it gives. Its contents are JSON."""

    id: str
    name: str
    is_default: bool
    policies: str
    markers: str
    properties: str
    services: str
    lifetime: str
    change_policy: str


class OfferedService(NamedTuple):
    """A service in a list."""

    id: str
    name: str
    type_id: str


get_default_id = _sql.value("get_default_id", str)
list_labels = _sql.rows("list_labels", LabelsRow)
list_by_organization = _sql.rows("list_by_organization", EnvironmentRow)
list_contents = _sql.rows("list_contents", EnvironmentContents)
insert = _sql.change("insert")
clone = _sql.value("clone", str)
set_policies = _sql.change("set_policies")
set_markers = _sql.change("set_markers")
set_properties = _sql.change("set_properties")
rename = _sql.change("rename")
lock = _sql.value("lock", bool)
lock_services = _sql.value("lock_services", str)
count_instances = _sql.value("count_instances", int)
delete = _sql.change("delete")
clear_default = _sql.change("clear_default")
make_default = _sql.change("make_default")
list_services = _sql.rows("list_services", OfferedService)
list_known_services = _sql.column("list_known_services", str)
remove_services = _sql.change("remove_services")
add_services = _sql.change("add_services")


class OfferedInstance(NamedTuple):
    """An instance offered as a service, and the status of its last job."""

    id: str
    name: str
    application_id: str
    version: int
    status: str
    job_outcome: str | None
    is_asking: bool
    is_asleep: bool
    is_ending: bool
    is_incomplete: bool


class BoundServiceRow(NamedTuple):
    """A service without its secret parameters."""

    id: str
    name: str
    type_id: str
    parameters: str


class SecretParameterRow(NamedTuple):
    """An encrypted secret parameter."""

    service_id: str
    name: str
    sealed: bytes


class ChosenName(NamedTuple):
    """The name of an environment; `is_alone` if the server has no other organization."""

    name: str
    is_alone: bool


read_chosen_name = _sql.row("read_chosen_name", ChosenName)
list_offered_instances = _sql.rows("list_offered_instances", OfferedInstance)
list_offering = _sql.rows("list_offering", EnvironmentRow)
list_environments_by_instance = _sql.column("list_environments_by_instance", str)
list_known_environments = _sql.column("list_known_environments", str)
delete_offers = _sql.change("delete_offers")
insert_offers = _sql.change("insert_offers")
list_dependent_instances = _sql.column("list_dependent_instances", str)
lock_links = _sql.value("lock_links", bool)
list_bound_services = _sql.rows("list_bound_services", BoundServiceRow)
list_sealed_parameters = _sql.rows("list_sealed_parameters", SecretParameterRow)
