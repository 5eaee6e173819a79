"""Recurring schedules, as the rest of Launchbay sees them."""

from launchbay.feature import Feature
from launchbay.features.recurring import api, pages, rows
from launchbay.features.recurring.directory import STORED_KIND
from launchbay.features.recurring.later import RecurringWork
from launchbay.usecases.later import PutOff

FEATURE = Feature(
    name="recurring",
    routes=(api.routes,),
    sealed={rows.sealed_acts: lambda schedule_id, _: rows.recurring_purpose(schedule_id)},
    locks={"recurring-schedules": rows.lock_recurring_schedule},
    pages=(pages.routes,),
    later=(RecurringWork,),
    offers=(PutOff(rows.wake), STORED_KIND),
)
