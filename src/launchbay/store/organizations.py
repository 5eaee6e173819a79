"""Organizations (`queries/organizations.sql`)."""

from launchbay.ids import NamedRow
from launchbay.store.statements import load

_sql = load("organizations")
of_user = _sql.rows("of_user", NamedRow)
any_exists = _sql.value("any_exists", bool)
insert = _sql.change("insert")
rename = _sql.change("rename")
