"""Jobs of an instance: lists, detail, cancellation, resumption (conformance.md, "Beyond the reference")."""

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission
from launchbay.concurrency import computed
from launchbay.errors import BadRequest, Conflict, InvalidManifest, NotAllowed, NotFound
from launchbay.manifest.configuration import configure, effective_parameters
from launchbay.manifest.graph import APPROVAL, CompiledManifest
from launchbay.model.changes import Proposal
from launchbay.model.component_state import StepState
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import CANCELLED, INTERRUPTED_STEP, JobStatus, Plan, read_plan
from launchbay.model.redaction import MaskedValues, Redactor
from launchbay.model.values import size_of
from launchbay.model.waits import Wait
from launchbay.planning.acceptance import StartedJob, accept
from launchbay.planning.arguments import check_size, declared_parameters, ignored_parameters
from launchbay.planning.names import DESTROY
from launchbay.planning.plans import may_accept, plan_resumed, plan_run, step_at
from launchbay.store import jobs as store
from launchbay.store.instances import InstanceRecord, JobRow, read_history
from launchbay.store.jobs import ControlRow, JobLink, JobView, StepView, read_job_link, read_links
from launchbay.usecases.context import Context, Work
from launchbay.usecases.events import redactor_for
from launchbay.usecases.places import UNSEEN, list_waits, readable_names
from launchbay.usecases.waits import Awaited
from launchbay.usecases.workflows import busy


class JobDetails(msgspec.Struct, frozen=True):
    """A job, its request, and the mask of its secrets."""

    view: JobView
    plan: Plan
    redactor: Redactor
    manifest: CompiledManifest | None  # of the job's version; None if it no longer compiles
    waits: Sequence[Wait] = ()
    usual_ms: int | None = None  # the median of the last successful runs of the workflow
    parent: JobLink | None = None
    children: Sequence[JobLink] = ()

    def parameters(self) -> MaskedValues | None:
        """Return the parameters of the run, masked; those that a launch or reconfiguration applies.

        None: a server of an earlier version ran it, which kept none.
        """
        if not self.plan.configures:
            return MaskedValues(self.redactor.value(self.plan.arguments))
        if self.view.shown_parameters is not None:
            return self._kept(self.view.shown_parameters)
        if self.view.status != JobStatus.EXECUTING:
            return None
        given = msgspec.json.decode(self.view.parameters)  # nobody changes them until it has ended
        applied = given if self.manifest is None else effective_parameters(self.manifest, given)
        return self.redactor.bounded(applied, limits.JOB_VALUES_BYTES)

    def results(self) -> MaskedValues:
        """Return what a run that has succeeded returned, by name, masked."""
        if self.view.shown_return_values is not None:
            return self._kept(self.view.shown_return_values)
        return MaskedValues(self.redactor.value(msgspec.json.decode(self.view.results or "{}")))

    def state_of(self, step: StepView) -> StepState:
        """Return how far a recorded step is."""
        return step.state(is_asking=self.is_approval(step.path))

    def is_approval(self, path: str) -> bool:
        """Return whether a step asks people."""
        declared = None if self.manifest is None else step_at(self.manifest, path)
        return declared is not None and declared.action == APPROVAL

    def _kept(self, text: str) -> MaskedValues:
        kept = msgspec.json.decode(text, type=MaskedValues)
        return MaskedValues(self.redactor.value(kept.values), kept.is_cut)


async def list_jobs(
    ctx: Context, instance_id: str, *, after: str | None, limit: int | None
) -> AsyncIterator[tuple[list[JobRow], Redactor]]:
    """Stream the jobs of an instance after `after`, the newest first."""
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
    redactor = await redactor_for(record)
    left = math.inf if limit is None else limit
    while left > 0:
        count = int(min(left, limits.JOBS_CHUNK))
        async with ctx.read() as work:
            text = await store.get_page(
                work.connection, instance_id=record.id, after=after, count=count, bytes=limits.LIST_CHUNK_BYTES
            )
        rows = read_history(text or "[]")
        if not rows:
            return
        yield rows, redactor
        after, left = rows[-1].id, left - len(rows)


