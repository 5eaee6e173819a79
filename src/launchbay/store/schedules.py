"""What falls due: scheduled workflows and the expiry of instances (`queries/schedules.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load


class DueRow(NamedTuple):
    """A schedule whose time has come."""

    id: str
    instance_id: str
    kind: str
    workflow: str
    parameters: str
    owner_id: str
    due_at: datetime
    component: str
    taken_at: datetime


class TargetRow(NamedTuple):
    """The instance that a due schedule is for."""

    status: str
    job_id: str | None
    organization_id: str
    application_id: str
    version: int
    is_turn: bool


class ConsumerRow(NamedTuple):
    """An instance that looks at the signals of others; its documents are JSON texts."""

    organization_id: str
    state: str
    return_values: str
    fed_signals: str
    links: str | None


class ValuesRow(NamedTuple):
    """What an instance publishes, a JSON text."""

    id: str
    return_values: str


class ScheduleRow(NamedTuple):
    """A pending schedule as the API lists it."""

    id: str
    workflow: str
    due_at: datetime


_sql = load("schedules")
take_due = _sql.rows("take_due", DueRow)
get_next_turn = _sql.row("next_turn", DueRow)
lock_target = _sql.row("lock_target", TargetRow)
target_exists = _sql.value("is_target_there", bool)
delete_own = _sql.change("stop_own")
block = _sql.change("block")
unblock = _sql.change("unblock")
unblock_forgotten = _sql.change("unblock_forgotten")
delete = _sql.change("remove")
insert = _sql.change("insert")
list_by_instance = _sql.rows("of_instance", ScheduleRow)
reschedule = _sql.value("reschedule", str)
cancel = _sql.value("cancel", str)
schedule_next = _sql.change("come_again")
get_consumer = _sql.row("onlooker", ConsumerRow)
list_linked_values = _sql.rows("linked_values", ValuesRow)
save_refreshed_signals = _sql.change("write_look")
