"""Sign-in through an OpenID Connect provider: authorization code with PKCE, state and nonce (OpenID Connect Core §3.1).

Authlib makes the requests, joserfc checks the ID token, and our outgoing client carries them within its rules.
What an attempt must remember travels in a sealed cookie of the browser that began it, so any server can finish what
another one began, and nobody can finish somebody else's.
"""

import asyncio
import binascii
import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from authlib.common.errors import AuthlibBaseError  # type: ignore[import-untyped] # Authlib ships no types
from authlib.oauth2.client import OAuth2Client  # type: ignore[import-untyped] # Authlib ships no types
from authlib.oauth2.rfc6749.parameters import prepare_token_request  # type: ignore[import-untyped] # no types there
from joserfc import jws, jwt
from joserfc.errors import JoseError
from joserfc.jwk import JWKRegistry, Key, KeySet

from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.clock import Clock, from_ms
from launchbay.egress.http import EgressClient
from launchbay.errors import BadRequest, EgressFailed, NotAuthenticated, Unavailable
from launchbay.limits import (
    NAME_CHARS,
    OPENID_ATTEMPT_S,
    OPENID_ATTEMPTS,
    OPENID_GROUPS,
    OPENID_KEYS_REFRESH_S,
    OPENID_LEEWAY_S,
    OPENID_LOGOUT_S,
    OPENID_METADATA_S,
    OPENID_RESPONSE_BYTES,
    OPENID_SUBJECT_CHARS,
    OPENID_TIMEOUT_S,
)

