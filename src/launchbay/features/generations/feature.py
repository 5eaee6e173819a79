"""Generations of an instance, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.generations import api, pages, rows
from launchbay.features.generations.usecases import POLL_S, RollbackRunner


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("rollbacks", POLL_S, RollbackRunner(deps.app).advance, due=(rows.list_due,)),)


FEATURE = Feature(
    name="generations",
    routes=(api.routes,),
    pages=(pages.routes,),
    tasks=_tasks,
)
