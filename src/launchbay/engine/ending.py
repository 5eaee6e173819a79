"""The end of a job: outcome, state and following work in one transaction.

The runner writes it once for each claim that reaches the end; a claim that lost the job writes nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal

import msgspec
import structlog

from launchbay import limits
from launchbay.engine.audit import EngineAudit
from launchbay.engine.journal import NOTHING_TO_WRITE, REFUSED, PostgresJournal, retry_while_unavailable
from launchbay.errors import BadRequest, Conflict, Fenced, WorkflowFailed, internal_error
from launchbay.manifest.configuration import effective_parameters
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus, Link, LinkKind, status_after_job
from launchbay.model.job import JobKind, JobStatus, Origin, Plan, is_cancellation
from launchbay.model.schedule import next_due
from launchbay.model.values import size_of
from launchbay.planning.acceptance import Dispatch, accept
from launchbay.planning.plans import plan_trigger
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import ParentSignals, count_round, due_triggers, submodule_signals
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import jobs, schedules
from launchbay.store.database import CommitGroup, Connection, Database
from launchbay.store.jobs import ClaimRow, EndRow
from launchbay.telemetry import metrics

log = structlog.get_logger(__name__)
_TOOK = "{took}"  # in the line about the end: the statement that writes the end knows the duration
_NOTHING_SHOWN: Mapping[str, str | None] = {"shown_parameters": None, "shown_return_values": None}


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A component's workflow that will run automatically: immediately (`due_at` None) or at a time."""

    kind: Literal["trigger", "cron"]
    component: str
    workflow: str
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FollowUps:
    """What follows the end of a job. `removed` are components whose schedules end.

    `unsettled` is the error of triggers that start each other without end.
    """

    pending: tuple[PendingRun, ...] = ()
    removed: tuple[str, ...] = ()
    signals_changed: bool = False
    pushed_signals: Mapping[str, str] = field(default_factory=dict)  # submodule's instance → signals as JSON text
    unsettled: str | None = None

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statement that ends a job."""
        return {
            "has_follow_up": bool(self.pending or self.signals_changed or self.pushed_signals),
            "next_kinds": [each.kind for each in self.pending],
            "next_components": [each.component for each in self.pending],
            "next_workflows": [each.workflow for each in self.pending],
            "next_times": [each.due_at for each in self.pending],
            "signals_changed": self.signals_changed,
            "fed_ids": list(self.pushed_signals),
            "fed_signals": list(self.pushed_signals.values()),
        }


NO_FOLLOW_UPS = FollowUps()


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceSnapshot:
    """An instance after a job, or after a refresh of its linked signals."""

    manifest: CompiledManifest
    state: InstanceState
    parent_signals: ParentSignals = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    values_before: Mapping[str, Any]
    values_now: Mapping[str, Any]
    secrets: Secrets = field(default_factory=Secrets)


def follow_ups(
    snapshot: InstanceSnapshot,
    now: datetime,
    plan: Plan | None = None,
    *,
    failed: bool = False,
    cancelled: bool = False,
) -> FollowUps:
    """Return what follows a job with this plan, or None without a job.

    No triggers follow a cancelled job, nor one whose signals never settle.
    """
    kind = None if plan is None else plan.kind
    due = due_triggers(snapshot.manifest, snapshot.state, snapshot.parent_signals)
    is_trigger = plan is not None and plan.kind == "trigger"
    ran = (plan.component or "", plan.component_workflow or "") if plan is not None and is_trigger else None
    unsettled = count_round(snapshot.state, ran, due)
    if cancelled or unsettled:
        due = []
    pending = [PendingRun("trigger", component, workflow) for component, workflow in due]
    pending += _schedules(snapshot.manifest, _newly_scheduled(snapshot, kind, failed=failed), now)
    retired = tuple(sorted(snapshot.state.retired))
    has_changed = snapshot.values_before != snapshot.values_now
    return FollowUps(tuple(pending), retired, has_changed, unsettled=unsettled)


def _newly_scheduled(snapshot: InstanceSnapshot, kind: JobKind | None, *, failed: bool) -> Collection[str]:
    """Return components whose schedules start (language §5): after a launch all, later new ones."""
    launched = [path for path in snapshot.manifest.order if snapshot.state.is_launched(path)]
    if kind == "reconfigure" or (kind == "launch" and not failed):
        return launched
    if kind in {"command", "trigger"}:
        return [path for path in launched if not snapshot.state.was_launched(path)]
    return ()


async def pushed_signals(snapshot: InstanceSnapshot) -> dict[str, str]:
    """Return what submodules consume, as JSON texts by instance.

    Raises WorkflowFailed if all of them together get too much.
    """
    pushed: dict[str, str] = {}
    size, most = 0, limits.FED_SIGNALS_BYTES
    for path, link in snapshot.links.items():
        if link.kind is LinkKind.OWN and path in snapshot.manifest.components:
            component = snapshot.manifest.components[path]
            needs = submodule_signals(snapshot.manifest, snapshot.state, snapshot.parent_signals, component)
            size += size_of(needs, most)
            if size > most:
                raise WorkflowFailed(
                    f"component {path!r}: the signals for all submodules exceed {most // limits.MIB} MiB. Publish less "
                    "to them, such as the address of the data."
                )
            if needs:
                pushed[link.instance_id] = await snapshot.secrets.stored(needs)
                await asyncio.sleep(0)  # others have their turn: there may be thousands
    return pushed


def _how(error: str | None) -> str:
    """Return how a job ended, for its log."""
    if error is None:
        return "succeeded"
    return "was cancelled" if is_cancellation(error) else "failed"


def _schedules(manifest: CompiledManifest, components: Collection[str], now: datetime) -> list[PendingRun]:
    found: list[PendingRun] = []
    for path in components:
        for workflow, cron in manifest.components[path].schedule.items():
            due_at = next_due(cron, now)
            if due_at is not None:
                found.append(PendingRun("cron", path, workflow, due_at))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How a job ended.

    `propagates` False keeps the instance's status regardless of the plan (language §5).

    `return_values` are the instance's and `results` the job's, as JSON texts; `component_count` and `running_count`
    say how many components there are and how many of them are launched. None leaves each unchanged. `former` is what a
    failed reconfiguration came from, without what it has stopped; None: all of it is there.
    """

    error: str | None = None
    propagates: bool = True
    return_values: str | None = None
    values: Mapping[str, Any] | None = None  # the return values, to be shown with the job
    results: str | None = None
    component_count: int | None = None
    running_count: int | None = None
    follow_ups: FollowUps = NO_FOLLOW_UPS
    manifest: CompiledManifest | None = None  # to plan the follow-up
    former: str | None = None


