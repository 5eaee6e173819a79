"""An instance and its jobs, as the page and its live part show them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from launchbay.concurrency import computed
from launchbay.console.assets import Glyph, run_status, shown_status
from launchbay.console.graph import ComponentState, shown_state
from launchbay.console.request import PageRequest
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.component_state import StepState
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import ApprovalStatus, JobStatus, StepStatus, raise_percent
from launchbay.model.redaction import Redactor
from launchbay.store.approvals import ApprovalRow
from launchbay.store.instances import FailureRow, InstanceRecord, JobRow, RelativeRow, read_history
from launchbay.usecases.approvals import list_instance_approvals
from launchbay.usecases.browsing import read_family, read_instance_record
from launchbay.usecases.components import ComponentView, list_components
from launchbay.usecases.events import redactor_for
from launchbay.usecases.instances import read_instance
from launchbay.usecases.jobs import list_refined_states

# Statuses of steps for `shown_status`. One is skipped if its condition was false, or the run didn't reach it.
SKIPPED, IGNORED, INTERRUPTED = "skipped", "ignored", "interrupted"
_REFINED: Mapping[StepState | None, str] = {
    StepState.SKIPPED: SKIPPED,
    StepState.IGNORED: IGNORED,
    StepState.INTERRUPTED: INTERRUPTED,
}
_FINAL = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


# Structs: a page makes hundreds of them, and a frozen dataclass takes ten times as long.
class StepLine(msgspec.Struct, frozen=True, kw_only=True):
    """A step on a page; `level` is 1 for a step inside another."""

    path: str
    name: str
    status: str
    percent: int
    level: int = 0
    attempt: int = 0
    duration_ms: int | None = None
    error: str = ""
    outputs: Mapping[str, Any] | None = None
    outputs_omitted: bool = False


class StepPage(NamedTuple):
    """Some steps of a job.

    `first` is the number of those before them, `total` the number of all.
    """

    lines: list[StepLine]
    first: int
    total: int

    @property
    def next_first(self) -> int | None:
        """Where the next page starts, if there is one."""
        end = self.first + len(self.lines)
        return end if end < self.total else None


class JobLine(msgspec.Struct, frozen=True, kw_only=True):
    """A job on a page."""

    id: str
    name: str
    status: str
    owner_id: str
    started_ms: int | None
    duration_ms: int | None
    error: str
    planned: Sequence[tuple[str, str, str, int]] = ()  # the steps as the history has them
    live: Sequence[tuple[str, str, int]] = ()  # newer figures of these
    refined: list[StepLine] | None = None  # the steps, where more is known of them
    number: int = 0  # 0 if only its failure is known
    is_asking: bool = False  # for an approval
    could_not_begin: bool = False

    @property
    def shown(self) -> str:
        """The status for `shown_status`."""
        has_started = self.started_ms is not None
        return run_status(self.status, has_started=has_started, error=self.error, is_asking=self.is_asking)

    @property
    def kind(self) -> Glyph:
        return shown_status(self.shown)[0]

    @property
    def steps(self) -> list[StepLine]:
        """The steps. Pages with a hundred jobs show those of one."""
        return _summaries(self.planned, self.live) if self.refined is None else self.refined

    def shown_around(self, number: int) -> StepPage:
        """Return so many steps, around the first incomplete one."""
        steps = self.steps
        done = (StepStatus.SUCCEEDED, StepStatus.FAILED, *_REFINED.values())
        failed = next((number for number, step in enumerate(steps) if step.status == StepStatus.FAILED), 0)
        current = next((number for number, step in enumerate(steps) if step.status not in done), failed)
        first = max(0, min(current - number // 2, len(steps) - number))
        return StepPage(steps[first : first + number], first, len(steps))


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """Everything that the live part of an instance's page shows, with secrets masked."""

    record: InstanceRecord
    manifest: CompiledManifest
    workflows: list[str]
    is_dry_run: bool
    parameters: Mapping[str, Any]
    origins: Mapping[str, str]
    labels: Mapping[str, str]
    return_values: Mapping[str, Any]
    error: str
    failure: FailureRow | None  # the job behind `error`
    jobs: list[JobLine]
    family: list[RelativeRow]
    pending: list[ApprovalRow]
    components: list[ComponentView]
    waiting: str  # for what, in sentences; "" for nothing

    @property
    def is_over(self) -> bool:
        return self.record.status in _FINAL

    @property
    def is_busy(self) -> bool:
        return self.record.job_id is not None

    @property
    def children(self) -> Mapping[str, str]:
        """The IDs of submodule instances, by component."""
        shown = msgspec.json.decode(self.record.components, type=list[_Component])
        return {each.name: each.instance_id for each in shown if each.instance_id is not None}

    @property
    def current(self) -> JobLine | None:
        return self.jobs[0] if self.jobs else None

    @property
    def can_resume(self) -> bool:
        """Whether the newest job failed and can be resumed."""
        if not self.jobs or self.is_busy or self.is_over:
            return False
        return self.jobs[0].status == JobStatus.FAILED and not self.jobs[0].could_not_begin


