"""Jobs that another job runs in its own course (`queries/inner_jobs.sql`)."""

from typing import NamedTuple

from launchbay.store.statements import load


class OutcomeRow(NamedTuple):
    """How an inner job stands; `results` is a JSON text once it has succeeded."""

    id: str
    status: str
    error_message: str | None
    results: str | None


class TargetRow(NamedTuple):
    """An instance that another one calls."""

    status: str
    job_id: str | None
    application_id: str
    version: int
    return_values: str
    name: str
    is_to_reconfigure: bool


class InnerRow(NamedTuple):
    """An inner job that is under way."""

    id: str


_sql = load("inner_jobs")
begin = _sql.value("begin", str)
outcome = _sql.row("outcome", OutcomeRow)
outcomes = _sql.rows("outcomes", OutcomeRow)
target = _sql.row("target", TargetRow)
feed = _sql.change("feed")
orphans = _sql.rows("orphans", InnerRow)
under_way = _sql.rows("under_way", InnerRow)
is_held = _sql.value("is_held", bool)
unclaimed = _sql.value("unclaimed", str)
left_behind = _sql.rows("left_behind", InnerRow)
