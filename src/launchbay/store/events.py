"""What happens to instances, live and in the log (`queries/events.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class EventRow(NamedTuple):
    """Something that has happened. The kind says which of the columns mean something.

    `status` (status), `begun` and `ended` (job, name), `step` (job, status, name, path, percent, attempt, its error as
    text), `log` (job, path, level, text), `signal` (all return values as text), `approval` (job, status, path, text,
    its id as name). Rows of "now" share the last number.
    """

    id: int
    kind: str
    job_id: str | None
    status: str | None
    job_status: str | None
    name: str | None
    path: str | None
    percent: int | None
    attempt: int | None
    level: str | None
    text: str | None
    at: datetime | None


class LogRow(NamedTuple):
    """A line of an instance's log."""

    id: int
    at: datetime
    level: str
    job_id: str
    step: str | None
    text: str


_sql = load("events")
since = _sql.rows("since", EventRow)
now = _sql.rows("now", EventRow)
watch = _sql.change("watch")
unwatch = _sql.change("unwatch")
forget_watches = _sql.change("forget_watches")
forget_events = _sql.change("forget_events")
log_page = _sql.rows("log_page", LogRow)
