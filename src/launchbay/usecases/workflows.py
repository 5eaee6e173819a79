"""Running and scheduling workflows on an instance (reference §4, Application instances)."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.audit import Document
from launchbay.auth.permissions import Permission, Resource
from launchbay.clock import Backoff, to_ms
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotAllowed
from launchbay.ids import canonical_id, is_id, new_id
from launchbay.manifest.graph import SERVICE, SUBMODULE, CompiledManifest
from launchbay.manifest.v1 import ACTIONS, inner_name
from launchbay.model.changes import Proposal
from launchbay.model.expiry import duration
from launchbay.model.findings import shorten_names
from launchbay.model.instance import InstanceStatus, read_link
from launchbay.model.types import Type
from launchbay.model.waits import never_message
from launchbay.planning.acceptance import StartedJob
from launchbay.planning.arguments import command_target, ignored_parameters, required_arguments
from launchbay.planning.names import DESTROY, FORCE, LAUNCH, in_use, is_forced
from launchbay.planning.plans import may_accept, plan_run
from launchbay.quotas.bounds import Quota
from launchbay.store import instances, jobs
from launchbay.store import schedules as store
from launchbay.store.instances import InstanceRecord
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases.context import Context, Work

_DIGITS = re.compile(r"[0-9]{1,15}")
_CANCEL_ATTEMPTS = 3
# The commands that a destroy with a grace time runs now, and when it is taken back.
_STOPS = (("stop", "start"), (f"{ACTIONS}.stop", f"{ACTIONS}.start"))


class DestroyAt(NamedTuple):
    """When a destroy with a grace time is due.

    The job stops the instance now, if its manifest has a way.
    """

    instance_id: str
    at: datetime
    job_id: str | None


_FIRST_LOOKS = Backoff(0.02, 0.2)  # at an instance whose triggered workflow ends soon
_FIRST_LOOKS_S = 2.0
T = TypeVar("T")


_TRY_AGAIN = "; try again when it has ended"


class InstanceBusy(Conflict):
    """A job keeps the instance. Whoever gets this may change it otherwise."""

    code = "InstanceBusy"

    def __init__(self, message: str, *, instance_id: str) -> None:
        super().__init__(message)
        self.instance_id = instance_id


async def before_triggers(ctx: Context, act: Callable[[], Awaitable[T]]) -> T:
    """Do what a person asks for, before the next workflow that a trigger starts.

    If one is running, wait shortly for its end, and begin again (decision 0130). Raises what `act` raises: InstanceBusy
    if another kind of job runs, or the workflow takes longer. The next one then waits `PERSON_FIRST_S` for another
    attempt.

    In a transaction that encloses this, `act` has one attempt: its locks would keep the workflow from ending, and its
    rollback would forget who goes first. Whoever opens one for a person calls this around it.
    """
    if ctx.app.database.enclosing() is not None:
        return await act()
    loop = asyncio.get_running_loop()
    end_s = loop.time() + _FIRST_LOOKS_S
    delays_s = _FIRST_LOOKS.delays()
    while True:
        try:
            return await act()
        except InstanceBusy as refusal:
            instance_id = refusal.instance_id
            async with ctx.begin() as work:
                wait_s = limits.PERSON_FIRST_S
                # The lock first: the end of a job may be starting the next one, which the other statement must see.
                # Whoever has the lock may keep it for long: that is no reason to wait for the database.
                is_locked = await instances.lock_at_once(work.connection, instance_id=instance_id) is not None
                if is_locked and not await instances.let_person_first(
                    work.connection, instance_id=instance_id, wait_s=wait_s
                ):
                    raise
            if loop.time() >= end_s:
                raise
        await asyncio.sleep(next(delays_s))


async def run_workflow(
    ctx: Context, instance_id: str, workflow: str, parameters: Mapping[str, Any], *, force: bool = False
) -> StartedJob:
    """Run a workflow on an instance and return its job.

    With `force`, destroy it although others use it. Raises BadRequest for unknown names and bad parameters. Raises
    Conflict when a job is under way or others use an instance that is to be destroyed.
    """

    async def act() -> StartedJob:
        async with ctx.begin() as work:
            record = await for_running(work, instance_id, workflow, Permission.RUN_INSTANCE_WORKFLOW)
            return await run_unchecked(work, record, workflow, _with_force(workflow, parameters, force=force))

    return await before_triggers(ctx, act)


async def run_unchecked(work: Work, record: InstanceRecord, workflow: str, parameters: Mapping[str, Any]) -> StartedJob:
    """Run a workflow without asking for a permission. Raises what `run_workflow` raises."""
    _refuse_launch_parameters(workflow, parameters)
    started = await _run(work, record, workflow, parameters)
    after = {**_given(work, parameters), "job": started.job_id}
    proposed = Proposal(workflow=workflow, parameters=parameters)
    await work.audit("run_workflow", record, after=after, at=_at(record, workflow), proposed=proposed)
    return started


async def destroy(
    ctx: Context, instance_id: str, parameters: Mapping[str, Any], *, force: bool = False
) -> StartedJob | DestroyAt:
    """Destroy an instance, after the grace time that its rules for lifetimes give.

    A forced one doesn't wait. Raises what `run_workflow` raises, and Conflict if a destroy waits already.
    """
    parameters = _with_force(DESTROY, parameters, force=force)

    async def act() -> StartedJob | DestroyAt:
        async with ctx.begin() as work:
            record = await for_running(work, instance_id, DESTROY, Permission.EDIT_INSTANCE)
            grace_ms = None if is_forced(parameters) else (await work.expiry_rules(record)).grace_ms
            if grace_ms is None:
                return await run_unchecked(work, record, DESTROY, parameters)
            return await _destroy_later(work, record, grace_ms)

    return await before_triggers(ctx, act)


async def _destroy_later(work: Work, record: InstanceRecord, grace_ms: int) -> DestroyAt:
    """Schedule the destroy, and stop the instance if its manifest can."""
    locked = await instances.lock(work.connection, instance_id=record.id)
    if locked is None or locked.status == InstanceStatus.DESTROYED:
        raise _gone(record)
    waiting = await store.get_waiting_destroy(work.connection, instance_id=record.id)
    if waiting is not None:
        raise Conflict(_waits_already(waiting), code="DestroyWaits")
    if locked.job_id is not None or record.job_id is not None:
        raise await busy(work, record)
    await _check_users(work, record, DESTROY, {})
    manifest = await work.manifest(record.application_id, record.version)
    stop, start = await stop_and_start(work, record, manifest)
    at = await store.insert_waiting_destroy(
        work.connection,
        schedule_id=new_id(),
        instance_id=record.id,
        organization_id=record.organization_id,
        owner_id=work.actor.user_id,
        grace_ms=grace_ms,
        destroy_at=record.destroy_at,
        undo_workflow=start,
    )
    assert at is not None, "the statement returns its row"
    job_id = None
    if stop:
        job_id = await work.accept(record, plan_run(manifest, stop, {}, record.status), manifest, record.version)
        if job_id is None:
            raise await busy(work, record)
    after = {"destroyAt": to_ms(at), **({} if job_id is None else {"job": job_id})}
    proposed = Proposal(workflow=DESTROY)
    await work.audit("run_workflow", record, after=after, at=_at(record, DESTROY), proposed=proposed)
    return DestroyAt(record.id, at, job_id)


def _waits_already(waiting: store.WaitingDestroy) -> str:
    at = f"{waiting.due_at:%Y-%m-%d %H:%M:%S} UTC"
    return f"The instance waits for its destruction at {at}. Take it back, or force the destroy."


async def foresee_grace(work: Work, record: InstanceRecord) -> tuple[str | None, str | None]:
    """Return why `destroy` would be refused, or that it would wait."""
    grace_ms = (await work.expiry_rules(record)).grace_ms
    waiting = None if grace_ms is None else await store.get_waiting_destroy(work.connection, instance_id=record.id)
    if grace_ms is None or waiting is not None:
        return waiting and _waits_already(waiting), None
    stop, _ = await stop_and_start(work, record, await work.manifest(record.application_id, record.version))
    stopped = f", with the instance stopped by {stop!r}" if stop else ""
    end = ", or until its lifetime ends" if record.destroy_at is not None else ""
    return None, f"The destroy first waits {duration(grace_ms)}{end}{stopped}. Until then, undo-destroy takes it back."


async def destroy_idle(work: Work, record: InstanceRecord) -> None:
    """Destroy an instance on which nothing runs, after its grace time.

    It asks for no permission. The caller holds the instance. Raises Conflict if it is busy, others use it, or a destroy
    waits already.
    """
    grace_ms = (await work.expiry_rules(record)).grace_ms
    if grace_ms is None:
        await run_unchecked(work, record, DESTROY, {})
    else:
        await _destroy_later(work, record, grace_ms)


async def stop_and_start(work: Work, record: InstanceRecord, manifest: CompiledManifest) -> tuple[str, str]:
    """Return the commands that stop and start a running instance.

    Both names are empty unless both run without arguments.
    """
    if record.status is not InstanceStatus.RUNNING or record.is_observed:
        return "", ""
    for stop, start in _STOPS:
        if {stop, start} <= manifest.commands.keys():
            needed = [await required_by_command(work, record, manifest, command) for command in (stop, start)]
            return ("", "") if any(needed) else (stop, start)
    return "", ""


async def undo_destroy(ctx: Context, instance_id: str) -> str | None:
    """Take back a destroy within its grace time.

    Returns the schedule that starts the instance again, which waits for a `stop` that still runs; None if it wasn't
    stopped. Raises Conflict if no destroy waits.
    """
    async with ctx.begin() as work:
        record = await for_running(work, instance_id, DESTROY, Permission.EDIT_INSTANCE)
        workflow = await store.take_back_destroy(work.connection, instance_id=record.id)
        if workflow is None:
            raise Conflict("No destroy of the instance is waiting. It may have just begun.", code="NoDestroyWaits")
        return await _start_again(work, record, workflow)


async def _start_again(work: Work, record: InstanceRecord, workflow: str) -> str | None:
    """Start the instance after an undone destroy; return its schedule.

    `workflow` is empty if the destroy hadn't stopped it.
    """
    schedule_id = None
    if workflow:
        schedule_id = new_id()
        await store.insert(
            work.connection,
            schedule_id=schedule_id,
            instance_id=record.id,
            organization_id=record.organization_id,
            workflow=workflow,
            parameters="{}",
            owner_id=work.actor.user_id,
            interval_ms=0,
        )
    await work.audit("undo_destroy", record, after={"schedule": schedule_id})
    return schedule_id


async def schedule_workflow(
    ctx: Context,
    instance_id: str,
    workflow: str,
    interval: Any,
    parameters: Mapping[str, Any],
    *,
    force: bool = False,
) -> str | StartedJob:
    """Schedule a workflow in `interval` ms; return its id, or the job of 0.

    The instances that use one are checked now, and again when its destruction is due.
    """

    async def act() -> str | StartedJob:
        return await _schedule(ctx, instance_id, workflow, interval, parameters, force=force)

    return await before_triggers(ctx, act)


async def _schedule(
    ctx: Context, instance_id: str, workflow: str, interval: Any, parameters: Mapping[str, Any], *, force: bool
) -> str | StartedJob:
    async with ctx.begin() as work:
        record = await for_running(work, instance_id, workflow, Permission.SCHEDULE_INSTANCE_WORKFLOW)
        interval_ms = validate_interval(interval)
        parameters = _with_force(workflow, parameters, force=force)
        proposed = Proposal(workflow=workflow, parameters=parameters)
        _refuse_launch_parameters(workflow, parameters)
        if interval_ms == 0:
            started = await _run(work, record, workflow, parameters)
            after = _given(work, parameters, interval_ms)
            await work.audit("schedule_workflow", record, after=after, at=_at(record, workflow), proposed=proposed)
            return started
        if record.status is InstanceStatus.DESTROYED:
            raise _gone(record)
        manifest = await work.manifest(record.application_id, record.version)
        plan_run(manifest, workflow, parameters, InstanceStatus.RUNNING)
        await check_required(work, record, manifest, workflow, parameters)
        await _check_users(work, record, workflow, parameters)
        work.warn(ignored_parameters(manifest, workflow, parameters))
        await _warn_of_end(work, record, work.app.clock.now() + timedelta(milliseconds=interval_ms))
        await work.admit(record.organization_id, {Quota.SCHEDULES: 1})
        # It may have been deleted or destroyed since it was looked up: nothing would delete the schedule then.
        locked = await instances.lock(work.connection, instance_id=record.id)
        if locked is None or locked.status == InstanceStatus.DESTROYED:
            raise _gone(record)
        schedule_id = new_id()
        await store.insert(
            work.connection,
            schedule_id=schedule_id,
            instance_id=record.id,
            organization_id=record.organization_id,
            workflow=workflow,
            parameters=msgspec.json.encode(parameters).decode(),
            owner_id=ctx.actor.user_id,
            interval_ms=interval_ms,
        )
        after = {"schedule": schedule_id, **_given(work, parameters, interval_ms)}
        await work.audit("schedule_workflow", record, after=after, at=_at(record, workflow), proposed=proposed)
    return schedule_id


async def _warn_of_end(work: Work, record: InstanceRecord, due_at: datetime) -> None:
    """Warn of a schedule that comes after the end of its instance."""
    end = await store.get_end(work.connection, instance_id=record.id)
    if end is not None and end < due_at:
        work.warn([never_message(end)])


class Rescheduled(NamedTuple):
    """What came of moving or cancelling a schedule."""

    id: str | None  # None: it was cancelled
    takes_back: bool = False  # a destroy in its grace time
    starts: bool = False  # the instance, which that destroy had stopped


async def reschedule_workflow(
    ctx: Context, instance_id: str, schedule: str, interval: Any, parameters: Mapping[str, Any] | None
) -> Rescheduled:
    """Move a schedule, named by its id or its workflow's name; 0 cancels it.

    Parameters that are not given stay. One that the manifest made stays cancelled, and in the list, until it is moved
    or the instance is launched or reconfigured. Raises BadRequest for an unknown or ambiguous schedule.
    """
    async with ctx.begin() as work:
        # The permission is for the workflow, whose name an id has yet to tell; nothing of it is said before `lookup`.
        pending = await store.list_by_instance(work.connection, instance_id=instance_id)
        fitting = _fitting(pending, schedule)
        workflow = fitting[0].workflow if fitting else schedule
        record = await for_running(work, instance_id, workflow, Permission.SCHEDULE_INSTANCE_WORKFLOW)
        found = _only(fitting, schedule)
        interval_ms = validate_interval(interval)
        before = {"schedule": found.id, "dueAt": to_ms(found.due_at)}
        if interval_ms == 0:
            undone = None
            if found.cancelled_at is None:
                undone = await _cancel(work, record, found)
                if undone is None:
                    await work.audit("reschedule_workflow", record, before, at=_at(record, workflow), keeps=True)
                else:
                    await _start_again(work, record, undone)
            return Rescheduled(None, takes_back=undone is not None, starts=bool(undone))
        if parameters and found.is_of_manifest:
            raise BadRequest(
                f"The manifest schedules {found.workflow!r}, without parameters. Leave them out.",
                code="UnknownParameter",
            )
        if parameters is not None and not found.is_of_manifest:
            manifest = await work.manifest(record.application_id, record.version)
            plan_run(manifest, found.workflow, parameters, InstanceStatus.RUNNING)
            await check_required(work, record, manifest, found.workflow, parameters)
            work.warn(ignored_parameters(manifest, found.workflow, parameters))
        moved = await store.reschedule(
            work.connection,
            schedule_id=found.id,
            user_id=ctx.actor.user_id,
            interval_ms=interval_ms,
            parameters=None if parameters is None else msgspec.json.encode(parameters).decode(),
        )
        if moved is None:
            raise _just_fired(found)
        await _warn_of_end(work, record, moved)  # of the end as it is now: a destroy may have been moved
        after = {"schedule": found.id, "dueAt": to_ms(moved), **_given(work, parameters, interval_ms)}
        proposed = Proposal(workflow=workflow, parameters=parameters or {})
        await work.audit("reschedule_workflow", record, before, after, at=_at(record, workflow), proposed=proposed)
    return Rescheduled(found.id)


async def list_schedules(ctx: Context, instance_id: str) -> list[ScheduleRow]:
    """Return the schedules of an instance, the next one first, cancelled ones last."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_by_instance(work.connection, instance_id=record.id)


