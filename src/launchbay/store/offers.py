"""What environments offer to the components of instances: other instances, and services (`queries/offers.sql`)."""

from typing import NamedTuple

from launchbay.store.environments import IdRow
from launchbay.store.statements import load


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


_sql = load("offers")
offered_instances = _sql.rows("offered_instances", OfferedInstance)
environments_of = _sql.rows("environments_of", IdRow)
known_environments = _sql.rows("known_environments", IdRow)
lock_instance = _sql.value("lock_instance", str)
withdraw = _sql.change("withdraw")
offer = _sql.change("offer")
standing_on = _sql.rows("standing_on", IdRow)
lock_links = _sql.value("lock_links", bool)
bound_services = _sql.rows("bound_services", BoundServiceRow)
sealed_parameters = _sql.rows("sealed_parameters", SealedRow)