@dataclass(frozen=True, slots=True)
class JobCompletion:
    """Writes the end of one claim of a job."""

    database: Database
    ends: CommitGroup
    journal: PostgresJournal
    job_id: str
    claim: ClaimRow
    plan: Plan
    audit: EngineAudit
    dispatch: Dispatch
    named_jobs: metrics.NamedJobs
    started_s: float = field(default_factory=time.monotonic)

    async def write(self, state: InstanceState, outcome: JobOutcome) -> None:
        """End the job, as failed if it has an error. Raises Fenced."""
        labels = await self.named_jobs.labels_of(self.claim.instance_id)
        try:
            if outcome.error is not None:
                outcome = replace(outcome, error=self.journal.redact(outcome.error, limits.ERROR_CHARS))
                self.journal.log(None, "info" if is_cancellation(outcome.error) else "error", outcome.error or "")
            self.journal.interrupt_open_steps()
            how = _how(outcome.error)
            last = f"Job {self.claim.number}, {self.plan.workflow!r}, {how} after {_TOOK}."
            text = await self.journal.secrets.sealed_json(state.to_text())
            await self._end(outcome, text, await self.journal.drain(last), self._shown(outcome))
        except Fenced:
            await self.journal.keep_drained()  # if the job was only cancelled, what its steps have done stays recorded
            raise
        except Exception:
            # PostgreSQL rejects some of it, and would again. The job must end, so write only the minimum.
            log.exception("job.end_refused", job=self.job_id, instance=self.claim.instance_id)
            failure = internal_error(f"job {self.job_id}")
            outcome = JobOutcome(error=f"{self.claim.cancellation} {failure}" if self.claim.cancellation else failure)
            await self._end(outcome, None, NOTHING_TO_WRITE, _NOTHING_SHOWN)
        status = JobStatus.SUCCEEDED if outcome.error is None else JobStatus.FAILED
        metrics.jobs_of(self.plan.kind, status.value).observe(time.monotonic() - self.started_s)
        outcome_label = "cancelled" if self.claim.cancel_requested else status.value.lower()
        places = (self.claim.organization_id, self.claim.application_id, self.claim.environment_id)
        await self.named_jobs.ended(*places, labels, outcome_label, self._duration_s())
        workflow = self.plan.workflow
        log.info("job.ended", job=self.job_id, instance=self.claim.instance_id, workflow=workflow, error=outcome.error)

    def _shown(self, outcome: JobOutcome) -> Mapping[str, str | None]:
        """Return what a launch or reconfiguration took and returned, for display."""
        if not self.plan.configures:
            return _NOTHING_SHOWN
        given = msgspec.json.decode(self.claim.parameters)
        parameters = given if outcome.manifest is None else effective_parameters(outcome.manifest, given)
        returned = outcome.values if outcome.error is None else None
        return {"shown_parameters": self._masked(parameters), "shown_return_values": self._masked(returned)}

    def _masked(self, values: Mapping[str, Any] | None) -> str | None:
        if values is None:
            return None
        return msgspec.json.encode(self.journal.secrets.shown(values, limits.JOB_VALUES_BYTES)).decode()

    def _duration_s(self) -> float:
        return self.claim.ran_s + time.monotonic() - self.started_s

    async def _end(
        self, outcome: JobOutcome, state: str | None, journal: Mapping[str, Any], shown: Mapping[str, str | None]
    ) -> None:
        write: Callable[[], Awaitable[bool]] = self._delete_instance
        if not self.plan.deletes_instance:
            write = partial(self._write, outcome, state, journal, shown)
        if not await retry_while_unavailable(write):
            raise Fenced(REFUSED)

    async def _write(
        self, outcome: JobOutcome, state: str | None, journal: Mapping[str, Any], shown: Mapping[str, str | None]
    ) -> bool:
        succeeded = outcome.error is None
        prior, propagates = InstanceStatus(self.plan.prior_status), self.plan.propagates and outcome.propagates
        is_destroy = self.plan.kind == "destroy"
        status = status_after_job(prior, is_destroy=is_destroy, succeeded=succeeded, propagates=propagates)
        # A triggered workflow starts in the same transaction: no one sees the instance idle in between.
        may_follow_up = bool(outcome.follow_ups.pending) or self.plan.kind in {"trigger", "reconfigure"}
        removed = None if self.plan.kind == "reconfigure" else list(outcome.follow_ups.removed)
        resumes_schedules = (
            self.plan.kind == "launch" and succeeded and self.plan.prior_status != InstanceStatus.REQUESTED
        )
        needs_transaction = may_follow_up or removed != [] or resumes_schedules
        steps = await self.journal.summary(msgspec.json.decode(self.claim.steps))
        columns = {
            "job_id": self.job_id,
            "fence": self.claim.fence,
            "is_cancelled": self.claim.cancel_requested,
            "parent_job_id": self.claim.parent_job_id,
            "job_status": JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED,
            "steps": steps,
            "error_message": outcome.error,
            "clears_error": succeeded and self.plan.configures,
            "leaves_failed": prior is InstanceStatus.FAILED and not propagates and not is_destroy,
            "status": status,
            "state": state,
            "state_version": STATE_VERSION,
            "return_values": outcome.return_values,
            "results": outcome.results,
            **shown,
            "component_count": outcome.component_count,
            "running_count": outcome.running_count,
            "is_gone": status is InstanceStatus.DESTROYED,
            "ends_reconfiguration": self.plan.configures,
            "former": outcome.former,
            "took": _TOOK,
            "has_journal": bool(journal["paths"] or journal["log_texts"]),
            **journal,
            **outcome.follow_ups.columns(),
        }
        ended: EndRow | None = None
        # Together with other ends, but not if it changes rows that others change, too. What follows from changed
        # signals adds rows only; where two add the same one, their groups give up soon.
        locks_others = self.claim.is_limited or self.claim.parent_job_id or outcome.follow_ups.pushed_signals
        if not (needs_transaction or locks_others):
            ended = await jobs.end(self.ends, **columns)
            if ended is not None and not ended.work_waiting:
                return True
        async with self.database.transaction() if needs_transaction else self.database.connection() as connection:
            if removed != []:
                # The statement that ends the job writes the schedules of a reconfigured manifest again.
                await schedules.delete_own(connection, job_id=self.job_id, fence=self.claim.fence, components=removed)
            if resumes_schedules:
                await schedules.resume_cancelled(connection, job_id=self.job_id, fence=self.claim.fence)
            if needs_transaction or locks_others:
                ended = await jobs.end(connection, **columns)
            if ended is None:
                if await self._was_written(connection):
                    return True
                raise Fenced(REFUSED)  # which also takes back what this transaction has changed
            if ended.work_waiting:
                await schedules.unblock(connection, instance_id=self.claim.instance_id)
            if may_follow_up and outcome.manifest is not None and status is not InstanceStatus.DESTROYED:
                await self._start_follow_up(connection, outcome.manifest, status)
        return True

    async def _start_follow_up(
        self, connection: Connection, manifest: CompiledManifest, status: InstanceStatus
    ) -> None:
        """Accept the next due work if it is a triggered workflow.

        The stager fires everything else.

        A person whom a triggered workflow has kept out goes first.
        """
        claim = self.claim
        if await schedules.postpone_triggers(connection, instance_id=claim.instance_id):
            return
        due = await schedules.get_next_turn(connection, instance_id=claim.instance_id)
        if due is None or due.kind != "trigger":
            return
        try:
            plan = plan_trigger(manifest, due.component, due.workflow, status)
        except BadRequest:
            return  # the stager turns it into a job that fails visibly
        try:
            job_id = await accept(
                connection,
                self.dispatch,
                claim.organization_id,
                claim.instance_id,
                due.owner_id,
                plan,
                manifest,
                version=claim.version,
                origin=Origin("trigger", due.id),
            )
        except Conflict:
            return  # a limit refuses it; the stager makes that visible, too
        if job_id is not None:
            await self.audit.schedule_fired(connection, due, job_id, claim.organization_id, claim.application_id)
            await schedules.delete(connection, schedule_ids=[due.id])

    async def _delete_instance(self) -> bool:
        async with self.database.connection() as connection:
            deleted = await jobs.end_and_delete_instance(connection, job_id=self.job_id, fence=self.claim.fence)
            return deleted is not None or await self._was_written(connection)

    async def _was_written(self, connection: Connection) -> bool:
        """Return whether an earlier attempt, whose result was lost, has ended the job."""
        outcome = await jobs.get_status(connection, job_id=self.job_id)
        return outcome is None or (outcome.fence == self.claim.fence and outcome.status != JobStatus.EXECUTING)
