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
    is_orphaned: bool


class OrphanRow(NamedTuple):
    """A job whose caller has ended without it."""

    id: str


_sql = load("inner_jobs")
begin = _sql.value("begin", str)
outcome = _sql.row("outcome", OutcomeRow)
outcomes = _sql.rows("outcomes", OutcomeRow)
target = _sql.row("target", TargetRow)
feed = _sql.change("feed")
orphans = _sql.rows("orphans", OrphanRow)
