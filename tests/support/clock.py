"""Clocks that tests set: of a part, of an event loop, and of a program that runs (libfaketime, told by a file).

Of a program, only the clock that tells the date is set. The one that only measures (CLOCK_MONOTONIC) is the kernel's,
as with a real clock that somebody sets.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class HandClock:
    """Both times move only when told to."""

    def __init__(self) -> None:
        self._seconds = 0.0

    def now(self) -> datetime:
        return datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=self._seconds)

    def monotonic_s(self) -> float:
        return 1000.0 + self._seconds

    def advance(self, seconds: float) -> None:
        self._seconds += seconds


class _Leaps(selectors.DefaultSelector):
    """Whoever would wait for something until a time gets that time at once."""

    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "all tasks wait, and none for a time"
            self.now_s += max(0.0, timeout)
        return ready


class _LeapingLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leaps = _Leaps()
        super().__init__(self._leaps)

    def time(self) -> float:
        return self._leaps.now_s


def run_without_waiting(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that waits for nothing outside of the process, with a clock that only moves when all tasks wait.

    Then it moves to the next time that one waits for. However slow the machine is, nothing is late.
    """
    with asyncio.Runner(loop_factory=_LeapingLoop) as runner:
        return runner.run(main)


def without_waiting(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in this way. Its `asyncio.sleep` lets a time pass for all of its tasks, and takes none."""

    @wraps(test)
    def run(*given: P.args, **named: P.kwargs) -> None:
        run_without_waiting(test(*given, **named))

    return run


HOUR_S = 3600
_LIBRARIES = sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))


class SettableClock:
    """The clock of the programs that are started with `environment`. `set` moves it, within a second."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)
        file.chmod(0o644)

    @staticmethod
    def is_there() -> bool:
        """Tell whether libfaketime is installed."""
        return bool(_LIBRARIES)

    @property
    def environment(self) -> dict[str, str]:
        """What makes a program see this clock."""
        return {
            "LD_PRELOAD": str(_LIBRARIES[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def set(self, offset_s: int, speed: float = 1.0) -> None:
        """Put it so many seconds before or behind the real one; from now on it may also be too fast or too slow."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{offset_s:+d}" + (f" x{speed}" if speed != 1.0 else "") + "\n", "ascii")
        new.chmod(0o644)
        new.replace(self._file)