async def find_job(ctx: Context, job_id: str) -> JobDetails:
    """Return a job by its id alone, as `read_job` does."""
    async with ctx.read() as work:
        instance_id = await _find_instance_id(work, job_id)
    return await read_job(ctx, instance_id, job_id)


async def _find_instance_id(work: Work, job_id: str) -> str:
    instance_id = await store.get_instance_id(work.connection, job_id=job_id)
    if instance_id is None:
        await work.lookup.caller(by_token=True)
        raise NotFound(f"There is no job {job_id!r}.", "List the jobs of its instance.")
    return instance_id


async def awaited(ctx: Context, instance_id: str | None, job_id: str) -> Awaited | None:
    """Return what a read of a job can wait for, if anything.

    Raises as a read does. Without `instance_id` the job is found by its ID alone.
    """
    async with ctx.read() as work:
        instance_id = instance_id or await _find_instance_id(work, job_id)
        await work.lookup.instance(instance_id, Permission.READ)
        found = await store.get_status(work.connection, job_id=job_id)
    is_under_way = found is not None and found.instance_id == instance_id and found.status == JobStatus.EXECUTING
    return Awaited(instance_id, job_id) if is_under_way else None


async def read_job(ctx: Context, instance_id: str, job_id: str) -> JobDetails:
    """Return a job with its steps."""
    async with ctx.read() as work:
        view = await store.get(
            work.connection,
            instance_id=instance_id,
            job_id=job_id,
            output_bytes=limits.JOB_OUTPUTS_SHOWN_BYTES,
            input_bytes=limits.JOB_INPUTS_SHOWN_BYTES,
        )
        if view is None:
            raise await _not_found(work, instance_id, job_id)
        record = await work.lookup.instance(instance_id, Permission.READ)
        plan = read_plan(view.plan)
        manifest = None
        with suppress(InvalidManifest, Conflict):
            manifest = await work.manifest(view.application_id, plan.manifest_version or view.version)
        children = read_links(view.children)
        parent = None if view.parent is None else read_job_link(view.parent)
        linked = {each.instance_id for each in (*children, *filter(None, [parent]))}
        asked = store.list_usual_durations_ms(
            work.connection,
            ids=[job_id],
            instance_ids=[instance_id],
            application_ids=[view.application_id],
            workflows=[view.name],
            instances=limits.USUAL_INSTANCES,
            runs=limits.USUAL_RUNS,
            jobs=limits.USUAL_JOBS,
        )
        waits, names, [usual] = await work.together(
            _list_waits(work, record, view), readable_names(work, record.organization_id, linked), asked
        )
    known = [msgspec.json.decode(view.parameters), plan.arguments, msgspec.json.decode(view.environment_view)]
    redactor = await computed(size_of(known, limits.INLINE_BYTES), partial(Redactor, known))
    return JobDetails(
        view,
        plan,
        redactor,
        manifest,
        waits,
        usual.usual_ms,
        None if parent is None else _named(parent, names),
        [_named(each, names) for each in children],
    )


def _named(link: JobLink, names: Mapping[str, str]) -> JobLink:
    """Return a link with the name of its instance, if that is known."""
    return msgspec.structs.replace(link, instance_name=names.get(link.instance_id, UNSEEN))


async def _list_waits(work: Work, record: InstanceRecord, view: JobView) -> Sequence[Wait]:
    """Return what a job waits for."""
    awaited = None
    if view.status == JobStatus.EXECUTING:
        awaited = await store.get_waits(work.connection, job_id=view.id)
    return () if awaited is None else await list_waits(work, record.organization_id, record.id, awaited)


