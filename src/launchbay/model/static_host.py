"""How a host that is there already is written: an entry of `staticIps`, or a resource of a static pool. Pure.

    10.0.0.5    db.example    ops@10.0.0.5:2222    [2001:db8::5]:2222

A resource of a pool may be a map as well: `{address, port, user, keyPair}`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SSH_PORT = 22
PORTS = 65_535
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?\.?")
_V6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%[A-Za-z0-9]+)?")
_LOGIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,63}\$?")
_ADDRESS_NAMES = ("address", "host", "ip")
_LOGIN_NAMES = ("user", "login", "vmIdentity")
_KEY_NAMES = ("keyPair", "publicKeyId")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticHost:
    """A host and the way in; empty or 0 is what the entry does not say."""

    address: str
    login: str = ""
    port: int = 0
    key_name: str = ""


def read_host(text: str) -> StaticHost:
    """Return the host that an entry of `staticIps` names. Raises ValueError with a sentence."""
    login, at, place = text.strip().rpartition("@")
    host, port = _split(place)
    is_port = not port or (port.isascii() and port.isdigit() and 0 < int(port) <= PORTS)
    is_host = _HOST.fullmatch(host) or _V6.fullmatch(host)
    if not (is_port and is_host) or (at and not _LOGIN.fullmatch(login)):
        raise ValueError(
            f"{text[:120]!r} is no host: expected an address or a name, such as 10.0.0.5, ops@db.example:2222 or"
            " [2001:db8::5]:22."
        )
    return StaticHost(address=host, login=login, port=int(port or 0))


def address_of(text: str) -> str:
    """Return the address alone of an entry of `staticIps`; what cannot be read is taken for an address."""
    try:
        return read_host(text).address
    except ValueError:
        return text


def read_resource(resource_id: str, place: Any) -> StaticHost:
    """Return the host that a resource of a pool is: its description, or its id where that says no address.

    Raises ValueError with a sentence.
    """
    if isinstance(place, str) and place:
        return read_host(place)
    described = place if isinstance(place, Mapping) else {}
    found = read_host(_first(described, _ADDRESS_NAMES) or resource_id)
    port = described.get("port", found.port)
    if isinstance(port, bool) or not str(port).isdigit() or not 0 <= int(port) <= PORTS:
        raise ValueError(f"The resource {resource_id[:80]!r} of the pool has no port that can be.")
    return StaticHost(
        address=found.address,
        login=_first(described, _LOGIN_NAMES) or found.login,
        port=int(port),
        key_name=_first(described, _KEY_NAMES),
    )


def _split(place: str) -> tuple[str, str]:
    if place.startswith("["):
        host, _, rest = place[1:].partition("]")
        return host, rest.removeprefix(":") if not rest or rest.startswith(":") else "?"
    if place.count(":") > 1:
        return place, ""
    host, colon, port = place.partition(":")
    return host, port if port or not colon else "?"


def _first(described: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((str(described[name]) for name in names if described.get(name)), "")
