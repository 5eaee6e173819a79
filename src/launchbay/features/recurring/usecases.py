"""Recurring schedules that people make (conformance.md, "Beyond the reference").

A schedule is a row. When it is due, one server runs its workflow, launches its application or begins its bulk run as
the person who made it (`later.py`).
"""

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Any, Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.clock import iso_time
from launchbay.errors import BadRequest, Conflict, NotAllowed
from launchbay.features.bulk.usecases import Act
from launchbay.features.recurring import rows as store
from launchbay.features.recurring.rows import DueRow, RecurringSchedule, recurring_purpose
from launchbay.ids import new_id
from launchbay.model.changes import Allowed, ChangeKind, Proposal, Refusal
from launchbay.model.instance import InstanceStatus
from launchbay.model.scalars import json_decoder
from launchbay.model.schedule import (
    daily_due_times,
    schedule_warnings,
    zone_of,
    zoned_due_times,
)
from launchbay.model.waits import never_message
from launchbay.planning.acceptance import OBSERVED, TAKE_OVER
from launchbay.planning.arguments import ignored_parameters
from launchbay.planning.names import DESTROY
from launchbay.planning.plans import plan_run
from launchbay.store import organizations, schedules
from launchbay.usecases.context import Context, Work, validate_name
from launchbay.usecases.fleet import InstanceFilter, page_of_instances
from launchbay.usecases.launch import ignored_by_launch, plan_launch_tree, proposal_of
from launchbay.usecases.on_behalf import may_control, require_control
from launchbay.usecases.selection import choose_instances
from launchbay.usecases.workflows import check_required, for_running

log = structlog.get_logger(__name__)
_SHOWN = 5  # next times, of a document
Kind = Literal["run", "launch", "bulk"]
WhenBusy = Literal["skip", "queue"]


