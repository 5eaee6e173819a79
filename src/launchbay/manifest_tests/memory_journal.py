"""The journal of a job that no crash interrupts: it shows what happens, and remembers nothing."""

from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from launchbay.model.job import StepStatus
from launchbay.runtime.contract import StepRecord

Tell = Callable[[str, str], None]  # a level and a line


class MemoryJournal:
    """Implements `runtime.journal.Journal` for the one claim of a job. Lines of its log go to `tell`."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell

    def find(self, path: str) -> StepRecord | None:  # noqa: ARG002 - the contract's; there are no earlier claims
        """Return None."""
        return None

    def traces(self) -> Collection[str]:
        """Return none."""
        return ()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        """Have nothing to write."""

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        """Have nothing to write."""

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        """Have nothing to write: the failure comes to the instance's error message."""

    def note(self, path: str, name: str, status: StepStatus) -> None:
        """Have nothing to show."""

    def progress(self, path: str, percent: int) -> None:
        """Have nothing to show."""

    def log(self, path: str | None, level: str, text: str) -> None:
        """Pass a line on."""
        self._tell(level, text if path is None else f"{path}: {text}")
