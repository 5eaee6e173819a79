"""Change sets, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.change_sets import api, pages, rows
from launchbay.features.change_sets.usecases import POLL_S, ChangeSetRunner, count_asking
from launchbay.usecases.context import Ports


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("change sets", POLL_S, ChangeSetRunner(deps.app).advance, due=(rows.list_applying,)),)


FEATURE = Feature(
    name="change_sets",
    routes=(api.routes,),
    sealed={rows.sealed_acts: lambda change_set_id, _: rows.act_purpose(change_set_id)},
    traces=rows.traces,
    locks={"change-sets": rows.lock_change_set},
    pages=(pages.routes,),
    tasks=_tasks,
    ports=Ports(count_asking=count_asking),
)
