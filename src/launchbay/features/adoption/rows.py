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


class KeeperRow(NamedTuple):
    """An instance with a document of a step."""

    document_id: str
    sealed: bytes
    id: str
    name: str
    component: str


class AdoptionRow(NamedTuple):
    """What a component has adopted.

    `identity` is the lineage of a state, or what names a release. `resources` is a JSON array of the first addresses,
    and `about` a JSON object with what else is shown of a release.
    """

    component: str
    action: str
    name: str
    identity: str
    resources: str
    resource_count: int
    about: str | None
    adopted_at: datetime
    adopted_by: str


insert = _sql.change("insert")
insert_document = _sql.change("insert_document")
insert_adoption = _sql.change("insert_adoption")
list_owners = _sql.rows("list_owners", OwnerRow)
list_keepers = _sql.rows("list_keepers", KeeperRow)
list_of_instance = _sql.rows("list_of_instance", AdoptionRow)
