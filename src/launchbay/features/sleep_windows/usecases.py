"""Instances sleep in the windows that rules of their application or environment name.

Each instance with a rule has a row, which is due at the begin or end of a window (`later.py`).
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import structlog

from launchbay.auth import permissions
from launchbay.auth.lookup import RuleOwner
from launchbay.auth.permissions import Permission
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, LaunchbayError, NotAllowed
from launchbay.features.sleep_windows import rows as store
from launchbay.features.sleep_windows.rules import SleepRules
from launchbay.ids import first_id_of_last
from launchbay.limits import INTERVAL_LONGEST_MS
from launchbay.model.instance import InstanceStatus
from launchbay.model.waits import due_to_sleep_message, sleeping_message
from launchbay.planning.acceptance import OBSERVED
from launchbay.store import schedules
from launchbay.store.applications import Application
from launchbay.store.database import Connection
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import Context, Work
from launchbay.usecases.workflows import required_by_command, stop_and_start

log = structlog.get_logger(__name__)
LAUNCHED_LATELY_S = 3_600


@dataclass(frozen=True, slots=True)
class Sleep:
    """Whether an instance sleeps, and when that changes; `rules` are None without a rule.

    `ends_at` is when it is destroyed, if it sleeps until then. `due_since` is when it should have gone to sleep,
    if it is stopped as soon as it isn't busy; `sleeps_at` is the same then.
    """

    rules: SleepRules | None
    of: RuleOwner | None
    is_asleep: bool
    since: datetime | None
    sleeps_at: datetime | None
    wakes_at: datetime | None
    awake_until: datetime | None
    awake_by: str | None
    message: str | None
    ends_at: datetime | None = None
    due_since: datetime | None = None

    def waiting_for(self) -> str | None:
        """Return since when the instance sleeps or is due to, and what wakes it."""
        if self.due_since is not None:
            return due_to_sleep_message(self.due_since)
        if not self.is_asleep or self.since is None:
            return None
        return sleeping_message(self.since, self.wakes_at, self.ends_at)


async def read_rules(ctx: Context, kind: RuleOwner, owner_id: str) -> SleepRules | None:
    """Return the rules that are set for an application or environment."""
    async with ctx.read() as work:
        found = await work.lookup.rule_owner(kind, owner_id)
        return await _own_rules(work, kind, found)


async def replace_rules(ctx: Context, kind: RuleOwner, owner_id: str, rules: SleepRules | None) -> None:
    """Replace the rules of an application or environment; None removes them.

    An instance that is awake stays so until the next window begins, and one that sleeps wakes if no window holds it.
    Raises BadRequest for rules that make no sense.
    """
    if rules is not None:
        rules.check(ctx.app.clock.now())
    async with ctx.begin() as work:
        found = await work.lookup.rule_owner(kind, owner_id, edits=True)
        before = await _own_rules(work, kind, found)
        if before == rules:
            return
        if rules is not None and rules.stop:  # which could be any workflow of any instance
            application_id = found.id if kind == "application" else "*"
            for name in (rules.stop, rules.start):
                resource = permissions.workflow(application_id, "*", name)
                work.lookup.require(found.organization_id, Permission.RUN_INSTANCE_WORKFLOW, resource)
        if rules is None:
            await store.remove_rules(work.connection, organization_id=found.organization_id, owner_id=found.id)
        else:
            write = store.set_application_rules if kind == "application" else store.set_environment_rules
            text = msgspec.json.encode(rules).decode()
            await write(work.connection, owner_id=found.id, organization_id=found.organization_id, rules=text)
        await store.begin_anew(
            work.connection, organization_id=found.organization_id, owner_id=found.id, now=ctx.app.clock.now()
        )
        await work.audit(f"replace_{kind}_sleep", found, _shown(before), _shown(rules))


def _shown(rules: SleepRules | None) -> dict[str, object]:
    return {} if rules is None else dict(msgspec.to_builtins(rules))


async def _own_rules(work: Work, kind: RuleOwner, found: Application | Environment) -> SleepRules | None:
    ids = (found.id, "") if kind == "application" else ("", found.id)
    rules, _ = await _rules(work.connection, found.organization_id, *ids)
    return rules


async def _rules(
    connection: Connection, organization_id: str, application_id: str, environment_id: str
) -> tuple[SleepRules | None, RuleOwner | None]:
    """Return the rules that count, and whose they are: an application's come first."""
    rows = await store.list_rules(
        connection, organization_id=organization_id, application_id=application_id, environment_id=environment_id
    )
    if not rows:
        return None, None
    return _decode(rows[0].rules), "application" if rows[0].is_of_application else "environment"


async def rules_of(connection: Connection, record: InstanceRecord) -> tuple[SleepRules | None, RuleOwner | None]:
    """Return the rules that apply to an instance, and what they belong to."""
    if record.parent_id is not None:  # it is stopped and started by its parent's workflows
        return None, None
    return await _rules(connection, record.organization_id, record.application_id, record.environment_id)


