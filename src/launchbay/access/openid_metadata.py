"""What a provider says of itself: its endpoints and keys, fetched when they are needed and kept for a while."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from launchbay.clock import Clock
from launchbay.egress.http import OutgoingHttp
from launchbay.errors import OutgoingFailed, Unavailable
from launchbay.limits import OPENID_ANSWER_BYTES, OPENID_KEYS_AGAIN_S, OPENID_METADATA_S, OPENID_TIMEOUT_S

_ASYMMETRIC = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})

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
        return [name for name in self.algorithms if name in _ASYMMETRIC] or ["RS256"]

    def auth_method(self, *, has_secret: bool) -> str:
        """Return how this server proves who it is at the token endpoint."""
        if not has_secret:
            return "none"
        return "client_secret_basic" if "client_secret_basic" in self.auth_methods else "client_secret_post"


class ProviderMetadata:
    """Metadata and keys of one issuer."""

    def __init__(self, issuer: str, outgoing: OutgoingHttp, clock: Clock) -> None:
        self._issuer = issuer
        self._outgoing = outgoing
        self._clock = clock
        self._lock = asyncio.Lock()
        self._endpoints: Endpoints | None = None
        self._endpoints_until_s = 0.0
        self._keys: KeySet | None = None
        self._keys_at_s = 0.0

    async def endpoints(self) -> Endpoints:
        """Return the endpoints. Raises Unavailable when the provider does not tell them, or tells of another one."""
        async with self._lock:
            now = self._clock.monotonic_s()
            if self._endpoints is None or now >= self._endpoints_until_s:
                url = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
                self._endpoints = self._checked(await self._fetch(url))
                self._endpoints_until_s = now + OPENID_METADATA_S
            return self._endpoints

    async def keys(self, is_known: Callable[[KeySet], bool]) -> KeySet:
        """Return the keys that sign ID tokens; for one that is not among them they are fetched anew, now and then."""
        endpoints = await self.endpoints()
        async with self._lock:
            now = self._clock.monotonic_s()
            is_old = now - self._keys_at_s >= OPENID_METADATA_S
            may_ask = now - self._keys_at_s >= OPENID_KEYS_AGAIN_S
            if self._keys is None or is_old or (may_ask and not is_known(self._keys)):
                try:
                    self._keys = KeySet.import_key_set(await self._fetch(endpoints.keys))  # type: ignore[arg-type] # checked there
                except (JoseError, ValueError, TypeError, KeyError) as error:
                    raise self._unfit(f"its keys cannot be read ({error})") from None
                self._keys_at_s = now
            return self._keys

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
            answer = await self._outgoing.request("GET", url, timeout_s=OPENID_TIMEOUT_S, max_bytes=OPENID_ANSWER_BYTES)
            if answer.status != 200:
                raise self._unfit(f"{url} answered {answer.status}")
            return msgspec.json.decode(answer.body, type=dict[str, Any])
        except (OutgoingFailed, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._unfit(str(error)) from None

    def _unfit(self, why: str) -> Unavailable:
        # The operator reads the log; who signs in can do nothing about it.
        log.error("openid.provider_unfit", issuer=self._issuer, why=why)
        return Unavailable("The identity provider cannot be used now.", "Try again later, or ask an administrator.")
