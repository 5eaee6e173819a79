"""An instance as its page shows it, and again as its live part does after every change."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from launchbay.console.request import PageRequest
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.manifest.graph import CompiledManifest
from launchbay.model.instance import InstanceStatus
from launchbay.model.job import ApprovalStatus, JobStatus, StepStatus, raise_percent
from launchbay.store.approvals import ApprovalRow
from launchbay.store.instances import InstanceRecord, JobRow, RelativeRow, read_history
from launchbay.store.jobs import StepView
from launchbay.usecases.approvals import list_instance_approvals as approvals_of
from launchbay.usecases.browsing import read_family, read_instance_record, redactor_for
from launchbay.usecases.instances import read_instance
from launchbay.usecases.jobs import JobDetails

_FINAL = frozenset({InstanceStatus.DESTROYING, InstanceStatus.DESTROYED})


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLine:
    """A step on a page; `level` says how far inside of others it is."""

    path: str
    name: str
    status: str
    percent: int
    level: int = 0
    attempt: int = 0
    took_ms: int | None = None
    error: str = ""
    outputs: Mapping[str, Any] | None = None
    outputs_omitted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job on a page."""

    id: str
    name: str
    status: str
    owner_id: str
    started_ms: int | None
    took_ms: int | None
    error: str
    steps: list[StepLine]

    @property
    def percent(self) -> int:
        """How much of the job is done, in the mean of its steps."""
        return sum(step.percent for step in self.steps) // len(self.steps) if self.steps else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceView:
    """Everything that the live part of an instance's page shows. Values have their secrets covered."""

    record: InstanceRecord
    manifest: CompiledManifest
    workflows: list[str]
    is_dry_run: bool
    parameters: Mapping[str, Any]
    return_values: Mapping[str, Any]
    error: str
    jobs: list[JobLine]
    family: list[RelativeRow]
    pending: list[ApprovalRow]

    @property
    def is_over(self) -> bool:
        """Whether nothing can be done with it any more."""
        return self.record.status in _FINAL

    @property
    def is_busy(self) -> bool:
        """Whether a job is under way."""
        return self.record.job_id is not None

    @property
    def children(self) -> Mapping[str, str]:
        """The instances behind components, by component."""
        shown = msgspec.json.decode(self.record.components, type=list[_Shown])
        return {each.name: each.instance_id for each in shown if each.instance_id is not None}

    @property
    def component_statuses(self) -> Mapping[str, str]:
        """How each component is: as its instance, as the steps of the newest job, else up or not."""
        parts = msgspec.json.decode(self.record.state, type=dict[str, _Part])
        found = dict.fromkeys(self.manifest.components, "")
        if self.is_over:
            found = dict.fromkeys(found, self.record.status.value)
        else:
            found |= {path: InstanceStatus.RUNNING.value for path, part in parts.items() if part.launched}
        for step in self.current.steps if self.current else []:
            component = step.path.partition("#")[0]
            if component in found and step.status in {StepStatus.EXECUTING, StepStatus.FAILED}:
                found[component] = step.status
        known = {row.id: row.status for row in self.family}
        return found | {path: known[child] for path, child in self.children.items() if child in known}

    @property
    def current(self) -> JobLine | None:
        """The newest job, whose steps are shown."""
        return self.jobs[0] if self.jobs else None

    @property
    def can_resume(self) -> bool:
        """Whether the newest job failed and can be gone on with."""
        return bool(self.jobs) and self.jobs[0].status == JobStatus.FAILED and not self.is_busy and not self.is_over


class _Part(msgspec.Struct, frozen=True):
    """What a page needs to know of the state of a component."""

    launched: bool = False


class _Shown(msgspec.Struct, frozen=True, rename="camel"):
    """A component as the API shows it."""

    name: str
    instance_id: str | None = None


