"""Environments, and the services that they offer (`queries/environments.sql`)."""

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
default_id = _sql.value("default_id", str)
of_organization = _sql.rows("of_organization", EnvironmentRow)
insert = _sql.change("insert")
clone = _sql.value("clone", str)
set_policies = _sql.change("set_policies")
set_markers = _sql.change("set_markers")
set_properties = _sql.change("set_properties")
rename = _sql.change("rename")
lock = _sql.value("lock", bool)
lock_services = _sql.value("lock_services", str)
instance_count = _sql.value("instance_count", int)
delete = _sql.change("delete")
lock_defaults = _sql.value("lock_defaults", str)
clear_default = _sql.change("clear_default")
make_default = _sql.change("make_default")
services = _sql.rows("services", OfferedService)
known_services = _sql.rows("known_services", IdRow)
remove_services = _sql.change("remove_services")
add_services = _sql.change("add_services")
