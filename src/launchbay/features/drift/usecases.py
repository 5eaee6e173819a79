"""Checks of how instances differ from what they are described as (decision 0210).

A request leaves a row that waits, and a process with an engine makes the check, since that starts programs. It plans
the launch of each launched component again, and changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.auth.gate import visible
from launchbay.auth.permissions import Actor, Permission, on_behalf
from launchbay.clock import from_ms, to_ms
from launchbay.errors import (
    BadRequest,
    Conflict,
    Fenced,
    LaunchbayError,
    NotAllowed,
    NotFound,
    TooManyRequests,
    Unavailable,
)
from launchbay.features.change_sets.usecases import ChangeAct, ChangeSetRequest, create_change_set, discard_change_set
from launchbay.features.drift import rows as store
from launchbay.features.drift.rows import (
    CheckTimesToRead,
    DriftedRow,
    HeldReport,
    PutBackRow,
    PutBackRule,
    PutBackRuleInUse,
    ReportRow,
    ScheduleRow,
    TakenCheck,
)
from launchbay.features.drift.rules import (
    DAY_MS,
    Candidate,
    Check,
    Difference,
    Finding,
    Known,
    TakeOver,
    Unchecked,
    answered,
    candidates,
    count_new,
    differences,
    first_of,
    ignored,
    is_decided,
    is_ignored_at,
    learned,
    merged,
    other_answers,
    put_back_with,
    read_checks,
    read_findings,
    read_known,
    read_take_overs,
    read_unchecked,
    unchecked,
    with_answers,
    without_known,
)
from launchbay.features.plans.ahead import look_for_drift
from launchbay.features.plans.look import Found, look
from launchbay.features.recurring.usecases import Timing
from launchbay.ids import new_id
from launchbay.manifest.configuration import effective_parameters
from launchbay.model.instance import InstanceStatus
from launchbay.model.scalars import decode_json
from launchbay.planning.acceptance import OBSERVED, TAKE_OVER
from launchbay.planning.plans import step_at
from launchbay.runtime.contract import RuntimeDeps
from launchbay.store import instances, organizations
from launchbay.store.applications import Application
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.leases import LEASE_S, LeasedWork, Leases
from launchbay.usecases.on_behalf import actor_of, refuse_agents

log = structlog.get_logger(__name__)
POLL_S = 0.5
_AT_ONCE = 2  # checks that one process makes at the same time
_OF_ORGANIZATION = 1  # of these, so that the checks of a large one leave room
_REASON_CHARS = 500
_NAMED = 5  # addresses in the comment of a change set


@dataclass(frozen=True, slots=True)
class Report:
    """What is known of the drift of one instance.

    `row` is None before anybody asked for a check. `ahead` counts the checks of the organization that have their turn
    before one that waits.
    """

    instance: InstanceRecord
    row: ReportRow | None
    findings: list[Finding]
    unchecked: list[Unchecked]
    checks: list[Check]
    ahead: int

    @property
    def status(self) -> str:
        if self.row is None:
            return "Unchecked"
        if self.row.waiting_since is not None:
            return "Checking" if self.row.is_begun else "Waiting"
        if self.row.problem is not None:
            return "Failed"
        return "Unchecked" if self.row.checked_at is None else "Checked"


async def check_drift(ctx: Context, instance_id: str, *, learns: bool = False) -> None:
    """Have an instance checked soon; one that waits already keeps its turn.

    With `learns`, what differs now is known afterwards and no finding. Raises BadRequest for what is destroyed, and
    TooManyRequests beyond the limit of waiting ones.
    """
    async with ctx.begin() as work:
        await work.lookup.instance(instance_id, Permission.READ)  # or the caller couldn't see what it began
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        _require_there(record)
        await organizations.lock(work.connection, organization_id=record.organization_id)
        waiting = await store.count_waiting(work.connection, organization_id=record.organization_id) or 0
        if waiting >= limits.DRIFT_WAITING:
            raise TooManyRequests(
                f"{limits.DRIFT_WAITING} instances of the organization wait for a check. Try again when some are done.",
                retry_after_s=60,
            )
        await store.ask(
            work.connection,
            instance_id=record.id,
            organization_id=record.organization_id,
            learns="asked" if learns else None,
        )
        await work.audit("check_drift", record, after={"baseline": learns})


async def ask_for_check(work: Work, instance_id: str, organization_id: str) -> None:
    """Have a new instance checked soon, and by the schedule of its manifest."""
    await store.read_check_times(work.connection, instance_id=instance_id, organization_id=organization_id)
    await store.ask(work.connection, instance_id=instance_id, organization_id=organization_id, learns=None)


async def read_drift(ctx: Context, instance_id: str) -> Report:
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        row = await store.get(work.connection, instance_id=record.id)
        waits = row is not None and row.waiting_since is not None and not row.is_begun
        ahead = await store.count_ahead(work.connection, instance_id=record.id) if waits else 0
        return _report(record, row, ahead or 0)


async def count_new_findings(ctx: Context, instance_id: str) -> int:
    """Return how many findings nobody ignores, of an instance that was looked up."""
    async with ctx.read() as work:
        return await store.get_new_findings(work.connection, instance_id=instance_id) or 0


def _report(record: InstanceRecord, row: ReportRow | None, ahead: int) -> Report:
    if row is None:
        return Report(record, None, [], [], [], 0)
    return Report(
        record, row, read_findings(row.findings), read_unchecked(row.unchecked), read_checks(row.checks), ahead
    )


async def list_drift(ctx: Context, organization_id: str, *, after: str | None, count: int) -> Sequence[DriftedRow]:
    """Return the visible instances with findings or problems.

    They are in the order of their IDs.
    """
    async with ctx.read() as work:
        organization_id = await work.lookup.member_of(organization_id)
        return await store.list_by_organization(
            work.connection,
            organization_id=organization_id,
            after=after or "",
            count=count,
            **visible(work.lookup.grants(organization_id), Permission.READ),
        )


async def ignore_drift(ctx: Context, instance_id: str, finding_id: str, reason: str, until: datetime) -> None:
    """Ignore a finding until then.

    Raises BadRequest without a reason or an end, and NotFound, Conflict.
    """
    reason = reason.strip()
    if not reason or len(reason) > _REASON_CHARS:
        raise BadRequest(
            f"reason: give 1 to {_REASON_CHARS} characters. Everyone who sees the finding sees them.",
            code="InvalidFinding",
            field="reason",
        )
    now = ctx.app.clock.now()
    if not 0 < (until - now).total_seconds() <= limits.DRIFT_IGNORED_DAYS * 24 * 3600:
        raise BadRequest(
            f"until: give a time within the next {limits.DRIFT_IGNORED_DAYS} days.",
            code="InvalidFinding",
            field="until",
        )
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        findings = await _locked(work, record)
        found = _open_finding(findings, finding_id)
        new = ignored(found, reason, to_ms(until), ctx.actor.email)
        await _put(work, record, [new if each.id == found.id else each for each in findings])
        after = {"address": found.difference.address, "reason": reason, "until": to_ms(until)}
        await work.audit("ignore_drift", record, {"state": found.state}, {"state": "ignored", **after})


async def watch_drift(ctx: Context, instance_id: str, finding_id: str) -> None:
    """Take back that a finding is ignored."""
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        findings = await _locked(work, record)
        found = _open_finding(findings, finding_id)
        new = msgspec.structs.replace(found, state="new", accepted=[], reason="", until=None, by="")
        await _put(work, record, [new if each.id == found.id else each for each in findings])
        after = {"address": found.difference.address, "state": "new"}
        await work.audit("watch_drift", record, {"state": found.state, "reason": found.reason}, after)


async def put_back_drift(ctx: Context, instance_id: str, rule: PutBackRule | None = None) -> str:
    """Make a change set that puts back what differs, and return its ID.

    It launches the instance again, and has the plan of that. With a rule, the caller is who set it. Raises Conflict if
    nothing does.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        await organizations.lock(work.connection, organization_id=record.organization_id)
        findings = await _locked(work, record)
        differing = [each for each in findings if each.is_open]
        if not differing:
            raise Conflict("No check has found anything that differs.", "Check the instance.", code="FindingClosed")
        request = _change_set(
            record, ChangeAct(act="relaunch"), "Put back by a rule" if rule else "Put back", differing
        )
        with ctx.app.database.joined(work.connection):
            change_set_id = await create_change_set(ctx, record.organization_id, request)
        new = [answered(each, "put back", change_set_id) if each.is_open else each for each in findings]
        await _put(work, record, new)
        by = {} if rule is None else {"rule": {"kind": rule.kind, "id": rule.object_id}}
        await work.audit("put_back_drift", record, after={"changeSet": change_set_id, **by})
    return change_set_id


