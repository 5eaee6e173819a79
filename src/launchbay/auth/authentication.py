"""Reads the `Authorization` header, strictly: what is not exactly right is refused (reference §5; RFC 7617, 6750)."""

import asyncio
import binascii
import secrets
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import Any

from launchbay.auth.passwords import Passwords
from launchbay.auth.permissions import Actor, Method
from launchbay.auth.throttle import SignInThrottle
from launchbay.auth.tokens import AccessTokens, SessionTokens, is_access_token
from launchbay.clock import Clock
from launchbay.concurrency import shielded
from launchbay.errors import BadRequest, NotAuthenticated
from launchbay.limits import VERIFIED_CREDENTIALS, VERIFIED_CREDENTIALS_S
from launchbay.model.email_address import canonical_email
from launchbay.store import users
from launchbay.store.database import Database


@dataclass(frozen=True, slots=True)
class BasicCredentials:
    """Email and password as sent; neither is shown by `repr`, so that no log and no traceback has the password."""

    email: str = field(repr=False)
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BearerCredentials:
    """The text of a session token, not yet looked at."""

    token: str = field(repr=False)


def read_authorization(header: str | None) -> BasicCredentials | BearerCredentials:
    """Return the credentials in the header's value; a bearer token wins over Basic.

    Both may be sent, separated by a comma, which is also how two lines of one header read when joined. Raises
    NotAuthenticated if they are missing or malformed, or if a scheme is repeated.
    """
    if header is None or not header.strip():
        raise NotAuthenticated(
            "Credentials are missing.", "Send an email address with a password (Basic), or a token (Bearer)."
        )
    if not header.isascii():
        raise _malformed("the header holds only ASCII characters")
    found: dict[str, str] = {}
    # Neither base64 nor a session token can hold a comma.
    for part in header.split(","):
        scheme, _, credentials = part.strip(" \t").partition(" ")
        if scheme.lower() in found:
            raise _malformed(f"the scheme {scheme[:20]!r} is sent twice")
        found[scheme.lower()] = credentials.strip(" ")
    if "bearer" in found:
        if not found["bearer"]:
            raise _malformed("the bearer token is missing")
        return BearerCredentials(found["bearer"])
    if "basic" in found:
        return _basic(found["basic"])
    raise NotAuthenticated("The authentication scheme is not known.", "Use Basic or Bearer.")


def _basic(encoded: str) -> BasicCredentials:
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
    except binascii.Error as error:
        raise _malformed("Basic credentials are the base64 of <email>:<password>") from error
    try:
        decoded = data.decode()
    except UnicodeDecodeError:
        # RFC 7617 leaves the character set open. Older clients use Latin-1, whose accents are hardly ever UTF-8.
        decoded = data.decode("latin-1")
    if binascii.b2a_base64(data, newline=False).decode() != encoded:
        raise _malformed("the base64 of Basic credentials has more padding than it needs")
    email, colon, password = decoded.partition(":")
    if not colon or not email:
        raise _malformed("Basic credentials are the base64 of <email>:<password>, with a colon between the two")
    if any(character < " " or character == "\x7f" for character in decoded):
        raise _malformed("email and password hold no control characters")
    return BasicCredentials(email, password)


def _malformed(problem: str) -> NotAuthenticated:
    return NotAuthenticated(f"The Authorization header is malformed: {problem}.")


_WRONG = "The email address or the password is wrong."


class SecondFactor(StrEnum):
    """What an account needs in addition to its password."""

    NOT_NEEDED = ""
    HELD = "held"
    MISSING = "missing"  # an organization demands one, and there is none yet


