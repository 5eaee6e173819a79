"""Bulk runs, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.bulk import api, pages, rows
from launchbay.features.bulk.usecases import POLL_S, BulkRunner, seal_acts


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("bulk", POLL_S, BulkRunner(deps.app).advance, due=(rows.list_open,)),)


FEATURE = Feature(
    name="bulk",
    routes=(api.of_failures, api.routes),
    sealed={rows.sealed_acts: lambda bulk_id, _: rows.act_purpose(bulk_id)},
    traces=rows.traces,
    locks={"bulk": rows.lock_bulk},
    pages=(pages.routes,),
    start=seal_acts,
    tasks=_tasks,
)
