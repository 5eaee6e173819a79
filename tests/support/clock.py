"""A clock that can be set while a program runs under it: libfaketime, told by a file.

Only the clock that tells the date is set. The one that only measures (CLOCK_MONOTONIC) is the kernel's, as with a real
clock that somebody sets.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path


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
