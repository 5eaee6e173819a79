"""Limits of jobs at a time."""

from functools import partial

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import concurrency_limits as rows
from launchbay.usecases.concurrency_limits import POLL_S, cancel_outrun
from launchbay.web.api import concurrency_limits as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    cancel = partial(cancel_outrun, deps.app.database)
    return (PeriodicTask("outrun jobs", POLL_S, cancel, due=(rows.list_outrun,)),)


FEATURE = Feature(
    name="concurrency_limits",
    routes=(api.routes,),
    tasks=_tasks,
)
