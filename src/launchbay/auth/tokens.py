"""The keys that sign and verify tokens, equal in all servers of a database.

The newest key signs. A key that has been replaced still verifies until everything it signed has expired, so a
rotation ends nobody's session. A server learns of a key that another one made when it first sees a token with it, or
within minutes; no key signs before every server could learn of it.
"""

import asyncio
import copy
import math
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from typing import Any, NoReturn, TypeAlias

import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from launchbay import limits
from launchbay.auth.permissions import ActingToken, Actor, Method
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.errors import BadRequest, NotAuthenticated, NotFound, TooManyRequests
from launchbay.ids import is_id, new_id
from launchbay.store import access_tokens, keys, users
from launchbay.store.database import Connection, Database
from launchbay.store.keys import SigningKeyRow
from launchbay.store.users import RedeemedTokenRow, RefreshTokenRow

ROTATED_AFTER_S = 30 * 24 * 3600.0
_READ_AGAIN_S = 300.0
_UNKNOWN_KEY_S = 5.0  # between readings that unknown key ids cause, whoever sends them
_SETTLED_S = 2 * _UNKNOWN_KEY_S
_MARGIN_S = 3600.0  # for servers that sign with the old key a little longer, and for clocks
_LOCK = 0x6C61_756E_6368_6B65  # any number that nothing else locks: "launchke"
RingKey: TypeAlias = OKPKey | RSAKey


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A key with its id, the `kid` of the tokens it signs."""

    id: str
    key: RingKey


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyKind:
    """What the keys of a ring are for.

    `create` returns the private part, which `read` makes a key of. `settled_s` is the age at which a
    key signs, when there is another one until then.
    """

    table: keys.SigningKeyTable
    lock: int
    purpose: Callable[[str], str]
    create: Callable[[], bytes]
    read: Callable[[bytes], RingKey]
    settled_s: float


def session_key_purpose(key_id: str) -> str:
    return f"session key {key_id}"


def _session_key(private: bytes) -> RingKey:
    pem = Ed25519PrivateKey.from_private_bytes(private).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return OKPKey.import_key(pem)


SESSION_KEYS = KeyKind(
    table=keys.SESSION_KEYS,
    lock=_LOCK,
    purpose=session_key_purpose,
    create=lambda: Ed25519PrivateKey.generate().private_bytes_raw(),
    read=_session_key,
    settled_s=_SETTLED_S,
)


class KeyRing:
    """Holds the keys of one server; `lifetime_s` is how long a token lives."""

    def __init__(
        self, database: Database, secret: SecretKey, clock: Clock, lifetime_s: int, kind: KeyKind = SESSION_KEYS
    ) -> None:
        self._kind = kind
        self._database = database
        self._secret = secret
        self._clock = clock
        self._lifetime_s = lifetime_s
        self._keys: dict[str, SigningKey] = {}
        self._signing: SigningKey | None = None
        self._read_at_s = float("-inf")
        self._reading = asyncio.Lock()

    async def signing_key(self) -> SigningKey:
        """Return the key to sign with, creating one if there is no recent one.

        Raises Unavailable, and UnsealFailed when the keys were sealed with another secret key.
        """
        if self._signing is None or self._age_s() > _READ_AGAIN_S:
            await self._read(older_than_s=_READ_AGAIN_S)
        assert self._signing is not None, "reading makes a key when there is none"
        return self._signing

    async def verification_key(self, key_id: str) -> SigningKey | None:
        """Return the key with this id, None if it doesn't exist. Raises as `signing` does."""
        if key_id not in self._keys or self._age_s() > _READ_AGAIN_S:
            limit_s = _READ_AGAIN_S if key_id in self._keys else _UNKNOWN_KEY_S
            await self._read(older_than_s=limit_s)
        return self._keys.get(key_id)

    async def all_keys(self) -> list[SigningKey]:
        """Return the keys of valid tokens, and of those to come.

        Raises as `signing_key` does.
        """
        await self.signing_key()
        return list(self._keys.values())

    async def rotate(self) -> None:
        """Make a new key, which signs within minutes; the older ones stay as long as something may need them."""
        async with self._reading:
            await self._refresh(new_key=True)

    def _age_s(self) -> float:
        return self._clock.monotonic_s() - self._read_at_s

    async def _read(self, older_than_s: float) -> None:
        async with self._reading:
            if self._age_s() > older_than_s:
                await self._refresh(new_key=False)

    async def _refresh(self, *, new_key: bool) -> None:
        async with self._database.connection() as connection:
            rows = await self._kind.table.list(connection)
        if new_key or not rows or rows[0].age_s > ROTATED_AFTER_S or self._expired(rows):
            rows = await self._replace(new_key=new_key)
        # A key is opened once; opening all of them again at every reading would cost for nothing.
        self._keys = {row.id: self._keys.get(row.id) or self._opened(row) for row in rows}
        signing = next((row for row in rows if row.age_s >= self._kind.settled_s), rows[-1])
        self._signing = self._keys[signing.id]
        self._read_at_s = self._clock.monotonic_s()

    async def _replace(self, *, new_key: bool) -> list[SigningKeyRow]:
        """Make a key where one is due and drop those that nothing needs, one server at a time."""
        async with self._database.transaction() as connection:
            table = self._kind.table
            await keys.lock_keys(connection, number=self._kind.lock)
            rows = await table.list(connection)
            if new_key or not rows or rows[0].age_s > ROTATED_AFTER_S:
                key_id = new_id()
                private = await asyncio.to_thread(self._kind.create)
                sealed = self._secret.seal(private, self._kind.purpose(key_id))
                await table.insert(connection, id=key_id, sealed=sealed)
            await table.delete(connection, ids=self._expired(rows))
            return await table.list(connection)

    def _expired(self, rows: list[SigningKeyRow]) -> list[str]:
        """Return the keys whose successor is older than anything they can have signed."""
        needed_s = self._lifetime_s + max(_MARGIN_S, self._kind.settled_s + 2 * _READ_AGAIN_S)
        return [row.id for successor, row in pairwise(rows) if successor.age_s > needed_s]

    def _opened(self, row: SigningKeyRow) -> SigningKey:
        return SigningKey(row.id, self._kind.read(self._secret.open(row.sealed, self._kind.purpose(row.id))))


