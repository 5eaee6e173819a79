"""Links by which new users set their first password (`queries/invitations.sql`)."""

from datetime import datetime

from launchbay.model.user import User
from launchbay.store.statements import load

_sql = load("invitations")
insert = _sql.value("insert", datetime)
find = _sql.row("find", User)
use = _sql.row("use", User)
