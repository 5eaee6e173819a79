"""Runs one job from its claim to its end."""

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import structlog
from structlog.contextvars import bound_contextvars

from launchbay.auth.secret_key import SecretKey, TextSeal
from launchbay.engine.audit import EngineAudit
from launchbay.engine.cancellation import release_descendants, replay_cancelled, replay_superseded
from launchbay.engine.child_jobs import ChildJobs
from launchbay.engine.ending import (
    INTERNAL_ERROR,
    NO_FOLLOW_UPS,
    FollowUps,
    InstanceSnapshot,
    JobCompletion,
    JobOutcome,
    follow_ups,
)
from launchbay.engine.journal import PostgresJournal, retry_while_unavailable
from launchbay.engine.service_calls import ServiceCalls
from launchbay.errors import Conflict, Fenced, LaunchbayError, WorkflowFailed
from launchbay.manifest.configuration import Configured, configure
from launchbay.manifest.graph import CompiledManifest
from launchbay.manifest.scaling import expanded, expanded_configuration
from launchbay.model.environment import read_environment_view
from launchbay.model.instance import (
    InstanceEvent,
    InstanceStatus,
    Link,
    read_former_configuration,
    read_link,
    transition,
)
from launchbay.model.job import PLAN_VERSION, Plan, StepStatus, read_plan
from launchbay.model.redaction import Redactor
from launchbay.planning import CompiledManifests
from launchbay.runtime.contract import JobRun, LinkedInstances, RuntimeDeps, StepRecord
from launchbay.runtime.lifecycle import run_plan
from launchbay.runtime.machines import release_all, stop_commands
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import return_values
from launchbay.runtime.state import STATE_VERSION, Graph, InstanceState, existing_quantities
from launchbay.store import jobs
from launchbay.store.database import Database
from launchbay.store.jobs import ClaimRow, RecordRow
from launchbay.telemetry import metrics
from launchbay.telemetry.tracing import Attributes, tracing


class JobLoader:
    """Makes a `JobRun` from a claim."""

    def __init__(self, database: Database, manifests: CompiledManifests, deps: RuntimeDeps) -> None:
        self._database = database
        self._manifests = manifests
        self._deps = deps

    async def load(
        self,
        job_id: str,
        claim: ClaimRow,
        journal: PostgresJournal,
        state: InstanceState,
        linked_instances: LinkedInstances,
    ) -> JobRun:
        """Return the job. Raises LaunchbayError when the stored manifest or parameters are of no use any more."""
        secrets = journal.secrets
        manifest = await retry_while_unavailable(partial(self._manifest, claim.application_id, claim.version))
        return JobRun(
            job_id=job_id,
            fence=claim.fence,
            instance_id=claim.instance_id,
            organization_id=claim.organization_id,
            environment_id=claim.environment_id,
            plan=read_plan(secrets.opened_json(claim.plan)),
            graph=Graph(manifest, configure(manifest, msgspec.json.decode(claim.parameters))),
            environment=read_environment_view(claim.environment_view),
            state=state,
            journal=journal,
            deps=self._deps,
            linked_instances=linked_instances,
            links=parse_links(claim.links),
            parent_signals=secrets.opened(msgspec.json.decode(claim.fed_signals)),
            secrets=secrets,
            before=await self._before(claim, state),
        )

    async def _before(self, claim: ClaimRow, state: InstanceState) -> Configured | None:
        if claim.before is None:
            return None
        before = read_former_configuration(claim.before)
        manifest = await retry_while_unavailable(partial(self._manifest, claim.application_id, before.version))
        links = {path: read_link(target, kind, None) for path, (target, kind) in before.links.items()}
        quantities = existing_quantities(manifest, state)
        configuration = expanded_configuration(manifest, configure(manifest, before.parameters), quantities)
        return Configured(expanded(manifest, quantities), configuration, links, frozenset(before.parameters))

    async def _manifest(self, application_id: str, version: int) -> CompiledManifest:
        async with self._database.connection() as connection:
            return await self._manifests.get(connection, application_id, version)


def parse_links(stored: str | None) -> dict[str, Link]:
    """Return where components lead from the stored form, `{component: [instance or service id, kind, binding]}`."""
    links: dict[str, tuple[str, str, str | None]] = msgspec.json.decode(stored or "{}")
    return {component: read_link(*link) for component, link in links.items()}


log = structlog.get_logger(__name__)
DELETED = "Cancelled, because the instance of the caller was deleted by force."