async def list_refined_states(ctx: Context, instance_id: str, job_id: str | None = None) -> dict[str, StepState]:
    """Return how steps ended whose status doesn't say all, by path.

    They are of the newest job, unless one is named.
    """
    async with ctx.read() as work:
        record = await work.lookup.instance(instance_id, Permission.READ)
        rows = await store.list_refined_steps(
            work.connection, instance_id=record.id, job_id=job_id, interrupted=INTERRUPTED_STEP
        )
    return {row.path: row.state() for row in rows}


async def list_resumptions(ctx: Context, instance_id: str, job: JobView) -> list[str]:
    """Return the later jobs that continue a job, in their order."""
    async with ctx.read() as work:
        await work.lookup.instance(instance_id, Permission.READ)
        return await store.list_resumptions(
            work.connection, instance_id=instance_id, job_id=job.id, since=job.created_at
        )


async def cancel_job(ctx: Context, instance_id: str, job_id: str) -> None:
    """Have a job under way end as failed.

    No step begins after this returns (decision 0161). Its running steps are interrupted soon after. Who may run the
    workflow may cancel it. Raises Conflict when the job has ended, or is a forced deletion.
    """
    async with ctx.begin() as work:
        record, job = await _find_job(work, instance_id, job_id)
        if job.status == JobStatus.EXECUTING and read_plan(job.plan).deletes_instance:
            raise Conflict("The job deletes the instance, and can no longer be stopped.", code="InstanceBeingDeleted")
        decided = await store.cancel(work.connection, job_id=job.id, reason=f"{CANCELLED}{ctx.actor.email}.")
        if decided is None or decided.status is None:
            raise await _not_found(work, instance_id, job_id)  # deleted since it was read
        if not decided.asked and decided.status == JobStatus.EXECUTING:
            return  # somebody has asked for it already
        if not decided.asked:
            raise Conflict(
                f"The job has ended: it is {decided.status}. Only a job under way can be cancelled.", code="JobEnded"
            )
        at = permissions.workflow(record.application_id, record.id, job.name)
        await work.audit("cancel_job", record, before={"job": job.id}, at=at)


async def resume_job(
    ctx: Context, instance_id: str, job_id: str, parameters: Mapping[str, Any], *, declared_only: bool = False
) -> StartedJob:
    """Run a failed job again from where it failed, and return the new job.

    What the failed job has recorded as done is not done again, nor is a step whose failure is ignored (decision 0175).
    `parameters` replace some of the job's: arguments of a
    command, parameters of the instance for a launch. `declared_only` leaves out those that the workflow doesn't
    declare. Raises Conflict when a job is under way, and BadRequest when the
    job did not fail, is not the newest, or cannot take the parameters.
    """
    async with ctx.begin() as work:
        record, _ = await _find_job(work, instance_id, job_id)
        locked = await store.lock_instance(work.connection, instance_id=record.id)
        job = await store.get_control(work.connection, instance_id=record.id, job_id=job_id)
        if locked is None or job is None:
            raise NotFound(f"The instance {record.id} has just been deleted.")
        plan = read_plan(job.plan)
        _check_resumable(job, plan, InstanceStatus(locked.status))
        manifest = await work.manifest(record.application_id, locked.version)
        if declared_only:
            declared = declared_parameters(manifest, plan.workflow)
            parameters = {name: value for name, value in parameters.items() if name in declared}
        configured = _with_parameters(plan, manifest, msgspec.json.decode(locked.parameters), parameters)
        status = InstanceStatus(locked.status)
        if parameters:  # it changes what the instance is
            proposed = Proposal(workflow=plan.workflow, parameters=parameters)
            await work.decide("resume_job", record, kind="reconfigure", proposed=proposed)
        work.warn(ignored_parameters(manifest, plan.workflow, parameters))
        resumed = plan_resumed(plan, job.id, _with_arguments(plan, manifest, parameters), status)
        if locked.job_id is not None or not may_accept(resumed):
            raise await busy(work, record)
        if plan.kind != "destroy":  # which is what makes room
            await work.admit_job(record.organization_id)
        resumed_id = await accept(
            work.connection,
            ctx.app.dispatch,
            record.organization_id,
            record.id,
            ctx.actor.user_id,
            resumed,
            manifest,
            version=locked.version,
            origin=work.origin(),
            here=False,  # its history, which a claim reads, is written below
        )
        assert resumed_id is not None, "the instance is locked and idle"
        done = await store.take_over(work.connection, job_id=resumed_id, earlier_id=job.id)
        assert done is not None, "it counts"
        text = f"Continues where the job {job.id} {'was cancelled' if job.is_cancelled else 'failed'}. {done.message()}"
        await store.set_note(work.connection, instance_id=record.id, job_id=resumed_id, text=text)
        if configured is not None:
            await store.set_parameters(
                work.connection, instance_id=record.id, parameters=configured, given=list(parameters)
            )
        after = {"job": resumed_id, "parameters": work.fingerprints(parameters)}
        at = permissions.workflow(record.application_id, record.id, job.name)
        await work.audit("resume_job", record, {"job": job.id}, after, at=at)
    return StartedJob(record.id, resumed_id)