@dataclass(frozen=True, slots=True)
class _Verified:
    user_id: str
    email: str
    name: str
    stamp: int
    until_s: float
    second_factor: SecondFactor


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
        self._in_flight: dict[bytes, asyncio.Task[_Verified]] = {}

    async def authenticate(self, credentials: BasicCredentials, address: str) -> Actor:
        """Return the caller. Raises NotAuthenticated, TooManyRequests after wrong attempts, Unavailable.

        An account that needs a second factor is refused: a program signs in with a token.
        """
        actor, needed = await self.verify_password(credentials, address)
        if needed:
            raise NotAuthenticated(
                "A password alone is not enough for this account.",
                "Sign in to the console with your second factor, and create a refresh token there.",
                code="SecondFactorRequired",
            )
        return actor

    async def verify_password(self, credentials: BasicCredentials, address: str) -> tuple[Actor, SecondFactor]:
        """Return whose password this is, and whether it is enough. Raises as `authenticate`."""
        try:
            credentials = replace(credentials, email=canonical_email(credentials.email))
        except BadRequest as error:
            raise NotAuthenticated(_WRONG, *error.messages[1:]) from None
        key = self._key_of(credentials)
        verified = self._verified.get(key)
        if verified is None or verified.until_s <= self._clock.monotonic_s():
            verified = await self._once(key, self._verify(key, credentials, address))
        actor = Actor(verified.user_id, verified.email, verified.name, address, Method.BASIC, verified.stamp)
        return actor, verified.second_factor

    def invalidate(self, user_id: str) -> None:
        """Drop what was verified for this user."""
        for key in [key for key, verified in self._verified.items() if verified.user_id == user_id]:
            del self._verified[key]

    async def _once(self, key: bytes, verification: Coroutine[Any, Any, _Verified]) -> _Verified:
        """Run the verification, or wait for the same one that is under way; a client that goes away ends none."""
        task = self._in_flight.get(key)
        if task is None:
            task = self._in_flight[key] = asyncio.create_task(verification)
            task.add_done_callback(lambda done: self._end(key, done))
        else:
            verification.close()
        return await shielded(task)

    def _end(self, key: bytes, done: "asyncio.Task[_Verified]") -> None:
        del self._in_flight[key]
        if not done.cancelled():
            done.exception()  # asyncio complains about an error that nobody reads, as when every client has gone away

    async def _verify(self, key: bytes, credentials: BasicCredentials, address: str) -> _Verified:
        async with self._throttle.attempt(credentials.email, credentials.password, address) as attempt:
            async with self._database.connection() as connection:
                row = await users.get_credentials(connection, email=credentials.email)
            # The connection is back in the pool while the password is verified, and everybody is: known, disabled or
            # not.
            stored = row.password_hash if row is not None and row.enabled else None
            matches = await self._passwords.verify(stored, credentials.password, yields=attempt.yields)
            if row is None or stored is None or not matches:
                account = None if row is None else Actor(row.id, row.email, row.name, address, Method.BASIC)
                await self._throttle.failed(attempt, account)
                raise NotAuthenticated(_WRONG, "Check both and try again.")
        if row.is_expired:
            raise NotAuthenticated(
                "The password that somebody chose for you has expired.",
                "Ask an administrator to remove the account and add you again, or ask whoever runs the server for "
                "launchbay reset-password.",
                code="PasswordExpired",
            )
        self._throttle.succeeded(credentials.email, address)
        if self._passwords.needs_rehash(stored):
            renewed = await self._passwords.hash(credentials.password)
            async with self._database.connection() as connection:
                await users.renew_hash(connection, id=row.id, password_hash=renewed, old_hash=stored)
        until_s = self._clock.monotonic_s() + VERIFIED_CREDENTIALS_S
        factor = SecondFactor(row.second_factor)
        verified = _Verified(row.id, row.email, row.name, row.access_stamp, until_s, factor)
        if factor:
            return verified  # not kept: no lookup follows that would see the factor go on another server
        self._verified[key] = verified
        self._verified.move_to_end(key)
        while len(self._verified) > VERIFIED_CREDENTIALS:
            self._verified.popitem(last=False)
        return verified

    def _key_of(self, credentials: BasicCredentials) -> bytes:
        text = f"{credentials.email}\0{credentials.password}"
        return blake2b(text.encode("utf-8"), key=self._key, digest_size=32).digest()


class Authenticator:
    """Both schemes of the reference (§5); where both are sent, the token alone decides."""

    def __init__(
        self, basic: BasicAuthentication, sessions: SessionTokens, tokens: AccessTokens, throttle: SignInThrottle
    ) -> None:
        self._basic = basic
        self._sessions = sessions
        self._tokens = tokens
        self._throttle = throttle

    async def authenticate(self, headers: Mapping[str, str], client_address: str) -> Actor:
        """Return the caller. `headers` has lower-case names, lines of one name joined with a comma.

        Raises NotAuthenticated, TooManyRequests after wrong attempts, Unavailable.
        """
        credentials = read_authorization(headers.get("authorization"))
        if isinstance(credentials, BearerCredentials):
            if is_access_token(credentials.token):
                try:
                    return await self._tokens.authenticate(credentials.token, client_address)
                except NotAuthenticated:
                    await self._throttle.wrong_token(credentials.token, client_address)
                    raise
            return await self._sessions.authenticate(credentials.token, client_address)
        return await self._basic.authenticate(credentials, client_address)