async def view_instance(request: PageRequest, instance_id: str) -> InstanceView:
    """Return an instance with its history and its family."""
    record, manifest = await read_instance_record(request.ctx, instance_id)
    view = await read_instance(request.ctx, instance_id)
    redactor = redactor_for(record)
    jobs = [_job(row, redactor.text(row.error_message or "")) for row in read_history(view.detail.history)]
    return InstanceView(
        record=record,
        manifest=manifest,
        workflows=view.available_workflows,
        is_dry_run=view.is_dry_run,
        parameters=redactor.value(msgspec.json.decode(record.parameters)),
        return_values=redactor.value(msgspec.json.decode(record.return_values)),
        error=redactor.text(record.error_message or ""),
        jobs=jobs,
        family=await read_family(request.ctx, instance_id),
        pending=await _pending(request, record),
    )


async def _pending(request: PageRequest, record: InstanceRecord) -> list[ApprovalRow]:
    """Return what steps of the running job wait for; without a job nobody is asked."""
    if record.job_id is None:
        return []
    rows = await approvals_of(request.ctx, record.id, after=None, count=LIST_LIMIT_MAX)
    return [row for row in rows if row.status == ApprovalStatus.PENDING]


def job_steps(job: JobDetails) -> list[StepLine]:
    """Return the steps of a job in detail: the planned ones in their order, each followed by those inside it.

    The journal is decoded once, and each recorded step looks up the planned one around it: a job may have thousands.
    """
    planned = job.view.planned()
    order = {path: number for number, (path, *_) in enumerate(planned)}
    recorded = {step.path: step for step in job.view.recorded() if "/" in step.path}
    around: dict[str, list[StepView]] = {}
    alone: list[StepLine] = []
    for path, step in recorded.items():
        outer = min(
            (each for each in _path_and_those_around(path) if each in order), key=order.__getitem__, default=None
        )
        if outer is None:
            alone.append(_recorded(job, step, 0))
        else:
            around.setdefault(outer, []).append(step)
    lines: list[StepLine] = []
    for path, name, status, percent in planned:
        if path not in recorded:
            lines.append(StepLine(path=path, name=name, status=status, percent=percent))
        steps = sorted(around.get(path, ()), key=lambda step: step.path != path)
        lines += [_recorded(job, step, 0 if step.path == path else 1) for step in steps]
    return lines + alone


def _recorded(job: JobDetails, step: StepView, level: int) -> StepLine:
    return StepLine(
        path=step.path,
        name=step.name,
        status=step.status,
        percent=100 if step.status == StepStatus.SUCCEEDED else step.percent,
        level=level,
        attempt=step.attempt,
        took_ms=_took(step.started_at_ms, step.finished_at_ms),
        error=job.redactor.text(step.error_message or ""),
        outputs=None if step.outputs is None else job.redactor.value(msgspec.json.decode(step.outputs)),
        outputs_omitted=step.has_outputs and step.outputs is None,
    )


_INSIDE = re.compile("[/>~]")  # what comes between a step and one inside it


def _path_and_those_around(path: str) -> Iterator[str]:
    for cut in _INSIDE.finditer(path):
        yield path[: cut.start()]
    yield path


def _job(row: JobRow, error: str) -> JobLine:
    live = {path: (status, percent) for path, status, percent in row.live_steps or ()}
    return JobLine(
        id=row.id,
        name=row.name,
        status=row.status,
        owner_id=row.owner_id,
        started_ms=row.started_at_ms,
        took_ms=_took(row.started_at_ms, row.finished_at_ms),
        error=error,
        steps=_brief(row.steps, live),
    )


def _brief(steps: Sequence[tuple[str, str, str, int]], live: Mapping[str, tuple[str, int]]) -> list[StepLine]:
    lines: list[StepLine] = []
    for path, name, status, percent in steps:
        now_status, now_percent = live.get(path, (status, percent))
        known = raise_percent(percent, now_percent)
        lines.append(StepLine(path=path, name=name, status=now_status, percent=known))
    return lines


def _took(started_ms: int | None, finished_ms: int | None) -> int | None:
    return None if started_ms is None or finished_ms is None else finished_ms - started_ms
