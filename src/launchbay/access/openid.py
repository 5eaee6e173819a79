"""Sign-in through an OpenID Connect provider: authorization code with PKCE, state and nonce (OpenID Connect Core §3.1).

Authlib makes the requests, joserfc checks the ID token, and our outgoing client carries them within its rules.
What an attempt must remember travels in a sealed cookie of the browser that began it, so any server can finish what
another one began, and nobody can finish somebody else's.
"""

import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped] # Authlib ships no types
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped] # Authlib ships no types
from authlib.oauth2.rfc6749.parameters import prepare_token_request  # type: ignore[import-untyped] # no types there

from launchbay.access.openid_metadata import ProviderMetadata
from launchbay.access.openid_token import verified_claims
from launchbay.access.secret_key import SealBroken, SecretKey
from launchbay.clock import Clock
from launchbay.egress.http import OutgoingHttp
from launchbay.errors import NotAuthenticated, OutgoingFailed, Unavailable
from launchbay.limits import OPENID_ANSWER_BYTES, OPENID_ATTEMPT_S, OPENID_TIMEOUT_S

_PURPOSE = "openid sign-in"
_SHOWN_CHARS = 200
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}

log = structlog.get_logger("launchbay.security")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdClient:
    """How this server is known at its provider; `redirect_uri` is where the provider sends browsers back to."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: str
    redirect_uri: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the provider says somebody is; `email` is empty unless the provider has verified it."""

    issuer: str
    subject: str
    email: str
    name: str


@dataclass(frozen=True, slots=True)
class Begun:
    """Where to send the browser, and the cookie that it must come back with."""

    url: str
    cookie: str


class _Attempt(msgspec.Struct, frozen=True):
    state: str
    nonce: str
    verifier: str
    until_s: float


class OpenIdProvider:
    """The provider, as this server talks to it."""

    def __init__(
        self, client: OpenIdClient, metadata: ProviderMetadata, outgoing: OutgoingHttp, secret: SecretKey, clock: Clock
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._outgoing = outgoing
        self._secret = secret
        self._clock = clock

    async def begin(self) -> Begun:
        """Begin a sign-in. Raises Unavailable while the provider cannot be reached."""
        endpoints = await self._metadata.endpoints()
        attempt = _Attempt(
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(48),
            self._clock.now().timestamp() + OPENID_ATTEMPT_S,
        )
        url, _ = self._oauth().create_authorization_url(
            endpoints.authorization, state=attempt.state, code_verifier=attempt.verifier, nonce=attempt.nonce
        )
        sealed = self._secret.seal(msgspec.json.encode(attempt), _PURPOSE)
        return Begun(url, urlsafe_b64encode(sealed).decode())

    async def finish(self, cookie: str, answer: Mapping[str, str]) -> Identity:
        """Return who has signed in, from what the provider's redirect brings in its query.

        Raises NotAuthenticated for whatever is not the provider's answer to this browser's attempt, and Unavailable.
        """
        attempt = self._opened(cookie)
        if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
            raise _refused("This is not the answer to the sign-in that this browser began.")
        if "iss" in answer and answer["iss"] != self._client.issuer:
            raise _refused("The answer comes from another provider.")
        if "error" in answer:
            raise _refused(f"The provider refused: {_shown(answer.get('error_description') or answer['error'])}.")
        tokens = await self._exchange(answer.get("code", ""), attempt.verifier)
        claims = await verified_claims(
            tokens.get("id_token"), self._metadata, self._client.client_id, attempt.nonce, self._clock
        )
        if "email" not in claims and isinstance(tokens.get("access_token"), str):
            claims = {**await self._user_info(claims["sub"], tokens["access_token"]), **claims}
        return self._identity(claims)

    def _oauth(self) -> Any:
        client = self._client
        return OAuth2Client(
            None,  # no session: our outgoing client sends what it prepares
            client_id=client.client_id,
            client_secret=client.client_secret or None,
            scope=client.scopes,
            redirect_uri=client.redirect_uri,
            code_challenge_method="S256",
        )

    def _opened(self, cookie: str) -> _Attempt:
        try:
            sealed = urlsafe_b64decode(cookie.encode("ascii"))
            attempt = msgspec.json.decode(self._secret.open(sealed, _PURPOSE), type=_Attempt)
        except (ValueError, binascii.Error, SealBroken, msgspec.MsgspecError):
            raise _refused("This browser has begun no sign-in, or does not keep cookies.") from None
        if attempt.until_s < self._clock.now().timestamp():
            raise _refused(f"The sign-in took longer than {OPENID_ATTEMPT_S / 60:g} minutes.")
        return attempt

    async def _exchange(self, code: str, verifier: str) -> dict[str, Any]:
        endpoints = await self._metadata.endpoints()
        oauth = self._oauth()
        try:
            body = prepare_token_request(
                "authorization_code", redirect_uri=self._client.redirect_uri, code=code or None, code_verifier=verifier
            )
        except AuthlibBaseError:
            raise _refused("The provider sent no code.") from None
        auth = oauth.client_auth(endpoints.auth_method(has_secret=bool(self._client.client_secret)))
        uri, headers, body = auth.prepare("POST", endpoints.token, dict(_FORM), body)
        tokens = await self._ask("POST", uri, headers, body.encode())
        if "error" in tokens or "id_token" not in tokens:
            log.warning("openid.code_refused", error=_shown(str(tokens.get("error", "no id_token"))))
            raise _refused("The provider did not accept the code; it may have been used already.")
        return tokens

    async def _user_info(self, subject: str, access_token: str) -> dict[str, Any]:
        """Ask for what the ID token leaves out; an answer about somebody else is none (Core §5.3.2)."""
        endpoint = (await self._metadata.endpoints()).user_info
        if endpoint is None:
            return {}
        claims = await self._ask("GET", endpoint, {"Authorization": f"Bearer {access_token}"}, b"")
        return claims if claims.get("sub") == subject else {}

    async def _ask(self, method: str, uri: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        try:
            answer = await self._outgoing.request(
                method, uri, headers=headers, body=body, timeout_s=OPENID_TIMEOUT_S, max_bytes=OPENID_ANSWER_BYTES
            )
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (OutgoingFailed, msgspec.MsgspecError, UnicodeDecodeError) as error:
            log.warning("openid.provider_failed", error=str(error))
            raise Unavailable("The identity provider does not answer as it should.", "Try again.") from None

    def _identity(self, claims: Mapping[str, Any]) -> Identity:
        email = claims.get("email")
        is_verified = claims.get("email_verified") in (True, "true") and isinstance(email, str)
        name = claims.get("name")
        return Identity(
            self._client.issuer,
            claims["sub"],
            str(email).strip() if is_verified else "",
            name.strip() if isinstance(name, str) else "",
        )


def _shown(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:_SHOWN_CHARS]).rstrip(". ")


def _refused(sentence: str) -> NotAuthenticated:
    return NotAuthenticated(sentence, "Begin again at /refreshToken.", code="SignInFailed")
