"""Application instances: lists, detail, user data, deletion (reference §4, Application instances)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth import gate
from launchbay.auth.permissions import Permission
from launchbay.clock import Backoff, Clock, from_ms, to_ms
from launchbay.errors import BadRequest, Conflict, NotAllowed, NotFound, TooLarge
from launchbay.ids import new_id
from launchbay.machines.registry import Providers
from launchbay.manifest.configuration import effective_parameters
from launchbay.manifest.graph import CompiledManifest
from launchbay.model import redaction
from launchbay.model.changes import Proposal
from launchbay.model.environment import read_environment_view
from launchbay.model.expiry import NEVER
from launchbay.model.instance import InstanceStatus, is_active
from launchbay.model.job import JobStatus, read_plan
from launchbay.model.machine import DRY_RUN
from launchbay.model.redaction import REDACTED
from launchbay.model.waits import sentences
from launchbay.planning.acceptance import StartedJob
from launchbay.planning.names import available_workflows
from launchbay.planning.plans import plan_deletion
from launchbay.store import instances as store
from launchbay.store import jobs
from launchbay.store.instances import InstanceDetail, InstanceRecord, InstanceSummary
from launchbay.usecases.context import Context, Work
from launchbay.usecases.places import list_waits
from launchbay.usecases.waits import BUSY, Awaited

_COMMIT_LOOKS = Backoff(0.002, 0.1)  # at a transaction that is about to commit
_LONGEST_LAUNCH = timedelta(minutes=5)
_CLOCKS_DIFFER = timedelta(seconds=2)


class InstanceSources(msgspec.Struct, frozen=True):
    """All that the view of an instance depends on.

    Equal ones give equal views, whoever reads and whenever.
    """

    detail: InstanceDetail
    manifest: CompiledManifest
    providers: Providers


class InstanceView(msgspec.Struct, frozen=True):
    """An instance as of one moment, and the workflows that it offers."""

    detail: InstanceDetail
    available_workflows: list[str]
    is_dry_run: bool
    parameters: dict[str, Any]  # the effective ones
    origins: dict[str, str]  # of each of them: given, default, revision or parent


async def read_instance(ctx: Context, instance_id: str) -> InstanceView:
    """Return an instance without secrets."""
    return view_of(await read_sources(ctx, instance_id))


async def read_sources(ctx: Context, instance_id: str) -> InstanceSources:
    async with ctx.read() as work:
        return await sources_of(work, await _detail(work, instance_id))


async def awaited(ctx: Context, instance_id: str) -> Awaited | None:
    """Return what a read of an instance can wait for, if anything.

    Raises as a read does.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    return Awaited(instance_id) if record.status in BUSY else None


async def _detail(work: Work, instance_id: str) -> InstanceDetail:
    """Return an instance.

    The jobs that hold up its job are named, if the caller may read them.
    """
    detail = await work.lookup.instance_detail(
        instance_id, Permission.READ, jobs=limits.HISTORY_JOBS, steps_bytes=limits.HISTORY_STEPS_BYTES
    )
    if detail.waits is None:
        return detail
    waits = await list_waits(work, detail.organization_id, detail.id, detail.waits, of_instance=True)
    destruction = next((each.text for each in waits if each.kind == "destroy"), None)
    return msgspec.structs.replace(detail, waits=sentences(waits), destruction=destruction)


async def sources_of(work: Work, detail: InstanceDetail) -> InstanceSources:
    """Add to a row of an instance what else its view depends on."""
    return InstanceSources(detail, await work.manifest(detail.application_id, detail.version), work.app.machines)


def view_of(sources: InstanceSources) -> InstanceView:
    """Return what is shown of an instance, without secrets."""
    detail, manifest = sources.detail, sources.manifest
    provider = sources.providers.name_for(read_environment_view(detail.environment_view).policies)
    # What workflows learned from a vault is sealed in there.
    shown = redaction.replace_tokens(detail.return_values, lambda _: REDACTED)
    detail = msgspec.structs.replace(detail, return_values=shown)
    given: dict[str, Any] = msgspec.json.decode(detail.parameters)
    parameters = effective_parameters(manifest, given)
    known: dict[str, str] = msgspec.json.decode(detail.parameter_origins)
    origins = {name: known.get(name, "given") if name in given else "default" for name in parameters}
    return InstanceView(detail, available_workflows(manifest), provider == DRY_RUN, parameters, origins)