# Session tokens: signed JWTs that say who calls, and nothing about permissions (conformance.md, "Authentication").
#
# `kid iss aud sub exp`, `stamp` and `via` (the refresh token), which end it early, and `email` and `name` as labels. A
# token from an identity provider, a refresh token, or one of another installation isn't a session token.

ALGORITHM = "EdDSA"
AUDIENCE = "launchbay"
_LAST_SECOND = 2**53  # beyond it, numbers in JSON are not exact


class _OnlyEdDSA(JWSRegistry):
    """Knows one algorithm: there is nothing for `none` or for a public key taken as an HMAC secret to choose from."""

    algorithms = {ALGORITHM: copy.copy(JWSRegistry.algorithms[ALGORITHM])}  # noqa: RUF012 - the library's own attribute


# The library warns at every use that RFC 9864 prefers the name Ed25519. The keys here have no other curve.
_OnlyEdDSA.algorithms[ALGORITHM].security_warning = None
_REGISTRY = _OnlyEdDSA(algorithms=[ALGORITHM])


@dataclass(frozen=True, slots=True)
class Session:
    """What a refresh token is exchanged for."""

    token: str
    expires_in_s: int


@dataclass(frozen=True, slots=True)
class _Verified:
    user_id: str
    email: str
    name: str
    key_id: str
    expires_at_s: int
    stamp: int
    refresh_token_id: str


