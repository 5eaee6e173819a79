"""Two runs side by side: one comparison for API, console and command."""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from launchbay.model.component_state import Outcome, StepState, outcome, planned_state
from launchbay.model.job import JobStatus, outer_paths
from launchbay.model.masked_comparison import ValueComparison, compare_masked
from launchbay.model.redaction import CUT, MaskedValues
from launchbay.usecases.context import Context
from launchbay.usecases.jobs import JobDetails, find_job

_NOTICED_MS = 100  # shorter differences of durations are chance
_NOTHING = ValueComparison([], [])
_TOO_LARGE = ValueComparison([], [CUT])  # those of the whole run aren't read


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
    inputs: ValueComparison
    outputs: ValueComparison

    @property
    def uncertain(self) -> list[str]:
        """Inputs and outputs that may differ.

        They are masked or cut, and what is shown is equal.
        """
        return [
            *(f"inputs.{name}" for name in self.inputs.uncertain),
            *(f"outputs.{name}" for name in self.outputs.uncertain),
        ]

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
        """Whether status, inputs or outputs certainly differ, or the duration by a tenth."""
        if self.one is None or self.other is None or self.one.status is not self.other.status:
            return True
        if self.inputs.differences or self.outputs.differences:
            return True
        return abs(self.difference_ms or 0) > max(_NOTICED_MS, (self.one.duration_ms or 0) // 10)


@dataclass(frozen=True, kw_only=True)
class JobComparison:
    """Two runs side by side, with secrets masked.

    Steps are in the order of the second run. `unrecorded` are the numbers of runs whose parameters an earlier version
    didn't keep.
    """

    one: JobDetails
    other: JobDetails
    steps: list[StepComparison]
    parameters: ValueComparison
    results: ValueComparison
    unrecorded: list[int | None]

    @property
    def differing(self) -> list[StepComparison]:
        return [step for step in self.steps if step.differs]

    @property
    def uncertain(self) -> list[str]:
        """Parameters and results that may differ, as `StepComparison.uncertain`."""
        return [
            *(f"parameters.{name}" for name in self.parameters.uncertain),
            *(f"results.{name}" for name in self.results.uncertain),
        ]


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
    known = [each for each in taken if each is not None]
    return JobComparison(
        one=one,
        other=other,
        steps=[_step(path, first, second) for path in dict.fromkeys([*second.paths, *first.paths])],
        parameters=compare_masked(known[0], known[1]) if len(known) == len(taken) else _NOTHING,
        results=compare_masked(one.results(), other.results()),
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
        inputs=_compared_inputs(one, other, path),
        outputs=_compared_outputs(one, other, path),
    )


def _compared_inputs(one: _Steps, other: _Steps, path: str) -> ValueComparison:
    first, second = one.recorded.get(path), other.recorded.get(path)
    if first is None or second is None or not (first.has_inputs and second.has_inputs):
        return _NOTHING
    if first.inputs is None or second.inputs is None:
        return _TOO_LARGE
    return compare_masked(_masked(one, first.inputs), _masked(other, second.inputs))


def _compared_outputs(one: _Steps, other: _Steps, path: str) -> ValueComparison:
    """Return what differs in the outputs. Steps that ended differently leave others anyway."""
    first, second = one.recorded.get(path), other.recorded.get(path)
    if first is None or second is None or first.status != second.status:
        return _NOTHING
    if first.outputs is not None and first.outputs == second.outputs:
        return _NOTHING  # also where they are masked
    if any(step.has_outputs and step.outputs is None for step in (first, second)):
        return _TOO_LARGE
    left = [MaskedValues({} if step.outputs is None else msgspec.json.decode(step.outputs)) for step in (first, second)]
    return compare_masked(_masked(one, left[0]), _masked(other, left[1]))


def _masked(side: _Steps, values: MaskedValues) -> MaskedValues:
    return MaskedValues(side.job.redactor.value(values.values), values.is_cut)