async def read_sleep(ctx: Context, instance_id: str) -> Sleep:
    """Return whether an instance sleeps, and when that changes."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        (rules, of), row, ends = await work.together(
            rules_of(work.connection, record),
            store.get(work.connection, instance_id=record.id),
            schedules.get_ends(work.connection, instance_id=record.id),
        )
        assert ends is not None, "the statement returns a row"
        is_asleep = row is not None and row.is_asleep
        end = ends.ends.first
        cannot = None
        if rules is not None and record.status is InstanceStatus.RUNNING and not is_asleep:
            try:
                await commands(work, record, rules)
            except LaunchbayError as problem:
                cannot = str(problem)
    now = ctx.app.clock.now()
    awake_until = None if row is None or row.awake_until is None or row.awake_until <= now else row.awake_until
    sleeps_at = wakes_at = None
    if rules is not None and record.status is not InstanceStatus.DESTROYED:
        if is_asleep and not rules.is_asleep(now):
            wakes_at = now if row is None or row.due_at is None else row.due_at
        else:
            wakes_at = rules.next_change(now, to_sleep=False)
        sleeps_at = None if cannot else _sleeps_at(rules, now, awake_until, is_asleep=is_asleep)
    if cannot:
        wakes_at = None
    ends_asleep = end is not None and is_asleep and (wakes_at is None or end <= wakes_at)
    due_since = None if row is None or row.is_asleep or not row.is_postponed else row.due_at
    if due_since is not None:
        sleeps_at = due_since
    if end is not None:  # what comes after its end doesn't happen
        sleeps_at = None if ends.undoable is not None or sleeps_at is None or end <= sleeps_at else sleeps_at
        wakes_at = None if wakes_at is None or end <= wakes_at else wakes_at
    return Sleep(
        rules,
        of,
        is_asleep,
        None if row is None or not row.is_asleep else row.since,
        sleeps_at,
        wakes_at,
        awake_until,
        None if row is None or awake_until is None else row.awake_by,
        cannot or (None if row is None else row.message),
        end if ends_asleep else None,
        due_since,
    )


async def commands(work: Work, record: InstanceRecord, rules: SleepRules) -> tuple[str, str]:
    """Return what stops and starts an instance. Raises BadRequest if it can't sleep."""
    if record.is_observed:
        raise cannot_sleep(f"It can't sleep. {OBSERVED}")
    manifest = await work.manifest(record.application_id, record.version)
    if not rules.stop:
        found = await stop_and_start(work, replace(record, status=InstanceStatus.RUNNING), manifest)
        if found == ("", ""):
            raise cannot_sleep("It can't sleep: its manifest has no commands stop and start without arguments.")
        return found
    for command in (rules.stop, rules.start):
        if command not in manifest.commands:
            raise cannot_sleep(f"It can't sleep: its manifest has no workflow {command!r}.")
        required = await required_by_command(work, record, manifest, command)
        if required:
            raise cannot_sleep(
                f"It can't sleep: its workflow {command!r} requires the parameter '{next(iter(required))}'."
            )
    return rules.stop, rules.start


def _sleeps_at(rules: SleepRules, now: datetime, awake_until: datetime | None, *, is_asleep: bool) -> datetime | None:
    """Return when an instance sleeps next.

    One that is awake within a window waits for the next bound.
    """
    if awake_until is not None and rules.is_asleep(awake_until):
        return awake_until
    start = now if awake_until is None else awake_until
    if not is_asleep and rules.is_asleep(start):
        bound = rules.next_bound(start)
        return bound if bound is None or rules.is_asleep(bound) else rules.next_change(bound, to_sleep=True)
    after = rules.next_change(start, to_sleep=False) if rules.is_asleep(start) else start
    return None if after is None else rules.next_change(after, to_sleep=True)


async def keep_awake(ctx: Context, instance_id: str, until: datetime | None) -> None:
    """Keep an instance awake until a time, and wake it if it sleeps.

    None lets it sleep again. Whoever may run the workflow `keep-awake` may do so. Raises BadRequest for an instance
    without a rule.
    """
    now = ctx.app.clock.now()
    if until is not None and not now < until <= now + timedelta(milliseconds=INTERVAL_LONGEST_MS):
        raise BadRequest("awakeUntil must be in the future.", code="InvalidInterval")
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.RUN_INSTANCE_WORKFLOW, workflow="keep-awake")
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id} and goes with that one.",
                code="SubmoduleInstance",
            )
        rules, _ = await rules_of(work.connection, record)
        if rules is not None:
            await store.add_launched(work.connection, after=first_id_of_last(LAUNCHED_LATELY_S), now=now)
        kept = await store.keep_awake(
            work.connection, instance_id=record.id, until=until, user_id=ctx.actor.user_id, now=now
        )
        if kept is None or rules is None:
            raise BadRequest("No rule lets the instance sleep.", code="InvalidSleepWindow")
        await work.audit("keep_awake", record, after={"until": None if until is None else to_ms(until)})


def cannot_sleep(message: str) -> BadRequest:
    """Return what is raised for an instance or window in which nothing can sleep."""
    return BadRequest(message, code="InvalidSleepWindow")


_decode = msgspec.json.Decoder(SleepRules).decode
