"""Lifetimes of instances: extensions, idle ends and warnings."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.usecases.context import Ports
from launchbay.usecases.idle_ends import POLL_S as IDLE_S
from launchbay.usecases.idle_ends import IdleRunner
from launchbay.usecases.lifetimes import POLL_S as WARNINGS_S
from launchbay.usecases.lifetimes import WarningRunner, rules_for
from launchbay.web.api import lifetimes as api


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (
        PeriodicTask("idle instances", IDLE_S, IdleRunner(deps.app).advance),
        PeriodicTask("warnings", WARNINGS_S, WarningRunner(deps.app, deps.mail).advance),
    )


FEATURE = Feature(
    name="lifetimes",
    routes=(api.routes,),
    tasks=_tasks,
    ports=Ports(expiry_rules=rules_for),
)