async def discard_put_back(app: AppContext, connection: Connection, row: PutBackRow, change_set_id: str) -> None:
    """Delete a change set of a rule that nobody has applied."""
    if not await discard_change_set(app, connection, row.organization_id, change_set_id):
        return
    text = await store.lock(connection, instance_id=row.instance_id)
    findings = [
        msgspec.structs.replace(each, answer="", change_set_id=None) if each.change_set_id == change_set_id else each
        for each in read_findings(text or "[]")
    ]
    columns = _columns(findings, to_ms(app.clock.now()))
    await store.put_findings(connection, instance_id=row.instance_id, **columns)


@dataclass(frozen=True, slots=True)
class PutBack:
    """What a rule puts back.

    Patterns of addresses, those of them that it may delete for that, and how often an address within a day.
    """

    addresses: Sequence[str]
    allow_deletes: Sequence[str]
    most_per_day: int

    def check(self) -> None:
        """Raise BadRequest."""
        most, chars = limits.PUT_BACK_PATTERNS, limits.NAME_CHARS
        for name, patterns, least in (("addresses", self.addresses, 1), ("allowDeletes", self.allow_deletes, 0)):
            if not least <= len(patterns) <= most or not all(0 < len(each) <= chars for each in patterns):
                raise BadRequest(
                    f"{name}: give {least} to {most} patterns with 1 to {chars} characters.",
                    code="InvalidPutBackRule",
                    field=name,
                )
        if not 1 <= self.most_per_day <= limits.PUT_BACKS_PER_DAY:
            raise BadRequest(
                f"mostPerDay: give 1 to {limits.PUT_BACKS_PER_DAY}.", code="InvalidPutBackRule", field="mostPerDay"
            )


