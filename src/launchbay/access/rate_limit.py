"""Token buckets: so many requests a second on the whole, more of them in a burst. Pure but for the clock.

A bucket that has been left alone long enough to be full again is the same as none, so forgetting the one that was used
least recently is harmless, unless there are more busy keys than the capacity.
"""

import math
from collections import OrderedDict

from launchbay.access.throttle import address_block
from launchbay.clock import Clock
from launchbay.errors import TooManyRequests
from launchbay.limits import THROTTLED_KEYS


class Buckets:
    """A bucket for each key, filled with `per_s` tokens a second up to `burst`; with 0 a second nothing is limited."""

    def __init__(self, per_s: float, burst: float, clock: Clock, capacity: int = THROTTLED_KEYS) -> None:
        assert per_s >= 0
        self._per_s = per_s
        self._burst = max(1.0, burst)
        self._clock = clock
        self._capacity = capacity
        # By key: the time at which the bucket will be full again. One number is all that a bucket needs.
        self._full_at_s: OrderedDict[str, float] = OrderedDict()

    def take(self, key: str) -> float:
        """Take a token; return 0, or without taking one the seconds until there is one."""
        if not self._per_s:
            return 0.0
        now = self._clock.monotonic_s()
        full_at = max(now, self._full_at_s.get(key, now)) + 1 / self._per_s
        excess_s = full_at - now - self._burst / self._per_s
        if excess_s > 1e-9:
            return excess_s
        self._full_at_s[key] = full_at
        self._full_at_s.move_to_end(key)
        while len(self._full_at_s) > self._capacity:
            self._full_at_s.popitem(last=False)
        return 0.0

    def __len__(self) -> int:
        """Return how many keys are remembered."""
        return len(self._full_at_s)


class RateLimits:
    """What one address and one user may ask for. Counted before anything that costs is done for them."""

    def __init__(self, clock: Clock, *, address_per_s: float, user_per_s: float, burst_s: float) -> None:
        """Take requests a second, 0 for no limit, and how many seconds' worth of them may come at once."""
        self._addresses = Buckets(address_per_s, address_per_s * burst_s, clock)
        self._users = Buckets(user_per_s, user_per_s * burst_s, clock)

    def count_address(self, address: str) -> None:
        """Count a request of an address. Raises TooManyRequests."""
        _refuse(self._addresses.take(address_block(address)), "this address")

    def count_user(self, user_id: str) -> None:
        """Count a request of a user, from wherever it comes. Raises TooManyRequests."""
        _refuse(self._users.take(user_id), "this account")


def _refuse(wait_s: float, whose: str) -> None:
    if wait_s > 0:
        seconds = math.ceil(wait_s)
        raise TooManyRequests(
            f"Too many requests of {whose}.", f"Send fewer, and the next one in {seconds} s.", retry_after_s=seconds
        )
