"""Basic authentication: e-mail and password, verified once and then kept in memory for minutes."""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from launchbay.access.actor import Actor, Method
from launchbay.access.authorization import BasicCredentials
from launchbay.access.passwords import Passwords
from launchbay.access.throttle import SignInThrottle
from launchbay.clock import Clock
from launchbay.errors import NotAuthenticated
from launchbay.limits import VERIFIED_CREDENTIALS, VERIFIED_CREDENTIALS_S
from launchbay.store import users
from launchbay.store.database import Database


@dataclass(frozen=True, slots=True)
class _Verified:
    user_id: str
    email: str
    name: str
    stamp: int
    until_s: float


class BasicAuthentication:
    """Verifies Basic credentials.

    What was verified is kept under a keyed hash with a key of this process, so that memory holds nothing that can be
    tried offline. Whether it still holds is not asked here but by the lookup, which compares the stamp (`Actor.stamp`)
    and calls `forget`. Sending the same credentials many times at once costs one verification.
    """

    def __init__(self, database: Database, passwords: Passwords, throttle: SignInThrottle, clock: Clock) -> None:
        self._database = database
        self._passwords = passwords
        self._throttle = throttle
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()
        self._under_way: dict[tuple[bytes, str], asyncio.Task[_Verified]] = {}

    async def authenticate(self, credentials: BasicCredentials, address: str) -> Actor:
        """Return the caller. Raises NotAuthenticated, TooManyRequests after wrong attempts, Unavailable."""
        key = self._key_of(credentials)
        verified = self._verified.get(key)
        if verified is None or verified.until_s <= self._clock.monotonic_s():
            verified = await self._once((key, address), self._verify(key, credentials, address))
        return Actor(verified.user_id, verified.email, verified.name, address, Method.BASIC, verified.stamp)

    def forget(self, user_id: str) -> None:
        """Drop what was verified for this user."""
        for key in [key for key, verified in self._verified.items() if verified.user_id == user_id]:
            del self._verified[key]

    async def _once(self, key: tuple[bytes, str], verification: Coroutine[Any, Any, _Verified]) -> _Verified:
        """Run the verification, or wait for the same one that is under way; a client that goes away ends none."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(verification)
            task.add_done_callback(lambda done: self._end(key, done))
        else:
            verification.close()
        return await asyncio.shield(task)

    def _end(self, key: tuple[bytes, str], done: "asyncio.Task[_Verified]") -> None:
        del self._under_way[key]
        if not done.cancelled():
            done.exception()  # asyncio complains about an error that nobody reads, as when every client has gone away

    async def _verify(self, key: bytes, credentials: BasicCredentials, address: str) -> _Verified:
        account = credentials.email
        self._throttle.begin(account, address)
        try:
            verified = await self._verified_now(credentials)
        except NotAuthenticated:
            raise
        except BaseException:
            self._throttle.undecided(account, address)
            raise
        self._throttle.succeeded(account, address)
        self._verified[key] = verified
        self._verified.move_to_end(key)
        while len(self._verified) > VERIFIED_CREDENTIALS:
            self._verified.popitem(last=False)
        return verified

    async def _verified_now(self, credentials: BasicCredentials) -> _Verified:
        async with self._database.connection() as connection:
            row = await users.credentials(connection, email=credentials.email)
        # The connection is back in the pool while the password is verified, and everybody is: known, disabled or not.
        stored = row.password_hash if row is not None and row.enabled else None
        matches = await self._passwords.verify(stored, credentials.password)
        if row is None or stored is None or not matches:
            raise NotAuthenticated("The e-mail address or the password is wrong.", "Check both and try again.")
        if self._passwords.outdated(stored):
            renewed = await self._passwords.hash(credentials.password)
            async with self._database.connection() as connection:
                await users.renew_hash(connection, id=row.id, password_hash=renewed, old_hash=stored)
        until_s = self._clock.monotonic_s() + VERIFIED_CREDENTIALS_S
        return _Verified(row.id, row.email, row.name, row.access_stamp, until_s)

    def _key_of(self, credentials: BasicCredentials) -> bytes:
        text = f"{credentials.email}\0{credentials.password}"
        return blake2b(text.encode("utf-8"), key=self._key, digest_size=32).digest()
