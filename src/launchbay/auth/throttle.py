"""Slows repeated wrong attempts down, then blocks them; only time, success and memory bounds let them continue.

Counted per account *and* address, so that nobody far away can lock the owner out, and more generously per address
alone, against one machine that tries many accounts. Pure but for the clock.
"""

import math
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network

from launchbay.clock import Backoff, Clock
from launchbay.errors import TooManyRequests
from launchbay.limits import THROTTLED_KEYS

_ADDRESSES_PARSED = 4096  # each request asks for its own, and most come from few


@dataclass(frozen=True, slots=True)
class BackoffRule:
    """After `free` attempts in a row, each next one waits twice as long as the one before, up to `longest_s`."""

    free_attempts: int
    first_s: float
    longest_s: float
    # Silence after which a key starts afresh; longer than the longest wait, else a block would earn free attempts.
    reset_after_s: float

    def wait_s(self, attempts: int) -> float:
        beyond = attempts - self.free_attempts
        return 0.0 if beyond < 0 else Backoff(self.first_s, self.longest_s).delay_s(beyond + 1)


PER_ACCOUNT_AND_ADDRESS = BackoffRule(free_attempts=5, first_s=1.0, longest_s=900.0, reset_after_s=3600.0)
PER_ADDRESS = BackoffRule(free_attempts=100, first_s=1.0, longest_s=60.0, reset_after_s=3600.0)


@dataclass(slots=True)
class _Attempts:
    count: int
    last_s: float
    next_s: float


class Throttle:
    """Counts attempts by key under one rule. An attempt counts as wrong until it is said to have been right.

    So attempts sent at the same moment do not slip through before the first of them is known to be wrong.
    """

    def __init__(self, rule: BackoffRule, clock: Clock, capacity: int = THROTTLED_KEYS) -> None:
        self._rule = rule
        self._clock = clock
        self._capacity = capacity
        self._attempts: OrderedDict[bytes, _Attempts] = OrderedDict()

    def resets_in_s(self, key: bytes) -> float:
        """Return the seconds until the key may try again; 0 when it may now."""
        attempts = self._attempts.get(key)
        return 0.0 if attempts is None else max(0.0, attempts.next_s - self._clock.monotonic_s())

    def begin(self, key: bytes) -> None:
        now = self._clock.monotonic_s()
        attempts = self._attempts.get(key)
        if attempts is None or now - attempts.last_s > self._rule.reset_after_s:
            attempts = self._attempts[key] = _Attempts(0, now, now)
        attempts.count += 1
        attempts.last_s = now
        attempts.next_s = now + self._rule.wait_s(attempts.count)
        self._attempts.move_to_end(key)
        while len(self._attempts) > self._capacity:
            self._attempts.popitem(last=False)

    def withdraw(self, key: bytes) -> None:
        """Take back one attempt that turned out not to be wrong."""
        attempts = self._attempts.get(key)
        if attempts is None:
            return
        attempts.count -= 1
        attempts.next_s = min(attempts.next_s, attempts.last_s + self._rule.wait_s(attempts.count))
        if attempts.count <= 0:
            del self._attempts[key]

    def clear(self, key: bytes) -> None:
        """Forget the key: it has proved to be the owner."""
        self._attempts.pop(key, None)

    def __len__(self) -> int:
        return len(self._attempts)


class AddressThrottle:
    """The rule per address alone, for secrets that name no account, such as refresh tokens."""

    def __init__(self, clock: Clock, capacity: int = THROTTLED_KEYS) -> None:
        self._addresses = Throttle(PER_ADDRESS, clock, capacity)

    def begin(self, address: str) -> None:
        """Count an attempt as wrong for now. Raises TooManyRequests when the address must wait."""
        machine = _digest(address_block(address))
        _refuse_early_attempt(self._addresses.resets_in_s(machine))
        self._addresses.begin(machine)

    def withdraw(self, address: str) -> None:
        """Take the attempt back: it was right, or could not be decided."""
        self._addresses.withdraw(_digest(address_block(address)))


class SignInThrottle:
    """The two rules together, for attempts to sign in to an account from an address."""

    def __init__(self, clock: Clock, capacity: int = THROTTLED_KEYS) -> None:
        self._pairs = Throttle(PER_ACCOUNT_AND_ADDRESS, clock, capacity)
        self._addresses = Throttle(PER_ADDRESS, clock, capacity)

    def begin(self, account: str, address: str) -> None:
        """Count an attempt as wrong for now. Raises TooManyRequests when account and address must wait."""
        pair, machine = _keys(account, address)
        _refuse_early_attempt(max(self._pairs.resets_in_s(pair), self._addresses.resets_in_s(machine)))
        self._pairs.begin(pair)
        self._addresses.begin(machine)

    def succeeded(self, account: str, address: str) -> None:
        """The credentials were right: the account's count at this address ends, and this attempt is taken back."""
        pair, machine = _keys(account, address)
        self._pairs.clear(pair)
        self._addresses.withdraw(machine)

    def undecided(self, account: str, address: str) -> None:
        """The attempt could not be decided (the database was away): it is taken back."""
        pair, machine = _keys(account, address)
        self._pairs.withdraw(pair)
        self._addresses.withdraw(machine)


@lru_cache(maxsize=_ADDRESSES_PARSED)
def address_block(address: str) -> str:
    """Return what counts as one address: an IPv4 address, or the /64 network that one IPv6 host may choose from."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
    return str(parsed)


def _refuse_early_attempt(wait_s: float) -> None:
    if wait_s > 0:
        seconds = math.ceil(wait_s)
        raise TooManyRequests("Too many wrong attempts.", f"Try again in {seconds} s.", retry_after_s=seconds)


def _keys(account: str, address: str) -> tuple[bytes, bytes]:
    """Return keys of a fixed size, so that a long email address costs no memory."""
    block = address_block(address)
    return _digest(f"{block}\0{account}"), _digest(block)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# Token buckets: so many requests a second on the whole, more of them in a burst. Pure but for the clock.
#
# A bucket that has been left alone long enough to be full again is the same as none, so forgetting the one that was
# used least recently is harmless, unless there are more busy keys than the capacity.


class TokenBuckets:
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
        return len(self._full_at_s)


class RateLimits:
    """What one address and one user may ask for. Counted before anything that costs is done for them."""

    def __init__(self, clock: Clock, *, address_per_s: float, user_per_s: float, burst_s: float) -> None:
        """Take requests a second, 0 for no limit, and how many seconds' worth of them may come at once."""
        self._addresses = TokenBuckets(address_per_s, address_per_s * burst_s, clock)
        self._users = TokenBuckets(user_per_s, user_per_s * burst_s, clock)

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
