"""Lifetimes of instances: extensions, idle ends and warnings."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.lifetimes import api
from launchbay.features.lifetimes.later import IdleWork
from launchbay.features.lifetimes.usecases import POLL_S as WARNINGS_S
from launchbay.features.lifetimes.usecases import WarningRunner, rules_for
from launchbay.usecases.context import Ports


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    return (PeriodicTask("warnings", WARNINGS_S, WarningRunner(deps.app, deps.mail).advance),)


FEATURE = Feature(
    name="lifetimes",
    routes=(api.routes,),
    later=(IdleWork,),
    tasks=_tasks,
    ports=Ports(expiry_rules=rules_for),
)
