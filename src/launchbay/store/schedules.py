"""What falls due: scheduled workflows, triggers, and the expiry of instances."""

from datetime import datetime
from typing import Literal, NamedTuple

from launchbay.model.waits import Ends
from launchbay.store.statements import load

_sql = load("schedules")


class DueRow(NamedTuple):
    """A due schedule.

    One of the kind `workflow` was asked for by a `person`, by a `rule` for lifetimes, or by the `undo` of a destroy.
    """

    id: str
    instance_id: str
    kind: str
    workflow: str
    parameters: str
    owner_id: str
    due_at: datetime
    component: str
    taken_at: datetime
    asked_by: Literal["person", "rule", "undo"]


class TargetRow(NamedTuple):
    """The instance of a due schedule."""

    status: str
    job_id: str | None
    organization_id: str
    application_id: str
    environment_id: str
    version: int
    is_turn: bool
    organization_stamp: int | None


class ConsumerRow(NamedTuple):
    """An instance that reads the signals of others. Its documents are JSON."""

    organization_id: str
    state: str
    return_values: str
    fed_signals: str
    links: str | None


class ValuesRow(NamedTuple):
    """The return values of an instance, as JSON."""

    id: str
    return_values: str


class ScheduleRow(NamedTuple):
    """A schedule in a list. `component` is empty for what a caller scheduled.

    A cancelled one would have run at `due_at`. Its instance ends at `ends_at`, as far as that is known.
    """

    id: str
    workflow: str
    due_at: datetime
    component: str
    cancelled_at: datetime | None
    cancelled_by: str | None
    ends_at: datetime | None

    @property
    def is_of_manifest(self) -> bool:
        return self.component != ""

    def ends_before(self, at: datetime) -> bool:
        """Return whether its instance is destroyed before a time."""
        return self.ends_at is not None and self.ends_at < at

    @property
    def comes_too_late(self) -> bool:
        """Whether its instance is destroyed before it is due."""
        return self.cancelled_at is None and self.ends_before(self.due_at)


class FleetScheduleRow(NamedTuple):
    """A schedule of an organization, as `ScheduleRow`, with its instance."""

    id: str
    workflow: str
    due_at: datetime
    component: str
    cancelled_at: datetime | None
    cancelled_by: str | None
    ends_at: datetime | None
    owner_id: str
    instance_id: str
    instance: str
    application_id: str
    environment_id: str
    version: int

    def ends_before(self, at: datetime) -> bool:
        """Return whether its instance is destroyed before a time."""
        return self.ends_at is not None and self.ends_at < at

    @property
    def comes_too_late(self) -> bool:
        """Whether its instance is destroyed before it is due."""
        return self.cancelled_at is None and self.ends_before(self.due_at)


class WaitingDestroy(NamedTuple):
    """A destroy within its grace time.

    Taking it back runs `undo_workflow`, if that isn't empty. `is_idle`: the rule for idle instances asked for it.
    """

    due_at: datetime
    created_at: datetime
    owner_id: str
    undo_workflow: str
    is_idle: bool


class CancelledRow(NamedTuple):
    """A schedule that was cancelled.

    `undo_workflow` is None but for a destroy that can be taken back.
    """

    id: str
    undo_workflow: str | None


class EndsRow(NamedTuple):
    """What ends an instance, as `Ends` has it.

    The last three are of a destroy that can be taken back, None without one.
    """

    lifetime: datetime | None
    scheduled: datetime | None
    undoable: datetime | None
    is_idle: bool
    is_submodule: bool
    created_at: datetime | None
    owner_id: str | None
    undo_workflow: str | None

    @property
    def ends(self) -> Ends:
        return Ends(self.lifetime, self.scheduled, self.undoable, self.is_idle, self.is_submodule)

    @property
    def waiting_destroy(self) -> WaitingDestroy | None:
        if self.undoable is None or self.created_at is None:
            return None
        return WaitingDestroy(
            self.undoable, self.created_at, self.owner_id or "", self.undo_workflow or "", self.is_idle
        )


get_next_s = _sql.value("get_next_s", float)
take_due = _sql.rows("take_due", DueRow)
postpone_triggers = _sql.value("postpone_triggers", bool)
get_next_turn = _sql.row("get_next_turn", DueRow)
lock_target = _sql.row("lock_target", TargetRow)
target_exists = _sql.value("target_exists", bool)
delete_own = _sql.change("delete_own")
block = _sql.change("block")
unblock = _sql.change("unblock")
unblock_forgotten = _sql.change("unblock_forgotten")
delete = _sql.change("delete")
insert = _sql.change("insert")
insert_waiting_destroy = _sql.value("insert_waiting_destroy", datetime)
get_end = _sql.value("get_end", datetime)
get_ends = _sql.row("get_ends", EndsRow)
get_waiting_destroy = _sql.row("get_waiting_destroy", WaitingDestroy)
take_back_destroy = _sql.value("take_back_destroy", str)
list_by_organization = _sql.rows("list_by_organization", FleetScheduleRow, is_prepared=False)
list_by_instance = _sql.rows("list_by_instance", ScheduleRow)
reschedule = _sql.value("reschedule", datetime)
cancel = _sql.row("cancel", CancelledRow)
cancel_recurring = _sql.value("cancel_recurring", str)
resume_cancelled = _sql.change("resume_cancelled")
schedule_next = _sql.change("schedule_next")
get_consumer = _sql.row("get_consumer", ConsumerRow)
list_linked_values = _sql.rows("list_linked_values", ValuesRow)
save_refreshed_signals = _sql.change("save_refreshed_signals")