async def read_put_back_rule(ctx: Context, kind: "Scope", object_id: str) -> PutBackRule | None:
    """Return the rule of an object that puts back its instances."""
    async with ctx.read() as work:
        found = await _scheduled(work, kind, object_id, Permission.READ)
        return await store.get_put_back_rule(work.connection, scope_id=found.id)


async def set_put_back_rule(ctx: Context, kind: "Scope", object_id: str, rule: PutBack | None) -> None:
    """Set what a rule puts back in the instances of an object.

    None ends it. The caller is who it is put back for from then on. Raises BadRequest, and NotAllowed for agents: what
    they may only propose would happen by itself.
    """
    if rule is not None:
        rule.check()
        refuse_agents(ctx.actor, "a rule that puts back")
    async with ctx.begin() as work:
        found = await _scheduled(work, kind, object_id, _EDITS[kind])
        if rule is not None and isinstance(found, InstanceRecord):
            _require_there(found)
        before = await store.get_put_back_rule(work.connection, scope_id=found.id)
        if rule is None:
            await store.delete_put_back_rule(work.connection, scope_id=found.id)
        else:
            await store.put_put_back_rule(
                work.connection,
                **_set_at(kind, found, ctx.actor),
                addresses=list(rule.addresses),
                allow_deletes=list(rule.allow_deletes),
                most_per_day=rule.most_per_day,
            )
        await store.look_again(work.connection, scope_id=found.id, organization_id=found.organization_id)
        old = None if before is None else _shown_rule(before)
        new = None if rule is None else _shown_rule(rule)
        await work.audit("set_put_back_rule" if kind == "instance" else f"set_{kind}_put_back_rule", found, old, new)


def _shown_rule(rule: PutBack | PutBackRule) -> dict[str, object]:
    return {
        "addresses": list(rule.addresses),
        "allowDeletes": list(rule.allow_deletes),
        "mostPerDay": rule.most_per_day,
    }


async def require_put_back_right(ctx: Context, rule: PutBackRule) -> None:
    """Raise NotAllowed or NotFound unless the caller may set a rule."""
    kind = msgspec.convert(rule.kind, Scope)
    async with ctx.read() as work:
        await _scheduled(work, kind, rule.object_id, _EDITS[kind])


