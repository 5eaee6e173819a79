"""Running and scheduling workflows on an instance (reference §4, Application instances)."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.audit import Document
from launchbay.auth.permissions import Permission, Resource
from launchbay.clock import to_ms
from launchbay.errors import BadRequest, Conflict, NotAllowed
from launchbay.ids import is_id, new_id
from launchbay.model.instance import InstanceStatus
from launchbay.planning import DESTROY, StartedJob, accept, may_accept, plan_run
from launchbay.quotas import Quota
from launchbay.store import schedules as store
from launchbay.store.instances import InstanceRecord
from launchbay.store.schedules import ScheduleRow
from launchbay.usecases.context import Context, Work

_DIGITS = re.compile(r"[0-9]{1,15}")


async def run_workflow(ctx: Context, instance_id: str, workflow: str, parameters: Mapping[str, Any]) -> StartedJob:
    """Run a workflow on an instance and return its job.

    Raises BadRequest for an unknown workflow or parameter and Conflict when a job is under way.
    """
    async with ctx.begin() as work:
        record = await _for_running(work, instance_id, workflow, Permission.RUN_INSTANCE_WORKFLOW)
        job_id = await _run(work, record, workflow, parameters)
        await work.audit("run_workflow", record, after=_given(work, parameters), at=_at(record, workflow))
    return StartedJob(record.id, job_id)


async def schedule_workflow(
    ctx: Context, instance_id: str, workflow: str, interval: Any, parameters: Mapping[str, Any]
) -> str | StartedJob:
    """Schedule a workflow after `interval` milliseconds; return the schedule's id, or the job that 0 began."""
    async with ctx.begin() as work:
        record = await _for_running(work, instance_id, workflow, Permission.SCHEDULE_INSTANCE_WORKFLOW)
        interval_ms = validate_interval(interval)
        if interval_ms == 0:
            job_id = await _run(work, record, workflow, parameters)
            after = _given(work, parameters, interval_ms)
            await work.audit("schedule_workflow", record, after=after, at=_at(record, workflow))
            return StartedJob(record.id, job_id)
        if record.status is InstanceStatus.DESTROYED:
            raise _gone(record)
        manifest = await work.manifest(record.application_id, record.version)
        plan_run(manifest, workflow, parameters, InstanceStatus.RUNNING)
        await work.admit(record.organization_id, {Quota.SCHEDULES: 1})
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
        await work.audit("schedule_workflow", record, after=after, at=_at(record, workflow))
    return schedule_id


async def reschedule_workflow(
    ctx: Context, instance_id: str, schedule: str, interval: Any, parameters: Mapping[str, Any] | None
) -> str | None:
    """Move a schedule, named by its id or its workflow's name; 0 cancels it. Returns its id, None when cancelled.

    Parameters that are not given stay. Raises BadRequest for an unknown or ambiguous schedule.
    """
    async with ctx.begin() as work:
        # The permission is for the workflow, whose name an id has yet to tell; nothing of it is said before `lookup`.
        pending = await store.list_by_instance(work.connection, instance_id=instance_id)
        fitting = _fitting(pending, schedule)
        workflow = fitting[0].workflow if fitting else schedule
        record = await _for_running(work, instance_id, workflow, Permission.SCHEDULE_INSTANCE_WORKFLOW)
        found = _only(fitting, schedule)
        interval_ms = validate_interval(interval)
        before = {"schedule": found.id, "dueAt": to_ms(found.due_at)}
        if interval_ms == 0:
            await store.cancel(work.connection, schedule_id=found.id)
            await work.audit("reschedule_workflow", record, before, at=_at(record, workflow))
            return None
        if parameters is not None:
            manifest = await work.manifest(record.application_id, record.version)
            plan_run(manifest, found.workflow, parameters, InstanceStatus.RUNNING)
        moved = await store.reschedule(
            work.connection,
            schedule_id=found.id,
            interval_ms=interval_ms,
            parameters=None if parameters is None else msgspec.json.encode(parameters).decode(),
        )
        if moved is None:
            raise BadRequest(f"The schedule {found.id} has just fired.", code="UnknownSchedule")
        after = {"schedule": found.id, **_given(work, parameters, interval_ms)}
        await work.audit("reschedule_workflow", record, before, after, at=_at(record, workflow))
    return found.id


async def list_schedules(ctx: Context, instance_id: str) -> list[ScheduleRow]:
    """Return the pending schedules of an instance, the next one first."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_by_instance(work.connection, instance_id=record.id)


def validate_interval(interval: Any) -> int:
    """Return an interval in ms, given as a number or as digits. Raises BadRequest (conformance.md, "States")."""
    if isinstance(interval, str) and _DIGITS.fullmatch(interval):
        interval = int(interval)
    if isinstance(interval, float) and interval.is_integer():
        interval = int(interval)
    if isinstance(interval, bool) or not isinstance(interval, int) or not 0 <= interval <= limits.INTERVAL_LONGEST_MS:
        raise BadRequest(
            "interval must be milliseconds, as a whole number or a string of digits, 0 or more.", code="InvalidInterval"
        )
    return interval


async def _for_running(work: Work, instance_id: str, workflow: str, permission: Permission) -> InstanceRecord:
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


async def _run(work: Work, record: InstanceRecord, workflow: str, parameters: Mapping[str, Any]) -> str:
    manifest = await work.manifest(record.application_id, record.version)
    plan = plan_run(manifest, workflow, parameters, record.status)
    if record.status is InstanceStatus.DESTROYED:
        raise _gone(record)
    if record.job_id is not None or not may_accept(plan):
        raise _busy()
    if plan.kind != "destroy":  # which is what makes room
        await work.admit_job(record.organization_id)
    accepted = await accept(
        work.connection, work.app.dispatch, record.organization_id, record.id, work.actor.user_id, plan, manifest
    )
    if accepted is None:
        raise _busy()
    return accepted


def _at(record: InstanceRecord, workflow: str) -> Resource:
    return permissions.workflow(record.application_id, record.id, workflow)


def _given(work: Work, parameters: Mapping[str, Any] | None, interval_ms: int | None = None) -> Document:
    """Return what the audit log shows of a request; a parameter may be a secret."""
    shown: dict[str, Any] = {} if interval_ms is None else {"intervalMs": interval_ms}
    if parameters is not None:
        shown["parameters"] = work.fingerprints(parameters)
    return shown


def _fitting(pending: list[ScheduleRow], wanted: str) -> list[ScheduleRow]:
    """Return the schedules that an id or a workflow's name means; an id wins (conformance.md, "States")."""
    return [row for row in pending if row.id == wanted] or [row for row in pending if row.workflow == wanted]


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


def _busy() -> Conflict:
    return Conflict(
        "Another workflow is already running on the instance; try again when it has ended.", code="InstanceBusy"
    )


def _gone(record: InstanceRecord) -> BadRequest:
    return BadRequest(f"The instance {record.name!r} is destroyed; nothing can be run on it.", code="InstanceDestroyed")