class SessionTokens:
    """Issues and verifies session tokens. `issuer` names the installation, such as its base address."""

    def __init__(self, keys: KeyRing, clock: Clock, issuer: str, lifetime_s: int) -> None:
        self._keys = keys
        self._clock = clock
        self._issuer = issuer
        self._lifetime_s = lifetime_s
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def issue(self, user: RedeemedTokenRow) -> Session:
        """Return a session token for the user. Raises Unavailable."""
        signing = await self._keys.signing_key()
        now_s = math.floor(self._clock.now().timestamp())
        claims = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": user.id,
            "iat": now_s,
            "exp": now_s + self._lifetime_s,
            "email": user.email,
            "name": user.name,
            "stamp": user.access_stamp,
            "via": user.refresh_token_id,
        }
        header = {"alg": ALGORITHM, "kid": signing.id}
        return Session(jwt.encode(header, claims, signing.key, registry=_REGISTRY), self._lifetime_s)

    async def authenticate(self, token: str, address: str) -> Actor:
        """Return the caller that a session token names.

        Whether the account and the refresh token are still in order is for the lookup to see. Raises NotAuthenticated
        for whatever is not exactly one of our tokens, unexpired; Unavailable.
        """
        if len(token) > limits.SESSION_TOKEN_BYTES or not token.isascii():
            _refuse("isn't a session token")
        digest = sha256(token.encode("ascii")).digest()
        verified = self._verified.get(digest)
        if verified is None:
            verified = await self._verify(token)
            self._verified[digest] = verified
            while len(self._verified) > limits.SESSIONS_VERIFIED:
                self._verified.popitem(last=False)
        elif await self._keys.verification_key(verified.key_id) is None:
            _refuse("was signed with a key that is no longer in use")
        if verified.expires_at_s <= self._clock.now().timestamp():
            self._verified.pop(digest, None)
            _refuse("has expired")
        return Actor(
            verified.user_id,
            verified.email,
            verified.name,
            address,
            Method.BEARER,
            verified.stamp,
            verified.refresh_token_id,
        )

    async def _verify(self, token: str) -> _Verified:
        try:
            header = jws.extract_compact(token.encode("ascii"), registry=_REGISTRY).headers()
        except (JoseError, ValueError, TypeError, RecursionError):
            _refuse("isn't a session token")
        key_id = header.get("kid")
        if header != {"alg": ALGORITHM, "typ": "JWT", "kid": key_id} or not isinstance(key_id, str):
            _refuse("isn't a session token of this server")
        signing = await self._keys.verification_key(key_id)
        if signing is None:
            _refuse("was signed with a key that is not in use")
        try:
            claims = jwt.decode(token, signing.key, algorithms=[ALGORITHM], registry=_REGISTRY).claims
        except (JoseError, ValueError, TypeError, RecursionError):
            _refuse("has a wrong signature")
        return self._read(claims, key_id)

    def _read(self, claims: dict[str, Any], key_id: str) -> _Verified:
        """Read the claims of a token with a good signature; even so, each must be what we issue."""
        expires_at, user_id = claims.get("exp"), claims.get("sub")
        if claims.get("iss") != self._issuer or claims.get("aud") != AUDIENCE:
            _refuse("was issued by or for another server")
        if (
            type(expires_at) is not int
            or expires_at > _LAST_SECOND
            or not isinstance(user_id, str)
            or not is_id(user_id)
        ):
            _refuse("names no caller or no end")
        email, name = claims.get("email"), claims.get("name")
        if not isinstance(email, str) or not isinstance(name, str):
            _refuse("names no caller")
        stamp, via = claims.get("stamp"), claims.get("via")
        if type(stamp) is not int or abs(stamp) > _LAST_SECOND or not isinstance(via, str) or not is_id(via):
            _refuse("is of an older version")
        return _Verified(user_id, email, name, key_id, expires_at, stamp, via)


def _refuse(problem: str) -> NoReturn:
    raise NotAuthenticated(
        f"The token is unknown, expired or revoked. The bearer token {problem}.",
        "Exchange the refresh token for a new session token.",
    )


# Refresh tokens: shown once, stored as a hash, exchanged for session tokens (reference §5).
#
# All methods work through the caller's connection, so that the use case that records them in the audit log does it in
# the same transaction.

_PREFIX = "lbr_"  # tells people and secret scanners what they have found
_RANDOM_BYTES = 32
_LONGEST = 100  # characters of what can be a token at all
_log = structlog.get_logger("launchbay.security")


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """A new token, here and nowhere else in clear, and the row that lists show of it."""

    token: str = field(repr=False)
    row: RefreshTokenRow


