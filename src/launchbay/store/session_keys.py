"""The sealed keys that sign session tokens."""

from typing import NamedTuple

from launchbay.store.statements import load


class SessionKeyRow(NamedTuple):
    """One key; `sealed` opens with the server's secret key only."""

    id: str
    sealed: bytes
    age_s: float


_sql = load("session_keys")

lock = _sql.value("lock", str)
all_keys = _sql.rows("all", SessionKeyRow)
insert = _sql.change("insert")
delete = _sql.change("delete")