class Runner:
    """Runs jobs; one object serves all jobs of the process."""

    def __init__(
        self,
        database: Database,
        deps: RuntimeDeps,
        manifests: CompiledManifests,
        services: ServiceCalls,
        secret_key: SecretKey,
        destroy_timeout_s: float,
    ) -> None:
        self._database = database
        self._deps = deps
        self._manifests = manifests
        self._secret_key = secret_key
        self._audit = EngineAudit(secret_key)
        self._destroy_timeout_s = destroy_timeout_s
        self._held: dict[tuple[str, int], asyncio.Event] = {}
        self._loader = JobLoader(database, manifests, deps)
        self._child_jobs = ChildJobs(database, manifests, services, self.run_job)

    async def run_job(self, job_id: str) -> None:
        """Claim the job and bring it to its end. Returns when it has ended already or is lost to another worker.

        Raises Conflict for a job of a newer program: the queue offers it again, until a worker comes that can read it.

        CancelledError (stop of the process) leaves the job as it is: the next claim goes on after the last record.
        """
        claim = await retry_while_unavailable(partial(self._claim, job_id))
        if claim is None:
            await retry_while_unavailable(partial(self._refuse_newer_version, job_id))
            return
        metrics.job_claimed(claim.fence, claim.waited_s)
        secrets = Secrets(TextSeal(self._secret_key, claim.organization_id), partial(_redactor, claim))
        records: Mapping[str, StepRecord] = {}
        cancellation: str | None = None
        if claim.fence > 1:
            records, cancellation = await retry_while_unavailable(partial(self._load_history, job_id, secrets))
        lost, handed_over = asyncio.Event(), asyncio.Event()
        journal = PostgresJournal(
            self._database,
            self._deps.clock,
            job_id,
            claim.fence,
            records,
            on_fenced=lost.set,
            secrets=secrets,
        )
        self._held[job_id, claim.fence] = lost
        try:
            with metrics.jobs_running.track_inprogress(), bound_contextvars(job=job_id, instance=claim.instance_id):
                await _while_held(
                    self._run_claimed(job_id, claim, journal, cancellation, handed_over), lost, handed_over
                )
        except Fenced:
            log.warning("job.lost", job=job_id, instance=claim.instance_id, fence=claim.fence)
        finally:
            del self._held[job_id, claim.fence]
            await journal.close()

    async def drop_lost_jobs(self) -> None:
        """Stop the jobs that this process runs but does not hold any more. Called every second or so."""
        held = dict(self._held)
        if not held:
            return
        ids, fences = zip(*held, strict=True)
        async with self._database.connection() as connection:
            pairs = await jobs.list_held(connection, job_ids=list(ids), fences=list(fences)) or []
        still_held = {(job_id, int(fence)) for job_id, fence in pairs}
        for claimed, lost in held.items():
            if claimed not in still_held:
                lost.set()

    async def cancel_orphans(self) -> None:
        """End jobs on other instances whose outer job has ended without them."""
        await self._child_jobs.cancel_orphans()

    async def _claim(self, job_id: str) -> ClaimRow | None:
        started = transition(InstanceStatus.REQUESTED, InstanceEvent.LAUNCH_STARTED)
        async with self._database.connection() as connection:
            return await jobs.claim(
                connection,
                job_id=job_id,
                requested_status=InstanceStatus.REQUESTED,
                started_status=started,
                plan_version=PLAN_VERSION,
                state_version=STATE_VERSION,
            )

    async def _refuse_newer_version(self, job_id: str) -> None:
        """Raise Conflict if it is for its version that a job could not be claimed."""
        async with self._database.connection() as connection:
            stored = await jobs.get_versions(connection, job_id=job_id)
        if stored is not None and (stored.plan > PLAN_VERSION or stored.state > STATE_VERSION):
            log.warning("job.skipped_newer_version", job=job_id, plan_version=stored.plan, state_version=stored.state)
            raise Conflict(
                f"The job {job_id} is for a newer version of Launchbay.", "Upgrade this worker.", code="NewerPlan"
            )

    async def _load_history(self, job_id: str, secrets: Secrets) -> tuple[Mapping[str, StepRecord], str | None]:
        """Return what earlier claims left, and why the job is to end now, if it is."""
        async with self._database.connection() as connection:
            records = {row.path: _record(row, secrets) for row in await jobs.list_records(connection, job_id=job_id)}
            return records, await jobs.get_cancellation(connection, job_id=job_id)

    async def _cancel_child(self, reason: str, job_id: str) -> None:
        async with self._database.connection() as connection:
            await jobs.cancel_child(connection, job_id=job_id, reason=reason)

    async def _run_claimed(
        self,
        job_id: str,
        claim: ClaimRow,
        journal: PostgresJournal,
        cancellation: str | None,
        handed_over: asyncio.Event,
    ) -> None:
        plan = read_plan(claim.plan)
        about: Attributes = {
            "launchbay.job": job_id,
            "launchbay.instance": claim.instance_id,
            "launchbay.fence": claim.fence,
        }
        with tracing.span(f"job {plan.workflow}", about, plan.trace):
            await self._run_plan(plan, job_id, claim, journal, cancellation, handed_over)

    async def _run_plan(
        self,
        plan: Plan,
        job_id: str,
        claim: ClaimRow,
        journal: PostgresJournal,
        cancellation: str | None,
        handed_over: asyncio.Event,
    ) -> None:
        ending = JobCompletion(self._database, journal, job_id, claim, plan, self._audit)
        state = InstanceState.from_text(journal.secrets.opened_json(claim.state))
        try:
            job = await self._loader.load(job_id, claim, journal, state, self._child_jobs)
            outcome = await self._outcome(replace(job, handed_over=handed_over), claim, cancellation)
        except Fenced:
            raise
        except LaunchbayError as failure:
            outcome = JobOutcome(error=str(failure))
        except Exception:
            # A defect of ours. Repeating it would fail the same way for ever, and promise 2 wants an end.
            log.exception("job.crashed", job=job_id, instance=claim.instance_id)
            outcome = JobOutcome(error=INTERNAL_ERROR.format(job_id=job_id))
        await ending.write(state, outcome)

    async def _outcome(self, job: JobRun, claim: ClaimRow, cancellation: str | None) -> JobOutcome:
        outcome = JobOutcome(error=cancellation)
        if cancellation is None:
            outcome = await self._run_to_outcome(job)
        else:
            await replay_cancelled(job, partial(self._cancel_child, cancellation))
            await stop_commands(job)
        values = return_values(job.manifest, job.state)
        follows = self._follow_ups(job, claim, values, outcome.error)
        return replace(
            outcome, return_values=_encoded(job.secrets.sealed(values)), follow_ups=follows, manifest=job.manifest
        )

    def _follow_ups(self, job: JobRun, claim: ClaimRow, values: Mapping[str, Any], error: str | None) -> FollowUps:
        if job.plan.kind == "destroy":
            return NO_FOLLOW_UPS
        moment = InstanceSnapshot(
            manifest=job.manifest,
            state=job.state,
            parent_signals=job.parent_signals,
            links=job.links,
            values_before=job.secrets.opened(msgspec.json.decode(claim.return_values)),
            values_now=values,
            secrets=job.secrets,
        )
        return follow_ups(moment, self._deps.clock.now(), job.plan.kind, failed=error is not None)

    async def _run_to_outcome(self, job: JobRun) -> JobOutcome:
        """Do what the plan says."""
        if job.plan.deletes_instance:
            return await self._delete(job)
        try:
            return JobOutcome(results=_encoded(job.secrets.sealed(await run_plan(job))))
        except WorkflowFailed as failure:
            return JobOutcome(error=str(failure), propagates=failure.propagates)

    async def _delete(self, job: JobRun) -> JobOutcome:
        """Destroy the instance within a time limit, and let go whatever is left then, for its records go as well."""
        timeout_s = self._destroy_timeout_s
        failures: list[str] = []
        try:
            async with asyncio.timeout(timeout_s):
                if job.plan.recalls is not None:
                    records, _ = await retry_while_unavailable(
                        partial(self._load_history, job.plan.recalls, job.secrets)
                    )
                    cancel_child = partial(self._cancel_child, DELETED)
                    await replay_superseded(self._database, job, records, cancel_child)
                await run_plan(job)
        except WorkflowFailed as failure:
            failures.append(str(failure))
        except TimeoutError:
            failures.append(f"The forced destroy took longer than {timeout_s:g} s and was broken off.")
            failures += await release_all(job)
        failures += await release_descendants(self._database, job)
        return JobOutcome(error=" ".join(failures) or None)