_EDWARDS = {"EdDSA", "Ed25519"}  # one algorithm: the second is its newer name (RFC 9864)
_ASYMMETRIC = {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", *_EDWARDS}
log = structlog.get_logger("launchbay.security")


class Endpoints(msgspec.Struct, frozen=True):
    """The provider's metadata, as far as it counts here (OpenID Connect Discovery §3)."""

    issuer: str
    authorization: str = msgspec.field(name="authorization_endpoint")
    token: str = msgspec.field(name="token_endpoint")
    keys: str = msgspec.field(name="jwks_uri")
    user_info: str | None = msgspec.field(name="userinfo_endpoint", default=None)
    algorithms: list[str] = msgspec.field(name="id_token_signing_alg_values_supported", default_factory=list)
    auth_methods: list[str] = msgspec.field(
        name="token_endpoint_auth_methods_supported", default_factory=lambda: ["client_secret_basic"]
    )

    def accepted_algorithms(self) -> list[str]:
        """Return the algorithms that ID tokens may be signed with. Those with a shared secret, and none, are not."""
        known = [name for name in self.algorithms if name in _ASYMMETRIC] or ["RS256"]
        return [*known, *sorted(_EDWARDS.difference(known))] if _EDWARDS.intersection(known) else known

    def auth_method(self, *, has_secret: bool) -> str:
        """Return how this server proves who it is at the token endpoint."""
        if not has_secret:
            return "none"
        return "client_secret_basic" if "client_secret_basic" in self.auth_methods else "client_secret_post"


class ProviderMetadata:
    """Metadata and keys of one issuer."""

    def __init__(self, issuer: str, egress: EgressClient, clock: Clock) -> None:
        self._issuer = issuer
        self._egress = egress
        self._clock = clock
        self._lock = asyncio.Lock()
        self._endpoints: Endpoints | None = None
        self._endpoints_until_s = 0.0
        self._keys: KeySet | None = None
        self._keys_at_s = 0.0

    async def endpoints(self) -> Endpoints:
        """Return the endpoints. Raises Unavailable if the provider's metadata is unreachable or invalid."""
        async with self._lock:
            now = self._clock.monotonic_s()
            if self._endpoints is None or now >= self._endpoints_until_s:
                url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
                self._endpoints = self._checked(await self._fetch(url))
                self._endpoints_until_s = now + OPENID_METADATA_S
            return self._endpoints

    async def keys(self, is_known: Callable[[KeySet], bool]) -> KeySet:
        """Return the keys that sign ID tokens. An unknown key makes them reload, at a limited rate."""
        endpoints = await self.endpoints()
        async with self._lock:
            now = self._clock.monotonic_s()
            is_old = now - self._keys_at_s >= OPENID_METADATA_S
            may_ask = now - self._keys_at_s >= OPENID_KEYS_REFRESH_S
            if self._keys is None or is_old or (may_ask and not is_known(self._keys)):
                self._keys = self._readable(await self._fetch(endpoints.keys))
                self._keys_at_s = now
            return self._keys

    def _readable(self, document: Mapping[str, Any]) -> KeySet:
        """Return the keys that can be used.

        Others are ignored, as RFC 7517 §5 wants it. Raises Unavailable.
        """
        listed = document.get("keys")
        found: list[Key] = []
        for each in listed if isinstance(listed, list) else []:
            try:
                found.append(_public_key(each))
            except Exception as error:  # noqa: BLE001 - libraries raise many kinds for the data of others
                name = each.get("kid") if isinstance(each, dict) else None
                why = f"{type(error).__name__}: {error}"
                log.warning("openid.key_ignored", issuer=self._issuer, key=_shown(str(name)), why=_shown(why))
        if not found:
            raise self._unfit("it has no key that can be used")
        return KeySet(found)

    def _checked(self, document: dict[str, Any]) -> Endpoints:
        try:
            endpoints = msgspec.convert(document, Endpoints)
        except msgspec.ValidationError as error:
            raise self._unfit(str(error)) from None
        if endpoints.issuer != self._issuer:
            raise self._unfit(f"it calls itself {endpoints.issuer!r}")
        scheme = urlsplit(self._issuer).scheme
        for url in (endpoints.authorization, endpoints.token, endpoints.keys, endpoints.user_info or self._issuer):
            if urlsplit(url).scheme not in {scheme, "https"}:
                raise self._unfit(f"its endpoint {url} is not https")
        return endpoints

    async def _fetch(self, url: str) -> dict[str, Any]:
        try:
            answer = await self._egress.request("GET", url, timeout_s=OPENID_TIMEOUT_S, max_bytes=OPENID_RESPONSE_BYTES)
            if answer.status != 200:
                raise self._unfit(f"{url} answered {answer.status}")
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (EgressFailed, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._unfit(str(error)) from None

    def _unfit(self, why: str) -> Unavailable:
        # The operator reads the log; who signs in can do nothing about it.
        log.error("openid.provider_rejected", issuer=self._issuer, why=why)
        return Unavailable("The identity provider cannot be used now.", "Try again later, or ask an administrator.")


def _public_key(document: Any) -> Key:
    key = JWKRegistry.import_key(document)
    if key.key_type == "oct":
        raise ValueError("it is a shared secret")
    key.get_op_key("verify")  # reads the numbers
    return key


async def verify_claims(
    token: object, metadata: ProviderMetadata, client_id: str, nonce: str, clock: Clock
) -> dict[str, Any]:
    """Return the claims of an ID token that keeps every rule. Raises NotAuthenticated, and Unavailable without keys."""
    try:
        return await _verify_claims_once(token, metadata, client_id, nonce, clock)
    except (JoseError, ValueError, TypeError, AssertionError) as error:
        log.warning("openid.token_refused", reason=str(error) or type(error).__name__)
        raise NotAuthenticated(
            "The identity provider's answer cannot be trusted.", "Begin again at /refreshToken.", code="SignInFailed"
        ) from None


async def _verify_claims_once(
    token: object, metadata: ProviderMetadata, client_id: str, nonce: str, clock: Clock
) -> dict[str, Any]:
    essential: jwt.ClaimsOption = {"essential": True}
    claims = await _signed_claims(token, metadata, client_id, clock, sub=essential, exp=essential, nonce=essential)
    if not hmac.compare_digest(str(claims["nonce"]).encode(), nonce.encode()):
        raise ValueError("the nonce is that of another attempt")
    if claims.get("azp", client_id) != client_id:
        raise ValueError("the token was made for another client")
    if not isinstance(claims["sub"], str) or not 0 < len(claims["sub"]) <= OPENID_SUBJECT_CHARS:
        raise ValueError("the subject is missing or too long")
    return claims


async def _signed_claims(
    token: object, metadata: ProviderMetadata, client_id: str, clock: Clock, **more: jwt.ClaimsOption
) -> dict[str, Any]:
    # The claims of a token that the provider signed for us. Raises JoseError and others, and Unavailable without keys.
    if not isinstance(token, str):
        raise TypeError("the token isn't a string")
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
        iat={"essential": True},
        **more,
    )
    registry.validate(claims)
    return dict(claims)


_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"


@dataclass(frozen=True, slots=True)
class Logout:
    """A logout at the provider.

    It ends a session there, all sessions of a subject, or one session of a subject.
    """

    issuer: str
    subject: str | None
    session: str | None
    at: datetime


_PURPOSE = "openid sign-in"
_EXCERPT_CHARS = 200
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIdClient:
    """How this server is known at its provider; `redirect_uri` is where the provider sends browsers back to."""

    issuer: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: str
    redirect_uri: str
    groups_claim: str = ""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the provider says somebody is; `email` is empty unless the provider has verified it.

    `groups` is None where they are not asked for, or the provider has sent only a reference to them. `session` is the
    ID of the session at the provider, if it has one.
    """

    issuer: str
    subject: str
    email: str
    name: str
    groups: frozenset[str] | None = None
    session: str = ""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """Where to send the browser, and the cookie that it must come back with."""

    url: str
    name: str
    cookie: str


class _Attempt(msgspec.Struct, frozen=True):
    state: str
    nonce: str
    verifier: str
    until_s: float
    to: str = ""


COOKIES = "launchbay_openid_"  # begins the names of the cookies of attempts


def cookie_name(state: str) -> str:
    """Return the name of the cookie of the attempt with this state.

    Each attempt has its own, so that tabs don't end each other's. Anybody chooses the state in a link to the callback.
    """
    return COOKIES + sha256(state.encode("utf-8", "replace")).hexdigest()[:32]


class OpenIdProvider:
    """The provider, as this server talks to it."""

    def __init__(
        self, client: OpenIdClient, metadata: ProviderMetadata, egress: EgressClient, secret: SecretKey, clock: Clock
    ) -> None:
        self._client = client
        self._metadata = metadata
        self._egress = egress
        self._secret = secret
        self._clock = clock

    async def begin(self, to: str = "") -> AuthorizationRequest:
        """Begin a sign-in.

        `to` is what `finish` returns. Raises Unavailable while the provider cannot be reached.
        """
        endpoints = await self._metadata.endpoints()
        attempt = _Attempt(
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(24),
            secrets.token_urlsafe(48),
            self._clock.now().timestamp() + OPENID_ATTEMPT_S,
            to,
        )
        url, _ = self._oauth().create_authorization_url(
            endpoints.authorization, state=attempt.state, code_verifier=attempt.verifier, nonce=attempt.nonce
        )
        sealed = self._secret.seal(msgspec.json.encode(attempt), _PURPOSE)
        return AuthorizationRequest(url, cookie_name(attempt.state), urlsafe_b64encode(sealed).decode())

    def superfluous(self, cookies: Mapping[str, str]) -> list[str]:
        """Return which cookies of a browser must go before another attempt.

        These are attempts that are over, and the oldest of too many.
        """
        pending: dict[str, float] = {}
        for name, value in cookies.items():
            with suppress(NotAuthenticated):
                pending[name] = self._opened(value).until_s
        kept = sorted(pending, key=pending.__getitem__)[-(OPENID_ATTEMPTS - 1) :]
        return [name for name in cookies if name not in kept]

    async def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[Identity, str]:
        """Return who has signed in, and what to open then.

        `answer` is what the provider's redirect brings in its query.

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
        claims = await verify_claims(
            tokens.get("id_token"), self._metadata, self._client.client_id, attempt.nonce, self._clock
        )
        wanted = {"email", self._client.groups_claim} - {""}
        if wanted - claims.keys() and isinstance(tokens.get("access_token"), str):
            claims = {**await self._user_info(claims["sub"], tokens["access_token"]), **claims}
        return self._identity(claims), attempt.to

    async def read_logout(self, token: str) -> Logout:
        """Return what a logout token says (OpenID Connect Back-Channel Logout 1.0, section 2.6).

        Raises BadRequest for any other token, Unavailable while the provider's keys cannot be had.
        """
        try:
            claims = await _signed_claims(token, self._metadata, self._client.client_id, self._clock)
            return self._logout(claims)
        except (JoseError, ValueError, TypeError, AssertionError) as error:
            log.warning("openid.logout_refused", reason=str(error) or type(error).__name__)
            raise BadRequest(
                "This isn't a valid logout token of the identity provider.",
                "Look at the server's log for the reason.",
                code="InvalidLogoutToken",
            ) from None

    def _logout(self, claims: Mapping[str, Any]) -> Logout:
        subject, session = claims.get("sub"), _session(claims)
        events = claims.get("events")
        if "nonce" in claims or not isinstance(events, dict) or not isinstance(events.get(_LOGOUT_EVENT), dict):
            raise ValueError("it is another kind of token")
        if subject is None and session is None:
            raise ValueError("it names neither a subject nor a session")
        if subject is not None and not isinstance(subject, str):
            raise ValueError("the subject isn't a string")
        if claims["iat"] < self._clock.now().timestamp() - OPENID_LOGOUT_S:
            raise ValueError("it is too old")
        return Logout(self._client.issuer, subject, session, from_ms(int(claims["iat"] * 1000)))

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
        except (ValueError, binascii.Error, UnsealFailed, msgspec.MsgspecError):
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
        """Request the claims missing from the ID token. Ignores a response about another subject (Core §5.3.2)."""
        endpoint = (await self._metadata.endpoints()).user_info
        if endpoint is None:
            return {}
        claims = await self._ask("GET", endpoint, {"Authorization": f"Bearer {access_token}"}, b"")
        return claims if claims.get("sub") == subject else {}

    async def _ask(self, method: str, uri: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
        try:
            answer = await self._egress.request(
                method, uri, headers=headers, body=body, timeout_s=OPENID_TIMEOUT_S, max_bytes=OPENID_RESPONSE_BYTES
            )
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (EgressFailed, msgspec.MsgspecError, UnicodeDecodeError) as error:
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
            _groups(claims, self._client.groups_claim),
            _session(claims) or "",
        )


def _groups(claims: Mapping[str, Any], claim: str) -> frozenset[str] | None:
    """Return the groups in the claims; a missing claim means none."""
    found = claims.get(claim, [])
    found = [found] if isinstance(found, str) else found
    references = claims.get("_claim_names")  # OpenID Connect Core §5.6.2: too many groups for one token
    if not claim or (isinstance(references, dict) and claim in references):
        return None
    if not isinstance(found, list) or len(found) > OPENID_GROUPS:
        log.warning("openid.groups_ignored", claim=claim)
        return None
    return frozenset(group for group in found if isinstance(group, str) and 0 < len(group) <= NAME_CHARS)


def _session(claims: Mapping[str, Any]) -> str | None:
    found = claims.get("sid")
    return found if isinstance(found, str) and 0 < len(found) <= OPENID_SUBJECT_CHARS else None


def _shown(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text[:_EXCERPT_CHARS]).rstrip(". ")


def _refused(sentence: str) -> NotAuthenticated:
    log.info("openid.refused", reason=sentence)
    return NotAuthenticated(sentence, "Begin again at /refreshToken.", code="SignInFailed")
