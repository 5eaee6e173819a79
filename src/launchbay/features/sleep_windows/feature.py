"""Sleep windows, as the rest of Launchbay sees them."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.store import sleep_windows as rows
from launchbay.usecases.sleep_windows import POLL_S, SleepRunner
from launchbay.web.api import sleep_windows as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    runner = SleepRunner(deps.app)
    return (PeriodicTask("sleep windows", POLL_S, runner.advance, due=(rows.list_with_rules, rows.list_due)),)


FEATURE = Feature(
    name="sleep_windows",
    routes=(api.routes,),
    tasks=_tasks,
)
