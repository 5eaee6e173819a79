"""Plans of changes, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.plans import api, rows
from launchbay.features.plans.usecases import POLL_S, JobPlans, PlanRunner


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    runner = PlanRunner(deps.app, deps.runtime)
    deps.on_close(runner.close)
    return (PeriodicTask("plans", POLL_S, runner.advance, due=(rows.list_due, rows.list_expired)),)


FEATURE = Feature(
    name="plans",
    routes=(api.routes,),
    locks={"plans": rows.lock_plan},
    sealed={
        rows.sealed_requests: lambda plan_id, _: rows.request_purpose(plan_id),
        rows.sealed_artifacts: rows.artifact_purpose,
    },
    tasks=_tasks,
    approved_plans=JobPlans,
)
