"""Runs one job from its claim to its end.

The dispatcher calls `Runner.run_job` for each job. A job ends exactly once: only the holder of its newest claim (fence)
writes, and a job that an earlier claim interrupted continues after its last record.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import msgspec
import structlog
from structlog.contextvars import bound_contextvars

from launchbay import limits
from launchbay.auth.lookup import Lookups
from launchbay.auth.permissions import Permission, on_behalf
from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.concurrency import computed
from launchbay.engine.audit import EngineAudit
from launchbay.engine.cancellation import release_descendants, replay_cancelled, replay_superseded
from launchbay.engine.child_jobs import ChildJobs
from launchbay.engine.dispatch import Dispatcher
from launchbay.engine.ending import (
    NO_FOLLOW_UPS,
    FollowUps,
    InstanceSnapshot,
    JobCompletion,
    JobOutcome,
    follow_ups,
    pushed_signals,
)
from launchbay.engine.journal import PostgresJournal, retry_while_unavailable, run_until_available
from launchbay.engine.service_calls import ServiceCalls
from launchbay.errors import Conflict, Fenced, LaunchbayError, WorkflowFailed, internal_error
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import scaled
from launchbay.model.environment import read_environment_view
from launchbay.model.instance import (
    InstanceEvent,
    InstanceStatus,
    Link,
    read_former_configuration,
    read_link,
    transition,
)
from launchbay.model.job import PLAN_VERSION, JobKind, StepStatus, read_plan
from launchbay.model.redaction import Redactor
from launchbay.planning.compiled import CompiledManifests
from launchbay.quotas.stored_bytes import StoredBytes
from launchbay.runtime.contract import JobRun, RuntimeDeps, StepRecord
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.machines import release_all, stop_commands
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import return_values
from launchbay.runtime.slot import flushed, interruptible_sleep, leaving, staying
from launchbay.runtime.state import STATE_VERSION, Graph, InstanceState, existing_quantity
from launchbay.store import dispatch, jobs
from launchbay.store.database import CommitGroup, Database
from launchbay.store.dispatch import ClaimedJob
from launchbay.store.jobs import ClaimRow, RecordRow
from launchbay.telemetry import metrics
from launchbay.telemetry.tracing import Attributes, tracing

log = structlog.get_logger(__name__)
SUPERSEDED_POLL_S = 0.05
DELETED = "Cancelled: the caller's instance was deleted with force."
# A job that was queued for so long is decided again when it starts. Any permission by which people begin it is enough.
ASKED_AGAIN_S = 10.0
_RUNS = (Permission.RUN_INSTANCE_WORKFLOW, Permission.SCHEDULE_INSTANCE_WORKFLOW, Permission.EDIT_INSTANCE)
_SUFFICIENT: Mapping[JobKind, tuple[Permission, ...]] = {
    "launch": (Permission.CREATE_INSTANCE, *_RUNS),
    "command": _RUNS,
    "reconfigure": _RUNS,
    "destroy": (Permission.EDIT_INSTANCE,),
}
_OF_INSTANCE = frozenset({"trigger", "expiry", "job"})  # nobody's right; what a rule begins names the instance


def parse_links(stored: str | None) -> dict[str, Link]:
    """Decode stored links, `{component: [instance or service id, kind, binding]}`."""
    links: dict[str, tuple[str, str, str | None]] = msgspec.json.decode(stored or "{}")
    return {component: read_link(*link) for component, link in links.items()}


class _HeldClaim(NamedTuple):
    """A claim that this process runs. `is_cancelled`: it ends a cancelled job."""

    lost: asyncio.Future[None]  # done when this worker has lost the job
    is_cancelled: bool


class Runner:
    """Runs jobs; one object serves all jobs of the process."""

    def __init__(
        self,
        database: Database,
        deps: RuntimeDeps,
        manifests: CompiledManifests,
        services: ServiceCalls,
        secret_key: SecretKey,
        dispatcher: Dispatcher,
        stored: StoredBytes,
        destroy_timeout_s: float,
        named_jobs: metrics.NamedJobs,
        lookups: Lookups,
    ) -> None:
        self._database = database
        # Those of claims don't wait for the disk, so they aren't for anything else.
        self._claims, self._ends = CommitGroup(database), CommitGroup(database)
        self._deps = deps
        self._manifests = manifests
        self._secret_key = secret_key
        self._audit = EngineAudit(secret_key)
        self._stored = stored
        self._destroy_timeout_s = destroy_timeout_s
        self._named_jobs = named_jobs
        self._lookups = lookups
        self._held: dict[tuple[str, int], _HeldClaim] = {}
        self._dispatcher = dispatcher
        self._child_jobs = ChildJobs(database, manifests, services, self.run_child)

    async def run_child(self, job_id: str) -> None:
        """Claim a job that another one calls, and run it in the caller's slot."""
        await self._run(job_id, None)

    async def run_job(self, job: ClaimedJob) -> bool:
        """Run a held job to its end; return False if it was lost.

        Raises Conflict if a newer version stored the job: it waits until a worker can read it.
        CancelledError (the process stops) leaves the job unchanged: the next claim continues after the last record.
        """
        return await self._run(job.job_id, job.fence)

    async def _run(self, job_id: str, fence: int | None) -> bool:
        with staying():  # but for the steps themselves, see `_run_to_outcome`
            return await self._run_claim(job_id, fence)

    async def _run_claim(self, job_id: str, fence: int | None) -> bool:
        claim = self._dispatcher.take_begun(job_id)
        if claim is None:
            claim = await retry_while_unavailable(partial(self._claim, job_id, fence))
        if claim is None:
            await retry_while_unavailable(partial(self._refuse_newer_version, job_id))
            return False
        metrics.job_claimed(claim.fence, claim.waited_s)
        secrets = Secrets(TextSeal(self._secret_key, claim.organization_id), await _redactor(claim))
        records: Mapping[str, StepRecord] = {}
        cancellation = claim.cancellation
        if claim.fence > 1 or claim.cancel_requested:
            first = None if claim.records is None else msgspec.json.decode(claim.records, type=list[RecordRow])
            records = await retry_while_unavailable(partial(self._load_history, job_id, secrets, first))
        # What left nothing hasn't begun, though a launch has its start since its acceptance (decision 0187).
        is_new = not (claim.ran_s and (records or await retry_while_unavailable(partial(self._has_log, job_id))))
        waited_s = claim.waited_s + claim.ran_s if is_new else claim.waited_s
        if waited_s >= ASKED_AGAIN_S and not records and cancellation is None:
            cancellation = await retry_while_unavailable(partial(self._lost_right, job_id, claim))
        lost, handed_over = asyncio.get_running_loop().create_future(), asyncio.Event()
        journal = PostgresJournal(
            self._database,
            self._deps.clock,
            job_id,
            claim.fence,
            records,
            on_fenced=partial(_set, lost),
            secrets=secrets,
            organization_id=claim.organization_id,
            stored=self._stored,
            secret_key=self._secret_key,
            is_cancelled=claim.cancel_requested,
        )
        self._held[job_id, claim.fence] = _HeldClaim(lost, claim.cancel_requested)
        try:
            with (
                metrics.jobs_running.track_inprogress(),
                bound_contextvars(job=job_id, instance=claim.instance_id),
                flushed(journal.flush),
            ):
                await _while_held(
                    self._run_claimed(job_id, claim, journal, cancellation, handed_over, waited_s if is_new else None),
                    lost,
                    handed_over,
                )
        except Fenced:
            if journal.was_cancelled:
                log.info("job.cancelled", job=job_id, instance=claim.instance_id, fence=claim.fence)
            else:
                log.warning("job.lost", job=job_id, instance=claim.instance_id, fence=claim.fence)
            return False
        finally:
            del self._held[job_id, claim.fence]
            await journal.close()
        return not lost.done()

    async def drop_lost_jobs(self) -> None:
        """Stop jobs that this process no longer holds, or that were cancelled.

        Called every second.
        """
        held = dict(self._held)
        if not held:
            return
        ids, fences = zip(*held, strict=True)
        async with self._database.connection() as connection:
            pairs = await jobs.list_held(
                connection,
                job_ids=list(ids),
                fences=list(fences),
                are_cancelled=[each.is_cancelled for each in held.values()],
            )
        still_held = {(job_id, int(fence)) for job_id, fence in pairs or []}
        for claimed, each in held.items():
            if claimed not in still_held:
                _set(each.lost)

    async def cancel_orphans(self) -> None:
        """End child jobs whose parent job ended without them. Called every few seconds."""
        await self._child_jobs.cancel_orphans()

    async def _claim(self, job_id: str, fence: int | None) -> ClaimRow | None:
        started = transition(InstanceStatus.REQUESTED, InstanceEvent.LAUNCH_STARTED)
        parameters = {
            "job_id": job_id,
            "fence": fence,
            "requested_status": InstanceStatus.REQUESTED,
            "started_status": started,
            "plan_version": PLAN_VERSION,
            "state_version": STATE_VERSION,
            "records": limits.RECORDS_PAGE,
        }
        if fence is not None:
            return await jobs.claim(self._claims, **parameters)
        # Not with others: this raises the fence, so it can't be repeated.
        async with self._database.connection() as connection:
            return await jobs.claim(connection, **parameters)

    async def _refuse_newer_version(self, job_id: str) -> None:
        """Raise Conflict if the job couldn't be claimed because a newer version stored it."""
        async with self._database.connection() as connection:
            stored = await jobs.get_versions(connection, job_id=job_id)
        if stored is not None and (stored.plan > PLAN_VERSION or stored.state > STATE_VERSION):
            log.warning("job.skipped_newer_version", job=job_id, plan_version=stored.plan, state_version=stored.state)
            raise Conflict(
                f"Job {job_id} needs a newer version of Launchbay.", "Upgrade this worker.", code="NewerPlan"
            )

    async def _load_history(
        self, job_id: str, secrets: Secrets, first: list[RecordRow] | None = None
    ) -> Mapping[str, StepRecord]:
        """Return the records of earlier claims; `first` is their first page, if known."""
        records: dict[str, StepRecord] = {}
        page = await self._records_after("", job_id) if first is None else first
        while True:
            # Other jobs and requests get their turn between pages.
            for row in page:
                records[row.path] = await _record(row, secrets)
                if row.outputs is not None and len(row.outputs) > limits.LIST_CHUNK_BYTES:
                    await asyncio.sleep(0)
            if len(page) < limits.RECORDS_PAGE:
                return records
            page = await self._records_after(page[-1].path, job_id)

    async def _records_after(self, path: str, job_id: str) -> list[RecordRow]:
        async with self._database.connection() as connection:
            return await jobs.list_records(connection, job_id=job_id, after=path, count=limits.RECORDS_PAGE)

    async def _has_log(self, job_id: str) -> bool:
        async with self._database.connection() as connection:
            return bool(await jobs.has_log(connection, job_id=job_id))

    async def _lost_right(self, job_id: str, claim: ClaimRow) -> str | None:
        """Return why the requester of a job may no longer run it, or None."""
        plan = read_plan(claim.plan)
        sufficient = _SUFFICIENT.get(plan.kind)
        if sufficient is None or plan.deletes_instance or claim.parent_job_id is not None:
            return None
        origin = plan.origin
        if origin is not None and (origin.kind in _OF_INSTANCE or origin.id == claim.instance_id):
            return None
        async with self._database.connection() as connection:
            owner_id = await jobs.get_owner(connection, job_id=job_id)
            if owner_id is None:
                return None
            lookup = self._lookups.bind(connection, on_behalf(owner_id))
            lost = await lookup.lost_right(claim.instance_id, plan.workflow, sufficient)
        return None if lost is None else f"Cancelled while it was queued: {lost[0].lower()}{lost[1:]}"

    async def _cancel_child(self, reason: str, job_id: str) -> None:
        await run_until_available(self._database, jobs.cancel, job_id=job_id, reason=reason)

    async def _run_claimed(
        self,
        job_id: str,
        claim: ClaimRow,
        journal: PostgresJournal,
        cancellation: str | None,
        handed_over: asyncio.Event,
        waited_s: float | None,
    ) -> None:
        """Run a job to its end.

        `waited_s` is how long it waited for its first step, None if it has begun before.
        """
        plan = read_plan(claim.plan)
        completion = JobCompletion(
            self._database, self._ends, journal, job_id, claim, plan, self._audit, self._dispatcher, self._named_jobs
        )
        about: Attributes = {
            "launchbay.job": job_id,
            "launchbay.instance": claim.instance_id,
            "launchbay.fence": claim.fence,
        }
        with tracing.span(f"job {plan.workflow}", about, plan.trace):
            if waited_s is not None:
                waited = f" after waiting {waited_s:.0f} s" if waited_s >= 1 else ""
                journal.log(None, "info", f"Job {claim.number}, {plan.workflow!r}, started{waited}.")
            state = await computed(
                len(claim.state), lambda: InstanceState.from_text(journal.secrets.opened_json(claim.state))
            )
            try:
                job = await self._load(job_id, claim, journal, state, handed_over)
                outcome = await self._outcome(job, claim, cancellation)
            except Fenced:
                raise
            except LaunchbayError as failure:
                outcome = JobOutcome(error=_with_reason(cancellation, str(failure)))
            except Exception:
                # A defect of ours. A retry would fail the same way forever, and guarantee 2 requires an end.
                log.exception("job.crashed", job=job_id, instance=claim.instance_id)
                outcome = JobOutcome(error=_with_reason(cancellation, internal_error(f"job {job_id}")))
            await completion.write(state, outcome)
            self._dispatcher.ended(claim.instance_id)

    async def _load(
        self,
        job_id: str,
        claim: ClaimRow,
        journal: PostgresJournal,
        state: InstanceState,
        handed_over: asyncio.Event,
    ) -> JobRun:
        """Build the job from its claim.

        Raises LaunchbayError if its manifest or parameters no longer compile.
        """
        secrets = journal.secrets
        if claim.fence > 1:  # before a step adopts a command that has them
            await journal.open_passing()
        manifest = await self._manifest(claim.application_id, claim.version)
        configuration = await computed(
            len(claim.parameters), lambda: configure(manifest, msgspec.json.decode(claim.parameters))
        )
        return JobRun(
            job_id=job_id,
            fence=claim.fence,
            instance_id=claim.instance_id,
            organization_id=claim.organization_id,
            environment_id=claim.environment_id,
            plan=await computed(len(claim.plan), lambda: read_plan(secrets.opened_json(claim.plan))),
            graph=Graph(manifest, configuration),
            environment=read_environment_view(claim.environment_view),
            state=state,
            journal=journal,
            deps=self._deps,
            linked_instances=self._child_jobs,
            links=parse_links(claim.links),
            parent_signals=await secrets.read(claim.fed_signals),
            secrets=secrets,
            before=await self._former_configuration(claim, state),
            caller=self._child_jobs.caller_of(job_id),
            handed_over=handed_over,
        )

    async def _former_configuration(self, claim: ClaimRow, state: InstanceState) -> Configured | None:
        if claim.before is None:
            return None
        before = read_former_configuration(claim.before)
        manifest = await self._manifest(claim.application_id, before.version)
        links = {path: read_link(target, kind, None) for path, (target, kind) in before.links.items()}
        configuration = configure(manifest, before.parameters)
        graph = scaled(manifest, configuration, existing_quantity(state))
        return Configured(*graph, links, frozenset(before.parameters), frozenset(before.stopped), before.owed)

    async def _manifest(self, application_id: str, version: int) -> CompiledManifest:
        cached = self._manifests.cached(application_id, version)
        if cached is not None:
            return cached
        return await run_until_available(
            self._database, lambda connection: self._manifests.get(connection, application_id, version)
        )

    async def _outcome(self, job: JobRun, claim: ClaimRow, cancellation: str | None) -> JobOutcome:
        outcome = JobOutcome(error=cancellation)
        if cancellation is None:
            outcome = await self._run_to_outcome(job)
        else:
            await replay_cancelled(job, partial(self._cancel_child, cancellation))
            await stop_commands(job)
        values = return_values(job.manifest, job.state)
        follows = await self._follow_ups(job, claim, values, outcome.error, cancelled=cancellation is not None)
        return replace(
            outcome,
            error=outcome.error or follows.unsettled,
            return_values=await job.secrets.stored(values),
            values=values,
            component_count=len(job.manifest.order),
            running_count=sum(map(job.state.is_launched, job.manifest.order)),
            follow_ups=follows,
            manifest=job.manifest,
            former=_left_to_do(job, claim),
        )

    async def _follow_ups(
        self, job: JobRun, claim: ClaimRow, values: Mapping[str, Any], error: str | None, *, cancelled: bool
    ) -> FollowUps:
        if job.plan.kind == "destroy":
            return NO_FOLLOW_UPS
        snapshot = InstanceSnapshot(
            manifest=job.manifest,
            state=job.state,
            parent_signals=job.parent_signals,
            links=job.links,
            values_before=await job.secrets.read(claim.return_values),
            values_now=values,
            secrets=job.secrets,
        )
        follows = follow_ups(snapshot, self._deps.clock.now(), job.plan, failed=error is not None, cancelled=cancelled)
        try:
            return replace(follows, pushed_signals=await pushed_signals(snapshot))
        except WorkflowFailed as failure:
            return replace(follows, unsettled=follows.unsettled or str(failure))

    async def _run_to_outcome(self, job: JobRun) -> JobOutcome:
        if job.plan.deletes_instance:
            return await self._delete(job)
        try:
            with leaving():
                results = await run_plan(job)
            return JobOutcome(results=await job.secrets.stored(results))
        except WorkflowFailed as failure:
            return JobOutcome(error=str(failure), propagates=failure.propagates)

    async def _until_free(self, job_id: str) -> None:
        """Wait until no worker can still run an effect of a superseded job."""
        while await run_until_available(self._database, dispatch.is_free, job_id=job_id) is False:
            await interruptible_sleep(SUPERSEDED_POLL_S)

    async def _delete(self, job: JobRun) -> JobOutcome:
        """Destroy the instance within a time limit, then release and delete the rest."""
        timeout_s = self._destroy_timeout_s
        failures: list[str] = []
        try:
            async with asyncio.timeout(timeout_s):
                if job.plan.recalls is not None:
                    await self._until_free(job.plan.recalls)
                    records = await retry_while_unavailable(partial(self._load_history, job.plan.recalls, job.secrets))
                    cancel_child = partial(self._cancel_child, DELETED)
                    await replay_superseded(self._database, job, records, cancel_child)
                await run_plan(job)
        except WorkflowFailed as failure:
            failures.append(str(failure))
        except TimeoutError:
            failures.append(f"The forced destroy exceeded its limit of {timeout_s:g} s and was interrupted.")
            failures += await release_all(job)
        failures += await release_descendants(self._database, job)
        return JobOutcome(error=" ".join(failures) or None)


