"""The end of a job: everything that it leaves behind, in one transaction."""

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
from launchbay.engine.journal import NOTHING_TO_WRITE, PostgresJournal, retry_while_unavailable
from launchbay.errors import BadRequest, Fenced
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus, Link, LinkKind, status_after_job
from launchbay.model.job import JobKind, JobStatus, Plan
from launchbay.model.schedule import next_due
from launchbay.planning import accept, plan_trigger
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import ParentSignals, due_triggers, submodule_signals
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import jobs, schedules
from launchbay.store.database import Connection, Database
from launchbay.store.jobs import ClaimRow
from launchbay.telemetry import metrics


@dataclass(frozen=True, slots=True)
class PendingRun:
    """A workflow of a component that is to run by itself: at once (`due_at` None), or at a time."""

    kind: Literal["trigger", "cron"]
    component: str
    workflow: str
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class FollowUps:
    """What the end of a job brings about, beside the new state. `gone` are components whose schedules end."""

    pending: tuple[PendingRun, ...] = ()
    removed: tuple[str, ...] = ()
    signals_changed: bool = False
    pushed_signals: Mapping[str, str] = field(
        default_factory=dict
    )  # instance of a submodule → what it gets, a JSON text

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
    """An instance at the end of a job, or after a look at the signals of others."""

    manifest: CompiledManifest
    state: InstanceState
    parent_signals: ParentSignals = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    values_before: Mapping[str, Any]
    values_now: Mapping[str, Any]
    secrets: Secrets = field(default_factory=Secrets)


def follow_ups(
    snapshot: InstanceSnapshot, now: datetime, kind: JobKind | None = None, *, failed: bool = False
) -> FollowUps:
    """Return what follows from a job of this kind; None is a look without a job."""
    pending = [
        PendingRun("trigger", component, workflow)
        for component, workflow in due_triggers(snapshot.manifest, snapshot.state, snapshot.parent_signals)
    ]
    pending += _schedules(snapshot.manifest, _newly_scheduled(snapshot, kind, failed=failed), now)
    gone = tuple(snapshot.state.retired)
    return FollowUps(tuple(pending), gone, snapshot.values_before != snapshot.values_now, _pushed_signals(snapshot))


def _newly_scheduled(snapshot: InstanceSnapshot, kind: JobKind | None, *, failed: bool) -> Collection[str]:
    """Return the components whose own schedules start (language §5): all with the instance's life, then new members."""
    launched = [path for path in snapshot.manifest.order if snapshot.state.is_launched(path)]
    if kind == "reconfigure" or (kind == "launch" and not failed):
        return launched
    if kind in {"command", "trigger"}:
        return [path for path in launched if not snapshot.state.was_launched(path)]
    return ()


def _pushed_signals(snapshot: InstanceSnapshot) -> dict[str, str]:
    feeds: dict[str, str] = {}
    for path, link in snapshot.links.items():
        if link.kind is LinkKind.OWN and path in snapshot.manifest.components:
            component = snapshot.manifest.components[path]
            needs = submodule_signals(snapshot.manifest, snapshot.state, snapshot.parent_signals, component)
            if needs:
                feeds[link.instance_id] = msgspec.json.encode(snapshot.secrets.sealed(needs)).decode()
    return feeds


def _schedules(manifest: CompiledManifest, components: Collection[str], now: datetime) -> list[PendingRun]:
    """Return the next due times of the own schedules of these components."""
    found: list[PendingRun] = []
    for path in components:
        for workflow, cron in manifest.components[path].schedule.items():
            due_at = next_due(cron, now)
            if due_at is not None:
                found.append(PendingRun("cron", path, workflow, due_at))
    return found


log = structlog.get_logger(__name__)
INTERNAL_ERROR = "Launchbay broke while running this job; its log tells more under job {job_id}. Report it."


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutcome:
    """How a job has ended. `propagates` False keeps the instance's status whatever the plan says (language §5).

    `return_values` are the instance's and `results` the job's own, as JSON texts; None leaves them as they are.
    """

    error: str | None = None
    propagates: bool = True
    return_values: str | None = None
    results: str | None = None
    follow_ups: FollowUps = NO_FOLLOW_UPS
    manifest: CompiledManifest | None = None  # to plan what follows


