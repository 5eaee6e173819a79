"""Roll-outs, as the rest of Launchbay sees them."""

from launchbay.console.pages import rollouts as pages
from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import rollouts as rows
from launchbay.usecases.rollouts import POLL_S, RolloutRunner
from launchbay.web.api import rollouts as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("roll-outs", POLL_S, RolloutRunner(deps.app).advance, due=(rows.list_open,)),)


FEATURE = Feature(
    name="rollouts",
    routes=(api.routes,),
    traces=rows.traces,
    locks={"rollouts": rows.lock_rollout},
    pages=(pages.routes,),
    tasks=_tasks,
)
