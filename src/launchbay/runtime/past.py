"""A journal for the repetition of work that is over: it tells what was, and nothing begins."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from launchbay.errors import WorkflowFailed
from launchbay.model.job import StepStatus
from launchbay.runtime.journal import Journal, StepRecord


class PastJournal:
    """Implements `runtime.journal.Journal` over the journal of a job that goes on meanwhile."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def find(self, path: str) -> StepRecord | None:
        """Return what earlier claims left of a step, or None."""
        return self._journal.find(path)

    def traces(self) -> Collection[str]:
        """Return the paths of all steps that earlier claims left something of."""
        return self._journal.traces()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:  # noqa: ARG002 - the contract's
        """Refuse the beginning of an attempt."""
        raise WorkflowFailed("the call was broken off.")

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Take no note: a step that was not started does not come here."""

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Take no note: the first run has."""

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Take no note: the first run has."""

    def progress(self, path: str, percent: int) -> None:
        """Take no note."""

    def log(self, path: str | None, level: str, text: str) -> None:
        """Take no note: the first run has said it."""
