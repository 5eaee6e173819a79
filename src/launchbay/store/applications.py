"""Applications (`queries/applications.sql`)."""

from typing import NamedTuple

from launchbay.ids import NamedRow
from launchbay.store.rows import AddressRow
from launchbay.store.statements import load


class ChangeableRow(NamedTuple):
    """What can be changed of an application."""

    name: str
    latest_version: int
    source_url: str | None
    sealed_source: bytes | None


_sql = load("applications")
of_organization = _sql.rows("of_organization", NamedRow)
insert = _sql.change("insert")
lock = _sql.row("lock", ChangeableRow)
lock_for_deletion = _sql.value("lock_for_deletion", str)
set_version = _sql.change("set_version")
source = _sql.value("source", bytes)
unsealed = _sql.rows("unsealed", AddressRow)
set_source = _sql.change("set_source")
rename = _sql.change("rename")
active_count = _sql.value("active_count", int)
delete_instances = _sql.change("delete_instances")
delete = _sql.change("delete")
find = _sql.value("find", str)
