"""Bounds of wrong sign-ins and of requests.

All servers share the count of wrong sign-ins, and the processes of a server the count of requests.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address, ip_network

import structlog

from launchbay.auth.audit import Audit
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.errors import TooManyRequests
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.limits import THROTTLED_KEYS
from launchbay.store import wrong_sign_ins
from launchbay.store.database import Database

_log = structlog.get_logger("launchbay.security")
_ADDRESSES_PARSED = 4096  # each request asks for its own, and most come from few


@dataclass(frozen=True, slots=True)
class LeakyBucket:
    """Holds `capacity` wrong attempts, and forgets one every `leak_s` seconds. A full one blocks."""

    capacity: int
    leak_s: float

    def wait_s(self, level: float) -> float:
        """Return the seconds until there is room for one attempt more."""
        return max(0.0, (level + 1 - self.capacity) * self.leak_s)


# People make fewer than ten distinct errors. One a minute afterwards is 1,440 guesses a day, too few to find a
# password, and nobody waits longer than a minute.
PER_ACCOUNT = LeakyBucket(capacity=10, leak_s=60.0)
# An office behind one address may err a hundred times at once. Right passwords get through when this one is full.
PER_ADDRESS = LeakyBucket(capacity=100, leak_s=6.0)
REPEATED_S = 3600.0  # so long a password that was wrong counts only once
_PURPOSE = "wrong sign-in"
_READS = 5  # of the counts for one attempt, while others end; verifying takes far longer than reading


@dataclass(slots=True)
class Attempt:
    """An attempt to sign in. `yields`: whether others are verified first."""

    account_key: str
    address_key: str
    hash: str
    address: str
    is_own: bool  # the bucket of this address alone counts, because the account was signed in from here
    is_repeated: bool
    address_wait_s: float

    @property
    def yields(self) -> bool:
        return self.is_repeated or self.address_wait_s > 0


class SignInThrottle:
    """Counts wrong attempts to sign in, per account and per address.

    A full bucket of an account refuses every attempt. Where the account has a session, or had one in this process, a
    bucket of account and address counts instead: nobody far away locks the owner out. A full bucket of an address only
    refuses what is wrong: a right password isn't refused because of other accounts there. Right passwords write
    nothing.
    """

    def __init__(self, database: Database, secret: SecretKey, capacity: int = THROTTLED_KEYS) -> None:
        self._database = database
        self._secret = secret
        self._audit = Audit(secret)
        self._capacity = capacity
        # Attempts whose outcome isn't known yet count as wrong, so that many at once don't slip through.
        self._in_flight: Counter[str] = Counter()
        # What ended while the counts were read may be in neither of them: for each reader, the keys of such attempts.
        self._readers: dict[int, Counter[str]] = {}
        self._succeeded: OrderedDict[str, None] = OrderedDict()  # pairs of account and address

    @asynccontextmanager
    async def attempt(self, account: str, password: str, address: str) -> AsyncIterator[Attempt]:
        """Admit an attempt. Raises TooManyRequests if the account is blocked, Unavailable."""
        block = address_block(address)
        account_key, pair_key = self._key("account", account), self._key("pair", account, block)
        address_key = self._key("address", block)
        hash_ = self._key("password", account, password)
        ended: Counter[str] = Counter()
        self._readers[id(ended)] = ended
        try:
            for _ in range(_READS):
                ended.clear()
                async with self._database.connection() as connection:
                    row = await wrong_sign_ins.read_attempt(
                        connection,
                        account_key=account_key,
                        pair_key=pair_key,
                        address_key=address_key,
                        account=account,
                        address=address,
                        hash=hash_,
                        life_s=REPEATED_S,
                    )
                if not any(ended[key] for key in (account_key, pair_key, address_key)):
                    break
        finally:
            del self._readers[id(ended)]
        assert row is not None, "the aggregate is one row"
        is_own = row.is_known or pair_key in self._succeeded
        key, level = (pair_key, row.pair) if is_own else (account_key, row.account)
        _refuse_early_attempt(PER_ACCOUNT.wait_s(level + self._in_flight[key] + ended[key]))
        wait_s = PER_ADDRESS.wait_s(row.address + self._in_flight[address_key] + ended[address_key])
        self._in_flight.update((key, address_key))
        try:
            yield Attempt(key, address_key, hash_, address, is_own, row.is_repeated, wait_s)
        finally:
            for each in (key, address_key):
                self._in_flight[each] -= 1
                if not self._in_flight[each]:
                    del self._in_flight[each]
            for each_ended in self._readers.values():
                each_ended.update((key, address_key))

    async def failed(self, attempt: Attempt, account: Actor | None) -> None:
        """Count a wrong password. Raises TooManyRequests after too many at the address.

        `account` is the existing account, or None. Both do the same statements and take as long.
        """
        if attempt.is_repeated:
            return
        async with self._database.transaction() as connection:
            levels = await wrong_sign_ins.add(
                connection,
                hash=attempt.hash,
                life_s=REPEATED_S,
                user_id=None if account is None else account.user_id,
                keys=[attempt.account_key, attempt.address_key],
                are_accounts=[True, False],
                capacities=[PER_ACCOUNT.capacity, PER_ADDRESS.capacity],
                leaks_s=[PER_ACCOUNT.leak_s, PER_ADDRESS.leak_s],
            )
            if any(row.is_newly_full for row in levels if row.key == attempt.account_key):
                _log.warning("security_event.reported", kind="sign-in blocked", address=attempt.address)
                actor = account or Actor("", "", "", attempt.address, Method.BASIC)
                after = {"onlyThisAddress": attempt.is_own}
                await self._audit.record_for_home(
                    connection, actor, "block_sign_in", f"/users/{actor.user_id}", after=after
                )
        _refuse_early_attempt(attempt.address_wait_s)

    def succeeded(self, account: str, address: str) -> None:
        """Remember that the account was signed in from here."""
        pair_key = self._key("pair", account, address_block(address))
        self._succeeded[pair_key] = None
        self._succeeded.move_to_end(pair_key)
        while len(self._succeeded) > self._capacity:
            self._succeeded.popitem(last=False)

    async def wrong_token(self, token: str, address: str) -> None:
        """Count a wrong token. Raises TooManyRequests after too many at the address."""
        address_key, hash_ = self._key("address", address_block(address)), self._key("token", token)
        async with self._database.connection() as connection:
            levels = await wrong_sign_ins.add(
                connection,
                hash=hash_,
                life_s=REPEATED_S,
                user_id=None,
                keys=[address_key],
                are_accounts=[False],
                capacities=[PER_ADDRESS.capacity],
                leaks_s=[PER_ADDRESS.leak_s],
            )
        if levels:
            _refuse_early_attempt(PER_ADDRESS.wait_s(levels[0].level))

    def _key(self, *parts: str) -> str:
        return self._secret.fingerprint("\0".join(parts).encode("utf-8", "surrogatepass"), _PURPOSE)


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


# Token buckets: so many requests a second on the whole, more of them in a burst. Pure but for the clock.


class TokenBuckets:
    """A bucket for each key, filled with `per_s` tokens a second up to `burst`.

    With 0 a second, nothing is limited.
    """

    def __init__(self, per_s: float, burst: float, clock: Clock, counts: SharedCounts, purpose: str = "") -> None:
        """Keep the buckets in `counts`, apart from those of other purposes."""
        assert per_s >= 0
        self._per_s = per_s
        self._burst = max(1.0, burst)
        self._clock = clock
        self._counts = counts
        self._purpose = purpose

    def take(self, key: str) -> float:
        """Take a token; return 0, or without taking one the seconds until there is one."""
        if not self._per_s:
            return 0.0
        now = self._clock.monotonic_s()
        # The time at which the bucket will be full again: one number is all that it needs.
        key = f"{self._purpose} {key}"
        full_at = max(now, self._counts.level(key)) + 1 / self._per_s
        excess_s = full_at - now - self._burst / self._per_s
        if excess_s > 1e-9:
            return excess_s
        self._counts.raise_level(key, full_at)
        return 0.0


class RateLimits:
    """What one address and one user may ask for. Counted before anything that costs is done for them."""

    def __init__(
        self, clock: Clock, counts: SharedCounts, *, address_per_s: float, user_per_s: float, burst_s: float
    ) -> None:
        """Take requests a second, 0 for no limit, and how many seconds' worth of them may come at once."""
        self._addresses = TokenBuckets(address_per_s, address_per_s * burst_s, clock, counts, "requests of address")
        self._users = TokenBuckets(user_per_s, user_per_s * burst_s, clock, counts, "requests of user")

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
