"""How long to wait between attempts of anything that is retried or polled."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count


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
