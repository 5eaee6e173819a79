"""Recurring schedules, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.recurring import api, pages, rows
from launchbay.features.recurring.directory import STORED_KIND
from launchbay.features.recurring.usecases import POLL_S, RecurringRunner


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
