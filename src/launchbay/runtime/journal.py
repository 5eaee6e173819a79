"""What the runtime asks of the journal of a job. The engine keeps it in PostgreSQL; a test may keep it in memory.

Records are keyed by the step's path in the plan, never by order (architecture, "The path of one launch"). What is
recorded as done stays done: a step with a final record never runs again.

Every step leaves a trace, and traces become durable in the order in which they were made, at the latest with the next
`start`. So on recovery a step without one was never followed by anything that has an effect, and what a traced step
waited for is traced too. `runtime/workflow.py` rests on that: it repeats what is traced before it starts anything new.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from launchbay.model.job import StepStatus


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What earlier claims of the job left of a step. `outputs` are there once a step with an effect has succeeded."""

    status: StepStatus
    attempt: int
    started_at: datetime
    outputs: Mapping[str, Any] | None = None
    error: str | None = None
    percent: int = 0


class Journal(Protocol):
    """The records of one job, written only while this worker holds the job (Fenced otherwise)."""

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        ...

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of; none in the job's first claim."""
        ...

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Record that an attempt begins. Returns when this, and all that was noted before, is durable."""
        ...

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success with its outputs. It is durable before the next `start` returns, and before the job ends."""
        ...

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Record that a step of any kind failed for good, in its so-many-th attempt; durable as `succeed` is."""
        ...

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step that has no effect of its own; it is computed again after a crash."""
        ...

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage soon; a lower one than before changes nothing."""
        ...

    def log(self, path: str | None, level: str, text: str) -> None:
        """Add a line to the instance's log soon; None is the job itself."""
        ...