async def _while_held(work: Coroutine[Any, Any, None], lost: asyncio.Event, handed_over: asyncio.Event) -> None:
    """Do the work, giving up the moment that another worker has taken the job over. Raises what the work raises.

    Giving up sets `goes_on`: what the work began outside is the next claim's.
    """
    performing = asyncio.create_task(work)
    losing = asyncio.create_task(lost.wait())
    try:
        await asyncio.wait({performing, losing}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        handed_over.set()
        performing.cancel()
        losing.cancel()
        await asyncio.wait({performing, losing})
    if not performing.cancelled():
        performing.result()
    elif not lost.is_set():
        # Nobody asked for it. The queue must not take it for the end of the job: it is to be tried again.
        raise RuntimeError("The job was cancelled from inside.")


def _redactor(claim: ClaimRow) -> Redactor:
    """Return what covers the secrets that a job was given: by its instance, by its caller and by its environment."""
    given = (claim.parameters, claim.environment_view)
    return Redactor([*map(msgspec.json.decode, given), read_plan(claim.plan).arguments])


def _encoded(value: Mapping[str, Any]) -> str:
    return msgspec.json.encode(value).decode()


def _record(row: RecordRow, secrets: Secrets) -> StepRecord:
    outputs = None if row.outputs is None else secrets.opened(msgspec.json.decode(row.outputs))
    return StepRecord(StepStatus(row.status), row.attempt, row.started_at, outputs, row.error_message, row.percent)
