"""Schedules of checks that are due: the instances wait for their turns."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from launchbay.errors import LaunchbayError, NotAllowed, NotFound
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import ScheduleRow
from launchbay.features.drift.usecases import check_scheduled
from launchbay.features.recurring.usecases import Timing
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork
from launchbay.usecases.on_behalf import actor_of

_ROUND = 100


class DriftScheduleWork(LaterWork[ScheduleRow, datetime]):
    """Lets instances wait for a check, as who set the schedule.

    One check makes up for the times that pass while no server runs.
    """

    task = "schedules of drift"
    noun = "schedule of drift"
    due = (store.list_due_schedules,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due_schedules(connection, now=self.app.clock.now(), but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> ScheduleRow | None:
        return await store.take_schedule(connection, scope_id=row_id, now=self.app.clock.now())

    async def next(self, connection: Connection, row: ScheduleRow) -> datetime | bool:
        """Return the time that is due; an edit of the schedule changes it."""
        return row.fires_at or False

    async def act(self, row: ScheduleRow, item: datetime) -> str | None:
        """Let the instances wait, as who set the schedule; return what is left out."""
        if row.owner_id is None:
            raise NotAllowed("A server of an earlier version set the schedule, for nobody.")
        owner = ScheduleOwner(row.owner_id, row.owner_email, row.owner_name, "", row.method, row.token_id)
        return await check_scheduled(Context(self.app, await actor_of(self.app, owner)), row)

    async def note(self, connection: Connection, row: ScheduleRow, item: datetime, done: str | None) -> None:
        """Set the next time."""
        due_at, fires_at = timing_of(row).next(self.app.clock.now())
        await store.set_next(connection, scope_id=row.object_id, due_at=due_at, fires_at=fires_at, problem=done)

    async def put_off(self, connection: Connection, row: ScheduleRow, item: datetime, refusal: LaunchbayError) -> None:
        """Stop a schedule whose owner may not check any more.

        After another refusal, the next time is another attempt.
        """
        if not isinstance(refusal, NotAllowed | NotFound):
            await self.note(connection, row, item, str(refusal))
            return
        problem = f"Stopped: {refusal} Somebody who may can set the schedule again."
        await store.set_next(connection, scope_id=row.object_id, due_at=None, fires_at=None, problem=problem)


class ScheduleOwner(NamedTuple):
    """Whom a schedule acts for."""

    owner_id: str
    owner_email: str
    owner_name: str
    address: str
    method: str
    token_id: str | None


def timing_of(row: ScheduleRow) -> Timing:
    """Return when the instances of an object are checked."""
    return Timing(cron=row.cron, zone=row.zone, jitter_ms=row.jitter_ms)
