"""Output of commands in a step's log while they run: line by line, and no more of it than a log may hold."""

from collections.abc import Callable
from typing import Literal

from launchbay import limits
from launchbay.clock import Clock
from launchbay.model.machine import Sink

_STDERR = "stderr"


class LiveLog:
    """One for a step, whatever number of machines it works on. What is left out is counted, and told by `end`.

    A burst of lines passes; who goes on and on writes so many lines a second. After so many lines or bytes in all,
    nothing more is written.
    """

    def __init__(self, log: Callable[[Literal["info"], str], None], clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._room = float(limits.STEP_LOG_LINES_AT_ONCE)
        self._looked_at_s = clock.monotonic_s()
        self._lines_left = limits.STEP_LOG_LINES
        self._bytes_left = limits.STEP_LOG_BYTES
        self._left_out = 0
        self._is_full = False

    def of(self, host: str) -> Sink:
        """Return what takes the output of a command on this host."""

        def take(stream: str, line: str) -> None:
            self.write(f"[{host}{' stderr' if stream == _STDERR else ''}] {line}")

        return take

    def end(self) -> None:
        """Tell how many lines are left out since the last one that was written."""
        if self._left_out:
            count = "one line" if self._left_out == 1 else f"{self._left_out} lines"
            self._log("info", f"({count} of output left out of this log)")
            self._left_out = 0

    def write(self, line: str) -> None:
        """Write a line, if there is room for it."""
        now_s = self._clock.monotonic_s()
        passed_s, self._looked_at_s = now_s - self._looked_at_s, now_s
        self._room = min(limits.STEP_LOG_LINES_AT_ONCE, self._room + passed_s * limits.STEP_LOG_LINES_PER_S)
        self._is_full = self._is_full or self._lines_left < 1 or self._bytes_left < len(line)
        if self._is_full or self._room < 1:
            self._left_out += 1
            return
        self.end()
        self._room -= 1
        self._lines_left -= 1
        self._bytes_left -= len(line)
        self._log("info", line)
