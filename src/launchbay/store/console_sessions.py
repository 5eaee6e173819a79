"""Sessions of the console (`queries/console_sessions.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.model.user import User
from launchbay.store.statements import load


class ConsoleSessionRow(NamedTuple):
    """What can be shown of a session; `is_this` marks the one that asks."""

    id: str
    address: str
    created_at: datetime
    expires_at: datetime
    is_this: bool


_sql = load("console_sessions")
insert = _sql.change("insert")
user_of = _sql.row("user_of", User)
of_user = _sql.rows("of_user", ConsoleSessionRow)
end_by_token = _sql.change("end_by_token")
end_by_id = _sql.change("end_by_id")
end_all = _sql.change("end_all")
forget_ended = _sql.change("forget_ended")