class Doing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule does: one of the three. Stored encrypted."""

    workflow: str | None = None
    parameters: dict[str, Any] = {}
    launch: dict[str, Any] | None = None
    bulk: Act | None = None
    ids: list[str] | None = None
    wanted: InstanceFilter = InstanceFilter()
    max_parallel: int = 10
    stop_after_failures: int | None = None


class Firing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One firing: when it was due, and what became of it."""

    due_at: int
    at: int
    outcome: Literal["Started", "Skipped", "Refused"]
    message: str | None = None
    job_id: str | None = None
    instance_id: str | None = None
    bulk_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """When a schedule fires. `jitter_ms` delays each firing by a random part of it."""

    cron: str
    zone: str = "UTC"
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    is_paused: bool = False
    when_busy: WhenBusy = "skip"
    jitter_ms: int = 0

    def check(self, now: datetime) -> None:
        """Raise BadRequest for an expression, zone or bound that can't be."""
        times = list(islice(self.times(now), 3))
        if self.ends_at is not None and self.starts_at is not None and self.ends_at <= self.starts_at:
            raise BadRequest("endsAt must be after startsAt.", code="InvalidSchedule", field="endsAt")
        if not times:
            raise BadRequest(
                "The schedule has no time in the future. Check cron and endsAt.", code="InvalidSchedule", field="cron"
            )
        if any((later - earlier).total_seconds() < limits.RECURRING_SHORTEST_S for earlier, later in pairwise(times)):
            raise BadRequest(
                f"The schedule fires more often than every {limits.RECURRING_SHORTEST_S} seconds.",
                "Give the seconds field a single value, such as 0.",
                code="InvalidSchedule",
                field="cron",
            )

    def times(self, now: datetime) -> Iterator[datetime]:
        """Yield the times after now. Raises BadRequest."""
        after = now if self.starts_at is None else max(now, self.starts_at - timedelta.resolution)
        try:
            zone = zone_of(self.zone)
        except ValueError as error:
            raise BadRequest(f"zone: {error}", code="InvalidSchedule") from error
        try:
            for found in zoned_due_times(self.cron, zone, after):
                if self.ends_at is not None and found > self.ends_at:
                    return
                yield found
        except ValueError as error:
            raise BadRequest(f"cron: {error}", code="InvalidSchedule") from error

    def warnings(self, now: datetime) -> list[str]:
        """Return the warnings of the expression (`schedule_warnings`). Raises BadRequest."""
        try:
            return schedule_warnings(self.cron, zone_of(self.zone), now)
        except ValueError as error:
            raise BadRequest(f"cron: {error}", code="InvalidSchedule") from error

    def times_until(self, end: datetime | None, now: datetime) -> Iterator[datetime]:
        """Yield the times after now, and before the end of the instance. Raises BadRequest."""
        return takewhile(lambda at: end is None or at < end, self.times(now))

    def ending(self, end: datetime | None, now: datetime) -> list[str]:
        """Return a warning if times come after the end of the instance. Raises BadRequest."""
        if end is None or next(self.times(max(now, end)), None) is None:
            return []
        if end <= now:
            return [f"The instance was destroyed at {iso_time(end)}: nothing runs on it."]
        if next(self.times_until(end, now), None) is None:
            return [never_message(end)]
        return [f"The instance is destroyed at {iso_time(end)}: this doesn't run from then on."]

    def next(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return the next time and when it fires, or None twice."""
        due_at = None if self.is_paused else next(self.times(now), None)
        if due_at is None:
            return None, None
        return due_at, due_at + timedelta(milliseconds=random.randint(0, self.jitter_ms))


@dataclass(frozen=True, slots=True)
class TimingPreview:
    """When a schedule fires next, and its warnings.

    The instance on which it runs ends at `instance_ends_at`.
    """

    times: list[datetime]
    warnings: list[str]
    instance_ends_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecurringRequest:
    """A recurring schedule to make.

    `instance_id` is of a run, `application_id` of a launch; a bulk run has neither.
    """

    name: str
    timing: Timing
    doing: Doing
    instance_id: str | None = None
    application_id: str | None = None

    @property
    def kind(self) -> Kind:
        if self.doing.bulk is not None:
            return "bulk"
        return "run" if self.application_id is None else "launch"


@dataclass(frozen=True, slots=True)
class RecurringView:
    """A recurring schedule with its next times and the statuses of its jobs."""

    schedule: RecurringSchedule
    doing: Doing
    next_at: list[datetime]
    firings: list[Firing]
    statuses: Mapping[str, str]

    def warnings(self, now: datetime) -> list[str]:
        """Return the warnings of its expression and of the end of its instance.

        Or that the expression can't be read any more.
        """
        schedule = self.schedule
        try:
            timing = timing_of(schedule)
            ending = () if schedule.due_at is None else timing.ending(schedule.instance_ends_at, now)
            return [*timing.warnings(now), *ending]
        except BadRequest as error:
            return list(error.messages)


async def create_recurring_schedule(ctx: Context, organization_id: str, request: RecurringRequest) -> RecurringView:
    """Make a recurring schedule and return it.

    Raises BadRequest for what can't be run now, with the permissions of the caller.
    """
    now = ctx.app.clock.now()
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        name, application_id = await _check(work, organization.id, request)
        await organizations.lock(work.connection, organization_id=organization.id)
        if (await store.count(work.connection, organization_id=organization.id) or 0) >= limits.RECURRING_SCHEDULES:
            raise BadRequest(
                f"The organization has {limits.RECURRING_SCHEDULES} recurring schedules. Delete one.",
                code="QuotaExceeded",
            )
        schedule_id, actor = new_id(), ctx.actor
        due_at, fires_at = request.timing.next(now)
        await store.insert(
            work.connection,
            schedule_id=schedule_id,
            organization_id=organization.id,
            owner_id=actor.user_id,
            owner_email=actor.email,
            owner_name=actor.name,
            address=actor.address,
            method=actor.method.value,
            token_id=actor.token_id,
            kind=request.kind,
            application_id=application_id,
            instance_id=request.instance_id,
            act=work.app.secret_key.seal(msgspec.json.encode(request.doing), recurring_purpose(schedule_id)),
            due_at=due_at,
            fires_at=fires_at,
            **_columns(name, request.timing),
        )
        after = {"name": name, "kind": request.kind, "cron": request.timing.cron, "zone": request.timing.zone}
        await work.audit("create_recurring_schedule", organization, after=after, at=_at(organization.id, schedule_id))
        return (await _views(work, [await work.lookup.of_member(store.recurring_schedule, schedule_id)]))[0]


async def preview_recurring_schedule(ctx: Context, organization_id: str, request: RecurringRequest) -> TimingPreview:
    """Return the next times of a schedule with its warnings.

    Raises as its creation does.
    """
    async with ctx.begin() as work:
        organization = await work.lookup.organization(organization_id)
        await _check(work, organization.id, request)
        instance_id = request.instance_id
        end = None if instance_id is None else await schedules.get_end(work.connection, instance_id=instance_id)
    return preview_timing(request.timing, end, ctx.app.clock.now(), _SHOWN)


async def read_end(ctx: Context, instance_id: str) -> datetime | None:
    """Return when an instance ends, as far as that is known."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await schedules.get_end(work.connection, instance_id=record.id)


def preview_timing(timing: Timing, end: datetime | None, now: datetime, most: int) -> TimingPreview:
    """Return the next times on an instance that ends then. Raises BadRequest."""
    times = list(islice(timing.times_until(end, now), most))
    return TimingPreview(times, [*timing.warnings(now), *timing.ending(end, now)], end)


async def _check(work: Work, organization_id: str, request: RecurringRequest) -> tuple[str, str | None]:
    """Return name and application of a schedule that can be made. Raises BadRequest, NotAllowed."""
    name = validate_name(request.name)
    request.timing.check(work.app.clock.now())
    return name, await _check_doing(work, organization_id, request)


def _columns(name: str, timing: Timing) -> dict[str, Any]:
    return {
        "name": name,
        "cron": timing.cron,
        "zone": timing.zone,
        "starts_at": timing.starts_at,
        "ends_at": timing.ends_at,
        "is_paused": timing.is_paused,
        "when_busy": timing.when_busy,
        "jitter_ms": timing.jitter_ms,
    }


def _at(organization_id: str, schedule_id: str) -> str:
    return f"/organizations/{organization_id}/recurring-schedules/{schedule_id}"


async def _check_doing(work: Work, organization_id: str, request: RecurringRequest) -> str | None:
    """Check that the caller could do it now; return the application of an instance or launch.

    Of a bulk run, instances that are named must exist; each is checked at its turn.
    """
    doing = request.doing
    if doing.bulk is not None:
        doing.bulk.check()
        if doing.ids is not None:
            await choose_instances(work, organization_id, doing.ids, doing.wanted, limits.BULK_INSTANCES)
        return None
    if request.application_id is not None:
        planned = await plan_launch_tree(work, request.application_id, doing.launch or {})
        _must_belong(planned.application.organization_id, organization_id)
        work.warn(ignored_by_launch(planned))
        if planned.may_be_ruled:
            answer = await work.foresee(
                "launch_application",
                planned.application,
                kind="launch",
                environment_id=planned.environment.id,
                proposed=proposal_of(planned),
            )
            work.warn(_said_of_firings(answer))
        return request.application_id
    workflow = doing.workflow or ""
    record = await for_running(work, request.instance_id or "", workflow, Permission.SCHEDULE_INSTANCE_WORKFLOW)
    _must_belong(record.organization_id, organization_id)
    if record.is_observed and workflow != DESTROY:
        raise Conflict(OBSERVED, TAKE_OVER, code="InstanceObserved")
    manifest = await work.manifest(record.application_id, record.version)
    plan_run(manifest, workflow, doing.parameters, InstanceStatus.RUNNING)
    work.warn(ignored_parameters(manifest, workflow, doing.parameters))
    await check_required(work, record, manifest, workflow, doing.parameters)
    kind: ChangeKind = "destroy" if workflow == DESTROY else "run"
    proposed = Proposal(workflow=workflow, parameters=doing.parameters)
    work.warn(_said_of_firings(await work.foresee("run_workflow", record, kind=kind, proposed=proposed)))
    return record.application_id


def _said_of_firings(answer: Refusal | Allowed) -> Sequence[str]:
    """Return what rules say to a firing. Nothing of a freeze, which ends."""
    if isinstance(answer, Allowed):
        return answer.warnings
    return [] if answer.overridable else [f"Firings would be refused as of now. {answer.sentence}"]


def _must_belong(found: str, organization_id: str) -> None:
    if found != organization_id:
        raise BadRequest("The instance or application belongs to another organization.", code="UnknownId")


async def _is_visible(work: Work, schedule: RecurringSchedule) -> bool:
    """Return whether the caller controls a schedule, or may read what it acts on."""
    organization_id = schedule.organization_id
    grants = work.lookup.grants(organization_id)
    if may_control(grants, work.actor, schedule):
        return True
    if schedule.application_id is not None and schedule.instance_id is None:
        return work.lookup.allows(organization_id, Permission.READ, permissions.application(schedule.application_id))
    if schedule.instance_id is not None:
        wanted = InstanceFilter(ids=[schedule.instance_id])
    else:
        doing = read_doing(work.app.secret_key.open(bytes(schedule.act), recurring_purpose(schedule.id)))
        wanted = doing.wanted if doing.ids is None else InstanceFilter(ids=doing.ids)
    seen = await page_of_instances(work, organization_id, wanted, Permission.READ, sort="created", after=None, count=1)
    return bool(seen.rows)


async def list_recurring_schedules(
    ctx: Context,
    organization_id: str,
    *,
    instance_id: str | None,
    application_id: str | None,
    after: str | None,
    count: int,
) -> list[RecurringView]:
    """Return the recurring schedules of what the caller may read, the newest first."""
    found: list[RecurringSchedule] = []
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        while len(found) < count:
            rows = await store.list_by_organization(
                work.connection,
                organization_id=organization_id,
                instance_id=instance_id,
                application_id=application_id,
                after=after,
                count=limits.PAGE_ROWS_MAX,
            )
            found += [row for row in rows if await _is_visible(work, row)]
            if len(rows) < limits.PAGE_ROWS_MAX:
                break
            after = rows[-1].id
        return await _views(work, found[:count])


async def list_named(ctx: Context, organization_id: str, name: str) -> list[str]:
    """Return the IDs of the visible recurring schedules with a name."""
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        rows = await store.list_by_name(work.connection, organization_id=organization_id, name=name)
        return [row.id for row in rows if await _is_visible(work, row)]


async def read_recurring_schedule(ctx: Context, schedule_id: str) -> RecurringView:
    async with ctx.read() as work:
        return (await _views(work, [await _find(work, schedule_id)]))[0]


async def controlled(ctx: Context, organization_id: str, schedules: Iterable[RecurringSchedule]) -> set[str]:
    """Return the IDs of those schedules of an organization that the caller may change."""
    async with ctx.read() as work:
        await work.lookup.member_of(organization_id)
        grants = work.lookup.grants(organization_id)
        return {each.id for each in schedules if may_control(grants, work.actor, each)}


async def _find(work: Work, schedule_id: str) -> RecurringSchedule:
    found = await work.lookup.of_member(store.recurring_schedule, schedule_id)
    if not await _is_visible(work, found):  # the sentence of the gate would name what it runs
        raise NotAllowed("You need the permission Read for what the schedule runs or launches.")
    return found


async def _views(work: Work, schedules: list[RecurringSchedule]) -> list[RecurringView]:
    firings = {each.id: read_firings(each.firings) for each in schedules}
    ids = [firing.job_id for each in firings.values() for firing in each if firing.job_id]
    statuses: dict[str, str] = {}
    if ids:
        organization_id = schedules[0].organization_id
        rows = await store.list_job_statuses(work.connection, ids=ids, organization_id=organization_id)
        statuses = {row.id: row.status for row in rows}
    key, now = work.app.secret_key, work.app.clock.now()
    return [
        RecurringView(
            each,
            read_doing(key.open(bytes(each.act), recurring_purpose(each.id))),
            next_times(each, now),
            firings[each.id],
            statuses,
        )
        for each in schedules
    ]


def waiting_for(schedule: RecurringSchedule, now: datetime) -> str | None:
    """Return what a time that is due waits for; None if none is."""
    due_at, fires_at = schedule.due_at, schedule.fires_at
    if due_at is None or fires_at is None or due_at > now or schedule.is_paused or fires_at == due_at:
        return None
    if fires_at <= due_at + timedelta(milliseconds=schedule.jitter_ms):
        return f"Due since {iso_time(due_at)}, and delayed to {iso_time(fires_at)}."
    reason = schedule.waits_for or "It waits until no other work runs there and its limits allow another job."
    return f"Due since {iso_time(due_at)}. {reason}"


def next_times(schedule: RecurringSchedule, now: datetime, most: int = _SHOWN) -> list[datetime]:
    """Return the next times of a schedule, without jitter, until its instance ends.

    One whose zone or expression is refused today has none.
    """
    if schedule.due_at is None:
        return []
    try:
        return list(islice(timing_of(schedule).times_until(schedule.instance_ends_at, now), most))
    except BadRequest:
        return []


def daily_times(schedule: RecurringSchedule, since: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Yield when a schedule fires first on each day in UTC, and how often, from `since` on and before `until`.

    That is without jitter, and before the end of its instance. What is paused doesn't fire, nor does one whose zone or
    expression is refused today.
    """
    if schedule.due_at is None:
        return
    if schedule.starts_at is not None:
        since = max(since, schedule.starts_at)
    if schedule.ends_at is not None:
        until = min(until, schedule.ends_at + timedelta.resolution)
    if schedule.instance_ends_at is not None:
        until = min(until, schedule.instance_ends_at)
    with suppress(ValueError):
        yield from daily_due_times(schedule.cron, zone_of(schedule.zone), since - timedelta.resolution, until)


def timing_of(row: RecurringSchedule | DueRow) -> Timing:
    """Return when a stored schedule is due."""
    return Timing(
        cron=row.cron,
        zone=row.zone,
        starts_at=row.starts_at,
        ends_at=row.ends_at,
        when_busy="queue" if row.when_busy == "queue" else "skip",
        jitter_ms=row.jitter_ms,
    )


async def update_recurring_schedule(ctx: Context, schedule_id: str, name: str, timing: Timing) -> None:
    """Replace name and times.

    Who made it may do that, and who may edit all instances.
    """
    now, name = ctx.app.clock.now(), validate_name(name)
    timing.check(now)
    async with ctx.begin() as work:
        found = await _find(work, schedule_id)
        require_control(work, found, "the recurring schedule")
        await store.lock(work.connection, schedule_id=found.id)
        due_at, fires_at = timing.next(now)
        await store.update(
            work.connection, schedule_id=found.id, due_at=due_at, fires_at=fires_at, **_columns(name, timing)
        )
        before = {"name": found.name, "cron": found.cron, "zone": found.zone, "paused": found.is_paused}
        after = {"name": name, "cron": timing.cron, "zone": timing.zone, "paused": timing.is_paused}
        await work.audit(
            "update_recurring_schedule",
            found.organization_id,
            before,
            after,
            at=_at(found.organization_id, found.id),
        )


async def pause_recurring_schedule(ctx: Context, schedule_id: str, *, paused: bool) -> None:
    """Pause a recurring schedule, or resume it from now on."""
    async with ctx.begin() as work:
        found = await _find(work, schedule_id)
        require_control(work, found, "the recurring schedule")
        await store.lock(work.connection, schedule_id=found.id)
        timing = replace(timing_of(found), is_paused=paused)
        due_at, fires_at = timing.next(ctx.app.clock.now())
        await store.update(
            work.connection, schedule_id=found.id, due_at=due_at, fires_at=fires_at, **_columns(found.name, timing)
        )
        await work.audit(
            "pause_recurring_schedule" if paused else "resume_recurring_schedule",
            found.organization_id,
            {"paused": found.is_paused},
            {"paused": paused},
            at=_at(found.organization_id, found.id),
        )


async def delete_recurring_schedule(ctx: Context, schedule_id: str) -> None:
    async with ctx.begin() as work:
        found = await _find(work, schedule_id)
        require_control(work, found, "the recurring schedule")
        await store.delete(work.connection, schedule_id=found.id)
        await work.audit(
            "delete_recurring_schedule",
            found.organization_id,
            {"name": found.name, "cron": found.cron},
            at=_at(found.organization_id, found.id),
        )


read_doing = json_decoder(Doing)
read_firings = msgspec.json.Decoder(list[Firing]).decode