class RefreshTokens:
    """Generates, revokes and redeems refresh tokens."""

    async def generate(self, connection: Connection, user_id: str, label: str) -> GeneratedToken | TooManyRequests:
        """Make a token, in a transaction.

        Raises NotAuthenticated when the account is gone or disabled, BadRequest when it has too many tokens.

        After too many within the hour (conformance.md, "Authentication") the error is the result, to be raised after
        the transaction: the block itself must be committed.
        """
        if await users.lock_user(connection, user_id=user_id) is None:
            raise NotAuthenticated("This account is disabled or no longer exists.", "Ask an administrator.")
        state = await users.get_generation_state(connection, user_id=user_id)
        assert state is not None, "the account is locked, so it is there"
        if state.blocked_s > 0:
            return _blocked(state.blocked_s)
        if state.recent >= limits.REFRESH_TOKENS_BLOCKED:
            await users.block_generation(connection, user_id=user_id, seconds=limits.REFRESH_TOKEN_BLOCK_S)
            _report("generation of refresh tokens blocked", user_id, state.recent)
            return _blocked(limits.REFRESH_TOKEN_BLOCK_S)
        if state.valid >= limits.REFRESH_TOKENS:
            raise BadRequest(
                f"You have {limits.REFRESH_TOKENS} refresh tokens, which is the limit.",
                "Revoke those that nobody needs.",
                code="TooMany",
            )
        if state.recent >= limits.REFRESH_TOKENS_SUSPICIOUS:
            _report("many refresh tokens", user_id, state.recent + 1)
        token = _PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        row = await users.insert_refresh_token(
            connection,
            id=new_id(),
            user_id=user_id,
            label=label,
            token_hash=hash_token(token),
            lifetime_s=limits.REFRESH_TOKEN_LIFETIME_DAYS * 24 * 3600,
        )
        assert row is not None, "an insert answers its row"
        return GeneratedToken(token, row)

    async def revoke(self, connection: Connection, user_id: str, token_id: str) -> None:
        """End one of the user's own tokens. Raises NotFound; somebody else's token is not found either."""
        if not is_id(token_id) or not await users.revoke_refresh_token(connection, id=token_id, user_id=user_id):
            raise NotFound(
                f"You have no refresh token {token_id[:80]!r}.", "Look its id up in the list of your tokens."
            )

    async def redeem(self, connection: Connection, token: str) -> RedeemedTokenRow:
        """Return the user that a token stands for.

        Raises NotAuthenticated when it is unknown, revoked or expired, or the account is disabled (without telling
        which: whoever guesses would learn from it).
        """
        possible = token.startswith(_PREFIX) and len(token) <= _LONGEST and token.isascii()
        user = await users.redeem_refresh_token(connection, token_hash=hash_token(token)) if possible else None
        if user is None:
            raise NotAuthenticated("The refresh token is not valid.", "Generate a new one at /refreshToken.")
        return user


# Access tokens: sent as they are instead of a session token, with a scope, an end, and an owner in one organization.

_ACCESS_PREFIX = "lbt_"


def is_access_token(text: str) -> bool:
    """Whether the text has the form of an access token, valid or not."""
    return text.startswith(_ACCESS_PREFIX)


def new_access_token() -> str:
    return _ACCESS_PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


class AccessTokens:
    """Verifies access tokens.

    Each request asks the database, so a revoked token ends at once on all servers.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def authenticate(self, token: str, address: str) -> Actor:
        """Return the owner, acting with the token. Raises NotAuthenticated, Unavailable."""
        row = None
        if len(token) <= _LONGEST and token.isascii():
            async with self._database.connection() as connection:
                row = await access_tokens.get_by_hash(connection, token_hash=hash_token(token))
                if row is not None and row.is_use_due:
                    await access_tokens.set_last_used(connection, id=row.id)
        if row is None:
            raise NotAuthenticated("The access token is not valid.", "It may have expired or been revoked.")
        acting = ActingToken(row.id, row.name, row.organization_id, row.scope)
        return Actor(row.user_id, row.email, row.user_name, address, Method.ACCESS_TOKEN, token=acting)


def _report(kind: str, user_id: str, count: int) -> None:
    detail = f"{count} refresh tokens within an hour"
    _log.warning("security_event.reported", kind=kind, user_id=user_id, detail=detail)


def _blocked(retry_after_s: int) -> TooManyRequests:
    return TooManyRequests(
        "Too many refresh tokens were generated for this account.",
        f"Use one that you have, or try again in {retry_after_s} s.",
        retry_after_s=retry_after_s,
    )


def hash_token(token: str) -> bytes:
    """Return what is stored; a plain hash is enough for a token of 256 random bits."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()
