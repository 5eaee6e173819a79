"""ID tokens: whether one is from the provider, for us, now, and for this attempt (OpenID Connect Core §3.1.3.7)."""

import hmac
from typing import Any

import structlog
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from launchbay.access.openid_metadata import ProviderMetadata
from launchbay.clock import Clock
from launchbay.errors import NotAuthenticated
from launchbay.limits import OPENID_LEEWAY_S, OPENID_SUBJECT_CHARS

log = structlog.get_logger("launchbay.security")


async def verified_claims(
    token: object, metadata: ProviderMetadata, client_id: str, nonce: str, clock: Clock
) -> dict[str, Any]:
    """Return the claims of an ID token that keeps every rule. Raises NotAuthenticated, and Unavailable without keys."""
    try:
        return await _verified(token, metadata, client_id, nonce, clock)
    except (JoseError, ValueError, TypeError, AssertionError) as error:
        log.warning("openid.token_refused", reason=str(error) or type(error).__name__)
        raise NotAuthenticated(
            "The identity provider's answer cannot be trusted.", "Begin again at /refreshToken.", code="SignInFailed"
        ) from None


async def _verified(
    token: object, metadata: ProviderMetadata, client_id: str, nonce: str, clock: Clock
) -> dict[str, Any]:
    if not isinstance(token, str):
        raise TypeError("the ID token is no text")
    endpoints = await metadata.endpoints()
    key_id = jws.extract_compact(token.encode()).headers().get("kid")

    def is_known(keys: KeySet) -> bool:
        return key_id is None or any(key.kid == key_id for key in keys.keys)

    keys = await metadata.keys(is_known)
    claims = jwt.decode(token, keys, algorithms=endpoints.accepted_algorithms()).claims
    registry = jwt.JWTClaimsRegistry(
        now=int(clock.now().timestamp()),
        leeway=OPENID_LEEWAY_S,
        iss={"essential": True, "value": endpoints.issuer},
        aud={"essential": True, "value": client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True},
    )
    registry.validate(claims)
    if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
        raise ValueError("the nonce is that of another attempt")
    if claims.get("azp", client_id) != client_id:
        raise ValueError("the token was made for another client")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= OPENID_SUBJECT_CHARS:
        raise ValueError("the subject is none")
    return dict(claims)