async def put_user_data(ctx: Context, instance_id: str, data: Mapping[str, Any]) -> None:
    """Replace the user data of an instance. Raises TooLarge beyond the bound."""
    text = msgspec.json.encode(data)
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if len(text) > limits.USER_DATA_BYTES:
            raise TooLarge(f"User data has {len(text)} bytes; at most {limits.USER_DATA_BYTES} are kept.")
        await store.set_user_data(work.connection, instance_id=record.id, user_data=text.decode())
        before = work.fingerprints(msgspec.json.decode(record.user_data))
        await work.audit("put_user_data", record, before, work.fingerprints(data))


async def delete_instance(ctx: Context, instance_id: str, *, force: bool) -> StartedJob | None:
    """Delete a destroyed instance; with `force` also an active one, which is destroyed first.

    Returns the job that destroys it, if one does. Raises BadRequest when it is active and `force` is not given, and
    for a submodule.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.DELETE_INSTANCE)
        locked = await store.lock(work.connection, instance_id=record.id)
        if locked is None:
            return None  # somebody else has just deleted it
        status = InstanceStatus(locked.status)
        if record.parent_id is not None:
            raise BadRequest(
                f"The instance is a submodule of the instance {record.parent_id}. Delete that one.",
                code="SubmoduleInstance",
            )
        if not is_active(status, may_hold_something=locked.may_hold_something):
            await store.delete(work.connection, instance_id=record.id)
            job_id = None
        elif not force:
            raise BadRequest(
                f"Can't delete an instance in status {status}. Destroy it first, or force the deletion.",
                code="InstanceActive",
            )
        elif locked.plan is None or not read_plan(locked.plan).deletes_instance:
            job_id = await _destroy_and_delete(work, record, status, locked.job_id)
        else:
            # The deletion is under way; to begin it anew for everyone who asks would keep it from its end.
            return None if locked.job_id is None else StartedJob(record.id, locked.job_id)
        before = {"name": record.name, "status": locked.status, "force": force}
        await work.audit("delete_instance", record, before)
    return None if job_id is None else StartedJob(record.id, job_id)


async def _destroy_and_delete(work: Work, record: InstanceRecord, status: InstanceStatus, job_id: str | None) -> str:
    if job_id is not None:
        # The job under way ends as failed, here and now: its worker is fenced out and interrupted.
        status = InstanceStatus.FAILED
        await jobs.supersede(
            work.connection,
            job_id=job_id,
            job_status=JobStatus.FAILED,
            status=status,
            error_message="Cancelled, because the instance was deleted by force.",
        )
    manifest = await work.manifest(record.application_id, record.version)
    plan = plan_deletion(status, recalls=job_id)
    accepted = await work.accept(record, plan, manifest, record.version)
    if accepted is None:
        raise Conflict("The instance was changed by another request. Retry.")
    return accepted


_LISTS = {
    "applications": (store.list_by_application, "application"),
    "environments": (store.list_by_environment, "environment"),
    "revisions": (store.list_by_revision, "revision"),
}


async def list_instances(
    ctx: Context, kind: str, of_id: str, *, status: str | None, name: str | None, after: str, limit: int | None
) -> AsyncIterator[list[InstanceSummary]]:
    """Stream the instances of an application, environment or revision in chunks, oldest first.

    Those that the caller may not read are left out. The look-up happens before the first chunk, so that its errors are
    answers.
    """
    statement, noun = _LISTS[kind]
    async with ctx.read() as work:
        found = await getattr(work.lookup, noun)(of_id, Permission.READ)
        seen = gate.visible(work.lookup.grants(found.organization_id), Permission.READ)
    until = await _complete_until(ctx, found.organization_id, after)
    lend = ctx.app.database.connection
    async with aclosing(
        statement.chunks(lend, of_id=of_id, status=status, name=name, after=after, until=until, limit=limit, **seen)
    ) as chunks:
        async for chunk in chunks:
            yield chunk


async def _complete_until(ctx: Context, organization_id: str, after: str) -> str:
    """Return the newest ID up to which no instance is still to come.

    So `after=` never skips one. Transactions commit in another order than they make IDs: waits for those under way. If
    one takes long, instances that are newer than it are left to the next list.
    """
    app = ctx.app
    async with app.database.connection() as connection:
        row = await store.get_newest(connection, organization_id=organization_id)
    assert row is not None, "it has no condition"
    making = [store.MakingRow(each, None) for each in row.making] if row.newest > after else []
    until_s = app.clock.monotonic_s() + limits.LIST_WAITS_FOR_LAUNCHES_S
    delays = _COMMIT_LOOKS.delays()
    while making:
        async with app.database.connection() as connection:
            making = await store.list_making(connection, making=[each.id for each in making])
        if making and app.clock.monotonic_s() > until_s:
            began = min(each.began_at or app.clock.now() - _LONGEST_LAUNCH for each in making)
            return min(row.newest, f"{int((began - _CLOCKS_DIFFER).timestamp()):08x}")
        if making:
            await asyncio.sleep(next(delays))
    return row.newest


async def set_destroy_at(ctx: Context, instance_id: str, destroy_at_ms: int) -> None:
    """Set when an instance is destroyed, in ms since 1970, or NEVER.

    A job that is under way then ends first. Raises BadRequest for a time that has passed, for a destroyed instance, and
    for one that is offered as a service: those never expire.
    """
    async with ctx.begin() as work:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
        if record.parent_id is not None:
            raise NotAllowed(
                f"The instance belongs to a submodule of the instance {record.parent_id} and goes with that one.",
                code="SubmoduleInstance",
            )
        destroy_at = _checked(destroy_at_ms, ctx.app.clock)
        locked = await store.lock_expiry(work.connection, instance_id=record.id)
        if locked is None:
            raise NotFound(f"The instance {record.id} has just been deleted.")
        if locked.status == InstanceStatus.DESTROYED:
            raise BadRequest("The instance is destroyed already.", code="InstanceDestroyed")
        if destroy_at is None:
            await _require_lifetime(work, record, None)
            await store.clear_expiry(work.connection, instance_id=record.id)
        elif locked.is_offered:
            raise BadRequest(
                "The instance is offered as a service, which never expires; withdraw it from its environments first.",
                code="InstanceOffered",
            )
        else:
            await _require_lifetime(work, record, destroy_at)
            await store.set_expiry(
                work.connection,
                instance_id=record.id,
                destroy_at=destroy_at,
                schedule_id=new_id(),
                owner_id=ctx.actor.user_id,
            )
        before = {"destroyAt": None if locked.destroy_at is None else to_ms(locked.destroy_at)}
        after = {"destroyAt": None if destroy_at is None else destroy_at_ms}
        is_later = locked.destroy_at is not None and destroy_at is not None and destroy_at >= locked.destroy_at
        left_ms = None if destroy_at is None else destroy_at_ms - to_ms(ctx.app.clock.now())
        proposed = Proposal(lifetime_ms=NEVER if left_ms is None else left_ms)
        keeps = destroy_at is None or is_later
        await work.audit("set_destroy_at", record, before, after, keeps=keeps, proposed=proposed)


async def _require_lifetime(work: Work, record: InstanceRecord, destroy_at: datetime | None) -> None:
    (await work.expiry_rules(record)).require(record.created_at, destroy_at)


def _checked(destroy_at_ms: int, clock: Clock) -> datetime | None:
    if destroy_at_ms == NEVER:
        return None
    now = clock.now()
    longest = now + timedelta(milliseconds=limits.INTERVAL_LONGEST_MS)
    if not to_ms(now) < destroy_at_ms <= to_ms(longest):
        raise BadRequest(
            f"destroyAt is {destroy_at_ms}; give a time to come, in milliseconds since 1970 (now it is {to_ms(now)}), "
            "or -1 for never. To destroy the instance now, run destroy.",
            code="InvalidDestroyAt",
        )
    return from_ms(destroy_at_ms)
