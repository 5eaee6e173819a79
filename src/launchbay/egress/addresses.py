"""Rules for the addresses that an outgoing connection can reach (docs/reference/outgoing.md).

The tables follow IANA's special-purpose address registries. The standard library's `is_private` and `is_global` won't
do, because their meaning changes between patch releases.
"""

import re
import socket
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any, NamedTuple

from launchbay.errors import AddressRefused, CannotStart
from launchbay.ids import is_id
from launchbay.model.machine import JUMP_POLICY, read_jump
from launchbay.model.price import PRICES_POLICY, read_prices

ALLOW_POLICY = "outgoing.allow"
NO_POLICIES: Mapping[str, Any] = {}
_REMEDY = (
    "Allow it with the setting outgoing_allow. If the environment has the policy outgoing.allow, add it there too."
)

# More specific networks first: the first match gives the reason.
_FORBIDDEN_V4 = tuple(
    (IPv4Network(network), reason)
    for network, reason in (
        ("169.254.169.254/32", "the metadata service of a cloud"),
        ("168.63.129.16/32", "the metadata service of a cloud"),
        ("100.100.100.200/32", "the metadata service of a cloud"),
        ("192.0.0.192/32", "the metadata service of a cloud"),
        ("255.255.255.255/32", "the broadcast address"),
        ("0.0.0.0/32", "the unspecified address"),
        ("0.0.0.0/8", "this network"),
        ("10.0.0.0/8", "a private network"),
        ("100.64.0.0/10", "the shared network of a carrier"),
        ("127.0.0.0/8", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("172.16.0.0/12", "a private network"),
        ("192.0.0.0/24", "reserved for protocols"),
        ("192.0.2.0/24", "reserved for documentation"),
        ("192.88.99.0/24", "reserved for 6to4 relays"),
        ("192.168.0.0/16", "a private network"),
        ("198.18.0.0/15", "reserved for benchmarks"),
        ("198.51.100.0/24", "reserved for documentation"),
        ("203.0.113.0/24", "reserved for documentation"),
        ("224.0.0.0/4", "a multicast address"),
        ("240.0.0.0/4", "a reserved address"),
    )
)

_FORBIDDEN_V6 = tuple(
    (IPv6Network(network), reason)
    for network, reason in (
        ("fd00:ec2::/64", "the metadata service of a cloud"),
        ("fd20:ce::/64", "the metadata service of a cloud"),
        ("::/128", "the unspecified address"),
        ("::1/128", "a loopback address"),
        ("::/96", "an IPv4-compatible address"),
        ("64:ff9b:1::/48", "a translation prefix for local use"),
        ("100::/64", "the discard prefix"),
        ("2001::/23", "reserved for protocols"),
        ("2001:db8::/32", "reserved for documentation"),
        ("3fff::/20", "reserved for documentation"),
        ("fc00::/7", "a unique local address"),
        ("fe80::/10", "a link-local address"),
        ("fec0::/10", "a site-local address"),
        ("ff00::/8", "a multicast address"),
    )
)
_TEREDO = IPv6Network("2001::/32")
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# The last label has a letter: "10.0.0" is a mistyped network, not a name.
_HOST_NAME = re.compile(r"(?=.{1,253}$)(?:[a-z0-9_-]{1,63}\.)*(?=[0-9_-]*[a-z])[a-z0-9_-]{1,63}")
_ISATAP_INTERFACES = (0x0000_5EFE, 0x0200_5EFE)


class HostPattern(NamedTuple):
    """A network or the name of a host, for all ports or one."""

    network: IPv4Network | IPv6Network | None
    host: str
    port: int | None


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of an allowlist: a network or host name, for all ports or one, for all owners or one."""

    network: IPv4Network | IPv6Network | None
    host: str
    port: int | None
    owner: str = ""  # the ID of an organization or environment; empty for all
    is_plain: bool = False  # credentials may go there over http

    def matches(self, name: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        if self.port is not None and self.port != port:
            return False
        return address in self.network if self.network is not None else self.host == name


class Allowlist:
    """Hosts and networks that are allowed although the rules forbid them (conformance.md, "Running it").

    An entry of the setting can be limited to one organization or environment. An environment's own list narrows the
    setting: both must allow a forbidden address.
    """

    def __init__(self, entries: tuple[_Entry, ...] = (), owner: Collection[str] = (), own: str | None = None) -> None:
        self._entries = entries
        self._owner = frozenset(owner)
        self._own = None if own is None else _own_entries(own)

    @classmethod
    def parse(cls, text: str) -> "Allowlist":
        """Read the setting: comma-separated addresses, networks and host names, each with an optional port.

        `[::1]:8080` is an IPv6 address with a port. `10.0.0.0/8@ID` is only for the organization or environment with
        that ID. `http://build.internal` may get credentials over plain HTTP too.

        Raises `CannotStart` for an invalid entry.
        """
        try:
            return cls(tuple(_entry(part.strip()) for part in text.split(",") if part.strip()))
        except ValueError as error:
            raise CannotStart(f"LAUNCHBAY_OUTGOING_ALLOW: {error}") from None

    def for_environment(
        self, organization_id: str, environment_id: str = "", policies: Mapping[str, Any] = NO_POLICIES
    ) -> "Allowlist":
        own = policies.get(ALLOW_POLICY)
        return Allowlist(self._entries, {organization_id, environment_id}, None if own is None else str(own))

    def allows(self, host: str, address: IPv4Address | IPv6Address, port: int) -> bool:
        """Return whether an entry allows the address, or the host name that it was resolved from."""
        name = normalized_host(host)
        return any(
            entry.matches(name, address, port)
            for entry in self._entries
            if not entry.owner or entry.owner in self._owner
        ) and (self._own is None or any(entry.matches(name, address, port) for entry in self._own))

    def allows_plain(self, host: str, port: int) -> bool:
        """Return whether credentials may go to a host over plain HTTP.

        An entry must say so. What stays on this machine needs none.
        """
        name = normalized_host(host.strip("[]"))
        try:
            address = unmapped_address(name)
        except ValueError:
            address = None
        if name == "localhost" or (address is not None and address.is_loopback):
            return True
        return any(
            entry.is_plain
            and (not entry.owner or entry.owner in self._owner)
            and entry.port in {None, port}
            and (entry.host == name if entry.network is None else address is not None and address in entry.network)
            for entry in self._entries
        )


def check_policy(text: str) -> None:
    """Raise ValueError for a wrong value of the policy `outgoing.allow`."""
    for part in text.split(","):
        if not part.strip():
            continue
        entry = _entry(part.strip())
        if entry.owner:
            raise ValueError(f"{part.strip()!r} has an @. Only the setting outgoing_allow accepts it.")
        if entry.is_plain:
            raise ValueError(f"{part.strip()!r} has a scheme. Only the setting outgoing_allow accepts it.")


# The policies whose values have a form. A check raises ValueError.
POLICY_CHECKS: Mapping[str, Callable[[bool | int | str], object]] = {
    ALLOW_POLICY: lambda value: check_policy(str(value)),
    JUMP_POLICY: read_jump,
    PRICES_POLICY: read_prices,
}


def _own_entries(text: str) -> tuple[_Entry, ...]:
    """Return the entries of an environment's own list. An invalid list, stored by an older version, allows nothing."""
    try:
        check_policy(text)
    except ValueError:
        return ()
    return tuple(_entry(part.strip()) for part in text.split(",") if part.strip())


def normalized_host(host: str) -> str:
    """Return a host name for comparison: lower case, ASCII, without the final dot."""
    name = host.rstrip(".").lower()
    return name if name.isascii() else name.encode("idna").decode("ascii")


def literal_addresses(host: str, port: int) -> tuple[str, ...]:
    """Return what a host means without a resolver.

    An address in any spelling, or the name of this machine. Other names give nothing.
    """
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return ("127.0.0.1",)
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return ()
    return tuple(str(sockaddr[0]) for _family, _type, _protocol, _name, sockaddr in found)


def validate_address(text: str, host: str, port: int, allowlist: Allowlist) -> str:
    """Return the address to connect to: `text`, resolved from `host`, in its normal form.

    Raises `AddressRefused` if the rules forbid it and the allowlist doesn't contain it.
    """
    address = unmapped_address(text)
    reason = forbidden_reason(address)
    if reason is None or allowlist.allows(host, address, port):
        return str(address)
    origin = "" if normalized_host(host) in (text, str(address)) else f" (of {host})"
    raise AddressRefused(f"The address {address}{origin} is refused: it is {reason}.", _REMEDY)


def unmapped_address(text: str) -> IPv4Address | IPv6Address:
    """Return the address without a zone, and an IPv4-mapped one as IPv4, as the kernel treats it."""
    address = ip_address(text)
    if isinstance(address, IPv4Address):
        return address
    return address.ipv4_mapped or IPv6Address(int(address))


def forbidden_reason(address: IPv4Address | IPv6Address) -> str | None:
    """Return why the rules forbid the address, such as "a loopback address", or None."""
    if isinstance(address, IPv4Address):
        return _reason_in(_FORBIDDEN_V4, address)
    for inner in _embedded_v4(address):
        reason = forbidden_reason(inner)
        if reason is not None:
            return f"an alias of {inner}, {reason}"
    if address.ipv4_mapped is not None or address in _NAT64 or address in _TEREDO:
        return None
    listed = _reason_in(_FORBIDDEN_V6, address)
    return listed if listed or address in _GLOBAL_V6 else "outside the public address space"


def _reason_in(table: tuple[tuple[Any, str], ...], address: IPv4Address | IPv6Address) -> str | None:
    return next((reason for network, reason in table if address in network), None)


def _embedded_v4(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses that the kernel, tunnels and translators extract from an IPv6 address."""
    low = int(address) & 0xFFFF_FFFF
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (IPv4Address(low),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    if int(address) >> 32 & 0xFFFF_FFFF in _ISATAP_INTERFACES:
        return (IPv4Address(low),)
    return ()


def _entry(text: str) -> _Entry:
    """Read one entry. Raises ValueError with a message for the user."""
    place, at, whose = text.partition("@")
    if at and not is_id(whose):
        raise ValueError(f"{text!r} needs the ID of an organization or environment after the @.")
    is_plain = place.startswith("http://")
    try:
        found = read_place(place.removeprefix("http://"))
    except ValueError as error:
        raise ValueError(str(error).replace(repr(place.removeprefix("http://")), repr(text))) from None
    return _Entry(*found, whose, is_plain)


def read_place(text: str) -> HostPattern:
    """Read a network, address or host name, each with an optional port.

    Raises ValueError with a message for the user.
    """
    host, port = _split_port(text)
    try:
        return HostPattern(_plain_network(host), "", port)
    except ValueError:
        pass
    try:
        name = normalized_host(host)
    except UnicodeError:
        name = ""
    if not _HOST_NAME.fullmatch(name):
        raise ValueError(
            f"Invalid entry {text!r}. Use an address, network or host name: 10.0.0.0/8, build.internal:8080."
        )
    return HostPattern(None, name, port)


def _plain_network(text: str) -> IPv4Network | IPv6Network:
    """Return the network, one of IPv4-mapped addresses as IPv4. Raises ValueError."""
    network = ip_network(text, strict=False)
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None or network.prefixlen < 96:
        return network
    return IPv4Network((mapped, network.prefixlen - 96))


def _split_port(text: str) -> tuple[str, int | None]:
    """Split `host:port`; an IPv6 address needs brackets to have a port."""
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise ValueError(f"{text!r} has no IPv6 address in its brackets.")
        port_text = rest[1:] if rest else None
    elif text.count(":") == 1:
        host, _, port_text = text.partition(":")
    else:
        host, port_text = text, None
    if port_text is None:
        return host, None
    if not (port_text.isascii() and port_text.isdigit() and 0 < int(port_text) < 65536):
        raise ValueError(f"{text!r} needs a port between 1 and 65535 after the colon.")
    return host, int(port_text)