def validate_interval(interval: Any) -> int:
    """Return an interval in ms, given as a number or as digits.

    Raises BadRequest (conformance.md, "States").
    """
    if isinstance(interval, str) and _DIGITS.fullmatch(interval):
        interval = int(interval)
    if isinstance(interval, float) and interval.is_integer():
        interval = int(interval)
    if isinstance(interval, bool) or not isinstance(interval, int) or not 0 <= interval <= limits.INTERVAL_LONGEST_MS:
        raise BadRequest(
            "interval must be milliseconds, as a whole number or a string of digits, 0 or more.",
            code="InvalidInterval",
            field="interval",
        )
    return interval


async def for_running(work: Work, instance_id: str, workflow: str, permission: Permission) -> InstanceRecord:
    """Fetch the instance for running the workflow; `destroy` needs the permission to edit (reference §4, run).

    Raises NotAllowed for an instance that belongs to a submodule, besides what the lookup raises.
    """
    if workflow == DESTROY:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
    else:
        record = await work.lookup.instance(instance_id, permission, workflow=workflow)
    if record.parent_id is not None:
        raise NotAllowed(
            f"The instance belongs to a submodule of the instance {record.parent_id}; run workflows on that one.",
            code="SubmoduleInstance",
        )
    return record


async def read_required_arguments(ctx: Context, instance_id: str) -> dict[str, dict[str, Type | None]]:
    """Return the arguments that callers must provide, by command, with their types."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        manifest = await work.manifest(record.application_id, record.version)
        return {workflow: await required_by_command(work, record, manifest, workflow) for workflow in manifest.commands}


async def required_by_command(
    work: Work, record: InstanceRecord, manifest: CompiledManifest, workflow: str
) -> dict[str, Type | None]:
    """Return the arguments of a command that its caller must provide, with their types.

    A command of a submodule or service is followed to the instance that runs it, which may have a value.
    """
    required = required_arguments(manifest, workflow, record.state, msgspec.json.decode(record.parameters))
    instance_id = record.id
    for _ in range(limits.SUBMODULE_LEVELS):
        target = command_target(manifest, workflow)
        if not required or target is None or manifest.components[target.component].type not in {SUBMODULE, SERVICE}:
            break
        rows = await instances.list_linked(work.connection, instance_id=instance_id)
        links = {row.component: read_link(row.target_id, row.kind, row.binding) for row in rows}
        link = links.get(target.component)
        name = None if link is None or not link.is_instance else link.key(target.pin)
        linked = None if link is None else await instances.get_status(work.connection, instance_id=link.instance_id)
        if link is None or linked is None or name is None:
            return {}  # a service checks its arguments itself, and a missing instance fails the job
        instance_id = link.instance_id
        manifest = await work.manifest(linked.application_id, linked.version)
        workflow = inner_name(manifest, name)
        inner = required_arguments(manifest, workflow, linked.state, msgspec.json.decode(linked.parameters))
        required = {name: wanted for name, wanted in required.items() if name in inner}
    return required


async def missing_arguments(
    work: Work, record: InstanceRecord, manifest: CompiledManifest, workflow: str, given: Mapping[str, Any]
) -> list[str]:
    """Return a sentence for each argument that a command needs and that isn't given."""
    required = await required_by_command(work, record, manifest, workflow)
    return [
        f"Workflow {workflow} requires the parameter '{name}'" + (f" ({wanted})." if wanted else ".")
        for name, wanted in required.items()
        if name not in given
    ]