def _left_to_do(job: JobRun, claim: ClaimRow) -> str | None:
    """Return from what a resumption of a reconfiguration starts, as JSON.

    None if that is where this job started.
    """
    if claim.before is None or not job.stopped:
        return None
    before = read_former_configuration(claim.before)
    return msgspec.structs.replace(before, stopped=sorted({*before.stopped, *job.stopped})).to_text()


def _with_reason(cancellation: str | None, failure: str) -> str:
    """Return the error of a job.

    A cancelled one stays cancelled, whatever goes wrong at its end.
    """
    return failure if cancellation is None else f"{cancellation} {failure}"


def _set(lost: asyncio.Future[None]) -> None:
    if not lost.done():
        lost.set_result(None)


async def _while_held(work: Coroutine[Any, Any, None], lost: asyncio.Future[None], handed_over: asyncio.Event) -> None:
    """Run the work, but cancel it as soon as another worker has taken the job over. Raises what the work raises.

    Sets `handed_over` before cancelling: what the work started outside belongs to the next claim.
    """
    working = asyncio.create_task(work)

    def hand_over(_: object) -> None:
        handed_over.set()
        working.cancel()

    lost.add_done_callback(hand_over)
    try:
        await asyncio.wait({working})
    finally:
        lost.remove_done_callback(hand_over)
        hand_over(None)
        if not working.done():
            await asyncio.wait({working})
    if not working.cancelled():
        working.result()
    elif not lost.done():
        # The job cancelled itself. It must be retried later rather than handed over at once.
        raise RuntimeError("The job cancelled itself.")


async def _redactor(claim: ClaimRow) -> Callable[[], Redactor]:
    """Return what makes a redactor of the secrets in what the job was given.

    It is made when it is first needed, but from large values now, in a thread.
    """
    given = (claim.parameters, claim.environment_view)

    def make() -> Redactor:
        return Redactor([*map(msgspec.json.decode, given), read_plan(claim.plan).arguments])

    if len(claim.plan) + sum(map(len, given)) <= limits.INLINE_BYTES:
        return make
    made = await asyncio.to_thread(make)
    return lambda: made


async def _record(row: RecordRow, secrets: Secrets) -> StepRecord:
    outputs = None if row.outputs is None else await secrets.read(row.outputs)
    return StepRecord(
        StepStatus(row.status), row.attempt, row.started_at, outputs, row.error_message, row.percent, row.failed
    )
