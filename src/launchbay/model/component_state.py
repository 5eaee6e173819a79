"""What a component does now: one rule for API, console, command and tools.

It is a function of the plan (the components, what they require, their steps) and of the journal of the newest job.
docs/reference/component-states.md has the table of cases, which is also the test.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from launchbay.model.instance import Health, InstanceStatus, health_of
from launchbay.model.job import StepStatus

_LAUNCH, _DESTROY, _RECONFIGURE = "launch", "destroy", "reconfigure"  # names of jobs, and the first two of workflows


class StepState(StrEnum):
    """How far a step is in one run."""

    WAITS = "waits"  # it hasn't begun
    RUNS = "runs"  # that includes pauses before another attempt
    ASKS = "asks"  # it waits for an approval
    DONE = "done"
    SKIPPED = "skipped"  # its condition was false
    FAILED = "failed"
    IGNORED = "ignored"  # it failed, and its workflow continues (ignoreFail)
    INTERRUPTED = "interrupted"  # by a cancellation, or by a failure elsewhere


def step_state(status: str, *, is_skipped: bool, is_ignored: bool, is_interrupted: bool, is_asking: bool) -> StepState:
    """Return how far a step is, from its record."""
    state = _STATES[StepStatus(status)]
    for found, given, refined in (
        (StepState.RUNS, is_asking, StepState.ASKS),
        (StepState.DONE, is_skipped, StepState.SKIPPED),
        (StepState.FAILED, is_interrupted, StepState.INTERRUPTED),
        (StepState.FAILED, is_ignored, StepState.IGNORED),
    ):
        if state is found and given:
            return refined
    return state


def planned_state(status: str, *, is_over: bool) -> StepState:
    """Return how far a step without a record is, from the plan of its job.

    The plan of a job that has ended has statuses, which is all that an earlier server left. What had begun without a
    record of its own was never more than planned.
    """
    state = _STATES[StepStatus(status)]
    return StepState.WAITS if is_over and state is StepState.RUNS else state


_STATES: Mapping[StepStatus, StepState] = {
    StepStatus.REQUESTED: StepState.WAITS,
    StepStatus.EXECUTING: StepState.RUNS,
    StepStatus.SUCCEEDED: StepState.DONE,
    StepStatus.FAILED: StepState.FAILED,
}


class Outcome(StrEnum):
    """What a run has done with a component so far, from its steps."""

    NOT_STARTED = "Not started"
    IN_PROGRESS = "In progress"
    NEEDS_APPROVAL = "Needs approval"
    SUCCEEDED = "Succeeded"
    SKIPPED = "Skipped"
    FAILED = "Failed"
    INTERRUPTED = "Interrupted"
    NOT_RUN = "Not run"  # the run ended before its first step


def outcome(steps: Collection[StepState], *, is_over: bool) -> Outcome:
    """Return what a run has done with a component, from its steps.

    A failure that is ignored ends its step as a success does.
    """
    found = frozenset(StepState.DONE if step is StepState.IGNORED else step for step in steps)
    for step, result in (
        (StepState.FAILED, Outcome.FAILED),
        (StepState.INTERRUPTED, Outcome.INTERRUPTED),
        (StepState.ASKS, Outcome.INTERRUPTED if is_over else Outcome.NEEDS_APPROVAL),
        (StepState.RUNS, Outcome.INTERRUPTED if is_over else Outcome.IN_PROGRESS),
    ):
        if step in found:
            return result
    if StepState.WAITS not in found:
        return Outcome.SUCCEEDED if StepState.DONE in found else Outcome.SKIPPED
    if StepState.DONE in found:
        return Outcome.INTERRUPTED if is_over else Outcome.IN_PROGRESS
    return Outcome.NOT_RUN if is_over else Outcome.NOT_STARTED


class ComponentStatus(StrEnum):
    """What a component does, as the API names it (conformance.md, "Beyond the reference")."""

    NOT_STARTED = "NotStarted"
    IN_PROGRESS = "InProgress"
    NEEDS_APPROVAL = "NeedsApproval"
    RUNNING = "Running"
    DEGRADED = "Degraded"  # the instance behind it is degraded
    SLEEPING = "Sleeping"  # a sleep window has stopped the instance
    FAILED = "Failed"  # in the newest job
    INTERRUPTED = "Interrupted"  # in the newest job
    DESTROYING = "Destroying"
    DESTROYED = "Destroyed"

    @property
    def words(self) -> str:
        """The status as people read it, such as `Not started`."""
        return "".join(f" {each.lower()}" if each.isupper() else each for each in self.value).strip().capitalize()

    @property
    def is_settled(self) -> bool:
        """Whether nothing is under way, and nobody needs to look."""
        return self in {ComponentStatus.RUNNING, ComponentStatus.SLEEPING, ComponentStatus.DESTROYED}


class Step(NamedTuple):
    """A step of a component in the newest job."""

    name: str
    state: StepState
    percent: int = 0


class ComponentState(NamedTuple):
    """The status of a component.

    `step` is the name of what runs, asks, failed or was interrupted. `percent` is set while steps run.
    """

    status: ComponentStatus
    step: str | None = None
    percent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A component in the plan and in the journal.

    `needs` are the components that it requires, `steps` its steps in the newest job by workflow, planned or recorded.
    `is_launched` is so since the last job that ended, and `has_failed` if the newest could not launch it. `behind` is
    the status of the instance behind a submodule. A part that `is_declared` no more is of an earlier version.
    """

    needs: Collection[str] = ()
    steps: Mapping[str, Sequence[Step]] = field(default_factory=dict[str, Sequence[Step]])
    is_launched: bool = False
    has_failed: bool = False
    is_declared: bool = True
    behind: ComponentStatus | None = None