class _Component(msgspec.Struct, frozen=True, rename="camel"):
    """A component in the API's document of the instance."""

    name: str
    instance_id: str | None = None


def component_states(view: InstanceView, components: Iterable[str]) -> dict[str, ComponentState]:
    """Return what each component does, as it is drawn."""
    known = {each.path: each for each in view.components}
    found = {path: known.get(path) for path in components}
    return {
        path: ComponentState() if each is None else shown_state(each.state, each.instance)
        for path, each in found.items()
    }


async def view_instance(request: PageRequest, instance_id: str) -> InstanceView:
    """Return an instance with its history, and with its submodules' instances."""
    ask, ctx = request.ask, request.ctx
    record, manifest = await read_instance_record(ctx, instance_id)
    asked = ask(read_instance(ctx, instance_id))
    refined = ask(list_refined_states(ctx, record.id))
    asked_pending, family = ask(_pending(request, record)), ask(read_family(ctx, instance_id))
    components = ask(list_components(ctx, instance_id))
    view, pending = await asked, await asked_pending
    redactor = await redactor_for(record)
    # A hundred jobs with thousands of steps take a while; other requests must not wait for it.
    history = view.detail.history
    jobs = await computed(len(history), lambda: _jobs(history, redactor))
    if jobs:  # the only one whose steps are shown
        jobs[0] = _refined(jobs[0], await refined)
    asking = {row.job_id for row in pending}
    jobs = [replace(job, is_asking=True) if job.id in asking else job for job in jobs]
    return InstanceView(
        record=record,
        manifest=manifest,
        workflows=view.available_workflows,
        is_dry_run=view.is_dry_run,
        parameters=redactor.value(view.parameters),
        origins=view.origins,
        labels=msgspec.json.decode(view.detail.labels),
        return_values=redactor.value(msgspec.json.decode(record.return_values)),
        error=redactor.text(view.detail.error_message or ""),
        failure=_masked(view.detail.failure, redactor),
        jobs=jobs,
        family=await family,
        pending=pending,
        components=await components,
        # The destroy that can be taken back has a place of its own on each tab.
        waiting=redactor.text((view.detail.waits or "").removesuffix(view.detail.destruction or "").rstrip()),
    )


def _masked(failure: FailureRow | None, redactor: Redactor) -> FailureRow | None:
    if failure is None:
        return None
    message, cause = redactor.text(failure.message), _masked(failure.cause, redactor)
    return replace(failure, message=message, cause=cause)


def recorded_job(failure: FailureRow) -> JobLine:
    """Return the job of a failure as far as that says it."""
    return JobLine(
        id=failure.job_id,
        name=failure.workflow,
        status=JobStatus.FAILED,
        owner_id="",
        started_ms=None,
        duration_ms=None,
        error=failure.message,
    )


async def _pending(request: PageRequest, record: InstanceRecord) -> list[ApprovalRow]:
    """Return the pending approvals of the running job."""
    if record.job_id is None:
        return []
    rows = await list_instance_approvals(request.ctx, record.id, after=None, count=LIST_LIMIT_MAX)
    return [row for row in rows if row.status == ApprovalStatus.PENDING]


def _jobs(history: str, redactor: Redactor) -> list[JobLine]:
    """Return the jobs, the newest first.

    By number: the times of two that come close may be in another order.
    """
    rows = sorted(read_history(history), key=lambda row: row.number, reverse=True)
    return [_job(row, redactor.text(row.error_message or "")) for row in rows]


def _job(row: JobRow, error: str) -> JobLine:
    return JobLine(
        id=row.id,
        name=row.name,
        status=row.status,
        owner_id=row.owner_id,
        started_ms=row.started_at_ms,
        duration_ms=_duration_ms(row.started_at_ms, row.finished_at_ms),
        error=error,
        planned=row.steps,
        live=row.live_steps or (),
        number=row.number,
        could_not_begin=row.could_not_begin,
    )


def _refined(job: JobLine, states: Mapping[str, StepState]) -> JobLine:
    unreached = None if job.status == JobStatus.EXECUTING else StepStatus.REQUESTED
    steps = [
        replace(
            step,
            status=SKIPPED if step.status == unreached else _REFINED.get(states.get(step.path), step.status),
            percent=100 if states.get(step.path) is StepState.IGNORED else step.percent,
        )
        for step in job.steps
    ]
    return replace(job, refined=steps)


def _summaries(steps: Sequence[tuple[str, str, str, int]], live: Sequence[tuple[str, str, int]]) -> list[StepLine]:
    newer = {path: (status, percent) for path, status, percent in live}
    lines: list[StepLine] = []
    for path, name, status, percent in steps:
        live_status, live_percent = newer.get(path, (status, percent))
        lines.append(StepLine(path=path, name=name, status=live_status, percent=raise_percent(percent, live_percent)))
    return lines


def _duration_ms(started_ms: int | None, finished_ms: int | None) -> int | None:
    return None if started_ms is None or finished_ms is None else finished_ms - started_ms
