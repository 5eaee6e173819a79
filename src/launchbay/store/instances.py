"""Instances: lists, history, small changes (`queries/instances.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class SummaryRow(NamedTuple):
    """An instance as lists show it."""

    id: str
    name: str
    environment_id: str
    application_id: str
    revision_id: str | None
    status: str


class JobRow(NamedTuple):
    """A job of the history. `steps` is `[[path, name, status, percent], …]`; `live_steps`, of the running job only,
    holds `[[path, status, percent], …]` and is newer."""

    id: str
    name: str
    status: str
    owner_id: str
    steps: str
    error_message: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    live_steps: str | None


class LockRow(NamedTuple):
    """What decides about deletion."""

    status: str
    job_id: str | None


_sql = load("instances")
of_application = _sql.rows("of_application", SummaryRow)
of_environment = _sql.rows("of_environment", SummaryRow)
of_revision = _sql.rows("of_revision", SummaryRow)
history = _sql.rows("history", JobRow)
set_user_data = _sql.change("set_user_data")
lock = _sql.row("lock", LockRow)
delete = _sql.change("delete")
