"""Jobs and steps: their statuses and the tables that move between them (reference §3, api-decisions "States")."""

from enum import StrEnum


class JobStatus(StrEnum):
    """Status of one run of a workflow."""

    EXECUTING = "Executing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class StepStatus(StrEnum):
    """Status of one step; a step that a crash interrupted stays Executing and starts again."""

    REQUESTED = "Requested"
    EXECUTING = "Executing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ImpossibleStepMove(ValueError):
    """A step cannot go from one status to the other; reaching it is a defect of the caller."""


_STEP_MOVES: dict[StepStatus, frozenset[StepStatus]] = {
    StepStatus.REQUESTED: frozenset({StepStatus.EXECUTING}),
    StepStatus.EXECUTING: frozenset({StepStatus.EXECUTING, StepStatus.SUCCEEDED, StepStatus.FAILED}),
    StepStatus.SUCCEEDED: frozenset(),
    StepStatus.FAILED: frozenset(),
}


def move_step(status: StepStatus, to: StepStatus) -> StepStatus:
    """Return `to` if a step may go there from `status`. Raises ImpossibleStepMove otherwise."""
    if to not in _STEP_MOVES[status]:
        raise ImpossibleStepMove(f"A step that is {status} cannot become {to}.")
    return to


def raise_percent(shown: int, reported: int) -> int:
    """Return the percentage to show next: 0 to 100, and it never falls (promise 6)."""
    return max(shown, min(100, max(0, reported)))
