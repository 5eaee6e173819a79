"""Recurring schedules that people make, and their last firings."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from launchbay.store.keys import sealed_column
from launchbay.store.lookups import LookupQuery
from launchbay.store.statements import load

_sql = load("features.recurring")


@dataclass(frozen=True, slots=True)
class RecurringSchedule:
    """A recurring schedule. `act` is sealed JSON, `firings` a JSON list, the newest first.

    `due_at` is the next time of the expression, `fires_at` when it fires: later by the jitter, or while the instance is
    busy or frozen, as `waits_for` says. Both are None if it is paused or has ended. The instance on which it runs a
    workflow ends at `instance_ends_at`, as far as that is known.
    """

    id: str
    organization_id: str
    name: str
    owner_id: str
    owner_email: str
    token_id: str | None
    kind: str
    application_id: str | None
    instance_id: str | None
    act: bytes
    cron: str
    zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    is_paused: bool
    when_busy: str
    jitter_ms: int
    due_at: datetime | None
    fires_at: datetime | None
    firings: str
    fired: int
    created_at: datetime
    instance_ends_at: datetime | None
    instance_is_destroyed: bool
    waits_for: str | None

    @property
    def status(self) -> Literal["Active", "Paused", "Ended"]:
        """What becomes of it; without an instance to run on, it has ended."""
        if self.instance_is_destroyed or (self.due_at is None and not self.is_paused):
            return "Ended"
        return "Paused" if self.is_paused else "Active"


class DueRow(NamedTuple):
    """A locked recurring schedule that is due, and on whose behalf it fires."""

    id: str
    organization_id: str
    name: str
    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None
    kind: str
    application_id: str | None
    instance_id: str | None
    act: bytes
    cron: str
    zone: str
    starts_at: datetime | None
    ends_at: datetime | None
    when_busy: str
    jitter_ms: int
    due_at: datetime
    firings: str


class JobStatusRow(NamedTuple):
    """The status of a job that a firing began."""

    id: str
    status: str


def recurring_purpose(schedule_id: str) -> str:
    """Return what the act of a recurring schedule is sealed for."""
    return f"recurring schedule {schedule_id}"


count = _sql.value("count", int)
insert = _sql.change("insert")
list_by_organization = _sql.rows("list_by_organization", RecurringSchedule)
list_by_name = _sql.rows("list_by_name", RecurringSchedule)
lock = _sql.value("lock", str)
update = _sql.change("update")
delete = _sql.change("delete")
list_due = _sql.column("list_due", str)
take = _sql.row("take", DueRow)
note_firing = _sql.change("note_firing")
postpone = _sql.change("postpone")
list_job_statuses = _sql.rows("list_job_statuses", JobStatusRow)
recurring_schedule = LookupQuery(_sql.query("recurring_schedule"), RecurringSchedule, noun="recurring schedule")
lock_recurring_schedule = _sql.value("lock_recurring_schedule", str)
sealed_acts = sealed_column(_sql, "recurring_schedules", "list_sealed", "put_sealed")

# Of an organization; `now` is the time.
wake = _sql.change("wake")