async def take_over_drift(ctx: Context, instance_id: str, finding_id: str) -> None:
    """Have the next check find the parameter that decides a finding.

    It makes a change set with the found value. If none does, the finding says where the value is.
    """
    actor = ctx.actor
    async with ctx.begin() as work:
        await work.lookup.instance(instance_id, Permission.READ)  # or the caller couldn't see what it began
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if record.is_observed:
            raise BadRequest(OBSERVED, TAKE_OVER, code="InstanceObserved")
        findings = await _locked(work, record)
        found = _open_finding(findings, finding_id)
        if found.difference.is_answer:
            raise BadRequest(
                "No parameter decides what a command or request answers.",
                "Take a baseline if the answer is right, or put it back.",
                code="InvalidFinding",
            )
        wanted = TakeOver(
            finding_id=found.id,
            owner_id=actor.user_id,
            owner_email=actor.email,
            owner_name=actor.name,
            address=actor.address,
            method=actor.method.value,
            token_id=actor.token_id,
        )
        text = msgspec.json.encode(wanted).decode()
        await store.want(work.connection, instance_id=record.id, take_over=text)
        await work.audit("take_over_drift", record, after={"address": found.difference.address})


def _change_set(
    record: InstanceRecord, act: ChangeAct, verb: str, findings: Sequence[Finding], others: Sequence[Finding] = ()
) -> ChangeSetRequest:
    """Return the request that answers findings.

    `others` are those that its steps put back too.
    """
    comment = f"{verb}: {first_of([each.difference.address for each in findings], _NAMED)}"
    if others:
        texts = [f"{each.difference.address}{' (ignored)' if each.state == 'ignored' else ''}" for each in others]
        comment += f". Its steps also put back what else differs in the component: {first_of(texts, _NAMED)}"
    return ChangeSetRequest(
        act=act,
        ids=[record.id],
        wanted=None,
        comment=comment[: limits.CHANGE_SET_COMMENT_CHARS],
        expires_in_ms=limits.CHANGE_SET_EXPIRY_MS,
        on_failure="keep",
        with_plans=True,
        needs_plans=False,
    )


Scope = Literal["application", "environment", "instance"]
Source = Literal["application", "environment", "instance", "manifest"]


async def read_schedule(ctx: Context, kind: Scope, object_id: str) -> ScheduleRow | None:
    """Return when the instances of an object are checked by themselves; None for never."""
    async with ctx.read() as work:
        found = await _scheduled(work, kind, object_id, Permission.READ)
        return await _schedule_of(work, found)


async def _schedule_of(work: Work, found: Application | Environment | InstanceRecord) -> ScheduleRow | None:
    rows = await store.list_schedules(work.connection, scope_ids=[found.id], organization_id=found.organization_id)
    return rows[0] if rows else None


async def read_schedules(ctx: Context, instance_id: str) -> Mapping[Source, ScheduleRow]:
    """Return the schedules that check an instance, by where they come from.

    They are of objects that the caller may read.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await _schedules(work, record, await _readable(work, record))


async def read_unattended(
    ctx: Context, instance_id: str
) -> tuple[Mapping[Source, ScheduleRow], Sequence[PutBackRuleInUse]]:
    """Return the schedules of an instance, and its rules that put back.

    The nearest rule is the first. They are of objects that the caller may read.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        readable = await _readable(work, record)
        rules = await store.list_put_back_rules(
            work.connection,
            scope_ids=list(scopes_of(record).values()),
            organization_id=record.organization_id,
            since_ms=to_ms(ctx.app.clock.now()) - DAY_MS,
            **visible(work.lookup.grants(record.organization_id), Permission.READ),
        )
        schedules = await _schedules(work, record, readable)
    return schedules, [rule for rule in rules if rule.object_id in readable]


async def _schedules(work: Work, record: InstanceRecord, readable: Mapping[str, Scope]) -> Mapping[Source, ScheduleRow]:
    rows = await store.list_schedules(work.connection, scope_ids=list(readable), organization_id=record.organization_id)
    found = {row.object_id: row for row in rows}
    return {
        "manifest" if found[object_id].of_manifest else kind: found[object_id]
        for object_id, kind in readable.items()
        if object_id in found
    }


async def _readable(work: Work, record: InstanceRecord) -> Mapping[str, Scope]:
    """Return those of `scopes_of` that the caller may read, by ID."""
    readable: dict[str, Scope] = {}
    for kind, object_id in scopes_of(record).items():
        with suppress(NotAllowed, NotFound):
            await _scheduled(work, kind, object_id, Permission.READ)
            readable[object_id] = kind
    return readable


