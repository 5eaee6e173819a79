"""The source of time, which tests replace with another clock, and the delays between attempts."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


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
    """Return whole milliseconds since the Unix epoch, as queries count them."""
    return (value - _EPOCH) // _MILLISECOND


def iso_time(value: datetime) -> str:
    """Return a time as `2026-12-24T18:00:00Z`, as sentences have it."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_time_ms(value: datetime) -> str:
    """Return a time as `2026-12-24T18:00:00.000Z`, as data for programs has it."""
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_ms(milliseconds: int) -> datetime:
    """Return the UTC time of milliseconds since the Unix epoch."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays that double from `first_s` up to `longest_s`, in seconds."""

    first_s: float
    longest_s: float

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait after this many failed attempts in a row (1 or more)."""
        return min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 64))  # 2.0 ** 1024 overflows

    def delays(self) -> Iterator[float]:
        """Yield the delays of one series of attempts, without end."""
        return map(self.delay_s, count(1))