class JobCompletion:
    """Writes the end of one claim of a job."""

    def __init__(
        self,
        database: Database,
        journal: PostgresJournal,
        job_id: str,
        claim: ClaimRow,
        plan: Plan,
        audit: EngineAudit,
    ) -> None:
        self._database = database
        self._journal = journal
        self._job_id = job_id
        self._claim = claim
        self._plan = plan
        self._audit = audit
        self._began_s = time.monotonic()

    async def write(self, state: InstanceState, outcome: JobOutcome) -> None:
        """End the job, as failed when there is an error; waits out a database that is away. Raises Fenced."""
        try:
            if outcome.error is not None:
                outcome = replace(outcome, error=self._journal.redact(outcome.error, limits.ERROR_CHARS))
                self._journal.log(None, "error", outcome.error or "")
            self._journal.interrupt_open_steps()
            await self._end(outcome, self._journal.secrets.sealed_json(state.to_text()), await self._journal.drain())
        except Fenced:
            raise
        except Exception:
            # PostgreSQL refuses some of it, and would again. The job still ends, with as little as that takes.
            log.exception("job.end_refused", job=self._job_id, instance=self._claim.instance_id)
            outcome = JobOutcome(error=INTERNAL_ERROR.format(job_id=self._job_id))
            await self._end(outcome, None, NOTHING_TO_WRITE)
        status = JobStatus.SUCCEEDED if outcome.error is None else JobStatus.FAILED
        metrics.jobs.labels(self._plan.kind, status.value).observe(time.monotonic() - self._began_s)
        workflow = self._plan.workflow
        log.info(
            "job.ended", job=self._job_id, instance=self._claim.instance_id, workflow=workflow, error=outcome.error
        )

    async def _end(self, outcome: JobOutcome, state: str | None, journal: Mapping[str, Any]) -> None:
        write: Callable[[], Awaitable[bool]] = self._delete_instance
        if not self._plan.deletes_instance:
            write = partial(self._write, outcome, state, journal)
        if not await retry_while_unavailable(write):
            raise Fenced("Another worker has taken the job over.")

    async def _write(self, outcome: JobOutcome, state: str | None, journal: Mapping[str, Any]) -> bool:
        succeeded = outcome.error is None
        status = status_after_job(
            InstanceStatus(self._plan.prior_status),
            is_destroy=self._plan.kind == "destroy",
            succeeded=succeeded,
            propagates=self._plan.propagates and outcome.propagates,
        )
        # A trigger that follows starts in the same transaction: nobody sees the instance idle between the two.
        may_go_on = bool(outcome.follow_ups.pending) or self._plan.kind in {"trigger", "reconfigure"}
        gone = None if self._plan.kind == "reconfigure" else list(outcome.follow_ups.removed)
        is_more = may_go_on or gone != []
        async with self._database.transaction() if is_more else self._database.connection() as lent:
            if gone != []:
                # The schedules of a reconfigured manifest start anew, in the statement that ends the job.
                await schedules.delete_own(lent, job_id=self._job_id, fence=self._claim.fence, components=gone)
            ended = await jobs.end(
                lent,
                job_id=self._job_id,
                fence=self._claim.fence,
                parent_job_id=self._claim.parent_job_id,
                job_status=JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED,
                steps=self._journal.summary(msgspec.json.decode(self._claim.steps)),
                error_message=outcome.error,
                keeps_error=succeeded and status is InstanceStatus.FAILED,
                status=status,
                state=state,
                state_version=STATE_VERSION,
                return_values=outcome.return_values,
                results=outcome.results,
                is_gone=status is InstanceStatus.DESTROYED,
                ends_reconfiguration=self._plan.kind in {"reconfigure", "launch"},
                has_journal=bool(journal["paths"] or journal["log_texts"]),
                **journal,
                **outcome.follow_ups.columns(),
            )
            if ended is None:
                return await self._was_written(lent)
            if ended.work_waiting:
                await schedules.unblock(lent, instance_id=self._claim.instance_id)
            if may_go_on and outcome.manifest is not None and status is not InstanceStatus.DESTROYED:
                await self._start_follow_up(lent, outcome.manifest, status)
        return True

    async def _start_follow_up(
        self, connection: Connection, manifest: CompiledManifest, status: InstanceStatus
    ) -> None:
        """Accept the triggered workflow whose turn it is, if it is one's. What else is due is the stager's."""
        claim = self._claim
        due = await schedules.get_next_turn(connection, instance_id=claim.instance_id)
        if due is None or due.kind != "trigger":
            return
        try:
            plan = plan_trigger(manifest, due.component, due.workflow, status)
        except BadRequest:
            return  # the stager refuses it where it shows
        job_id = await accept(connection, claim.instance_id, due.owner_id, plan, manifest)
        if job_id is not None:
            await self._audit.fired(connection, due, job_id, claim.organization_id, claim.application_id)
            await schedules.delete(connection, schedule_ids=[due.id])

    async def _delete_instance(self) -> bool:
        async with self._database.connection() as connection:
            deleted = await jobs.end_and_delete_instance(connection, job_id=self._job_id, fence=self._claim.fence)
            return deleted is not None or await self._was_written(connection)

    async def _was_written(self, connection: Connection) -> bool:
        """Tell whether an earlier attempt, whose answer was lost, has ended the job after all."""
        outcome = await jobs.get_status(connection, job_id=self._job_id)
        return outcome is None or (outcome.fence == self._claim.fence and outcome.status != JobStatus.EXECUTING)
