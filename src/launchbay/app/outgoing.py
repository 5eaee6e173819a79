"""The clients for outgoing HTTP, as the settings want them."""

from urllib.parse import urlsplit

from launchbay.egress.addresses import Allowlist
from launchbay.egress.http import EgressClient
from launchbay.egress.proxy import OutgoingProxy
from launchbay.settings import Settings

_PORTS = {"http": 80, "https": 443}


def outgoing_proxy(settings: Settings) -> OutgoingProxy | None:
    """Return the proxy for outgoing HTTP, or None. Raises CannotStart."""
    return OutgoingProxy.load(
        settings.outgoing_proxy, settings.outgoing_proxy_credentials_file, settings.outgoing_no_proxy
    )


def outgoing_client(settings: Settings, *urls: str) -> EgressClient:
    """Return a client for what the address rules allow, and for these URLs of settings.

    They are allowed only to this client, not to workflows. Raises CannotStart.
    """
    allowed = ",".join((settings.outgoing_allow, *map(_host_and_port, urls)))
    return EgressClient(Allowlist.parse(allowed), proxy=outgoing_proxy(settings))


def _host_and_port(url: str) -> str:
    """Return host and port in the format of the setting outgoing_allow."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return f"{f'[{host}]' if ':' in host else host}:{parts.port or _PORTS[parts.scheme]}"
