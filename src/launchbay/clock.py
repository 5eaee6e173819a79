"""The source of time; tests replace it with another clock."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for display, monotonic time for measuring."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return monotonic time in seconds."""
        ...


class SystemClock:
    """The clocks of the operating system."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return monotonic time in seconds."""
        return time.monotonic()


def to_ms(value: datetime) -> int:
    """Return milliseconds since the Unix epoch, the unit of every time in the API."""
    return round(value.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    """Return the UTC time of milliseconds since the Unix epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
