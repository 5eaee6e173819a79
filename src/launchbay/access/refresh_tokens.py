"""Refresh tokens: shown once, stored as a hash, exchanged for session tokens (reference §5).

All methods work through the caller's connection, so that the use case that records them in the audit log does it in
the same transaction.
"""

import secrets
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256

from launchbay.access.security_events import SecurityEvent, SecurityEventKind, SecurityEvents
from launchbay.access.throttle import AddressThrottle
from launchbay.errors import NotAuthenticated, NotFound, TooManyRequests
from launchbay.ids import is_id, new_id
from launchbay.limits import (
    REFRESH_TOKEN_BLOCK_S,
    REFRESH_TOKEN_LIFETIME_DAYS,
    REFRESH_TOKENS_BLOCKED,
    REFRESH_TOKENS_SUSPICIOUS,
)
from launchbay.store import users
from launchbay.store.database import Connection
from launchbay.store.users import RefreshTokenRow, User

_PREFIX = "lbr_"  # tells people and secret scanners what they have found
_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all


class Verdict(Enum):
    """What the number of tokens of the last hour means for one more."""

    ALLOWED = "allowed"
    SUSPICIOUS = "allowed, and a security event"
    BLOCKED = "refused, and a security event"


def verdict(recent: int) -> Verdict:
    """Judge one more token after `recent` ones within the hour (api-decisions, "Authentication")."""
    if recent >= REFRESH_TOKENS_BLOCKED:
        return Verdict.BLOCKED
    return Verdict.SUSPICIOUS if recent >= REFRESH_TOKENS_SUSPICIOUS else Verdict.ALLOWED


@dataclass(frozen=True, slots=True)
class Generated:
    """A new token, here and nowhere else in clear, and the row that lists show of it."""

    token: str = field(repr=False)
    row: RefreshTokenRow


@dataclass(frozen=True, slots=True)
class Blocked:
    """No token, because there were too many. It is a result and no exception, so that the block itself is committed.

    After the transaction: `raise blocked.error()`.
    """

    retry_after_s: int

    def error(self) -> TooManyRequests:
        """Return what the client is to see."""
        return TooManyRequests(
            "Too many refresh tokens were generated for this account.",
            f"Use one that you have, or try again in {self.retry_after_s} s.",
            retry_after_s=self.retry_after_s,
        )


class RefreshTokens:
    """Generates, lists, revokes and redeems refresh tokens."""

    def __init__(self, events: SecurityEvents, throttle: AddressThrottle) -> None:
        self._events = events
        self._throttle = throttle

    async def generate(self, connection: Connection, user_id: str, label: str) -> Generated | Blocked:
        """Make a token, in a transaction. Raises NotAuthenticated when the account is gone or disabled."""
        if await users.lock_user(connection, user_id=user_id) is None:
            raise NotAuthenticated("This account is disabled or does not exist any more.", "Ask an administrator.")
        state = await users.generation_state(connection, user_id=user_id)
        assert state is not None, "the account is locked, so it is there"
        if state.blocked_s > 0:
            return Blocked(state.blocked_s)
        judged = verdict(state.recent)
        if judged is Verdict.BLOCKED:
            await users.block(connection, user_id=user_id, seconds=REFRESH_TOKEN_BLOCK_S)
            self._report(SecurityEventKind.REFRESH_TOKENS_BLOCKED, user_id, state.recent)
            return Blocked(REFRESH_TOKEN_BLOCK_S)
        if judged is Verdict.SUSPICIOUS:
            self._report(SecurityEventKind.MANY_REFRESH_TOKENS, user_id, state.recent + 1)
        token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        row = await users.refresh_tokens_insert(
            connection,
            id=new_id(),
            user_id=user_id,
            label=label,
            token_hash=_hash(token),
            lifetime_s=REFRESH_TOKEN_LIFETIME_DAYS * 24 * 3600,
        )
        assert row is not None, "an insert answers its row"
        return Generated(token, row)

    async def of_user(self, connection: Connection, user_id: str) -> list[RefreshTokenRow]:
        """Return the user's usable tokens, the newest first; never their values."""
        return await users.refresh_tokens_of_user(connection, user_id=user_id)

    async def revoke(self, connection: Connection, user_id: str, token_id: str) -> None:
        """End one of the user's own tokens. Raises NotFound; somebody else's token is not found either."""
        if not is_id(token_id) or not await users.revoke(connection, id=token_id, user_id=user_id):
            raise NotFound(
                f"You have no refresh token {token_id[:80]!r}.", "Look its id up in the list of your tokens."
            )

    async def redeem(self, connection: Connection, token: str, address: str) -> User:
        """Return the user that a token stands for.

        Raises NotAuthenticated when it is unknown, revoked or expired, or the account is disabled (without telling
        which: whoever guesses would learn from it), and TooManyRequests after many wrong ones from the address.
        """
        self._throttle.begin(address)
        possible = token.startswith(_PREFIX) and len(token) <= _LONGEST and token.isascii()
        try:
            user = await users.redeem(connection, token_hash=_hash(token)) if possible else None
        except BaseException:
            self._throttle.withdraw(address)
            raise
        if user is None:
            raise NotAuthenticated("The refresh token is not valid.", "Generate a new one at /refreshToken.")
        self._throttle.withdraw(address)
        return user

    def _report(self, kind: SecurityEventKind, user_id: str, count: int) -> None:
        self._events.report(SecurityEvent(kind, user_id, f"{count} refresh tokens within an hour"))


def _hash(token: str) -> bytes:
    """Return what is stored; a plain hash is enough for a token of 256 random bits."""
    return sha256(token.encode("ascii")).digest()
