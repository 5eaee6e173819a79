"""Session tokens: signed JWTs that say who calls, and nothing about permissions (api-decisions, "Authentication").

`kid iss aud sub exp`, and `email` and `name` as labels. A token from an identity provider, a refresh token, or one of
another installation is no session token.
"""

import copy
import math
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn

from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jws import JWSRegistry

from launchbay.access.actor import Actor, Method
from launchbay.access.key_ring import KeyRing
from launchbay.clock import Clock
from launchbay.errors import NotAuthenticated
from launchbay.ids import is_id
from launchbay.limits import SESSION_TOKEN_BYTES, SESSIONS_VERIFIED
from launchbay.store.users import User

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


class SessionTokens:
    """Issues and verifies session tokens. `issuer` names the installation, such as its base address."""

    def __init__(self, keys: KeyRing, clock: Clock, issuer: str, lifetime_s: int) -> None:
        self._keys = keys
        self._clock = clock
        self._issuer = issuer
        self._lifetime_s = lifetime_s
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    async def issue(self, user: User) -> Session:
        """Return a session token for the user. Raises Unavailable."""
        signing = await self._keys.signing()
        now_s = math.floor(self._clock.now().timestamp())
        claims = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": user.id,
            "iat": now_s,
            "exp": now_s + self._lifetime_s,
            "email": user.email,
            "name": user.name,
        }
        header = {"alg": ALGORITHM, "kid": signing.id}
        return Session(jwt.encode(header, claims, signing.key, registry=_REGISTRY), self._lifetime_s)

    async def authenticate(self, token: str, address: str) -> Actor:
        """Return the caller that a session token names.

        Whether the account still exists and is enabled is for the lookup to see. Raises NotAuthenticated for whatever
        is not exactly one of our tokens, unexpired; Unavailable.
        """
        if len(token) > SESSION_TOKEN_BYTES or not token.isascii():
            _refuse("is no session token")
        digest = sha256(token.encode("ascii")).digest()
        verified = self._verified.get(digest)
        if verified is None:
            verified = await self._verify(token)
            self._verified[digest] = verified
            while len(self._verified) > SESSIONS_VERIFIED:
                self._verified.popitem(last=False)
        elif await self._keys.verifying(verified.key_id) is None:
            _refuse("was signed with a key that is no longer in use")
        if verified.expires_at_s <= self._clock.now().timestamp():
            self._verified.pop(digest, None)
            _refuse("has expired")
        return Actor(verified.user_id, verified.email, verified.name, address, Method.BEARER)

    async def _verify(self, token: str) -> _Verified:
        try:
            header = jws.extract_compact(token.encode("ascii"), registry=_REGISTRY).headers()
        except (JoseError, ValueError, TypeError, RecursionError):
            _refuse("is no session token")
        key_id = header.get("kid")
        if header != {"alg": ALGORITHM, "typ": "JWT", "kid": key_id} or not isinstance(key_id, str):
            _refuse("is no session token of this server")
        signing = await self._keys.verifying(key_id)
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
        return _Verified(user_id, email, name, key_id, expires_at)


def _refuse(problem: str) -> NoReturn:
    raise NotAuthenticated(f"The bearer token {problem}.", "Exchange the refresh token for a new session token.")