def timing_of_request(
    cron: str | None, *, zone: str, jitter_ms: int = 0, is_paused: bool = False, mail: bool = False
) -> Timing | None:
    """Return when to check; None without a cron expression. Raises BadRequest for what would mean nothing then."""
    if cron is not None:
        return Timing(cron=cron, zone=zone, jitter_ms=jitter_ms, is_paused=is_paused)
    for name, is_given in (("paused", is_paused), ("mail", mail)):
        if is_given:
            raise BadRequest(
                f"{name}: it needs `cron`. Without it, this schedule ends, and that of the manifest applies again.",
                code="InvalidSchedule",
            )
    return None


def scopes_of(record: InstanceRecord) -> Mapping[Scope, str]:
    """Return the objects where schedules and rules of an instance are, the nearest first."""
    return {"instance": record.id, "application": record.application_id, "environment": record.environment_id}


async def set_schedule(ctx: Context, kind: Scope, object_id: str, timing: Timing | None, *, mail: bool = False) -> None:
    """Set when the instances of an object are checked; None ends that.

    Raises BadRequest. The caller is who they are checked for from then on. With `mail`, owners hear of
    new findings by email.
    """
    now = ctx.app.clock.now()
    if timing is not None:
        timing.check(now)
    async with ctx.begin() as work:
        found = await _scheduled(work, kind, object_id, _EDITS[kind])
        if timing is not None and isinstance(found, InstanceRecord):
            _require_there(found)
        before = await _schedule_of(work, found)
        if timing is None:
            await store.delete_schedule(work.connection, scope_id=found.id)
            if kind == "instance":
                await store.read_check_times(
                    work.connection, instance_id=found.id, organization_id=found.organization_id
                )
        else:
            due_at, fires_at = timing.next(now)
            await store.put_schedule(
                work.connection,
                **_set_at(kind, found, ctx.actor),
                cron=timing.cron,
                zone=timing.zone,
                jitter_ms=timing.jitter_ms,
                due_at=due_at,
                fires_at=fires_at,
                is_paused=timing.is_paused,
                mail=mail,
            )
        old = None if before is None else _shown_times(before, mail=before.mail)
        new = None if timing is None else _shown_times(timing, mail=mail)
        await work.audit("set_drift_schedule" if kind == "instance" else f"set_{kind}_drift_schedule", found, old, new)


def _shown_times(times: Timing | ScheduleRow, *, mail: bool) -> dict[str, object]:
    shown = {"cron": times.cron, "zone": times.zone, "jitter": times.jitter_ms, "paused": times.is_paused}
    return {**shown, "mail": mail}


async def read_times_of_manifest(app: AppContext, connection: Connection, row: CheckTimesToRead) -> None:
    """Set when an instance is checked that its manifest says, and nobody else.

    It is checked on behalf of its owner. The first check after a launch takes a baseline.
    """
    record = await instances.read_record(connection, instance_id=row.instance_id)
    if record is None or record.status is InstanceStatus.DESTROYED:
        return
    async with Context(app, on_behalf("")).read() as work:
        times = (await work.manifest(record.application_id, record.version)).checks
    if times is None:
        await store.delete_schedule_of_manifest(connection, instance_id=record.id)
        return
    due_at, _ = Timing(cron=times.cron, zone=times.zone).next(app.clock.now())
    await store.put_schedule_of_manifest(
        connection,
        instance_id=record.id,
        organization_id=record.organization_id,
        cron=times.cron,
        zone=times.zone,
        due_at=due_at,
        owner_id=record.owner_id,
    )
    if row.is_launched:
        await store.ask_for_first_baseline(connection, instance_id=record.id, organization_id=record.organization_id)


_MISSING = "EditInstance is missing."


async def check_scheduled(ctx: Context, row: ScheduleRow) -> str | None:
    """Let the instances of a schedule wait; return what is left out.

    These are those that its owner may check. Raises NotAllowed and NotFound if the owner may not set the schedule any
    more, or check none of its instances.
    """
    kind = msgspec.convert(row.kind, Scope)
    async with ctx.begin() as work:
        await _scheduled(work, kind, row.object_id, _EDITS[kind])
        await organizations.lock(work.connection, organization_id=row.organization_id)
        where = {"scope_id": row.object_id, "organization_id": row.organization_id}
        may = visible(work.lookup.grants(row.organization_id), Permission.EDIT_INSTANCE)
        found = await store.count_scheduled(work.connection, **where, **may)
        assert found is not None, "counts have a row"
        if found.running and not found.allowed:
            raise NotAllowed(f"{row.owner_email} may check no running instance ({found.running}): {_MISSING}")
        waiting = await store.count_queue(work.connection, organization_id=row.organization_id) or 0
        room = max(0, limits.DRIFT_QUEUE - waiting)
        asked = await store.ask_all(work.connection, **where, **may, room=room)
    refused, late = found.running - found.allowed, found.unasked - asked
    problems = []
    if refused:
        problems.append(f"{row.owner_email} may not check {refused} instance{'' if refused == 1 else 's'}: {_MISSING}")
    if late > 0:
        problems.append(
            f"{limits.DRIFT_QUEUE} checks of the organization wait, as many as may. "
            f"{late} more {'comes' if late == 1 else 'come'} when the schedule fires again."
        )
    return " ".join(problems) or None