class Run(NamedTuple):
    """The newest job of an instance."""

    name: str
    is_started: bool = True
    is_over: bool = False


def component_states(
    parts: Mapping[str, Part], run: Run | None, status: InstanceStatus, *, is_asleep: bool = False
) -> dict[str, ComponentState]:
    """Return what each component does; `parts` are by path."""
    return _Rules(parts, run, status, is_asleep=is_asleep).states()


def status_behind(
    status: InstanceStatus, last_job: str | None, *, is_asking: bool, is_incomplete: bool
) -> ComponentStatus:
    """Return what a submodule does, from its instance."""
    if is_asking:
        return ComponentStatus.NEEDS_APPROVAL
    if health_of(status, last_job, is_incomplete=is_incomplete) is Health.DEGRADED:
        return ComponentStatus.DEGRADED
    return {
        InstanceStatus.REQUESTED: ComponentStatus.NOT_STARTED,
        InstanceStatus.EXECUTING: ComponentStatus.IN_PROGRESS,
        InstanceStatus.RUNNING: ComponentStatus.RUNNING,
        InstanceStatus.FAILED: ComponentStatus.FAILED,
        InstanceStatus.DESTROYING: ComponentStatus.DESTROYING,
        InstanceStatus.DESTROYED: ComponentStatus.DESTROYED,
    }[status]


