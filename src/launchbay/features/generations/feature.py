"""Generations of an instance, as the rest of Launchbay sees them."""

from launchbay.console.pages import generations as pages
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import generations as rows
from launchbay.usecases.generations import POLL_S, RollbackRunner
from launchbay.web.api import generations as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("rollbacks", POLL_S, RollbackRunner(deps.app).advance, due=(rows.list_due,)),)


FEATURE = Feature(
    name="generations",
    routes=(api.routes,),
    pages=(pages.routes,),
    tasks=_tasks,
)