async def _find_job(work: Work, instance_id: str, job_id: str) -> tuple[InstanceRecord, ControlRow]:
    """Return instance and job for somebody who may run the job's workflow.

    Raises as a run of it does.
    """
    job = await store.get_control(work.connection, instance_id=instance_id, job_id=job_id)
    if job is None:
        raise await _not_found(work, instance_id, job_id)
    if job.name == DESTROY:
        record = await work.lookup.instance(instance_id, Permission.EDIT_INSTANCE)
    else:
        record = await work.lookup.instance(instance_id, Permission.RUN_INSTANCE_WORKFLOW, workflow=job.name)
    if record.parent_id is not None:
        raise NotAllowed(
            f"The instance belongs to a submodule of the instance {record.parent_id}; look for the job of that one.",
            code="SubmoduleInstance",
        )
    return record, job


async def _not_found(work: Work, instance_id: str, job_id: str) -> NotFound:
    """Return the error for an unknown job, after the permission check."""
    with suppress(NotAllowed):  # 404 comes before 403 (conformance.md, "Wire" 6)
        await work.lookup.instance(instance_id, Permission.READ)
    return NotFound(f"The instance has no job {job_id!r}. List its jobs.")


def _check_resumable(job: ControlRow, plan: Plan, status: InstanceStatus) -> None:
    if job.status == JobStatus.SUCCEEDED:
        raise BadRequest("The job has succeeded; there is nothing to resume.", code="JobSucceeded")
    if not job.is_newest:
        raise BadRequest(
            "Only the newest job of an instance can be resumed; run the workflow again.", code="NotNewestJob"
        )
    if status is InstanceStatus.DESTROYED:
        raise BadRequest("The instance is destroyed; nothing can be run on it.", code="InstanceDestroyed")
    if plan.kind == "refused":
        raise BadRequest(
            "The job could not begin, so there is nothing to resume; run the workflow.", code="NotResumable"
        )
    if job.status == JobStatus.EXECUTING:
        raise Conflict("The job is still running; try again when it has ended.", code="InstanceBusy")


def _with_parameters(
    plan: Plan, manifest: CompiledManifest, stored: Mapping[str, Any], given: Mapping[str, Any]
) -> str | None:
    """Return the parameters with those of a launch, or None if unchanged."""
    if not given or plan.kind != "launch":
        return None
    check_size(given)
    merged = {**stored, **given}
    configure(manifest, merged)
    return msgspec.json.encode(merged).decode()


def _with_arguments(plan: Plan, manifest: CompiledManifest, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan's arguments with those of a command, converted."""
    if not given or plan.kind == "launch":
        return plan.arguments
    if plan.kind != "command":
        raise BadRequest(f"The workflow {plan.workflow} takes no parameters; leave them out.", code="UnknownParameter")
    return {**plan.arguments, **plan_run(manifest, plan.workflow, given, InstanceStatus(plan.prior_status)).arguments}
