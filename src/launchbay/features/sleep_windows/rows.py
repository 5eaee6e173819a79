"""Rules for when instances sleep, and the turns of their instances."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import load

_sql = load("features.sleep_windows")


class RulesRow(NamedTuple):
    """The rules of an application or environment: JSON, as `features/sleep_windows/rules.py` reads it."""

    rules: str
    is_of_application: bool


class SleepRow(NamedTuple):
    """Whether an instance sleeps, and its next turn.

    While it sleeps, `wake_workflow` is what wakes it, and `job_id` what stopped it. One that `is_postponed` is busy,
    and is looked at again after `due_at`.
    """

    due_at: datetime | None
    is_asleep: bool
    since: datetime | None
    wake_workflow: str
    job_id: str | None
    awake_until: datetime | None
    awake_by: str | None
    message: str | None
    is_postponed: bool


list_rules = _sql.rows("list_rules", RulesRow)
set_application_rules = _sql.change("set_application_rules")
set_environment_rules = _sql.change("set_environment_rules")
remove_rules = _sql.change("remove_rules")
begin_anew = _sql.change("begin_anew")
add_launched = _sql.change("add_launched")
list_with_rules = _sql.column("list_with_rules", str)
list_due = _sql.column("list_due", str)
take = _sql.row("take", SleepRow)
get = _sql.row("get", SleepRow)
save = _sql.change("save")
postpone = _sql.change("postpone")
remove = _sql.change("remove")
keep_awake = _sql.value("keep_awake", str)
was_started = _sql.value("was_started", bool)
count_no_run = _sql.change("count_no_run")

# Of an organization; `now` is the time.
wake = _sql.change("wake")
