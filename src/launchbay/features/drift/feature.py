"""Drift of instances, as the rest of Launchbay sees it."""

from launchbay.engine.worker import PeriodicTask
from launchbay.feature import Feature, TaskDeps
from launchbay.features.drift import api, pages, rows
from launchbay.features.drift.later import CheckTimesWork, DriftScheduleWork, PutBackWork
from launchbay.features.drift.mails import POLL_S as MAILS_S
from launchbay.features.drift.mails import DriftMails
from launchbay.features.drift.usecases import POLL_S, DriftRunner
from launchbay.usecases.later import PutOff


def _tasks(deps: TaskDeps) -> tuple[PeriodicTask, ...]:
    runner = DriftRunner(deps.app, deps.runtime)
    deps.on_close(runner.close)
    mails = DriftMails(deps.app, deps.mail, deps.base_url)
    return (
        PeriodicTask("drift", POLL_S, runner.advance, due=(rows.list_due,)),
        PeriodicTask("drift mails", MAILS_S, mails.advance, may_take_long=True, due=(rows.list_due_mails,)),
    )


FEATURE = Feature(
    name="drift",
    routes=(api.routes,),
    pages=(pages.routes,),
    later=(DriftScheduleWork, CheckTimesWork, PutBackWork),
    tasks=_tasks,
    offers=(PutOff(rows.wake),),
)
