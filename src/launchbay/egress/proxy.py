"""The outgoing proxy for HTTP and HTTPS, and what goes through it (docs/reference/outgoing.md).

The exceptions follow the rules of Go, because OpenTofu reads the same list by them. Where curl, Python and Go differ
in a form, it is read as Go does or refused (decision 0153).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import quote

import httpx

from launchbay.egress.addresses import HostPattern, literal_addresses, normalized_host, read_place, unmapped_address
from launchbay.errors import CannotStart, EgressFailed

# Go leaves these out by itself. Python, and so Ansible, reads no networks, and needs brackets around IPv6.
_LOCAL = ("localhost", "127.0.0.1", "127.0.0.0/8", "::1", "[::1]")
_URL = "LAUNCHBAY_OUTGOING_PROXY"
_CREDENTIALS = "LAUNCHBAY_OUTGOING_PROXY_CREDENTIALS_FILE"
_EVERYTHING = "*"
_REASON_CHARS = 100
_SIGN_IN = frozenset((401, 407))  # tinyproxy answers wrong credentials with 401
_CHANGEABLE = frozenset((408, 425, 429))  # refusals that end by themselves


class ProxyFailed(EgressFailed):
    """The proxy can't be reached (`status` 0), or refuses with an HTTP status."""

    def __init__(self, *messages: str, status: int = 0, retryable: bool = True) -> None:
        super().__init__(*messages, retryable=retryable)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Exception:
    """What is reached directly: a network, or a host and the names below it."""

    place: HostPattern
    only_below: bool

    def matches(self, name: str, addresses: Sequence[IPv4Address | IPv6Address], port: int) -> bool:
        network, host, own_port = self.place
        if own_port not in {None, port}:
            return False
        if network is not None:
            return any(address in network for address in addresses)
        return name.endswith(f".{host}") or (name == host and not self.only_below)

    def __str__(self) -> str:
        """Return the entry as Go reads it, with brackets only before a port."""
        network, host, port = self.place
        if network is not None:
            is_host = network.prefixlen == network.max_prefixlen
            host = str(network.network_address if is_host else network)
            host = f"[{host}]" if ":" in host and port is not None else host
        dot = "." if self.only_below else ""
        return f"{dot}{host}" if port is None else f"{dot}{host}:{port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingProxy:
    """A proxy for `http` and `https`, and what doesn't go through it."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = field(default="", repr=False)
    exceptions: tuple[_Exception, ...] = ()

    @classmethod
    def load(cls, url: str, credentials_file: str = "", no_proxy: str = "") -> "OutgoingProxy | None":
        """Read the settings. Return None without a proxy, or if nothing goes through it.

        Raises CannotStart for a wrong URL, an unreadable file of credentials, or a wrong entry of the list.
        """
        if not url:
            return None
        try:
            parts = httpx.URL(url)
        except httpx.InvalidURL:
            raise CannotStart(f"{_URL} must be an address such as http://proxy.example.org:3128.") from None
        if parts.userinfo:
            raise CannotStart(
                f"{_URL} has a user or password, which would be seen where settings are shown.",
                f"Write user:password in a file, and set {_CREDENTIALS} to its path.",
            )
        if parts.scheme not in {"http", "https"} or not parts.host or parts.raw_path != b"/":
            raise CannotStart(f"{_URL} is {url!r}; it must be an address such as http://proxy.example.org:3128.")
        port = _written_port(url)
        if not port:
            # Without one, curl connects to 1080 and others to 80.
            raise CannotStart(f"{_URL} is {url!r}; it needs the port of the proxy, such as {url.rstrip('/')}:3128.")
        user, password = _credentials(credentials_file) if credentials_file else ("", "")
        entries = [entry for part in no_proxy.split(",") if (entry := part.strip())]
        exceptions = tuple(_exception(entry) for entry in entries if entry != _EVERYTHING)
        if _EVERYTHING in entries:
            return None
        return cls(scheme=parts.scheme, host=parts.host, port=port, user=user, password=password, exceptions=exceptions)

    @property
    def url(self) -> str:
        """The address without credentials, so it can be shown."""
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"

    @property
    def url_with_credentials(self) -> str:
        """The address with credentials, escaped, for a program."""
        if not self.user:
            return self.url
        userinfo = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}"
        return f"{self.scheme}://{userinfo}@{_bracketed(self.host)}:{self.port}"

    def secrets(self) -> list[str]:
        """Return what no log may show: the password, and as a URL has it."""
        return [self.password, quote(self.password, safe="")] if self.password else []

    def carries(self, host: str, port: int) -> bool:
        """Return whether a connection to a host goes through the proxy.

        This machine is never reached through it. A name is compared as a name, whatever its address.
        """
        bare = host.strip("[]")
        addresses = [unmapped_address(each) for each in literal_addresses(bare, port)]
        if any(each.is_loopback or each.is_unspecified for each in addresses):
            return False
        try:
            name = normalized_host(bare)
        except UnicodeError:
            name = bare.lower()
        return not any(each.matches(name, addresses, port) for each in self.exceptions)

    def environment(self) -> Mapping[str, str]:
        """Return the variables for a program that connects by itself. They contain the password."""
        exceptions = ",".join((*_LOCAL, *map(str, self.exceptions)))
        found = {"HTTP_PROXY": self.url_with_credentials, "HTTPS_PROXY": self.url_with_credentials}
        found["NO_PROXY"] = exceptions
        return {**found, **{name.lower(): value for name, value in found.items()}}

    def unreachable(self, reason: str) -> ProxyFailed:
        return ProxyFailed(
            f"Can't reach the proxy {self.url}: {reason}.", "The server's administrator must check outgoing_proxy."
        )

    def refused(self, target: str, answer: str) -> ProxyFailed:
        """Return the error for a proxy's answer, such as `403 Forbidden`. `target` is host:port."""
        shown = "".join(letter if letter.isprintable() else " " for letter in answer)[:_REASON_CHARS].strip()
        status = int(shown[:3]) if shown[:3].isdecimal() else 0
        if status in _SIGN_IN:
            has = "refuses the credentials" if self.user else "asks for credentials"
            return ProxyFailed(
                f"The proxy {self.url} {has} ({status}).",
                "The server's administrator must check outgoing_proxy_credentials_file.",
                status=status,
                retryable=False,
            )
        if 400 <= status < 500:
            return ProxyFailed(
                f"The proxy {self.url} refuses {target} ({shown}).",
                "Ask whoever runs it to allow this host and port, or let an administrator add the host to "
                "outgoing_no_proxy.",
                status=status,
                retryable=status in _CHANGEABLE,
            )
        return ProxyFailed(
            f"The proxy {self.url} can't connect to {target} ({shown}).",
            "Check the host and port. An administrator can add what only this server reaches to outgoing_no_proxy.",
            status=status,
        )


def _written_port(url: str) -> int:
    """Return the port that a URL states, or 0: httpx drops default ones."""
    _, _, text = url.partition("://")[2].rstrip("/").rpartition(":")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 65536 else 0


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _credentials(file: str) -> tuple[str, str]:
    try:
        text = Path(file).read_text("utf-8").strip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it isn't text"
        raise CannotStart(f"{_CREDENTIALS}: can't read {file}: {reason}.") from error
    user, colon, password = text.partition(":")
    if not user or not colon or not text.isprintable():
        raise CannotStart(f"{_CREDENTIALS}: {file} must have one line, user:password.")
    return user, password


def _exception(text: str) -> _Exception:
    only_below = text.startswith((".", "*."))
    try:
        place = read_place(text.removeprefix("*").removeprefix("."))
    except ValueError as error:
        raise CannotStart(f"LAUNCHBAY_OUTGOING_NO_PROXY: {error}") from None
    network = place.network
    if network is not None and (only_below or (place.port is not None and network.prefixlen < network.max_prefixlen)):
        raise CannotStart(
            f"LAUNCHBAY_OUTGOING_NO_PROXY: {text!r} can't have a port or a leading dot, because it is a network."
        )
    return _Exception(place, only_below)
