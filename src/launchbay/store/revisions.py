"""Named revisions of applications (`queries/revisions.sql`)."""

from launchbay.ids import NamedRow
from launchbay.model.application import Revision
from launchbay.store.statements import load

_sql = load("revisions")
of_application = _sql.rows("of_application", NamedRow)
one = _sql.row("one", Revision)
insert = _sql.change("insert")
update = _sql.change("update")
lock = _sql.value("lock", str)
delete = _sql.change("delete")
