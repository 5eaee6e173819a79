"""Instances sleep in the windows that rules of their application or environment name.

Each instance with a rule has a row with its next turn, at the begin or end of a window. A turn compares whether the
instance sleeps with whether it should, so that one makes up for turns that were missed. The transaction that accepts
the job also sets the next turn: each happens once.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import msgspec
import structlog

from launchbay.auth import permissions
from launchbay.auth.lookup import RuleOwner
from launchbay.auth.permissions import Actor, Method, Permission
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, LaunchbayError, NotAllowed, Unavailable
from launchbay.features.sleep_windows import rows as store
from launchbay.features.sleep_windows.rows import SleepRow
from launchbay.features.sleep_windows.rules import SleepRules
from launchbay.ids import first_id_of_last
from launchbay.limits import INTERVAL_LONGEST_MS
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import Cause
from launchbay.model.waits import sleeping_message
from launchbay.store import instances, schedules
from launchbay.store.applications import Application
from launchbay.store.database import Connection, DatabaseError
from launchbay.store.environments import Environment
from launchbay.store.instances import InstanceRecord
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.later import Turns
from launchbay.usecases.on_behalf import PASSING
from launchbay.usecases.workflows import required_by_command, run_unchecked, stop_and_start

log = structlog.get_logger(__name__)
POLL_S = 1.0
_ROUND = 100  # turns before the others of the process get theirs
_BUSY_PAUSE = timedelta(seconds=2)
_LAUNCHED_LATELY_S = 3_600


@dataclass(frozen=True, slots=True)
class Sleep:
    """Whether an instance sleeps, and when that changes; `rules` are None without a rule.

    `ends_at` is when it is destroyed, if it sleeps until then.
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

    def waiting_for(self) -> str | None:
        """Return since when the instance sleeps, and what wakes it."""
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


async def _rules_of(connection: Connection, record: InstanceRecord) -> tuple[SleepRules | None, RuleOwner | None]:
    if record.parent_id is not None:  # it is stopped and started by its parent's workflows
        return None, None
    return await _rules(connection, record.organization_id, record.application_id, record.environment_id)


async def read_sleep(ctx: Context, instance_id: str) -> Sleep:
    """Return whether an instance sleeps, and when that changes."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        (rules, of), row, ends = await work.together(
            _rules_of(work.connection, record),
            store.get(work.connection, instance_id=record.id),
            schedules.get_ends(work.connection, instance_id=record.id),
        )
        assert ends is not None, "the statement returns a row"
        is_asleep = row is not None and row.is_asleep
        end = ends.ends.first
        cannot = None
        if rules is not None and record.status is InstanceStatus.RUNNING and not is_asleep:
            try:
                await _commands(work, record, rules)
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
    )


async def _commands(work: Work, record: InstanceRecord, rules: SleepRules) -> tuple[str, str]:
    """Return what stops and starts an instance. Raises BadRequest if it can't sleep."""
    manifest = await work.manifest(record.application_id, record.version)
    if not rules.stop:
        found = await stop_and_start(work, replace(record, status=InstanceStatus.RUNNING), manifest)
        if found == ("", ""):
            raise _cannot("It can't sleep: its manifest has no commands stop and start without arguments.")
        return found
    for command in (rules.stop, rules.start):
        if command not in manifest.commands:
            raise _cannot(f"It can't sleep: its manifest has no workflow {command!r}.")
        required = await required_by_command(work, record, manifest, command)
        if required:
            raise _cannot(f"It can't sleep: its workflow {command!r} requires the parameter '{next(iter(required))}'.")
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
        rules, _ = await _rules_of(work.connection, record)
        if rules is not None:
            await store.add_launched(work.connection, after=first_id_of_last(_LAUNCHED_LATELY_S), now=now)
        kept = await store.keep_awake(
            work.connection, instance_id=record.id, until=until, user_id=ctx.actor.user_id, now=now
        )
        if kept is None or rules is None:
            raise BadRequest("No rule lets the instance sleep.", code="InvalidSleepWindow")
        await work.audit("keep_awake", record, after={"until": None if until is None else to_ms(until)})


