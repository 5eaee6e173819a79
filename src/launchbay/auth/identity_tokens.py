"""Tokens that say which job asks, of an OpenID Connect issuer (decision 0195).

RS256, since Azure takes nothing else. A new key is published an hour before it signs: who verifies keeps keys for
minutes. Where the tokens go and what they say is for `features/identities`.
"""

import math
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from joserfc import jwt
from joserfc.jwk import RSAKey

from launchbay.auth.tokens import KeyKind, KeyRing, RingKey
from launchbay.clock import Clock
from launchbay.errors import NotFound
from launchbay.ids import new_id
from launchbay.limits import IDENTITY_KEY_SETTLES_S, IDENTITY_TOKEN_S
from launchbay.store import keys

ALGORITHM = "RS256"
KEYS_PATH = "/.well-known/jwks.json"
NO_ISSUER = ("This server has no address, so it issues no tokens.", "Its administrator must set LAUNCHBAY_BASE_URL.")
_LOCK = 0x6C61_756E_6368_6964  # "launchid"


def identity_key_purpose(key_id: str) -> str:
    return f"identity key {key_id}"


def _create() -> bytes:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read(private: bytes) -> RingKey:
    return RSAKey.import_key(private)


IDENTITY_KEYS = KeyKind(
    table=keys.IDENTITY_KEYS,
    lock=_LOCK,
    purpose=identity_key_purpose,
    create=_create,
    read=_read,
    settled_s=IDENTITY_KEY_SETTLES_S,
)


class IdentityTokens:
    """Signs tokens of jobs, and shows the keys that verify them.

    `base_url` is the issuer. Without it, there is nothing to sign for.
    """

    def __init__(self, ring: KeyRing, clock: Clock, base_url: str) -> None:
        self.ring = ring
        self._clock = clock
        self.issuer = base_url.rstrip("/")

    async def issue(self, audience: str, claims: Mapping[str, str]) -> str:
        """Return a token of minutes for the audience. Raises Unavailable."""
        signing = await self.ring.signing_key()
        now_s = math.floor(self._clock.now().timestamp())
        times = {"iat": now_s, "nbf": now_s, "exp": now_s + IDENTITY_TOKEN_S}
        content = {"iss": self.issuer, "aud": audience, "jti": new_id(), **times, **claims}
        return jwt.encode({"alg": ALGORITHM, "kid": signing.id}, content, signing.key, algorithms=[ALGORITHM])

    def metadata(self) -> dict[str, Any]:
        """Return what OpenID Connect Discovery shows of an issuer. Raises NotFound without an address."""
        if not self.issuer:
            raise NotFound(*NO_ISSUER)
        return {
            "issuer": self.issuer,
            "jwks_uri": self.issuer + KEYS_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": [ALGORITHM],
        }

    async def public_keys(self) -> list[dict[str, Any]]:
        """Return the public keys as a JSON Web Key Set has them. Raises Unavailable."""
        return [
            {**each.key.as_dict(private=False), "kid": each.id, "use": "sig", "alg": ALGORITHM}
            for each in await self.ring.all_keys()
        ]
