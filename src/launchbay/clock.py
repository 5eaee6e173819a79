"""Where the time comes from; tests put another clock in its place."""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for what people see, monotonic time for what is measured."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never steps."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        """Return the wall-clock time, in UTC."""
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        """Return seconds on a clock that never steps."""
        return time.monotonic()


def to_ms(value: datetime) -> int:
    """Return milliseconds since the Unix epoch, the unit of every time in the API."""
    return round(value.timestamp() * 1000)


def from_ms(milliseconds: int) -> datetime:
    """Return the UTC moment for milliseconds since the Unix epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