async def check_required(
    work: Work, record: InstanceRecord, manifest: CompiledManifest, workflow: str, given: Mapping[str, Any]
) -> None:
    """Raise BadRequest that names the arguments that a command needs and that aren't given."""
    missing = await missing_arguments(work, record, manifest, workflow, given)
    if missing:
        raise BadRequest(*missing, code="MissingParameter")


def _with_force(workflow: str, parameters: Mapping[str, Any], *, force: bool) -> Mapping[str, Any]:
    return {**parameters, FORCE: True} if force and workflow == DESTROY else parameters


def _refuse_launch_parameters(workflow: str, parameters: Mapping[str, Any]) -> None:
    """Raise BadRequest for parameters of a repeated launch."""
    if workflow == LAUNCH and parameters:
        names = shorten_names(sorted(parameters))
        raise BadRequest(
            f"Workflow launch of an instance takes no parameters: {names}. It uses those of the instance. Change them "
            "with PUT instances/{id}/configuration, or resume the failed launch with them.",
            code="UnknownParameter",
        )


async def _check_users(work: Work, record: InstanceRecord, workflow: str, parameters: Mapping[str, Any]) -> None:
    """Raise Conflict for an unforced `destroy` of an instance that others use."""
    if workflow == DESTROY and not is_forced(parameters):
        users = await describe_dependents(work, record)
        if users:
            raise Conflict(in_use(record.name, users), code="InstanceInUse")