async def _scheduled(
    work: Work, kind: Scope, object_id: str, permission: Permission
) -> Application | Environment | InstanceRecord:
    if kind == "application":
        return await work.lookup.application(object_id, permission)
    if kind == "environment":
        return await work.lookup.environment(object_id, permission)
    return await work.lookup.instance(object_id, permission)


def _set_at(kind: Scope, found: Application | Environment | InstanceRecord, actor: Actor) -> Mapping[str, str | None]:
    """Return the columns of what is set at an object, and who sets it."""
    return {
        "scope_id": found.id,
        "kind": kind,
        "organization_id": found.organization_id,
        **{f"{each}_id": found.id if each == kind else None for each in _EDITS},
        "owner_id": actor.user_id,
        "method": actor.method.value,
        "token_id": actor.token_id,
    }


_EDITS: Mapping[Scope, Permission] = {
    "application": Permission.EDIT_APPLICATION,
    "environment": Permission.EDIT_ENVIRONMENT,
    "instance": Permission.EDIT_INSTANCE,
}


async def _locked(work: Work, record: InstanceRecord) -> list[Finding]:
    text = await store.lock(work.connection, instance_id=record.id)
    return [] if text is None else read_findings(text)


def _open_finding(findings: Sequence[Finding], finding_id: str) -> Finding:
    found = next((each for each in findings if each.id == finding_id), None)
    if found is None:
        raise NotFound(f"The instance has no finding {finding_id[:40]!r}. Show its drift to see them.")
    if not found.is_open:
        raise Conflict(f"The finding is {found.state}: it no longer differs.", code="FindingClosed")
    return found


async def _put(work: Work, record: InstanceRecord, findings: Sequence[Finding]) -> None:
    columns = _columns(findings, to_ms(work.app.clock.now()))
    await store.put_findings(work.connection, instance_id=record.id, **columns)


def _columns(findings: Sequence[Finding], now_ms: int) -> Mapping[str, object]:
    return {
        "findings": msgspec.json.encode(findings).decode(),
        "new_findings": count_new(findings, now_ms),
        "ignored_until": [
            from_ms(each.until) for each in findings if each.until is not None and is_ignored_at(each, now_ms)
        ],
    }


