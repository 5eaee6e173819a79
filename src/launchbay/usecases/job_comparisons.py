"""Two runs side by side: one comparison for API, console and command."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from launchbay.model.component_state import Outcome, StepState, outcome, planned_state
from launchbay.model.job import JobStatus, outer_paths
from launchbay.model.scalars import same
from launchbay.usecases.context import Context
from launchbay.usecases.jobs import JobDetails, find_job

_NOTICED_MS = 100  # shorter differences of durations are chance


class ValueDifference(NamedTuple):
    """A value that differs. A missing one is None."""

    name: str
    one: Any
    other: Any


class ComparedStep(NamedTuple):
    """A step of one of the runs."""

    status: Outcome
    duration_ms: int | None


@dataclass(frozen=True, kw_only=True)
class StepComparison:
    """A step in two runs. None: the run has no such step."""

    path: str
    one: ComparedStep | None
    other: ComparedStep | None
    inputs: list[ValueDifference]
    outputs: list[ValueDifference]

    @property
    def difference_ms(self) -> int | None:
        """How much longer the second run took, if both have ended."""
        if self.one is None or self.other is None or self.one.duration_ms is None or self.other.duration_ms is None:
            return None
        return self.other.duration_ms - self.one.duration_ms

    @property
    def is_noticed(self) -> bool:
        """Whether the difference of the durations is more than chance."""
        return abs(self.difference_ms or 0) >= _NOTICED_MS

    @property
    def differs(self) -> bool:
        """Whether status, inputs or outputs differ, or the duration by a tenth."""
        if self.one is None or self.other is None or self.one.status is not self.other.status:
            return True
        tenth = (self.one.duration_ms or 0) // 10
        return bool(self.inputs or self.outputs) or abs(self.difference_ms or 0) > max(_NOTICED_MS, tenth)


@dataclass(frozen=True, kw_only=True)
class JobComparison:
    """Two runs side by side, with secrets masked.

    Steps are in the order of the second run. `unrecorded` are the numbers of runs whose parameters an earlier version
    didn't keep. `same_parameters` counts equal ones.
    """

    one: JobDetails
    other: JobDetails
    steps: list[StepComparison]
    parameters: list[ValueDifference]
    same_parameters: int
    results: list[ValueDifference]
    unrecorded: list[int | None]

    @property
    def differing(self) -> list[StepComparison]:
        return [step for step in self.steps if step.differs]


async def compare_jobs(ctx: Context, job_id: str, other_id: str) -> JobComparison:
    """Return two runs side by side.

    Each is of any instance that the caller may read. Raises NotFound.
    """
    one, other = await find_job(ctx, job_id), await find_job(ctx, other_id)
    return await asyncio.to_thread(compare_details, one, other)  # masking large outputs takes a while


def compare_details(one: JobDetails, other: JobDetails) -> JobComparison:
    """Return two runs side by side, without further reads."""
    first, second = _Steps(one), _Steps(other)
    taken = [job.parameters() for job in (one, other)]
    known = [each.values for each in taken if each is not None]
    is_known = len(known) == len(taken)
    return JobComparison(
        one=one,
        other=other,
        steps=[_step(path, first, second) for path in dict.fromkeys([*second.paths, *first.paths])],
        parameters=different_values(known[0], known[1]) if is_known else [],
        same_parameters=sum(name in known[1] and same(known[1][name], known[0][name]) for name in known[0])
        if is_known
        else 0,
        results=different_values(one.results().values, other.results().values),
        unrecorded=[job.view.number for job, each in zip((one, other), taken, strict=True) if each is None],
    )


class _Steps:
    """The steps of a run by path.

    Each planned one is followed by those inside it; then come all others.
    """

    def __init__(self, job: JobDetails) -> None:
        self.job = job
        self.planned = {path: status for path, _, status, _ in job.view.planned()}
        self.recorded = {step.path: step for step in job.view.recorded() if "/" in step.path}
        inside: dict[str, list[str]] = {path: [path] for path in self.planned}
        others: list[str] = []
        for path in self.recorded.keys() - self.planned.keys():
            outer = next((each for each in reversed(list(outer_paths(path))) if each in inside), None)
            (others if outer is None else inside[outer]).append(path)
        begun = {path: number for number, path in enumerate(self.recorded)}
        ordered = [*inside.values(), others]
        self.paths = [path for group in ordered for path in sorted(group, key=lambda each: begun.get(each, -1))]

    def step(self, path: str) -> ComparedStep | None:
        view, is_over = self.recorded.get(path), self.job.view.status != JobStatus.EXECUTING
        if view is None:
            status = self.planned.get(path)
            if status is None:
                return None
            return ComparedStep(outcome({planned_state(status, is_over=is_over)}, is_over=is_over), None)
        state = self.job.state_of(view)
        result = Outcome.FAILED if state is StepState.IGNORED else outcome({state}, is_over=is_over)
        if result is Outcome.SKIPPED or view.started_at_ms is None or view.finished_at_ms is None:
            return ComparedStep(result, None)
        return ComparedStep(result, view.finished_at_ms - view.started_at_ms)


def _step(path: str, one: _Steps, other: _Steps) -> StepComparison:
    return StepComparison(
        path=path,
        one=one.step(path),
        other=other.step(path),
        inputs=_different_inputs(one, other, path),
        outputs=_different_outputs(one, other, path),
    )


def _different_inputs(one: _Steps, other: _Steps, path: str) -> list[ValueDifference]:
    first, second = one.recorded.get(path), other.recorded.get(path)
    if first is None or second is None or first.inputs is None or second.inputs is None:
        return []
    sent, sent_later = one.job.redactor.value(first.inputs.values), other.job.redactor.value(second.inputs.values)
    return different_values(sent, sent_later)


def _different_outputs(one: _Steps, other: _Steps, path: str) -> list[ValueDifference]:
    """Return the outputs that differ. Steps that ended differently leave others anyway."""
    first, second = one.recorded.get(path), other.recorded.get(path)
    if first is None or second is None or first.status != second.status or first.outputs == second.outputs:
        return []
    left, left_later = (
        {} if step.outputs is None else side.job.redactor.value(msgspec.json.decode(step.outputs))
        for side, step in ((one, first), (other, second))
    )
    return different_values(left, left_later)


def different_values(one: Mapping[str, Any], other: Mapping[str, Any], outer: str = "") -> list[ValueDifference]:
    """Return the values that differ, in the order of the first map.

    Names in maps follow those of the maps.
    """
    found: list[ValueDifference] = []
    for name in dict.fromkeys([*one, *other]):
        old, new = one.get(name), other.get(name)
        if same(old, new):
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += different_values(old, new, f"{outer}{name}.")
        else:
            found.append(ValueDifference(f"{outer}{name}", old, new))
    return found
