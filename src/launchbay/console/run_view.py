"""A run as its page shows it: lanes, steps with attempts, and differences."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from launchbay.clock import to_ms
from launchbay.console.assets import Glyph
from launchbay.console.rendering import format_duration
from launchbay.manifest.graph import APPROVAL, Step
from launchbay.model.component_state import Outcome, StepState, outcome, planned_state
from launchbay.model.job import (
    JobStatus,
    StepStatus,
    component_of,
    outer_paths,
    owner_of,
    step_name,
    unescaped,
)
from launchbay.model.redaction import MaskedValues
from launchbay.planning.plans import step_at
from launchbay.store.jobs import StepView
from launchbay.usecases.job_comparisons import ComparedStep, StepComparison
from launchbay.usecases.jobs import JobDetails

LANES = 100  # on one page
LANE_STEPS = 50  # of one lane, on one page
_INLINE_STEPS = 300  # of a run whose page shows all steps
_SEGMENTS, _ALL_SEGMENTS = 60, 1_500  # of one bar, and of all on a page
_TICKS = 9
_TICK_MS = tuple(
    int(each * 1000)
    for each in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21_600, 86_400)
)
_SHORTEST_AXIS_MS = 200


class Segment(NamedTuple):
    """A part of a bar; times are in ms since the run began."""

    kind: Glyph
    start: int
    end: int


class Attempt(NamedTuple):
    """One attempt of a step; `next_ms` is when the following one was due."""

    number: int
    started_ms: int | None
    ended_ms: int | None
    error: str
    next_ms: int | None


@dataclass(frozen=True, kw_only=True)
class RunStep:
    """A step; times are in ms since the Unix epoch.

    `level` is 0 for a step of a lane, and 1 to 3 for one inside another.
    """

    path: str
    state: StepState
    kind: Glyph
    words: str
    level: int = 0
    percent: int = 0
    attempt: int = 0
    started_ms: int | None = None
    ended_ms: int | None = None
    is_kept: bool = False  # of an earlier attempt of the run, not done again
    view: StepView | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return step_name(self.path)

    @property
    def component(self) -> str:
        return owner_of(self.path)

    @property
    def duration_ms(self) -> int | None:
        return None if self.started_ms is None or self.ended_ms is None else self.ended_ms - self.started_ms

    @property
    def is_failed(self) -> bool:
        return self.kind is Glyph.FAIL

    @property
    def note(self) -> str:
        """Remarks in few words."""
        if self.is_kept:
            return "kept"
        return f"attempt {self.attempt}" if self.attempt > 1 else ""


@dataclass(frozen=True, kw_only=True)
class Lane:
    """A component with its steps.

    `segments` are its bar, `steps` those that the page shows, and `total` the number of all.
    """

    name: str
    kind: Glyph
    words: str
    note: str
    segments: list[Segment]
    started_ms: int | None
    duration_ms: int | None
    is_open: bool
    steps: list[RunStep]
    first: int
    total: int

    @property
    def next_first(self) -> int | None:
        end = self.first + len(self.steps)
        return end if end < self.total else None


class RunView:
    """A run with its steps.

    Decodes the journal once, and is linear in the number of steps.
    """

    def __init__(self, job: JobDetails, now_ms: int) -> None:
        self.job = job
        view = job.view
        self.is_over = view.status != JobStatus.EXECUTING
        self._now_ms = now_ms
        self.started_ms = None if view.started_at is None else to_ms(view.started_at)
        self.ended_ms = None if view.finished_at is None else to_ms(view.finished_at)
        self.begin_ms = self.started_ms or to_ms(view.created_at)
        self.end_ms = max(self.begin_ms, self.ended_ms or now_ms)
        self.duration_ms = None if self.started_ms is None else self.end_ms - self.started_ms
        self._most_segments = _SEGMENTS
        self.steps = self._steps()
        self.by_path = {step.path: step for step in self.steps}

    @property
    def span_ms(self) -> int:
        return max(_SHORTEST_AXIS_MS, self.end_ms - self.begin_ms)

    @cached_property
    def ticks(self) -> list[tuple[int, str]]:
        """The ticks of the axis: ms since the run began, and words."""
        distance = next((each for each in _TICK_MS if self.span_ms / each <= _TICKS), 0)
        if not distance:
            distance = -(-self.span_ms // _TICKS)
        return [(at, _tick_words(at, distance)) for at in range(0, self.span_ms * 24 // 25, distance)]

    @cached_property
    def counts(self) -> Counter[Glyph]:
        """How many own steps there are of each kind."""
        return Counter(step.kind for step in self.steps if step.level == 0)

    @property
    def total(self) -> int:
        return self.counts.total()

    @property
    def kept(self) -> int:
        return sum(step.is_kept for step in self.steps if step.level == 0)

    @property
    def finished(self) -> int:
        """The number of own steps that a resumption doesn't repeat (decision 0175)."""
        return self.counts[Glyph.OK] + self.counts[Glyph.WARN]

    @property
    def not_run(self) -> list[RunStep]:
        """The steps that had not begun when the run ended."""
        steps = [step for step in self.steps if step.level == 0] if self.is_over else []
        return [step for step in steps if step.state is StepState.WAITS]

    @property
    def running(self) -> list[RunStep]:
        return [step for step in self.steps if step.kind in {Glyph.BUSY, Glyph.WAIT}]

    @cached_property
    def failed(self) -> RunStep | None:
        """The step that failed first, and of those around it the innermost.

        Failures inside one that is ignored don't count. If none failed, it is one that was interrupted.
        """
        interrupted = [step for step in self.steps if step.kind is Glyph.STOPPED] if self.is_over else []
        failed = [step for step in self.steps if step.is_failed] or interrupted
        inner = [step for step in failed if not any(_is_inside(other.path, step.path) for other in failed)]
        return min(inner, key=lambda step: (step.ended_ms or self.end_ms, step.path), default=None)

    def error_of(self, step: RunStep) -> str:
        """Return why a step failed, masked."""
        return self.job.redactor.text(step.view.error_message or "") if step.view else ""

    def declared(self, step: RunStep) -> Step | None:
        """Return what the manifest says about a step, if it still has it."""
        return None if self.job.manifest is None else step_at(self.job.manifest, step.path)

    def inputs(self, step: RunStep) -> MaskedValues | None:
        """Return the parameters as a step was sent them, masked. None: they aren't recorded."""
        if step.view is None or step.view.inputs is None:
            return None
        kept = step.view.inputs
        return MaskedValues(self.job.redactor.value(kept.values), kept.is_cut)

    def written_inputs(self, step: RunStep) -> dict[str, Any]:
        """Return the parameters of a step as the manifest has them, masked."""
        declared = self.declared(step)
        written = {} if declared is None else declared.parameters.written
        found: dict[str, Any] = self.job.redactor.value(written) if isinstance(written, dict) else {}
        return found

    def outputs(self, step: RunStep) -> dict[str, Any]:
        """Return what a step left, masked."""
        if step.view is None or step.view.outputs is None:
            return {}
        found: dict[str, Any] = self.job.redactor.value(msgspec.json.decode(step.view.outputs))
        return found

    def attempts(self, step: RunStep) -> list[Attempt]:
        """Return the attempts of a step, in order."""
        view = step.view
        if view is None:
            return []
        # A write that came twice brings an attempt twice.
        failed = {
            number: Attempt(number, began, ended, self.job.redactor.text(text), following)
            for number, began, ended, text, following in view.failed_attempts or ()
        }
        found = [failed[number] for number in sorted(failed)]
        if view.attempt not in failed and view.started_at_ms is not None:
            began = max((each.ended_ms or 0 for each in found), default=0) or view.started_at_ms
            error = self.job.redactor.text(view.error_message or "")
            found.append(Attempt(view.attempt, began, view.finished_at_ms, error, None))
        return found

    def segments(self, step: RunStep) -> list[Segment]:
        """Return the bar of a step.

        A pause before another attempt and an approval are parts that wait.
        """
        if step.started_ms is None or step.is_kept or step.state is StepState.SKIPPED:
            return []
        end = self._relative(step.ended_ms or self.end_ms)
        declared = self.declared(step)
        if declared is not None and declared.action == APPROVAL:
            return [Segment(Glyph.WAIT, self._relative(step.started_ms), end)]
        found: list[Segment] = []
        start = self._relative(step.started_ms)
        for number, began, ended, _, following in (step.view.failed_attempts or ()) if step.view else ():
            if ended is None or (number == step.attempt and step.kind in _ENDED_BADLY):
                continue
            found.append(Segment(Glyph.FAIL, self._relative(began), self._relative(ended)))
            start = min(end, max(self._relative(following or ended), self._relative(ended)))
            found.append(Segment(Glyph.WAIT, self._relative(ended), start))
        return [*found, Segment(step.kind, start, end)]

    def _relative(self, at_ms: int) -> int:
        return max(0, at_ms - self.begin_ms)

    def lanes(self, *, shown: str = "", first: int = 0, by_plan: bool = False) -> list[Lane]:
        """Return the lanes; of the one named `shown`, the steps from `first` on.

        Lanes are in the order in which they began, or with `by_plan` in that of the manifest, which never changes.
        """
        groups: dict[str, list[RunStep]] = {}
        for step in self.steps:
            groups.setdefault(unescaped(component_of(step.path)), []).append(step)
        self._most_segments = max(8, min(_SEGMENTS, _ALL_SEGMENTS // max(1, len(groups))))
        is_small = len(self.steps) <= _INLINE_STEPS
        lanes = [self._lane(name, steps, shown, first, is_small=is_small) for name, steps in groups.items()]
        if not by_plan:
            lanes.sort(key=lambda lane: (lane.started_ms is None, lane.started_ms or 0))
        return lanes

    def _lane(self, name: str, steps: list[RunStep], shown: str, first: int, *, is_small: bool) -> Lane:
        states = {step.state for step in steps if step.level == 0}
        if any(step.state is StepState.ASKS for step in steps) and not self.is_over:  # one inside of another
            states.add(StepState.ASKS)
        result = outcome(states, is_over=self.is_over)
        kind = _OUTCOMES[result]
        began = [step.started_ms for step in steps if step.started_ms is not None and not step.is_kept]
        ended = [step.ended_ms or self.end_ms for step in steps if step.started_ms is not None and not step.is_kept]
        is_open = name == shown or (not shown and kind in {Glyph.FAIL, Glyph.WAIT})
        first = first if name == shown else 0
        if is_small:
            inline = steps[first:]
        elif is_open:
            failed = next((place for place, step in enumerate(steps) if step.is_failed), 0)
            first = first if name == shown else max(0, failed - LANE_STEPS // 2)
            inline = steps[first : first + LANE_STEPS]
        else:
            inline = []
        segments = [segment for step in steps if step.level == 0 for segment in self.segments(step)]
        attempts = max((step.attempt for step in steps), default=0)
        kept = sum(step.is_kept for step in steps)
        return Lane(
            name=name,
            kind=kind,
            words=result.value,
            note=_lane_note(result, attempts, kept, len(steps)),
            segments=_merged(segments, self.span_ms, self._most_segments),
            started_ms=min(began, default=None),
            duration_ms=max(ended) - min(began) if began else None,
            is_open=is_open,
            steps=inline,
            first=first,
            total=len(steps),
        )

    def _steps(self) -> list[RunStep]:
        """Return the planned steps, each followed by those inside it, then all others."""
        planned = self.job.view.planned()
        order = {path for path, *_ in planned}
        recorded = {step.path: step for step in self.job.view.recorded() if "/" in step.path}
        inside: dict[str, list[StepView]] = {}
        unplanned: list[StepView] = []
        for path, step in recorded.items():
            if path in order:
                continue
            outer = next((each for each in _around(path) if each in order), None)
            if outer is None:
                unplanned.append(step)
            else:
                inside.setdefault(outer, []).append(step)
        found: list[RunStep] = []
        for path, _, status, percent in planned:
            own = recorded.get(path)
            found.append(self._planned(path, status, percent) if own is None else self._recorded(own, 0))
            found += [self._recorded(step, _depth(step.path, path)) for step in inside.get(path, ())]
        return found + [self._recorded(step, 0) for step in unplanned]

    def _planned(self, path: str, status: str, percent: int) -> RunStep:
        state = planned_state(status, is_over=self.is_over)
        kind = self._kind(state)
        return RunStep(path=path, state=state, kind=kind, words=_WORDS[kind], percent=percent)

    def _recorded(self, step: StepView, level: int) -> RunStep:
        state = self.job.state_of(step)
        if state is StepState.SKIPPED:
            return RunStep(path=step.path, state=state, kind=Glyph.SKIPPED, words="Skipped", level=level, view=step)
        kind = Glyph.WAIT if not self.is_over and self._is_pausing(step) else self._kind(state)
        if kind is Glyph.FAIL and not self._ignored.isdisjoint(outer_paths(step.path)):
            kind = Glyph.WARN  # as its lines of the log are warnings (decision 0177)
        is_kept = (
            kind in {Glyph.OK, Glyph.WARN} and step.finished_at_ms is not None and step.finished_at_ms < self.begin_ms
        )
        return RunStep(
            path=step.path,
            state=state,
            kind=kind,
            words=_WORDS[kind],
            level=level,
            percent=100 if kind is Glyph.OK else step.percent,
            attempt=step.attempt,
            started_ms=step.started_at_ms,
            ended_ms=step.finished_at_ms,
            is_kept=is_kept and bool(self.job.plan.resumes),
            view=step,
        )

    @cached_property
    def _ignored(self) -> set[str]:
        """The paths of the steps whose failure is ignored."""
        return {step.path for step in self.job.view.recorded() if self.job.state_of(step) is StepState.IGNORED}

    def _kind(self, state: StepState) -> Glyph:
        return (_KINDS_WHEN_OVER if self.is_over else _KINDS).get(state) or _KINDS[state]

    def _is_pausing(self, step: StepView) -> bool:
        """Return whether a step under way waits for its next attempt."""
        pauses = [following for number, _, _, _, following in step.failed_attempts or () if number == step.attempt]
        return step.status == StepStatus.EXECUTING and bool(pauses) and (pauses[-1] or 0) > self._now_ms


_KINDS = {
    StepState.WAITS: Glyph.QUEUED,
    StepState.RUNS: Glyph.BUSY,
    StepState.ASKS: Glyph.WAIT,
    StepState.DONE: Glyph.OK,
    StepState.SKIPPED: Glyph.SKIPPED,
    StepState.FAILED: Glyph.FAIL,
    StepState.IGNORED: Glyph.WARN,
    StepState.INTERRUPTED: Glyph.STOPPED,
}
_KINDS_WHEN_OVER = {
    StepState.WAITS: Glyph.SKIPPED,
    StepState.RUNS: Glyph.STOPPED,
    StepState.ASKS: Glyph.STOPPED,
}
_ENDED_BADLY = {Glyph.FAIL, Glyph.WARN, Glyph.STOPPED}
_WORDS = {
    Glyph.OK: "Succeeded",
    Glyph.FAIL: "Failed",
    Glyph.WARN: "Failed, ignored",
    Glyph.BUSY: "In progress",
    Glyph.WAIT: "Waiting",
    Glyph.QUEUED: "Not started",
    Glyph.SKIPPED: "Not run",
    Glyph.STOPPED: "Interrupted",
}
_OUTCOMES = {
    Outcome.NOT_STARTED: Glyph.QUEUED,
    Outcome.IN_PROGRESS: Glyph.BUSY,
    Outcome.NEEDS_APPROVAL: Glyph.WAIT,
    Outcome.SUCCEEDED: Glyph.OK,
    Outcome.SKIPPED: Glyph.SKIPPED,
    Outcome.FAILED: Glyph.FAIL,
    Outcome.INTERRUPTED: Glyph.STOPPED,
    Outcome.NOT_RUN: Glyph.SKIPPED,
}
# Parts of a bar that become one are the first of these that one of them is.
_WORST = (Glyph.FAIL, Glyph.WARN, Glyph.WAIT, Glyph.BUSY, Glyph.STOPPED, Glyph.QUEUED, Glyph.SKIPPED, Glyph.OK)


def _lane_note(result: Outcome, attempts: int, kept: int, total: int) -> str:
    if kept and kept == total:
        return "kept"
    if result in {Outcome.SKIPPED, Outcome.NOT_RUN}:
        return result.value.lower()
    return f"attempt {attempts}" if attempts > 1 else ""


def _around(path: str) -> Iterator[str]:
    """Yield the paths around a step, the outermost first."""
    return reversed(list(outer_paths(path)))


def _is_inside(path: str, outer: str) -> bool:
    return path.startswith(outer) and path[len(outer) : len(outer) + 1] in {"/", ">", "~"}


def _depth(path: str, outer: str) -> int:
    """Return how deep a step is inside another: 1 to 3."""
    return max(1, min(3, path.count("/") - outer.count("/")))


def _tick_words(at_ms: int, distance_ms: int) -> str:
    if distance_ms < 1000:
        return f"{at_ms / 1000:g} s"
    minutes, seconds = divmod(at_ms // 1000, 60)
    if minutes >= 60 and distance_ms >= 60_000:
        return f"{minutes // 60}:{minutes % 60:02} h"
    return f"{minutes}:{seconds:02}"


def _merged(segments: list[Segment], span_ms: int, most: int) -> list[Segment]:
    """Return few segments that look the same: neighbors of one kind become one."""
    ordered = sorted(segments, key=lambda each: each.start)
    gap = 0
    while len(ordered) > most:
        gap = max(1, gap * 2, span_ms // 2000)
        found: list[Segment] = []
        for each in ordered:
            last = found[-1] if found else None
            if last is not None and each.start - last.end <= gap and (each.kind == last.kind or gap > span_ms // 50):
                kind = last.kind if _WORST.index(last.kind) < _WORST.index(each.kind) else each.kind
                found[-1] = Segment(kind, last.start, max(last.end, each.end))
            else:
                found.append(each)
        ordered = found
    return ordered


@dataclass(frozen=True, kw_only=True)
class StepPair:
    """A step in two runs as the page shows it.

    `share` is the length of its bar in percent.
    """

    step: StepComparison
    share: int

    def glyph(self, side: ComparedStep) -> Glyph:
        return _OUTCOMES[side.status]

    @property
    def bar(self) -> str:
        """The class of its bar."""
        if self.step.other is not None and self.step.other.status is Outcome.FAILED:
            return "fail"
        return "ok" if (self.step.difference_ms or 0) < 0 else "slow"

    @property
    def words(self) -> str:
        """The difference in words."""
        one, other, difference_ms = self.step.one, self.step.other, self.step.difference_ms
        if one is None or other is None:
            return "only in the second run" if one is None else "only in the first run"
        parts: list[str] = []
        if difference_ms is not None and self.step.is_noticed:
            parts.append(("+" if difference_ms > 0 else "−") + format_duration(difference_ms))
        if one.status is not other.status:
            parts.append(other.status.value.lower())
        values = [
            name for name, found in (("inputs", self.step.inputs), ("outputs", self.step.outputs)) if found.differences
        ]
        if values:
            parts.append(" and ".join(values) + " differ")
        return ", ".join(parts) or "no difference"


def step_pairs(steps: Sequence[StepComparison]) -> list[StepPair]:
    """Return steps of two runs as the page shows them."""
    greatest = max((abs(step.difference_ms or 0) for step in steps), default=0) or 1
    return [
        StepPair(step=step, share=100 * abs(step.difference_ms or 0) // greatest if step.differs else 0)
        for step in steps
    ]
