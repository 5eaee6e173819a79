"""Throwing away what is old, in small batches (`queries/retention.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class EndedJobRow(NamedTuple):
    """An ended job, and whether its instance has enough newer ones."""

    id: str
    finished_at: datetime
    may_go: bool


class DroppedRow(NamedTuple):
    """A destroyed instance that was deleted."""

    id: str
    organization_id: str
    application_id: str
    name: str
    status: str


_sql = load("retention")


take_turn = _sql.value("take_turn", bool)
drop_log_lines = _sql.change("drop_log_lines")
drop_audit_entries = _sql.change("drop_audit_entries")
look_at_jobs = _sql.rows("look_at_jobs", EndedJobRow)
drop_jobs = _sql.change("drop_jobs")
drop_lines_of_destroyed = _sql.change("drop_lines_of_destroyed")
drop_jobs_of_destroyed = _sql.change("drop_jobs_of_destroyed")
drop_destroyed = _sql.rows("drop_destroyed", DroppedRow)