async def list_dependents(ctx: Context, instance_id: str) -> list[str]:
    """Return the lines of `describe_dependents` for an instance that the caller may read."""
    async with ctx.read() as work:
        return await describe_dependents(work, await work.lookup.instance(instance_id, Permission.READ))


async def describe_dependents(work: Work, record: InstanceRecord) -> list[str]:
    """Describe the instances that use an instance or one of its submodules.

    Those that the caller can't read are counted only.
    """
    rows = await instances.list_users(work.connection, instance_id=record.id)
    shown = [
        f"{row.name!r} ({row.id})"
        for row in rows
        if work.lookup.allows(
            record.organization_id,
            Permission.READ,
            permissions.instance(row.application_id, row.id),
            permissions.environment(row.environment_id),
        )
    ]
    hidden = len(rows) - len(shown)
    return shown + ([f"{hidden} that you can't read"] if hidden else [])


async def _cancel(work: Work, record: InstanceRecord, found: ScheduleRow) -> str | None:
    """Cancel a schedule. Raises BadRequest if it has just fired, never to run again.

    Of a destroy that can be taken back, return the workflow that starts the instance again, empty if it wasn't stopped.
    """
    if not found.is_of_manifest:
        cancelled = await store.cancel(work.connection, schedule_id=found.id, instance_id=record.id)
        if cancelled is None:
            raise _just_fired(found)
        return cancelled.undo_workflow
    # A run that fires at the same moment writes the schedule anew, which the next statement sees.
    for _ in range(_CANCEL_ATTEMPTS):
        if await store.cancel_recurring(work.connection, schedule_id=found.id, user_id=work.actor.user_id) is not None:
            return None
    raise _just_fired(found)