class DriftRunner:
    """Makes the checks that wait; `advance` is one round."""

    def __init__(self, app: AppContext, runtime: RuntimeDeps) -> None:
        self._app = app
        self._runtime = runtime
        self._leases = Leases("check of drift", _AT_ONCE)
        self._under_way: Counter[str] = Counter()  # by organization
        self.close = self._leases.close

    async def advance(self) -> None:
        """Begin a check that waits."""
        if not self._leases.room:
            return
        async with self._app.database.transaction() as connection:
            busy = [each for each, number in self._under_way.items() if number >= _OF_ORGANIZATION]
            row = await store.take(connection, lease_s=LEASE_S, busy=busy)
        if row is not None:
            self._under_way[row.organization_id] += 1
            renew, do, failed = partial(self._renew, row), partial(self._make, row), partial(self._failed, row)
            self._leases.begin(LeasedWork(row.instance_id, renew, do, failed))

    async def _renew(self, row: TakenCheck) -> int:
        async with self._app.database.transaction() as connection:
            return await store.renew(connection, instance_id=row.instance_id, fence=row.fence, lease_s=LEASE_S)

    async def _make(self, row: TakenCheck) -> None:
        try:
            await self._check(row)
        finally:
            self._under_way[row.organization_id] -= 1

    async def _failed(self, row: TakenCheck, error: LaunchbayError) -> None:
        """Note why there is nothing new. What was found before stays."""
        now = self._app.clock.now()
        async with Context(self._app, on_behalf("")).begin() as work:
            held = await self._held(work, row)
            problem = str(error)
            if row.learns is not None:
                problem += " So there is no new baseline: check again, and take one if nothing differs that shouldn't."
            check = Check(at=to_ms(now), problem=problem)
            await store.fail(
                work.connection, instance_id=row.instance_id, problem=problem, at=now, checks=_with(check, held)
            )
        log.info("drift.failed", instance=row.instance_id)

    @staticmethod
    async def _held(work: Work, row: TakenCheck) -> HeldReport:
        """Return the report while nobody else may change it. Raises Fenced."""
        held = await store.hold(work.connection, instance_id=row.instance_id, fence=row.fence)
        if held is None:
            raise Fenced("A job has begun, or another process makes the check.")
        return held

    async def _check(self, row: TakenCheck) -> None:
        if row.attempts > limits.PLAN_ATTEMPTS:
            raise BadRequest(
                f"The check was started {limits.PLAN_ATTEMPTS} times, and each time the server stopped before the end.",
                "Check the servers' memory.",
            )
        found = Found()
        async with Context(self._app, on_behalf("")).read() as work:
            record = await instances.read_record(work.connection, instance_id=row.instance_id)
            if record is None:
                raise Fenced("The instance was deleted.")
            await _require_steady(work, record)
            ahead = await look_for_drift(work, record)
        try:
            # Of a new ID, since machines answer a command that they have run for the same one with what it said then.
            async with asyncio.timeout(limits.PLAN_S):
                await look(self._app, self._runtime, new_id(), ahead, found)
        except TimeoutError:
            raise BadRequest(
                f"The plan takes more than {limits.PLAN_S:g} s. It was at step {found.at or 'none'}.",
                "Give that step a shorter timeout, or split the instance.",
            ) from None
        wanted = {each.finding_id: each for each in read_take_overs(row.take_overs)}
        for finding_id, each in list(wanted.items()):
            del wanted[finding_id]
            await self._take_over(row, record, each, found, list(wanted.values()))
        async with Context(self._app, on_behalf("")).begin() as work:
            await self._note(work, row, found)

    async def _take_over(
        self, row: TakenCheck, record: InstanceRecord, wanted: TakeOver, found: Found, left: list[TakeOver]
    ) -> None:
        """Make the change set that somebody wants, or note why it can't.

        `left` are the take overs that wait after it.
        """
        async with Context(self._app, on_behalf("")).begin() as work:
            held = await self._held(work, row)
        known = _known(held)
        differing = without_known(differences(found.steps), known)
        difference = next((each for each in differing if each.id == wanted.finding_id), None)
        if difference is None:
            return  # it no longer differs, which the check notes
        try:
            async with asyncio.timeout(limits.PLAN_S):
                decided = await self._deciding(record, difference, found, known)
            if decided is not None:
                await self._propose(row, record, wanted, decided, left)
                return
            remedy = await self._place(record, difference)
        except TimeoutError:
            remedy = f"Looking for the parameter takes more than {limits.PLAN_S:g} s. Set it yourself."
        except (Fenced, Unavailable):
            raise
        except LaunchbayError as error:
            remedy = str(error)
        async with Context(self._app, on_behalf("")).begin() as work:
            findings = read_findings((await self._held(work, row)).findings)
            new = msgspec.structs.replace(_open_finding(findings, wanted.finding_id), remedy=remedy)
            await self._end_take_over(work, row, findings, new, left)

    async def _propose(
        self, row: TakenCheck, record: InstanceRecord, wanted: TakeOver, decided: Candidate, left: list[TakeOver]
    ) -> None:
        """Make the change set as who wants it."""
        act = ChangeAct(act="version", version=record.version, parameters={decided.parameter: decided.value})
        ctx = Context(self._app, await actor_of(self._app, wanted))
        async with ctx.begin() as work:
            await organizations.lock(work.connection, organization_id=row.organization_id)
            findings = read_findings((await self._held(work, row)).findings)
            found = _open_finding(findings, wanted.finding_id)
            request = _change_set(record, act, "Take over", [found], put_back_with(found, findings))
            with self._app.database.joined(work.connection):
                change_set_id = await create_change_set(ctx, row.organization_id, request)
            await self._end_take_over(work, row, findings, answered(found, "taken over", change_set_id), left)

    @staticmethod
    async def _end_take_over(
        work: Work, row: TakenCheck, findings: Sequence[Finding], new: Finding, left: list[TakeOver]
    ) -> None:
        text = msgspec.json.encode([new if each.id == new.id else each for each in findings]).decode()
        waiting = msgspec.json.encode(left).decode()
        await store.end_take_over(work.connection, instance_id=row.instance_id, findings=text, left=waiting)

    async def _deciding(
        self, record: InstanceRecord, difference: Difference, before: Found, known: Known
    ) -> Candidate | None:
        """Return the parameter with which a plan doesn't show the difference."""
        given = decode_json(record.parameters)
        async with Context(self._app, on_behalf("")).read() as work:
            manifest = await work.manifest(record.application_id, record.version)
        tried = candidates(effective_parameters(manifest, given), difference)
        for each in tried[: limits.DRIFT_CANDIDATES]:
            found = Found()
            try:
                async with Context(self._app, on_behalf("")).read() as work:
                    ahead = await look_for_drift(work, record, {**given, each.parameter: each.value})
                await look(self._app, self._runtime, new_id(), ahead, found)
            except BadRequest:
                continue  # a value that the parameter, or the module, refuses
            if is_decided(difference, before.steps, found.steps, known):
                return each
        return None

    async def _place(self, record: InstanceRecord, difference: Difference) -> str:
        async with Context(self._app, on_behalf("")).read() as work:
            manifest = await work.manifest(record.application_id, record.version)
        step = step_at(manifest, difference.step)
        line = "" if step is None else f", line {step.line}"
        return (
            f"No parameter of the instance decides it. Change the step {difference.step} in version {record.version} "
            f"of the manifest{line}."
        )

    async def _note(self, work: Work, row: TakenCheck, found: Found) -> None:
        held = await self._held(work, row)
        now = self._app.clock.now()
        now_ms = to_ms(now)
        before, all_found, left_open = read_findings(held.findings), differences(found.steps), unchecked(found.steps)
        known = _known(held)
        if row.learns is not None:
            noise = None if row.learns == "asked" or held.known is None else known
            ran = row.ran if row.learns == "reconfigure" else None
            known = with_answers(learned(all_found, noise, ran), found.steps, ran)
        news = [*without_known(all_found, known), *other_answers(found.steps, known)]
        if len(news) > limits.DRIFT_FINDINGS:
            raise BadRequest(
                f"{len(news)} addresses differ (limit: {limits.DRIFT_FINDINGS}).",
                "Launch the instance again, or split it into smaller ones.",
            )
        answers = [each.change_set_id for each in before if each.is_open and each.change_set_id is not None]
        applied = await store.list_applied(work.connection, change_set_ids=answers, organization_id=row.organization_id)
        findings = merged(before, news, {each.step for each in left_open}, now_ms, applied)
        new = count_new(findings, now_ms)
        check = Check(
            at=now_ms,
            new=new,
            ignored=sum(each.is_open for each in findings) - new,
            unchecked=len(left_open),
            learned=row.learns is not None,
        )
        await store.finish(
            work.connection,
            instance_id=row.instance_id,
            at=now,
            unchecked=msgspec.json.encode(left_open).decode(),
            known=None if row.learns is None else msgspec.json.encode(known).decode(),
            checks=_with(check, held),
            **_columns(findings, now_ms),
        )
        log.info("drift.checked", instance=row.instance_id, new=new)


def _known(held: HeldReport) -> Known:
    return {} if held.known is None else read_known(held.known)


def _with(check: Check, held: HeldReport) -> str:
    return msgspec.json.encode([check, *read_checks(held.checks)][: limits.DRIFT_CHECKS]).decode()


def _require_there(record: InstanceRecord) -> None:
    if record.status is InstanceStatus.DESTROYED:
        raise BadRequest("The instance is destroyed, so there is nothing to check.", code="InstanceDestroyed")


async def _require_steady(work: Work, record: InstanceRecord) -> None:
    """Raise BadRequest if the instance may not be as its launch describes it."""
    if await store.is_asleep(work.connection, instance_id=record.id):
        raise BadRequest("The instance sleeps, so it isn't as its launch describes it.", "Check it when it is awake.")
    newest = await store.get_newest_change(work.connection, instance_id=record.id)
    if record.status is not InstanceStatus.RUNNING or newest == "Failed":
        what = "The last change of the instance failed" if newest == "Failed" else f"The instance is {record.status}"
        raise BadRequest(
            f"{what}. What a plan shows now may be what a job left.",
            "Resume the job, or launch or reconfigure the instance. Then check again.",
        )
