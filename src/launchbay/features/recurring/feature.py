"""Recurring schedules, as the rest of Launchbay sees them."""

from launchbay.console.pages import recurring as pages
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import recurring as rows
from launchbay.usecases.recurring import POLL_S, RecurringRunner
from launchbay.usecases.recurring_objects import STORED_KIND
from launchbay.web.api import recurring as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("recurring schedules", POLL_S, RecurringRunner(deps.app).advance, due=(rows.list_due,)),)


FEATURE = Feature(
    name="recurring",
    routes=(api.routes,),
    sealed={rows.sealed_acts: lambda schedule_id, _: rows.recurring_purpose(schedule_id)},
    locks={"recurring-schedules": rows.lock_recurring_schedule},
    pages=(pages.routes,),
    tasks=_tasks,
    offers=(STORED_KIND,),
)
