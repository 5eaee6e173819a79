"""What instances have adopted."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.adoption")


class OwnerRow(NamedTuple):
    """The instance that has adopted something, and its component."""

    identity: str
    id: str
    name: str
    component: str


class AdoptionRow(NamedTuple):
    """What a component has adopted.

    `identity` is the lineage of a state. `resources` is a JSON array of the first addresses.
    """

    component: str
    action: str
    name: str
    identity: str
    resources: str
    resource_count: int
    adopted_at: datetime
    adopted_by: str


insert = _sql.change("insert")
insert_document = _sql.change("insert_document")
insert_adoption = _sql.change("insert_adoption")
list_owners = _sql.rows("list_owners", OwnerRow)
list_of_instance = _sql.rows("list_of_instance", AdoptionRow)
