"""The OpenID Connect provider, as the settings describe it."""

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

from launchbay.auth.openid import OpenIdClient, OpenIdProvider, ProviderMetadata
from launchbay.auth.secret_key import SecretKey
from launchbay.clock import Clock
from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import OutgoingHttp
from launchbay.settings import Settings
from launchbay.usecases.sign_in import Admission, OpenIdSignIn
from launchbay.web.api.sign_in import CALLBACK

_PORTS = {"http": 80, "https": 443}


def openid_sign_in(settings: Settings, secret: SecretKey, clock: Clock, stack: AsyncExitStack) -> OpenIdSignIn | None:
    """Return the sign-in through the provider, None when none is set."""
    if not settings.oidc_issuer:
        return None
    # Who names a provider allows it, wherever it is; workflows may not reach it for that.
    outgoing = OutgoingHttp(Allowlist.parse(f"{settings.outgoing_allow},{_place(settings.oidc_issuer)}"))
    stack.push_async_callback(outgoing.aclose)
    client = OpenIdClient(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
        scopes=" ".join(settings.oidc_scopes.replace(",", " ").split()),
        redirect_uri=settings.base_url.rstrip("/") + CALLBACK,
    )
    metadata = ProviderMetadata(client.issuer, outgoing, clock)
    return OpenIdSignIn(
        OpenIdProvider(client, metadata, outgoing, secret, clock),
        Admission(
            domains=tuple(domain.lower() for domain in _listed(settings.oidc_allowed_domains)),
            organization=settings.oidc_organization,
            new_user_roles=_listed(settings.oidc_new_user_roles),
        ),
    )


def _place(url: str) -> str:
    """Return host and port in the form of the setting outgoing_allow."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
