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
from launchbay.engine.audit import Recording
from launchbay.engine.journal import NOTHING_TO_WRITE, PostgresJournal, patiently
from launchbay.errors import BadRequest, Fenced
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus, Link, LinkKind, status_after_job
from launchbay.model.job import JobKind, JobStatus, Plan
from launchbay.model.schedule import next_due
from launchbay.planning import accept, plan_trigger
from launchbay.runtime.secrets import Secrets
from launchbay.runtime.signals import Fed, due_triggers, feed_for
from launchbay.runtime.state import STATE_VERSION, InstanceState
from launchbay.store import jobs, schedules
from launchbay.store.database import Connection, Database
from launchbay.store.jobs import ClaimRow
from launchbay.telemetry import metrics


@dataclass(frozen=True, slots=True)
class Pending:
    """A workflow of a component that is to run by itself: at once (`due_at` None), or at a time."""

    kind: Literal["trigger", "cron"]
    component: str
    workflow: str
    due_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Aftermath:
    """What the end of a job brings about, beside the new state. `gone` are components whose schedules end."""

    pending: tuple[Pending, ...] = ()
    gone: tuple[str, ...] = ()
    signals_changed: bool = False
    feeds: Mapping[str, str] = field(default_factory=dict)  # instance of a submodule → what it gets, a JSON text

    def columns(self) -> dict[str, Any]:
        """Return the parameters of the statement that ends a job."""
        return {
            "has_follow_up": bool(self.pending or self.signals_changed or self.feeds),
            "next_kinds": [each.kind for each in self.pending],
            "next_components": [each.component for each in self.pending],
            "next_workflows": [each.workflow for each in self.pending],
            "next_times": [each.due_at for each in self.pending],
            "signals_changed": self.signals_changed,
            "fed_ids": list(self.feeds),
            "fed_signals": list(self.feeds.values()),
        }


NOTHING_FOLLOWS = Aftermath()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """An instance at the end of a job, or after a look at the signals of others."""

    manifest: CompiledManifest
    state: InstanceState
    fed: Fed = field(default_factory=dict)
    links: Mapping[str, Link] = field(default_factory=dict)
    values_before: Mapping[str, Any]
    values_now: Mapping[str, Any]
    secrets: Secrets = field(default_factory=Secrets)


def aftermath(moment: Moment, now: datetime, kind: JobKind | None = None, *, failed: bool = False) -> Aftermath:
    """Return what follows from a job of this kind; None is a look without a job."""
    pending = [
        Pending("trigger", component, workflow)
        for component, workflow in due_triggers(moment.manifest, moment.state, moment.fed)
    ]
    pending += _schedules(moment.manifest, _starting(moment, kind, failed=failed), now)
    gone = tuple(moment.state.retired)
    return Aftermath(tuple(pending), gone, moment.values_before != moment.values_now, _feeds(moment))


def _starting(moment: Moment, kind: JobKind | None, *, failed: bool) -> Collection[str]:
    """Return the components whose own schedules start (language §5): all with the instance's life, then new members."""
    launched = [path for path in moment.manifest.order if moment.state.is_launched(path)]
    if kind == "reconfigure" or (kind == "launch" and not failed):
        return launched
    if kind in {"command", "trigger"}:
        return [path for path in launched if not moment.state.was_launched(path)]
    return ()


def _feeds(moment: Moment) -> dict[str, str]:
    feeds: dict[str, str] = {}
    for path, link in moment.links.items():
        if link.kind is LinkKind.OWN and path in moment.manifest.components:
            component = moment.manifest.components[path]
            needs = feed_for(moment.manifest, moment.state, moment.fed, component)
            if needs:
                feeds[link.instance_id] = msgspec.json.encode(moment.secrets.sealed(needs)).decode()
    return feeds


def _schedules(manifest: CompiledManifest, components: Collection[str], now: datetime) -> list[Pending]:
    """Return the next due times of the own schedules of these components."""
    found: list[Pending] = []
    for path in components:
        for workflow, cron in manifest.components[path].schedule.items():
            due_at = next_due(cron, now)
            if due_at is not None:
                found.append(Pending("cron", path, workflow, due_at))
    return found