class _Rules:
    """The rules, applied to the components of one instance."""

    def __init__(self, parts: Mapping[str, Part], run: Run | None, status: InstanceStatus, *, is_asleep: bool) -> None:
        self._parts = parts
        self._run = run
        self._status = status
        self._up = ComponentState(ComponentStatus.SLEEPING if is_asleep else ComponentStatus.RUNNING)
        self._found: dict[str, ComponentState] = {}

    def states(self) -> dict[str, ComponentState]:
        for path in self._parts:
            self._find(path)
        return {path: self._found[path] for path in self._parts}

    def _find(self, wanted: str) -> None:
        """Find the state of a component, after those that it needs."""
        open_paths = [wanted]
        entered: set[str] = set()
        while open_paths:
            path = open_paths[-1]
            missing = [each for each in self._parts[path].needs if each in self._parts and each not in self._found]
            if path in entered or not missing:
                open_paths.pop()
                self._found.setdefault(path, self._state(self._parts[path]))
            else:
                entered.add(path)
                open_paths += missing

    def _state(self, part: Part) -> ComponentState:
        if self._status is InstanceStatus.DESTROYED:
            return ComponentState(ComponentStatus.DESTROYED)
        if part.behind is not None:
            return ComponentState(part.behind)
        run = self._run
        if run is None:
            return self._without_run(part)
        if part.has_failed or part.steps:
            return self._in_run(part, run)
        launches = run.name in {_LAUNCH, _RECONFIGURE} and run.is_started and not run.is_over
        if launches and part.is_declared and all(self._is_up(each) for each in part.needs):
            return self._up  # it has nothing to do: it is launched as soon as what it needs is there
        return self._without_run(part)

    def _is_up(self, path: str) -> bool:
        found = self._found.get(path)
        return found is None or found.status in {ComponentStatus.RUNNING, ComponentStatus.DEGRADED}

    def _without_run(self, part: Part) -> ComponentState:
        return self._up if part.is_launched else ComponentState(ComponentStatus.NOT_STARTED)

    def _in_run(self, part: Part, run: Run) -> ComponentState:
        outcomes = {
            workflow: outcome([step.state for step in steps], is_over=run.is_over)
            for workflow, steps in part.steps.items()
            if steps
        }
        if part.has_failed or Outcome.FAILED in outcomes.values():
            return ComponentState(ComponentStatus.FAILED, _name(part, StepState.FAILED))
        for result, state in (
            (Outcome.INTERRUPTED, StepState.INTERRUPTED),
            (Outcome.NEEDS_APPROVAL, StepState.ASKS),
            (Outcome.IN_PROGRESS, StepState.RUNS),
        ):
            for workflow, each in outcomes.items():
                if each is result:
                    return self._under_way(part, run, workflow, result, state)
        if _LAUNCH in outcomes and outcomes[_LAUNCH] in {Outcome.SUCCEEDED, Outcome.SKIPPED}:
            return ComponentState(ComponentStatus.RUNNING)
        if outcomes.get(_DESTROY) in {Outcome.SUCCEEDED, Outcome.SKIPPED}:
            if run.name == _DESTROY or not part.is_declared:
                return ComponentState(ComponentStatus.DESTROYED)
            if not run.is_over:  # a reconfiguration starts it again
                return ComponentState(ComponentStatus.IN_PROGRESS)
        return self._without_run(part)

    @staticmethod
    def _under_way(part: Part, run: Run, workflow: str, result: Outcome, state: StepState) -> ComponentState:
        name = _name(part, state)
        if result is Outcome.INTERRUPTED:
            return ComponentState(ComponentStatus.INTERRUPTED, name)
        if result is Outcome.NEEDS_APPROVAL:
            return ComponentState(ComponentStatus.NEEDS_APPROVAL, name)
        ends = workflow == _DESTROY and (run.name == _DESTROY or not part.is_declared)
        steps = part.steps[workflow]
        # A step whose failure is ignored is finished.
        percent = sum(100 if step.state is StepState.IGNORED else step.percent for step in steps) // len(steps)
        return ComponentState(ComponentStatus.DESTROYING if ends else ComponentStatus.IN_PROGRESS, name, percent)


def _name(part: Part, state: StepState) -> str | None:
    return next((step.name for steps in part.steps.values() for step in steps if step.state is state), None)


class ComponentCounts(NamedTuple):
    """How many components of an instance do what; the others add up to `total`."""

    total: int
    running: int
    failed: int
    busy: int
    waiting: int = 0
    sleeping: int = 0
    interrupted: int = 0
    destroyed: int = 0
    not_started: int = 0

    def summary(self) -> str:
        """Return one phrase such as `6 of 9 components running, 1 failed`."""
        parts = [f"{self.running} of {self.total} components running"]
        for number, words in (
            (self.failed, "failed"),
            (self.busy, "in progress"),
            (self.waiting, "waiting for approval"),
            (self.interrupted, "interrupted"),
            (self.sleeping, "sleeping"),
            (self.destroyed, "destroyed"),
        ):
            parts += [f"{number} {words}"] if number else []
        return ", ".join(parts)


def counted(statuses: Iterable[ComponentStatus]) -> ComponentCounts:
    """Return how many components do what. Those whose instance is degraded run."""
    found = Counter(statuses)
    status = ComponentStatus
    return ComponentCounts(
        total=found.total(),
        running=found[status.RUNNING] + found[status.DEGRADED],
        failed=found[status.FAILED],
        busy=found[status.IN_PROGRESS] + found[status.DESTROYING],
        waiting=found[status.NEEDS_APPROVAL],
        sleeping=found[status.SLEEPING],
        interrupted=found[status.INTERRUPTED],
        destroyed=found[status.DESTROYED],
        not_started=found[status.NOT_STARTED],
    )
