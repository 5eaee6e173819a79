"""A journal in memory, with the contract of `launchbay.runtime.contract`, that can be cut at any write."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import msgspec

from launchbay.errors import Fenced
from launchbay.model.job import StepStatus, raise_percent
from launchbay.runtime.contract import StepRecord


@dataclass
class Disk:
    """What survives a crash."""

    steps: dict[str, StepRecord] = field(default_factory=dict)
    lines: list[tuple[str | None, str, str]] = field(default_factory=list)
    writes: int = 0

    def texts(self, level: str | None = None) -> list[str]:
        return [text for _, found, text in self.lines if level in (None, found)]


class Crashed(Fenced):
    """The process is dead: it writes nothing any more."""


class MemoryJournal:
    """One claim of a job. `cut_after` lets so many more writes through; the next one is the crash."""

    def __init__(self, disk: Disk, *, cut_after: int | None = None) -> None:
        self._disk = disk
        self._found = dict(disk.steps)
        self._left = cut_after
        self.is_cut = False

    def find(self, path: str) -> StepRecord | None:
        return self._found.get(path)

    def traces(self) -> Collection[str]:
        return self._found.keys()

    async def start(self, path: str, name: str, attempt: int, at: datetime) -> None:
        known = self._disk.steps.get(path)
        percent = 0 if known is None else known.percent
        self._write(path, StepRecord(StepStatus.EXECUTING, attempt, at, percent=percent))

    def succeed(self, path: str, outputs: Mapping[str, Any]) -> None:
        known = self._disk.steps[path]
        kept = msgspec.json.decode(msgspec.json.encode(outputs))
        self._write(path, StepRecord(StepStatus.SUCCEEDED, known.attempt, known.started_at, kept, percent=100))

    def fail(self, path: str, name: str, error: str, attempt: int) -> None:
        known = self._disk.steps.get(path)
        if known is not None and known.status is StepStatus.FAILED:
            return
        at = datetime.now().astimezone() if known is None else known.started_at
        self._write(path, StepRecord(StepStatus.FAILED, attempt, at, error=error))

    def note(self, path: str, name: str, status: StepStatus) -> None:
        known = self._disk.steps.get(path)
        if known is not None and known.status is not StepStatus.EXECUTING:
            return
        if known is None:
            known = StepRecord(status, 1, datetime.now().astimezone())
        self._write(path, StepRecord(status, known.attempt, known.started_at))

    def progress(self, path: str, percent: int) -> None:
        known = self._disk.steps[path]
        self._disk.steps[path] = replace(known, percent=raise_percent(known.percent, percent))

    def log(self, path: str | None, level: str, text: str) -> None:
        self._disk.lines.append((path, level, text))

    def _write(self, path: str, record: StepRecord) -> None:
        if self.is_cut or self._left == 0:
            self.is_cut = True
            raise Crashed("The process was killed.")
        if self._left is not None:
            self._left -= 1
        self._disk.writes += 1
        self._disk.steps[path] = record