async def _run(work: Work, record: InstanceRecord, workflow: str, parameters: Mapping[str, Any]) -> StartedJob:
    manifest = await work.manifest(record.application_id, record.version)
    plan = plan_run(manifest, workflow, parameters, record.status)
    if record.status is InstanceStatus.DESTROYED:
        raise _gone(record)
    await check_required(work, record, manifest, workflow, parameters)
    await _check_users(work, record, workflow, parameters)
    if record.job_id is not None or not may_accept(plan):
        raise await busy(work, record)
    if plan.kind != "destroy":  # which is what makes room
        await work.admit_job(record.organization_id)
    accepted = await work.accept(record, plan, manifest, record.version)
    if accepted is None:
        raise await busy(work, record)
    work.warn(ignored_parameters(manifest, workflow, parameters))
    return StartedJob(record.id, accepted)


def _at(record: InstanceRecord, workflow: str) -> Resource:
    return permissions.workflow(record.application_id, record.id, workflow)


def _given(work: Work, parameters: Mapping[str, Any] | None, interval_ms: int | None = None) -> Document:
    """Return what the audit log shows of a request, without secrets."""
    shown: dict[str, Any] = {} if interval_ms is None else {"intervalMs": interval_ms}
    if parameters is not None:
        shown["parameters"] = work.fingerprints(parameters)
    return shown


