"""Recurring schedules that are due.

One transaction does what a schedule is for and sets the next time, so that each time fires once. Times that pass while
no server runs, or while an instance is busy or frozen, are made up for by one firing.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

import msgspec

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.errors import LaunchbayError
from launchbay.features.bulk.usecases import BulkRequest, create_bulk
from launchbay.features.recurring import rows as store
from launchbay.features.recurring.rows import DueRow, recurring_purpose
from launchbay.features.recurring.usecases import Firing, read_doing, read_firings, timing_of
from launchbay.ids import id_of_turn
from launchbay.model.job import Cause
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.launch import launch
from launchbay.usecases.on_behalf import PASSING, actor_of
from launchbay.usecases.workflows import reason_to_wait, run_workflow

_ROUND = 100  # fired before the others of the process are
_BUSY_PAUSE_S = 2.0
_REASON_CHARS = 500


class RecurringWork(LaterWork[DueRow, datetime]):
    """Fires recurring schedules. An item is the time that is due."""

    task = "recurring schedules"
    noun = "recurring schedule"
    due = (store.list_due,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due(connection, now=self.app.clock.now(), but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> DueRow | None:
        return await store.take(connection, schedule_id=row_id, now=self.app.clock.now())

    async def next(self, connection: Connection, row: DueRow) -> datetime | bool:
        """Return the time that is due; an edit of the schedule changes it."""
        return row.due_at

    async def act(self, row: DueRow, item: datetime) -> Firing:
        """Run, launch or begin as who made the schedule."""
        doing = read_doing(self.app.secret_key.open(bytes(row.act), recurring_purpose(row.id)))
        due_at = to_ms(item)
        seed = ("recurring-schedule", row.id, due_at)
        cause = Cause("recurring-schedule", row.id, row.name)
        ctx = Context(self.app, await actor_of(self.app, row), cause=cause, item=seed)
        firing = Firing(due_at=due_at, at=to_ms(self.app.clock.now()), outcome="Started")
        if row.kind == "bulk":
            assert doing.bulk is not None
            wanted = BulkRequest(
                act=doing.bulk,
                ids=doing.ids,
                wanted=doing.wanted,
                max_parallel=doing.max_parallel,
                stop_after_failures=doing.stop_after_failures,
            )
            bulk_id = await create_bulk(ctx, row.organization_id, wanted, id_of_turn(due_at // 1000, *seed))
            return msgspec.structs.replace(firing, bulk_id=bulk_id)
        if row.kind == "launch":
            started = await launch(ctx, row.application_id or "", doing.launch or {})
        else:
            started = await run_workflow(ctx, row.instance_id or "", doing.workflow or "", doing.parameters)
        return msgspec.structs.replace(firing, job_id=started.job_id, instance_id=started.instance_id)

    async def note(self, connection: Connection, row: DueRow, item: datetime, done: Firing) -> None:
        """Keep the firing, and set the next time."""
        due_at, fires_at = timing_of(row).next(max(self.app.clock.now(), item))
        kept = [done, *read_firings(row.firings)][: limits.RECURRING_FIRINGS]
        await store.note_firing(
            connection,
            schedule_id=row.id,
            due_at=due_at,
            fires_at=fires_at,
            firings=msgspec.json.encode(kept).decode(),
            fired=int(done.outcome == "Started"),
        )

    async def put_off(self, connection: Connection, row: DueRow, item: datetime, refusal: LaunchbayError) -> None:
        """Note the refusal; of a busy or frozen instance, wait or skip the time."""
        now = self.app.clock.now()
        is_busy = refusal.code in PASSING
        if is_busy and row.when_busy == "queue":
            fires_at = now + timedelta(seconds=pause_of(refusal, now, _BUSY_PAUSE_S))
            await store.postpone(
                connection, schedule_id=row.id, fires_at=fires_at, waits_for=reason_to_wait(refusal)[:_REASON_CHARS]
            )
            return
        is_skipped = is_busy or refusal.code == "NothingChosen"
        outcome: Literal["Skipped", "Refused"] = "Skipped" if is_skipped else "Refused"
        firing = Firing(due_at=to_ms(item), at=to_ms(now), outcome=outcome, message=str(refusal)[:_REASON_CHARS])
        await self.note(connection, row, item, firing)
