"""How much work waits (`queries/load.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import load


class LoadRow(NamedTuple):
    """The load of all processes on the database."""

    queue_depth: int
    jobs_under_way: int
    overdue: int
    oldest_overdue_s: float
    workers: int


_sql = load("load")
backlog = _sql.value("backlog", int)
sample = _sql.row("sample", LoadRow)
