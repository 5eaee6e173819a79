"""Checks of drift that are due, and what rules put back (decision 0223)."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec
import structlog

from launchbay import limits
from launchbay.clock import to_ms
from launchbay.errors import LaunchbayError, NotAllowed, NotAuthenticated, NotFound
from launchbay.features.change_sets.usecases import (
    ChangeSetView,
    apply_or_withdraw,
    read_change_set,
)
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import CheckTimesToRead, PutBackRow, PutBackRule, ScheduleRow
from launchbay.features.drift.rules import (
    Finding,
    PutBackDone,
    not_named,
    read_done,
    read_findings,
    to_put_back,
    why_held,
    within_a_day,
)
from launchbay.features.drift.usecases import (
    check_scheduled,
    discard_put_back,
    put_back_drift,
    read_times_of_manifest,
    require_put_back_right,
)
from launchbay.features.plans.rules import read_steps
from launchbay.features.plans.usecases import Consent
from launchbay.features.recurring.usecases import Timing
from launchbay.store import organizations
from launchbay.store.database import Connection
from launchbay.usecases.context import Context
from launchbay.usecases.later import LaterWork, pause_of
from launchbay.usecases.on_behalf import PASSING, actor_of

log = structlog.get_logger(__name__)
_ROUND = 100
_PLAN_PAUSE_S = 2.0
_TURN_PAUSE_S = 10.0
_PAUSE_S = 60.0
_PASSING = {*PASSING, "PlanUnderWay", "ChangeSetPending"}
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
        organization_id = await store.lock_schedule(connection, scope_id=row_id, now=self.app.clock.now())
        if organization_id is None:
            return None
        [row] = await store.list_schedules(connection, scope_ids=[row_id], organization_id=organization_id)
        return row

    async def next(self, connection: Connection, row: ScheduleRow) -> datetime | bool:
        """Return the time that is due; an edit of the schedule changes it."""
        return row.fires_at or False

    async def act(self, row: ScheduleRow, item: datetime) -> str | None:
        """Let the instances wait, as who set the schedule; return what is left out."""
        if row.is_replaced:
            return None
        if row.owner_id is None:
            raise NotAllowed("A server of an earlier version set the schedule, without its owner.")
        owner = ScheduleOwner(row.owner_id, row.owner_email, row.owner_name, "", row.method, row.token_id)
        return await check_scheduled(Context(self.app, await actor_of(self.app, owner)), row)

    async def note(self, connection: Connection, row: ScheduleRow, item: datetime, done: str | None) -> None:
        """Set the next time."""
        due_at, fires_at = timing_of(row).next(self.app.clock.now())
        await store.set_next(connection, scope_id=row.object_id, due_at=due_at, fires_at=fires_at, problem=done)

    async def put_off(self, connection: Connection, row: ScheduleRow, item: datetime, refusal: LaunchbayError) -> None:
        """Stop a schedule whose owner may not check any more.

        After another refusal, the next time is another attempt, and so it is for one of a manifest: the instance may
        have another owner then.
        """
        if row.of_manifest or not isinstance(refusal, NotAllowed | NotFound):
            await self.note(connection, row, item, str(refusal))
            return
        problem = f"Stopped: {refusal} Somebody who may can set the schedule again."
        await store.set_next(connection, scope_id=row.object_id, due_at=None, fires_at=None, problem=problem)


class CheckTimesWork(LaterWork[CheckTimesToRead, None]):
    """Reads when manifests want instances checked, after changes of these (decision 0242)."""

    task = "times of checks"
    noun = "instance"
    every_s = 1.0
    due = (store.list_check_times,)

    async def list_due(self, connection: Connection, failed: Sequence[str]) -> Sequence[str]:
        return await store.list_check_times(connection, but=list(failed), count=_ROUND)

    async def take(self, connection: Connection, row_id: str) -> CheckTimesToRead | None:
        return await store.take_check_times(connection, instance_id=row_id)

    async def next(self, connection: Connection, row: CheckTimesToRead) -> bool:
        """Set the schedule; there is nothing to do as somebody."""
        with self.app.database.joined(connection):
            await read_times_of_manifest(self.app, connection, row)
        await store.delete_check_times(connection, instance_id=row.instance_id)
        return False


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


class Wait(NamedTuple):
    """What an instance waits for, and how long; None: until its next check.

    `change_set_id` is the rule's change set that waits with it.
    """

    message: str | None = None
    pause_s: float | None = None
    change_set_id: str | None = None


class Applied(NamedTuple):
    """The change set is being applied, which puts these findings back."""

    finding_ids: tuple[str, ...]


class Stopped(NamedTuple):
    """Why the whole rule does nothing any more."""

    reason: str


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
            await self._note(connection, row, Wait())
            return False
        wait = await self._hindrance(connection, row, rule, findings, named)
        if wait is None:
            return ToPutBack(row, rule, tuple(each.id for each in named))
        await self._note(connection, row, wait)
        return False

    async def _hindrance(
        self,
        connection: Connection,
        row: PutBackRow,
        rule: PutBackRule,
        findings: Sequence[Finding],
        named: Sequence[Finding],
    ) -> Wait | None:
        """Return what keeps a rule from making or applying a change set."""
        now = self.app.clock.now()
        now_ms = to_ms(now)
        done = within_a_day(read_done(row.done), now_ms)
        held = why_held(findings, named, done, rule.addresses, rule.most_per_day, now_ms)
        if held is not None:
            log.warning("drift.held_back", instance=row.instance_id, reason=held.message)
            return Wait(held.message, None if held.until_ms is None else (held.until_ms - now_ms) / 1000)
        if row.change_set_id is not None:
            return None
        where = {"organization_id": row.organization_id}
        made = [each.change_set_id for each in named if each.change_set_id is not None]
        if await store.list_open(connection, change_set_ids=made, **where, now=now):
            return Wait("A change set deals with it already. Apply or delete that.")
        await organizations.lock(connection, **where)  # as what makes a change set does: two turns don't both count
        unapplied = await store.count_unapplied(connection, scope_id=rule.object_id, **where) or 0
        if unapplied >= limits.PUT_BACKS_UNAPPLIED:
            message = "The rule has as many change sets as it may before it has applied them. This one comes later."
            return Wait(message, _TURN_PAUSE_S)
        return None

    async def act(self, row: PutBackRow, item: ToPutBack) -> Wait | Applied | Stopped:
        """Make the change set or apply it, as who set the rule."""
        rule = item.rule
        owner = ScheduleOwner(rule.owner_id, rule.owner_email, rule.owner_name, "", rule.method, rule.token_id)
        try:
            seed = ("put back", row.instance_id, str(row.checked_at), row.change_set_id or "")
            ctx = Context(self.app, await actor_of(self.app, owner), item=seed)
            await require_put_back_right(ctx, rule)
        except (NotAllowed, NotAuthenticated, NotFound) as error:
            return Stopped(f"Stopped: {error} Somebody who may can save the rule again.")
        if row.change_set_id is None:
            made = await put_back_drift(ctx, row.instance_id, rule)
            return Wait(pause_s=_PLAN_PAUSE_S, change_set_id=made)
        view = await read_change_set(ctx, row.change_set_id)
        wait = wait_of(view, rule)
        if wait is not None:
            return wait
        consent = Consent(allow_deletes=rule.allow_deletes, digest=view.plan_digest)
        lost = await apply_or_withdraw(ctx, row.change_set_id, consent)
        return Applied(item.finding_ids) if lost is None else Wait(lost, _PAUSE_S, row.change_set_id)

    async def note(
        self, connection: Connection, row: PutBackRow, item: ToPutBack, done: Wait | Applied | Stopped
    ) -> None:
        if isinstance(done, Stopped):
            rule, problem = item.rule, done.reason[:_MESSAGE_CHARS]
            by = {"owner_id": rule.owner_id, "method": rule.method, "token_id": rule.token_id}
            await store.stop_put_back_rule(connection, scope_id=rule.object_id, problem=problem, **by)
            log.warning("drift.rule_stopped", rule=rule.object_id, reason=problem)
        put_back = done.finding_ids if isinstance(done, Applied) else ()
        await self._note(connection, row, done if isinstance(done, Wait) else Wait(), put_back)

    async def put_off(self, connection: Connection, row: PutBackRow, item: ToPutBack, refusal: LaunchbayError) -> None:
        """Wait for what passes, or else for the next check."""
        if refusal.code in _PASSING:
            pause_s = pause_of(refusal, self.app.clock.now(), _PAUSE_S)
            await self._note(connection, row, Wait(str(refusal), pause_s, row.change_set_id))
        else:
            await self._note(connection, row, Wait(str(refusal)))

    async def _note(self, connection: Connection, row: PutBackRow, wait: Wait, put_back: Sequence[str] = ()) -> None:
        """Write down what an instance waits for.

        A change set that doesn't wait with it is of no use any more: the next check makes another one.
        """
        if row.change_set_id is not None and row.change_set_id != wait.change_set_id:
            await discard_put_back(self.app, connection, row, row.change_set_id)
        now = self.app.clock.now()
        done = [*within_a_day(read_done(row.done), to_ms(now)), *(PutBackDone(each, to_ms(now)) for each in put_back)]
        await store.note_put_back(
            connection,
            instance_id=row.instance_id,
            change_set_id=wait.change_set_id,
            message=None if wait.message is None else wait.message[:_MESSAGE_CHARS],
            done=msgspec.json.encode(done).decode(),
            checked_at=row.checked_at,
            looks_at=None if wait.pause_s is None else now + timedelta(seconds=wait.pause_s),
        )


def wait_of(view: ChangeSetView, rule: PutBackRule) -> Wait | None:
    """Return what a change set waits for before a rule applies it."""
    found, plans = view.change_set, list(view.plans.values())
    if found.status not in {"Pending", "Ready"}:
        return Wait()
    if not plans or len(plans) < found.plans:
        return Wait("Who set the rule may not read the plan of the change set, so nothing is applied for them.")
    failed = next((each.problem for each in plans if each.status == "Failed"), None)
    if failed is not None:
        return Wait(f"The plan of the change set failed: {failed}")
    if any(each.result is None for each in plans):
        return Wait(pause_s=_PLAN_PAUSE_S, change_set_id=found.id)
    if found.status == "Pending":
        return Wait("The change set waits for approval.", _PAUSE_S, found.id)
    allow_deletes = None if found.needed else rule.allow_deletes
    steps = [step for each in plans if each.result is not None for step in read_steps(each.result)]
    problem = not_named(steps, rule.addresses, allow_deletes)
    return Wait(problem) if problem else None
