"""Schedules of checks that are due: the instances wait for their turns."""

from collections.abc import Sequence
from datetime import datetime

from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import ScheduleRow
from launchbay.features.recurring.usecases import Timing
from launchbay.store.database import Connection
from launchbay.usecases.later import LaterWork

_ROUND = 100


class DriftScheduleWork(LaterWork[ScheduleRow, datetime]):
    """Lets instances wait for a check.

    One check makes up for the times that pass while no server runs.
    """

    task = "schedules of drift"
    noun = "schedule of drift"
    due = (store.list_due_schedules,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due_schedules(connection, now=self.app.clock.now(), but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> ScheduleRow | None:
        return await store.take_schedule(connection, scope_id=row_id, now=self.app.clock.now())

    async def next(self, connection: Connection, row: ScheduleRow) -> bool:
        """Let the instances wait, and set the next time.

        That needs no act as somebody.
        """
        due_at, fires_at = timing_of(row).next(self.app.clock.now())
        await store.ask_all(connection, scope_id=row.object_id, organization_id=row.organization_id)
        await store.set_next(connection, scope_id=row.object_id, due_at=due_at, fires_at=fires_at)
        return False


def timing_of(row: ScheduleRow) -> Timing:
    """Return when the instances of an object are checked."""
    return Timing(cron=row.cron, zone=row.zone, jitter_ms=row.jitter_ms)
