"""Who holds which resource of a pool, and who waits for one (`queries/resource_pools.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class PooledRow(NamedTuple):
    """A resource that was handed out at least once; `changed_at` is when it was, or when it came back."""

    resource_id: str
    holder: str | None
    changed_at: datetime


_sql = load("resource_pools")
handed_out = _sql.rows("handed_out", PooledRow)
take = _sql.change("take")
give_back = _sql.value("give_back", str)
forget_silent = _sql.change("forget_silent")
ask = _sql.value("ask", int)
ahead = _sql.value("ahead", int)
waiting = _sql.value("waiting", int)
leave = _sql.change("leave")