def _fitting(pending: list[ScheduleRow], wanted: str) -> list[ScheduleRow]:
    """Return the schedules that an id or a workflow's name means (conformance.md, "States").

    An id wins, and a schedule that isn't cancelled.
    """
    by_id = [row for row in pending if row.id == canonical_id(wanted)]
    named = [row for row in pending if row.workflow == wanted]
    return by_id or [row for row in named if row.cancelled_at is None] or named


def _only(fitting: list[ScheduleRow], wanted: str) -> ScheduleRow:
    if not fitting:
        what = "id" if is_id(wanted) else "name"
        raise BadRequest(
            f"The instance has no schedule with the {what} {wanted[:100]!r}. List its schedules.",
            code="UnknownSchedule",
        )
    if len(fitting) > 1:
        ids = ", ".join(row.id for row in fitting)
        raise BadRequest(
            f"The name {wanted[:100]!r} fits several schedules: {ids}. Give the id of one.", code="AmbiguousSchedule"
        )
    return fitting[0]


def _just_fired(schedule: ScheduleRow) -> BadRequest:
    return BadRequest(f"The schedule {schedule.id} has just fired.", code="UnknownSchedule")


async def busy(work: Work, record: InstanceRecord) -> InstanceBusy:
    """Return a refusal that names the running job, if the caller may read it."""
    running = await jobs.get_busy_job(work.connection, instance_id=record.id)
    at = (permissions.instance(record.application_id, record.id), permissions.environment(record.environment_id))
    organization_id = record.organization_id
    may_read = work.lookup.has_grants(organization_id) and work.lookup.allows(organization_id, Permission.READ, *at)
    if running is None or not may_read:
        message = f"Another workflow is already running on the instance{_TRY_AGAIN}."
    else:
        message = (
            f"The instance {running.instance!r} runs job {running.number}, {running.workflow!r} (ID {running.id})"
            f"{_TRY_AGAIN}."
        )
    return InstanceBusy(message, instance_id=record.id)


def _gone(record: InstanceRecord) -> BadRequest:
    return BadRequest(f"The instance {record.name!r} is destroyed; nothing can be run on it.", code="InstanceDestroyed")


def reason_to_wait(error: LaunchbayError) -> str:
    """Return a refusal without the advice to try again, for who does so anyway."""
    return str(error).replace(_TRY_AGAIN, "")