log = structlog.get_logger(__name__)
BROKEN = "Launchbay broke while running this job; its log tells more under job {job_id}. Report it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a job has ended. `propagates` False keeps the instance's status whatever the plan says (language §5).

    `return_values` are the instance's and `results` the job's own, as JSON texts; None leaves them as they are.
    """

    error: str | None = None
    propagates: bool = True
    return_values: str | None = None
    results: str | None = None
    follows: Aftermath = NOTHING_FOLLOWS
    manifest: CompiledManifest | None = None  # to plan what follows


class Ending:
    """Writes the end of one claim of a job."""

    def __init__(
        self,
        database: Database,
        journal: PostgresJournal,
        job_id: str,
        claim: ClaimRow,
        plan: Plan,
        recording: Recording,
    ) -> None:
        self._database = database
        self._journal = journal
        self._job_id = job_id
        self._claim = claim
        self._plan = plan
        self._recording = recording
        self._began_s = time.monotonic()

    async def write(self, state: InstanceState, outcome: Outcome) -> None:
        """End the job, as failed when there is an error; waits out a database that is away. Raises Fenced."""
        try:
            if outcome.error is not None:
                outcome = replace(outcome, error=self._journal.covered(outcome.error, limits.ERROR_CHARS))
                self._journal.log(None, "error", outcome.error or "")
            self._journal.break_off()
            await self._end(outcome, self._journal.secrets.sealed_json(state.to_text()), await self._journal.settle())
        except Fenced:
            raise
        except Exception:
            # PostgreSQL refuses some of it, and would again. The job still ends, with as little as that takes.
            log.exception("job.end_refused", job=self._job_id, instance=self._claim.instance_id)
            outcome = Outcome(error=BROKEN.format(job_id=self._job_id))
            await self._end(outcome, None, NOTHING_TO_WRITE)
        status = JobStatus.SUCCEEDED if outcome.error is None else JobStatus.FAILED
        metrics.jobs.labels(self._plan.kind, status.value).observe(time.monotonic() - self._began_s)
        workflow = self._plan.workflow
        log.info(
            "job.ended", job=self._job_id, instance=self._claim.instance_id, workflow=workflow, error=outcome.error
        )

    async def _end(self, outcome: Outcome, state: str | None, journal: Mapping[str, Any]) -> None:
        write: Callable[[], Awaitable[bool]] = self._delete_instance
        if not self._plan.deletes_instance:
            write = partial(self._write, outcome, state, journal)
        if not await patiently(write):
            raise Fenced("Another worker has taken the job over.")

    async def _write(self, outcome: Outcome, state: str | None, journal: Mapping[str, Any]) -> bool:
        succeeded = outcome.error is None
        status = status_after_job(
            InstanceStatus(self._plan.prior_status),
            is_destroy=self._plan.kind == "destroy",
            succeeded=succeeded,
            propagates=self._plan.propagates and outcome.propagates,
        )
        # A trigger that follows starts in the same transaction: nobody sees the instance idle between the two.
        may_go_on = bool(outcome.follows.pending) or self._plan.kind in {"trigger", "reconfigure"}
        gone = None if self._plan.kind == "reconfigure" else list(outcome.follows.gone)
        is_more = may_go_on or gone != []
        async with self._database.transaction() if is_more else self._database.connection() as lent:
            if gone != []:
                # The schedules of a reconfigured manifest start anew, in the statement that ends the job.
                await schedules.stop_own(lent, job_id=self._job_id, fence=self._claim.fence, components=gone)
            ended = await jobs.end(
                lent,
                job_id=self._job_id,
                fence=self._claim.fence,
                parent_job_id=self._claim.parent_job_id,
                job_status=JobStatus.SUCCEEDED if succeeded else JobStatus.FAILED,
                steps=self._journal.brief(msgspec.json.decode(self._claim.steps)),
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
                **outcome.follows.columns(),
            )
            if ended is None:
                return await self._was_written(lent)
            if ended.work_waiting:
                await schedules.unblock(lent, instance_id=self._claim.instance_id)
            if may_go_on and outcome.manifest is not None and status is not InstanceStatus.DESTROYED:
                await self._go_on(lent, outcome.manifest, status)
        return True

    async def _go_on(self, connection: Connection, manifest: CompiledManifest, status: InstanceStatus) -> None:
        """Accept the triggered workflow whose turn it is, if it is one's. What else is due is the stager's."""
        claim = self._claim
        due = await schedules.next_turn(connection, instance_id=claim.instance_id)
        if due is None or due.kind != "trigger":
            return
        try:
            plan = plan_trigger(manifest, due.component, due.workflow, status)
        except BadRequest:
            return  # the stager refuses it where it shows
        job_id = await accept(connection, claim.instance_id, due.owner_id, plan, manifest)
        if job_id is not None:
            await self._recording.fired(connection, due, job_id, claim.organization_id, claim.application_id)
            await schedules.remove(connection, schedule_ids=[due.id])

    async def _delete_instance(self) -> bool:
        async with self._database.connection() as connection:
            deleted = await jobs.end_and_delete_instance(connection, job_id=self._job_id, fence=self._claim.fence)
            return deleted is not None or await self._was_written(connection)

    async def _was_written(self, connection: Connection) -> bool:
        """Tell whether an earlier attempt, whose answer was lost, has ended the job after all."""
        outcome = await jobs.outcome(connection, job_id=self._job_id)
        return outcome is None or (outcome.fence == self._claim.fence and outcome.status != JobStatus.EXECUTING)
