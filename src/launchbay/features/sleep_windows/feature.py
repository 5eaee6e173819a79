"""Sleep windows, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.sleep_windows import api, rows
from launchbay.features.sleep_windows.usecases import POLL_S, SleepRunner


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    runner = SleepRunner(deps.app)
    return (PeriodicTask("sleep windows", POLL_S, runner.advance, due=(rows.list_with_rules, rows.list_due)),)


FEATURE = Feature(
    name="sleep_windows",
    routes=(api.routes,),
    tasks=_tasks,
)
