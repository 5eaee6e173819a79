"""The bounds of sleep windows, at which instances are stopped and started.

Each instance with a rule has a row, which is due at the begin or end of a window. What is next compares whether the
instance sleeps with whether it should, so that one look makes up for bounds that were missed. The transaction that
accepts the job also sets when the row is due again: each happens once.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import structlog

from launchbay.auth.permissions import Actor, Method
from launchbay.clock import to_ms
from launchbay.errors import LaunchbayError
from launchbay.features.sleep_windows import rows as store
from launchbay.features.sleep_windows.rows import SleepRow
from launchbay.features.sleep_windows.rules import SleepRules
from launchbay.features.sleep_windows.usecases import LAUNCHED_LATELY_S, cannot_sleep, commands, rules_of
from launchbay.ids import first_id_of_last
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause
from launchbay.store import instances, schedules
from launchbay.store.database import Connection
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING
from launchbay.usecases.workflows import reason_to_wait, run_unchecked

log = structlog.get_logger(__name__)
_ROUND = 100  # rows before the others of the process have theirs
_BUSY_PAUSE_S = 2.0
Change = Literal["sleep", "wake"]


class Sleeper(NamedTuple):
    """An instance with a rule, at a time."""

    record: InstanceRecord
    row: SleepRow
    rules: SleepRules  # without windows if the rule is gone
    now: datetime


class SleepWork(LaterWork[Sleeper, Change]):
    """Stops and starts instances at the bounds of windows."""

    task = "sleep windows"
    noun = "sleeping instance"
    every_s = 1.0
    due = (store.list_with_rules, store.list_due)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        now = self.app.clock.now()
        await store.add_launched(connection, after=first_id_of_last(LAUNCHED_LATELY_S), now=now)
        return await store.list_due(connection, now=now, but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> Sleeper | None:
        """Lock as a deletion does: the instance first."""
        now = self.app.clock.now()
        record = await instances.get_record(connection, instance_id=row_id)
        row = None if record is None else await store.take(connection, instance_id=row_id, now=now)
        if record is None or row is None:
            return None
        rules, _ = await rules_of(connection, record)
        return Sleeper(record, row, rules or SleepRules(), now)

    async def next(self, connection: Connection, row: Sleeper) -> Change | bool:
        """Return what is to change, or note when to look again."""
        record, before, rules, now = row
        if record.status is InstanceStatus.DESTROYED:
            await store.remove(connection, instance_id=record.id)
            return True
        should_sleep = rules.is_asleep(now) and (before.awake_until is None or before.awake_until <= now)
        is_new = before.due_at is None and not before.is_asleep
        if should_sleep == before.is_asleep or (should_sleep and is_new):
            await self._save(connection, row, before._replace(message=None))
            return True
        if should_sleep:
            return "sleep"
        if await store.was_started(
            connection, instance_id=record.id, job_id=before.job_id or "", workflow=before.wake_workflow
        ):
            await self._save(connection, row, before._replace(is_asleep=False, since=now, message=None))
            return True
        return "wake"

    async def act(self, row: Sleeper, item: Change) -> SleepRow:
        """Run the command that stops or starts it."""
        changed = row.row._replace(is_asleep=item == "sleep", since=row.now, message=None)
        if item == "wake":
            return changed._replace(job_id=await self._run(row, changed.wake_workflow))
        stop, start = await self._commands(row)
        return changed._replace(wake_workflow=start, job_id=await self._run(row, stop))

    async def note(self, connection: Connection, row: Sleeper, item: Change, done: SleepRow) -> None:
        await store.count_no_run(connection, instance_id=row.record.id, job_id=done.job_id)
        await self._save(connection, row, done)

    async def put_off(self, connection: Connection, row: Sleeper, item: Change, refusal: LaunchbayError) -> None:
        """Note why an instance doesn't sleep or wake.

        One that is busy waits, unless its rules say otherwise.
        """
        if refusal.code in PASSING and (item == "wake" or row.rules.when_busy == "queue"):
            message = f"It waits: {reason_to_wait(refusal)}"[:500]
            fires_at = row.now + timedelta(seconds=pause_of(refusal, row.now, _BUSY_PAUSE_S))
            await store.postpone(connection, instance_id=row.record.id, fires_at=fires_at, message=message)
            return
        changed = row.row._replace(message=f"{refusal}"[:500])
        log.info("sleep.refused", instance=row.record.id, reason=changed.message)
        if item == "wake" and not row.rules.windows:
            # Its rule is gone, and it can't be started: nobody would try again.
            changed = changed._replace(is_asleep=False)
        await self._save(connection, row, changed)

    async def _commands(self, row: Sleeper) -> tuple[str, str]:
        """Return what stops and starts an instance. Raises BadRequest if it can't sleep now."""
        record = row.record
        if record.status is not InstanceStatus.RUNNING and record.job_id is None:
            raise cannot_sleep(f"It didn't sleep: its status was {record.status.value}.")
        async with self._context(row).begin() as work:
            if await schedules.get_waiting_destroy(work.connection, instance_id=record.id) is not None:
                raise cannot_sleep("It didn't sleep: it waits for its destruction.")
            return await commands(work, record, row.rules)

    async def _run(self, row: Sleeper, workflow: str) -> str:
        async with self._context(row).begin() as work:
            return (await run_unchecked(work, row.record, workflow, {})).job_id

    def _context(self, row: Sleeper) -> Context:
        actor = Actor(row.record.owner_id, "engine/sleep", "sleep", "", Method.ENGINE)
        seed = () if row.row.due_at is None else ("sleep", row.record.id, to_ms(row.row.due_at))
        return Context(self.app, actor, cause=Cause("sleep", row.record.id), item=seed)

    @staticmethod
    async def _save(connection: Connection, row: Sleeper, changed: SleepRow) -> None:
        """Store a row, and when it is due again."""
        if not row.rules.windows and not changed.is_asleep:
            await store.remove(connection, instance_id=row.record.id)
            return
        due_at = row.rules.next_bound(row.now)
        if changed.awake_until is not None and changed.awake_until > row.now:
            due_at = changed.awake_until if due_at is None else min(due_at, changed.awake_until)
        elif changed.awake_until is not None:
            changed = changed._replace(awake_until=None, awake_by=None)
        changed = changed._replace(due_at=due_at)
        await store.save(connection, instance_id=row.record.id, fires_at=due_at, **changed._asdict())