class SleepRunner:
    """Gives instances their turns at the bounds of windows; `advance` is one round."""

    def __init__(self, app: AppContext) -> None:
        self._app = app
        self._turns = Turns("sleeping instance", self._turn)

    async def advance(self) -> bool:
        """Give each due turn. Return True if there may be more."""
        now = self._app.clock.now()
        async with self._app.database.connection() as connection:
            await store.add_launched(connection, after=first_id_of_last(_LAUNCHED_LATELY_S), now=now)
            due = await store.list_due(connection, now=now, but=self._turns.waiting, count=_ROUND)
        await self._turns.give(due)
        return len(due) == _ROUND

    async def _turn(self, instance_id: str) -> bool:
        now = self._app.clock.now()
        problem: Exception
        try:
            async with self._app.database.transaction() as connection:
                # In the order of a deletion: the instance first.
                record = await instances.get_record(connection, instance_id=instance_id)
                row = None if record is None else await store.take(connection, instance_id=instance_id, now=now)
                if record is not None and row is not None:
                    await self._take_turn(connection, record, row, now)
                return False
        except (Unavailable, DatabaseError):
            raise
        except LaunchbayError as error:
            problem = error
        except Exception as defect:
            # A defect of ours. Another attempt would fail the same way, and hold up the others.
            log.exception("sleep.failed", instance=instance_id)
            problem = LaunchbayError(f"Internal error: {type(defect).__name__}. The log of the server says more.")
        async with self._app.database.transaction() as connection:
            record = await instances.get_record(connection, instance_id=instance_id)
            row = None if record is None else await store.take(connection, instance_id=instance_id, now=now)
            if record is not None and row is not None:
                await self._refused(connection, record, row, now, problem)
        return False

    async def _take_turn(self, connection: Connection, record: InstanceRecord, row: SleepRow, now: datetime) -> None:
        rules, _ = await _rules_of(connection, record)
        if record.status is InstanceStatus.DESTROYED or (rules is None and not row.is_asleep):
            await store.remove(connection, instance_id=record.id)
            return
        rules = rules or SleepRules()
        should_sleep = rules.is_asleep(now) and (row.awake_until is None or row.awake_until <= now)
        is_new = row.due_at is None and not row.is_asleep
        if should_sleep == row.is_asleep or (should_sleep and is_new):
            await self._save(connection, record, row._replace(message=None), rules, now)
            return
        changed = row._replace(is_asleep=should_sleep, since=now, message=None)
        if should_sleep:
            stop, start = await self._commands_now(connection, record, rules)
            changed = changed._replace(wake_workflow=start, job_id=await self._run(connection, record, row, stop))
        elif not await self._was_started(connection, record, row):
            changed = changed._replace(job_id=await self._run(connection, record, row, row.wake_workflow))
        await self._save(connection, record, changed, rules, now)

    async def _commands_now(self, connection: Connection, record: InstanceRecord, rules: SleepRules) -> tuple[str, str]:
        """Return what stops and starts an instance. Raises BadRequest if it can't sleep now."""
        if record.status is not InstanceStatus.RUNNING and record.job_id is None:
            raise _cannot(f"It didn't sleep: its status was {record.status.value}.")
        if await schedules.get_waiting_destroy(connection, instance_id=record.id) is not None:
            raise _cannot("It didn't sleep: it waits for its destruction.")
        with self._app.database.joined(connection):
            async with self._context(record).begin() as work:
                return await _commands(work, record, rules)

    async def _run(self, connection: Connection, record: InstanceRecord, row: SleepRow, workflow: str) -> str:
        turn = () if row.due_at is None else ("sleep", record.id, to_ms(row.due_at))
        with self._app.database.joined(connection):
            async with replace(self._context(record), turn=turn).begin() as work:
                started = await run_unchecked(work, record, workflow, {})
        await store.count_no_run(connection, instance_id=record.id, job_id=started.job_id)
        return started.job_id

    def _context(self, record: InstanceRecord) -> Context:
        actor = Actor(record.owner_id, "engine/sleep", "sleep", "", Method.ENGINE)
        return Context(self._app, actor, cause=Cause("sleep", record.id))

    @staticmethod
    async def _was_started(connection: Connection, record: InstanceRecord, row: SleepRow) -> bool:
        return bool(
            await store.was_started(
                connection, instance_id=record.id, job_id=row.job_id or "", workflow=row.wake_workflow
            )
        )

    async def _save(
        self, connection: Connection, record: InstanceRecord, row: SleepRow, rules: SleepRules, now: datetime
    ) -> None:
        """Store a turn, and set the next one."""
        if not rules.windows and not row.is_asleep:
            await store.remove(connection, instance_id=record.id)
            return
        due_at = rules.next_bound(now)
        if row.awake_until is not None and row.awake_until > now:
            due_at = row.awake_until if due_at is None else min(due_at, row.awake_until)
        elif row.awake_until is not None:
            row = row._replace(awake_until=None, awake_by=None)
        row = row._replace(due_at=due_at)
        await store.save(connection, instance_id=record.id, fires_at=due_at, **row._asdict())

    async def _refused(
        self, connection: Connection, record: InstanceRecord, row: SleepRow, now: datetime, problem: Exception
    ) -> None:
        """Note why an instance doesn't sleep or wake.

        One that is busy waits, unless its rules say otherwise.
        """
        rules, _ = await _rules_of(connection, record)
        rules = rules or SleepRules()
        is_busy = isinstance(problem, LaunchbayError) and problem.code in PASSING
        if is_busy and (row.is_asleep or rules.when_busy == "queue"):
            message = f"It waits: {problem}"[:500]
            await store.postpone(connection, instance_id=record.id, fires_at=now + _BUSY_PAUSE, message=message)
            return
        row = row._replace(message=f"{problem}"[:500])
        log.info("sleep.refused", instance=record.id, reason=row.message)
        if row.is_asleep and not rules.windows:
            # Its rule is gone, and it can't be started: nobody would try again.
            row = row._replace(is_asleep=False)
        await self._save(connection, record, row, rules, now)


def _cannot(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidSleepWindow")


_decode = msgspec.json.Decoder(SleepRules).decode
