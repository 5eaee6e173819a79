"""Rollouts, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.rollouts import api, pages, rows
from launchbay.features.rollouts.usecases import POLL_S, RolloutRunner


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("rollouts", POLL_S, RolloutRunner(deps.app).advance, due=(rows.list_open,)),)


FEATURE = Feature(
    name="rollouts",
    routes=(api.routes,),
    traces=rows.traces,
    locks={"rollouts": rows.lock_rollout},
    pages=(pages.routes,),
    tasks=_tasks,
)
