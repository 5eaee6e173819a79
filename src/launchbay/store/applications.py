"""Applications and their revisions (`queries/applications.sql`)."""

from launchbay.store.rows import NamedRow
from launchbay.store.statements import load

_sql = load("applications")
of_organization = _sql.rows("of_organization", NamedRow)
insert = _sql.change("insert")
next_version = _sql.value("next_version", int)
find = _sql.value("find", str)
