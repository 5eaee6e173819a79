"""The addresses of clients behind trusted proxies.

The headers `Forwarded` (RFC 7239) and `X-Forwarded-For` count only from peers in `trusted_proxies`. Clients can send
both, so only what trusted proxies appended is believed: the last hop that isn't a trusted proxy is the client.
"""

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from starlette.types import ASGIApp, Receive, Scope, Send

from launchbay.auth.throttle import address_block
from launchbay.fairness.shared_counts import SharedCounts
from launchbay.telemetry import metrics
from launchbay.web.problems import plain_problem

_HOPS = 32  # looked at, from the last one; nobody has so many proxies
_RETRY_AFTER_S = 1
# A node of RFC 7239: an address, an IPv6 address in brackets, each with a port or an obfuscated one.
_NODE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([0-9.]+))(?::(?:[0-9]{1,5}|_[A-Za-z0-9._-]+))?")
# A pair of `Forwarded`. Addresses contain no separators, so headers are split at each one. A quoted separator of the
# client then makes the pair malformed, and what the proxy appended after it isn't affected.
_PAIR = re.compile(r'([!#$%&\'*+.^_`|~0-9A-Za-z-]+)=([!#$%&\'*+.^_`|~0-9A-Za-z-]+|"[^"\\]*")')

Address = IPv4Address | IPv6Address


class TrustedProxies:
    """The networks of proxies whose headers about the client are believed."""

    def __init__(self, networks: Iterable[IPv4Network | IPv6Network]) -> None:
        self._networks = tuple(networks)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __contains__(self, peer: str) -> bool:
        address = _parsed(peer)
        return address is not None and self._trusts(address)

    def client_of(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the client's address: the peer, unless a trusted proxy names another.

        What is malformed, hidden or unknown ends the search; the proxy that passed it on is then the client. So is the
        peer if both headers occur and disagree: a proxy sets one of them, and the client may have sent the other one.
        """
        address = _parsed(peer)
        if address is None or not self._trusts(address):
            return peer
        found: dict[bytes, list[str]] = {b"forwarded": [], b"x-forwarded-for": []}
        for name, value in headers:
            if name in found:
                found[name].append(value.decode("latin-1"))
        named = set()
        if lines := found[b"forwarded"]:
            named.add(self._last_untrusted(address, map(_forwarded_node, _from_last(lines))))
        if lines := found[b"x-forwarded-for"]:
            named.add(self._last_untrusted(address, (node.strip(" \t") for node in _from_last(lines))))
        return str(named.pop() if len(named) == 1 else address)

    def _last_untrusted(self, peer: Address, nodes: Iterable[str]) -> Address:
        nearest = peer
        for node in nodes:
            address = _node_address(node)
            if address is None:
                return nearest
            nearest = address
            if not self._trusts(address):
                break
        return nearest

    def _trusts(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def _from_last(lines: list[str]) -> list[str]:
    """Return the elements of a header, the last one first."""
    return ",".join(lines).split(",")[: -_HOPS - 1 : -1]


def _parsed(text: str) -> Address | None:
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _node_address(node: str) -> Address | None:
    """Return the address, None if it is hidden, unknown or malformed."""
    found = _NODE.fullmatch(node)
    # X-Forwarded-For has IPv6 addresses without brackets too; then there is no port.
    return _parsed(found[1] or found[2]) if found is not None else _parsed(node) if "%" not in node else None


def _forwarded_node(element: str) -> str:
    """Return the `for` of an element, "" if missing or malformed."""
    pairs = [_PAIR.fullmatch(part) for text in element.split(";") if (part := text.strip(" \t"))]
    if not all(pairs):
        return ""
    nodes = [pair[2] for pair in pairs if pair is not None and pair[1].lower() == "for"]
    return nodes[0].strip('"') if len(nodes) == 1 else ""


class ClientAddress:
    """Gives requests the address of their client.

    The connections of a proxy carry the requests of many. So instead of its connections, the requests under way of each
    of its clients are bounded, by `per_address`. One beyond gets 503.
    """

    def __init__(
        self, app: ASGIApp, proxies: TrustedProxies, per_address: int, counts: SharedCounts | None = None
    ) -> None:
        """Count requests under way in `counts`."""
        self._app = app
        self._proxies = proxies
        self._per_address = per_address
        self._counts = counts or SharedCounts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope.get("client")
        if peer is None or peer[0] not in self._proxies:
            await self._app(scope, receive, send)
            return
        client = self._proxies.client_of(peer[0], scope["headers"])
        scope["client"] = (client, 0)
        if client in self._proxies:  # the proxy itself, or it names nobody
            await self._app(scope, receive, send)
            return
        under_way = f"under way of {address_block(client)}"
        if self._counts.connections(under_way) >= self._per_address:
            metrics.refusals.labels("TooManyConnections").inc()
            answer = plain_problem(
                503,
                "TooManyConnections",
                "Too many requests of this address are under way.",
                scope["state"]["request_id"],
            )
            headers = [(name.lower().encode(), value.encode()) for name, value in answer.headers]
            headers += [(b"content-length", b"%d" % len(answer.body)), (b"retry-after", b"%d" % _RETRY_AFTER_S)]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
            await send({"type": "http.response.body", "body": answer.body})
            return
        self._counts.add_connections(under_way, 1)
        try:
            await self._app(scope, receive, send)
        finally:
            self._counts.add_connections(under_way, -1)
