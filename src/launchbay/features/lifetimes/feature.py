"""Lifetimes of instances: extensions, idle ends and warnings."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.lifetimes import api, rows
from launchbay.features.lifetimes.later import IdleWork
from launchbay.features.lifetimes.mails import POLL_S as MAILS_S
from launchbay.features.lifetimes.mails import EndingMails
from launchbay.features.lifetimes.usecases import POLL_S as WARNINGS_S
from launchbay.features.lifetimes.usecases import WarningRunner, rules_for
from launchbay.usecases.context import Ports


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    mails = EndingMails(deps.app, deps.mail, deps.base_url)
    return (
        PeriodicTask("warnings", WARNINGS_S, WarningRunner(deps.app, has_mail=deps.mail is not None).advance),
        PeriodicTask("warning mails", MAILS_S, mails.advance, may_take_long=True, due=(rows.list_due_mails,)),
    )


FEATURE = Feature(
    name="lifetimes",
    routes=(api.routes,),
    later=(IdleWork,),
    tasks=_tasks,
    ports=Ports(expiry_rules=rules_for),
)
