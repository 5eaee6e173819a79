"""Limits of jobs at a time."""

from functools import partial

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.concurrency_limits import api, rows
from launchbay.features.concurrency_limits.usecases import POLL_S, cancel_outrun


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    cancel = partial(cancel_outrun, deps.app.database)
    return (PeriodicTask("outrun jobs", POLL_S, cancel, due=(rows.list_outrun,)),)


FEATURE = Feature(
    name="concurrency_limits",
    routes=(api.routes,),
    tasks=_tasks,
)
