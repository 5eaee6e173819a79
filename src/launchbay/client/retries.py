"""When a call is tried again."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long apart. What the server says in `Retry-After` counts, up to `longest_wait_s`.

    Without an answer, or with 503, only what may be repeated is: reads, PUT, DELETE, and POST with `Idempotency-Key`.
    A 429, and a connection that did not come about, are tried again in any case: the server has done nothing.
    """

    attempts: int = 5
    first_pause_s: float = 0.2
    longest_pause_s: float = 5.0
    longest_wait_s: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError(f"attempts is {self.attempts}; a call is made at least once")

    def pause_s(self, attempt: int, asked_s: float | None) -> float | None:
        """Return how long to wait after attempt number `attempt`, 1 for the first; None to give up."""
        if attempt >= self.attempts or (asked_s is not None and asked_s > self.longest_wait_s):
            return None
        if asked_s is not None:
            return asked_s
        return min(self.first_pause_s * 2.0 ** (attempt - 1), self.longest_pause_s) * random.uniform(0.75, 1.25)
