"""Checks of drift that are due, and what rules put back (decision 0223)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import structlog

from launchbay.clock import to_ms
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.features.change_sets.usecases import ChangeSetView, apply_change_set, read_change_set
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import PutBackRow, PutBackRule, ScheduleRow
from launchbay.features.drift.rules import (
    PutBackDone,
    held_back,
    not_named,
    read_done,
    read_findings,
    to_put_back,
    within_a_day,
)
from launchbay.features.drift.usecases import check_scheduled, put_back_drift, require_put_back_right
from launchbay.features.plans.rules import read_steps
from launchbay.features.plans.usecases import Consent
from launchbay.features.recurring.usecases import Timing
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, actor_of

log = structlog.get_logger(__name__)
_ROUND = 100
_PLAN_PAUSE_S = 2.0
_PAUSE_S = 60.0
_MESSAGE_CHARS = 500


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


class ToPutBack(NamedTuple):
    """An instance, its rule, and the findings that the rule puts back, by ID."""

    row: PutBackRow
    rule: PutBackRule
    finding_ids: tuple[str, ...]


class Outcome(NamedTuple):
    """What came of one turn.

    `message` is what the instance waits for, and `pause_s` for how long; None: until its next check. `is_done` says
    that the change set is being applied. `stops` is why the whole rule does.
    """

    message: str | None = None
    pause_s: float | None = None
    change_set_id: str | None = None
    is_done: bool = False
    stops: str | None = None


class PutBackWork(LaterWork[PutBackRow, ToPutBack]):
    """Puts back what a rule names, as who set the rule.

    One turn makes a change set, a later one applies it. Each of them needs that person's rights, and rules about
    changes are asked as of anything that acts later.
    """

    task = "put backs"
    noun = "put back"
    every_s = 1.0
    due = (store.list_due_put_backs,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_due_put_backs(connection, now=self.app.clock.now(), but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> PutBackRow | None:
        await store.begin_put_back(connection, instance_id=row_id)
        return await store.take_put_back(connection, instance_id=row_id, now=self.app.clock.now())

    async def next(self, connection: Connection, row: PutBackRow) -> ToPutBack | bool:
        """Return what to put back, or note why nothing is."""
        rule = await store.get_put_back_rule_of(connection, instance_id=row.instance_id)
        now_ms = to_ms(self.app.clock.now())
        findings = read_findings(row.findings)
        named = [] if rule is None or rule.problem else to_put_back(findings, rule.addresses, now_ms)
        if rule is None or not named:
            await self._note(connection, row, Outcome())
            return False
        found = ToPutBack(row, rule, tuple(each.id for each in named))
        if row.change_set_id is not None:
            return found
        made = [each.change_set_id for each in named if each.change_set_id is not None]
        now = self.app.clock.now()
        if await store.list_open(connection, change_set_ids=made, organization_id=row.organization_id, now=now):
            await self._note(connection, row, Outcome("A change set deals with it already. Apply or delete that."))
            return False
        held = held_back(findings, named, within_a_day(read_done(row.done), now_ms), rule.addresses, rule.most_per_day)
        if held is None:
            return found
        pause_s = None if held.until_ms is None else (held.until_ms - now_ms) / 1000
        await self._note(connection, row, Outcome(held.message, pause_s))
        log.warning("drift.held_back", instance=row.instance_id, reason=held.message)
        return False

    async def act(self, row: PutBackRow, item: ToPutBack) -> Outcome:
        """Make the change set or apply it, as who set the rule."""
        rule = item.rule
        owner = ScheduleOwner(rule.owner_id, rule.owner_email, rule.owner_name, "", rule.method, rule.token_id)
        try:
            turn = ("put back", row.instance_id, str(row.checked_at), row.change_set_id or "")
            ctx = Context(self.app, await actor_of(self.app, owner), turn=turn)
            await require_put_back_right(ctx, rule)
        except (NotAllowed, NotAuthenticated, NotFound) as error:
            return Outcome(stops=f"Stopped: {error} Somebody who may can save the rule again.")
        if row.change_set_id is None:
            return Outcome(None, _PLAN_PAUSE_S, await put_back_drift(ctx, row.instance_id, rule))
        view = await read_change_set(ctx, row.change_set_id)
        waits = _waits(view, rule)
        if waits is not None:
            return waits
        await apply_change_set(
            ctx, row.change_set_id, Consent(allow_deletes=rule.allow_deletes, digest=view.plan_digest)
        )
        return Outcome(is_done=True)

    async def note(self, connection: Connection, row: PutBackRow, item: ToPutBack, done: Outcome) -> None:
        if done.stops is not None:
            await store.stop_put_back_rule(
                connection, scope_id=item.rule.object_id, problem=done.stops[:_MESSAGE_CHARS]
            )
            log.warning("drift.rule_stopped", rule=item.rule.object_id, reason=done.stops)
        await self._note(connection, row, done, item.finding_ids if done.is_done else ())

    async def put_off(self, connection: Connection, row: PutBackRow, item: ToPutBack, refusal: LaunchbayError) -> None:
        """Wait for what passes, or else for the next check."""
        passes = refusal.code in PASSING
        pause_s = pause_of(refusal, self.app.clock.now(), _PAUSE_S) if passes else None
        await self._note(connection, row, Outcome(str(refusal), pause_s, row.change_set_id if passes else None))

    async def _note(
        self, connection: Connection, row: PutBackRow, found: Outcome, put_back: Sequence[str] = ()
    ) -> None:
        now = self.app.clock.now()
        done = [*within_a_day(read_done(row.done), to_ms(now)), *(PutBackDone(each, to_ms(now)) for each in put_back)]
        await store.note_put_back(
            connection,
            instance_id=row.instance_id,
            change_set_id=found.change_set_id,
            message=None if found.message is None else found.message[:_MESSAGE_CHARS],
            done=msgspec.json.encode(done).decode(),
            checked_at=row.checked_at,
            looks_at=None if found.pause_s is None else now + timedelta(seconds=found.pause_s),
        )


def _waits(view: ChangeSetView, rule: PutBackRule) -> Outcome | None:
    """Return what a change set waits for before a rule applies it."""
    found, plans = view.change_set, list(view.plans.values())
    failed = next((each.problem for each in plans if each.status == "Failed"), None)
    if found.status in {"Pending", "Ready"} and failed is not None:
        return Outcome(f"The plan of the change set failed: {failed}")
    if found.status in {"Pending", "Ready"} and any(each.result is None for each in plans):
        return Outcome(None, _PLAN_PAUSE_S, found.id)
    if found.status == "Pending":
        return Outcome("The change set waits for approval.", _PAUSE_S, found.id)
    if found.status != "Ready":
        return Outcome()
    allow_deletes = None if found.needed else rule.allow_deletes
    steps = [step for each in plans if each.result is not None for step in read_steps(each.result)]
    problem = not_named(steps, rule.addresses, allow_deletes)
    return Outcome(problem) if problem else None
