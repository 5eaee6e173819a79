"""How much one step, and one job, may write into the log: what goes on and on fills no database (promise 11)."""

from collections import defaultdict
from dataclasses import dataclass, field

from launchbay import limits

FULL = "The {what} has written as much log as is kept ({lines} lines or {size} characters); further lines are left out."
_LAST_WORDS = 100  # errors beyond the bound: why it ended is worth a line, a thousand times is not


@dataclass(slots=True)
class _Written:
    lines: int = 0
    size: int = 0
    errors: int = 0
    is_told: bool = False


@dataclass(slots=True)
class LogBounds:
    """Counts what one claim of a job writes."""

    _job: _Written = field(default_factory=_Written)
    _steps: defaultdict[str | None, _Written] = field(default_factory=lambda: defaultdict(_Written))

    def admitted(self, path: str | None, level: str, text: str) -> tuple[str, str] | None:
        """Return level and text of the line that may be written for this one, None for none."""
        bounds = (
            ("job", self._job, limits.LOG_JOB_LINES, limits.LOG_JOB_CHARS),
            ("step", self._steps[path], limits.LOG_STEP_LINES, limits.LOG_STEP_CHARS),
        )
        for what, written, lines, size in bounds:
            if written.lines < lines and written.size < size:
                continue
            if level == "error" and written.errors < _LAST_WORDS:
                written.errors += 1
            elif written.is_told:
                return None
            else:
                written.is_told = True
                return "warning", FULL.format(what=what, lines=lines, size=size)
        for _, written, _, _ in bounds:
            written.lines += 1
            written.size += len(text)
        return level, text
