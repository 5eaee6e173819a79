"""What the runtime asks of the journal of a job. The engine keeps it in PostgreSQL; a test may keep it in memory.

Records are keyed by the step's path in the plan, never by order (architecture, "The path of one launch"). What is
recorded as done stays done: a step with a final record never runs again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from launchbay.model.job import StepStatus


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What an earlier claim of the job, or this one, has recorded of a step with an effect."""

    status: StepStatus
    attempt: int
    started_at: datetime
    outputs: Mapping[str, Any] | None = None
    error: str | None = None


class Journal(Protocol):
    """The records of one job, written only while this worker holds the job (Fenced otherwise)."""

    def find(self, path: str) -> StepRecord | None:
        """Return what is recorded of a step with an effect, or None."""
        ...

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Record that an attempt begins. Returns when this, and all that was noted before, is durable."""
        ...

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Record success with its outputs. It is durable before the next `start` returns, and before the job ends."""
        ...

    def fail(self, path: str, error: str) -> None:
        """Record that the step failed for good; durable as `succeed` is."""
        ...

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Show the status of a step that has no effect of its own; it is recomputed after a crash."""
        ...

    def progress(self, path: str, percent: int) -> None:
        """Show a percentage soon; a lower one than before changes nothing."""
        ...

    def log(self, path: str | None, level: str, text: str) -> None:
        """Add a line to the instance's log soon; None is the job itself."""
        ...
