"""Which client trusted proxies pass on: what they appended counts, what clients made up doesn't."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from starlette.types import ASGIApp

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from launchbay.web.proxies import ClientAddress, TrustedProxies
from launchbay.web.server import serve
from tests.support.network import LIVE, Wire
from tests.support.routes import ID, sample_app

PROXIES = TrustedProxies(Settings(trusted_proxies="10.0.0.0/24, 127.0.0.1 2001:db8:ffff::/48").proxy_networks())


@pytest.mark.parametrize(
    ("peer", "headers", "client"),
    [
        # Only trusted proxies are believed.
        ("192.0.2.1", ["X-Forwarded-For: 203.0.113.9"], "192.0.2.1"),
        ("192.0.2.1", ["Forwarded: for=203.0.113.9"], "192.0.2.1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("", ["X-Forwarded-For: 203.0.113.9"], ""),
        # X-Forwarded-For: the last hop that isn't a trusted proxy.
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["X-Forwarded-For: 1.1.1.1, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["X-Forwarded-For: 1.1.1.1, 203.0.113.9, 10.0.0.2 ,10.0.0.3"], "203.0.113.9"),
        ("10.0.0.1", ["X-Forwarded-For: 1.1.1.1", "X-Forwarded-For: 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["X-Forwarded-For: 10.0.0.7, 10.0.0.8"], "10.0.0.7"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["X-Forwarded-For: 2001:db8::5"], "2001:db8::5"),
        ("10.0.0.1", ["X-Forwarded-For: [2001:db8::5]:443"], "2001:db8::5"),
        ("2001:db8:ffff::1", ["X-Forwarded-For: 2001:DB8:0::5, 2001:db8:ffff::2"], "2001:db8::5"),
        ("::ffff:10.0.0.1", ["X-Forwarded-For: ::ffff:203.0.113.9"], "203.0.113.9"),
        # What is malformed or hidden belongs to the proxy that passed it on.
        ("10.0.0.1", ["X-Forwarded-For: "], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9, unknown, 10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9, \x00"], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.999"], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: fe80::1%eth0"], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9 203.0.113.8"], "10.0.0.1"),
        ("10.0.0.1", ["X-Forwarded-For: 203.0.113.9;drop"], "10.0.0.1"),
        # Forwarded, as RFC 7239 writes it.
        ("10.0.0.1", ["Forwarded: for=203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["Forwarded: For=203.0.113.9;proto=https;by=10.0.0.1"], "203.0.113.9"),
        ("10.0.0.1", ['Forwarded: proto=https ; for="203.0.113.9:80" ;'], "203.0.113.9"),
        ("10.0.0.1", ['Forwarded: for="[2001:db8:cafe::17]:4711"'], "2001:db8:cafe::17"),
        ("10.0.0.1", ['Forwarded: for="[2001:db8:cafe::17]:_port.1"'], "2001:db8:cafe::17"),
        ("10.0.0.1", ["Forwarded: for=1.1.1.1, for=203.0.113.9, for=10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["Forwarded: for=1.1.1.1", "Forwarded: for=203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["Forwarded: for=203.0.113.9, for=_gazonk"], "10.0.0.1"),
        ("10.0.0.1", ["Forwarded: for=203.0.113.9, for=unknown, for=10.0.0.2"], "10.0.0.2"),
        ("10.0.0.1", ["Forwarded: proto=https"], "10.0.0.1"),
        ("10.0.0.1", ["Forwarded: for=203.0.113.9;for=1.1.1.1"], "10.0.0.1"),
        ("10.0.0.1", ["Forwarded: for=203.0.113.9; for"], "10.0.0.1"),
        # An open quote of the client doesn't hide what the proxy appended.
        ("10.0.0.1", ['Forwarded: for="1.1.1.1, for=203.0.113.9'], "203.0.113.9"),
        ("10.0.0.1", ['Forwarded: for=203.0.113.9;host="x, for=1.1.1.1"'], "10.0.0.1"),
        # The client may have sent the header that the proxy doesn't set.
        ("10.0.0.1", ["Forwarded: for=1.1.1.1", "X-Forwarded-For: 203.0.113.9"], "10.0.0.1"),
        ("10.0.0.1", ["Forwarded: for=203.0.113.9", "X-Forwarded-For: 1.1.1.1, 203.0.113.9"], "203.0.113.9"),
    ],
)
def test_a_client_behind_proxies_is_the_last_hop_that_isnt_a_proxy(peer: str, headers: list[str], client: str) -> None:
    sent = [tuple(part.encode("latin-1") for part in header.lower().split(": ", 1)) for header in headers]
    assert PROXIES.client_of(peer, sent) == client  # type: ignore[arg-type]  # each has two parts


def test_a_header_of_many_hops_is_not_followed_forever() -> None:
    hops = ", ".join(["1.1.1.1"] + ["10.0.0.2"] * 5000)
    assert PROXIES.client_of("10.0.0.1", [(b"x-forwarded-for", hops.encode())]) == "10.0.0.2"


def test_what_is_no_network_prevents_the_start() -> None:
    for text in ("proxy.example.org", "10.0.0.1/24", "10.0.0.0/33", "10.0.0.0/24; ::1"):
        with pytest.raises(CannotStart, match="LAUNCHBAY_TRUSTED_PROXIES names"):
            Settings(trusted_proxies=text)


@asynccontextmanager
async def server(**settings: Any) -> AsyncIterator[int]:
    stop = asyncio.Event()
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    chosen = Settings(port=0, stop_grace_s=1, **settings)
    trusted = TrustedProxies(chosen.proxy_networks())
    proxies: Callable[[ASGIApp], ASGIApp] = partial(ClientAddress, proxies=trusted, per_address=2)
    app = sample_app(proxies=proxies)
    serving = asyncio.create_task(serve(app, chosen, stop, started=lambda _, port: bound.set_result(port)))
    yield await bound
    stop.set()
    await serving


def get(path: str, client: str) -> bytes:
    headers = f"Host: x\r\nAuthorization: Bearer good\r\nX-Forwarded-For: {client}\r\n"
    return f"GET {path} HTTP/1.1\r\n{headers}\r\n".encode()


async def test_requests_of_each_client_of_a_proxy_are_bounded_and_its_connections_are_not() -> None:
    async with server(trusted_proxies="127.0.0.1", connections=20, connections_per_address=2) as port:
        busy = [await Wire.open(port) for _ in range(4)]
        for wire, client in zip(busy, ["203.0.113.1", "203.0.113.1", "203.0.113.2", "203.0.113.3"], strict=True):
            await wire.send(get("/api/1/sleep", client))
        late = await Wire.open(port)
        await late.send(get("/api/1/sleep", "203.0.113.1"))
        refused = await late.answer()
        assert (refused.status, refused.json()["code"]) == (503, "TooManyConnections")
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["x-content-type-options"] == "nosniff"
        for wire in busy:
            assert (await wire.answer()).status == 200
        await late.send(get(f"/api/1/things/{ID}", "203.0.113.1"))
        assert (await late.answer()).json()["address"] == "203.0.113.1"


async def test_others_keep_the_bound_of_connections_and_their_own_address() -> None:
    async with server(trusted_proxies="127.0.0.9", connections=20, connections_per_address=2) as port:
        wire = await Wire.open(port)
        await wire.send(get(f"/api/1/things/{ID}", "203.0.113.1"))
        assert (await wire.answer()).json()["address"] == "127.0.0.1"
        with socket.create_connection(("127.0.0.1", port), 5), socket.create_connection(("127.0.0.1", port), 5) as last:
            await asyncio.to_thread(last.sendall, LIVE)
            await asyncio.to_thread(last.recv, 10)
            assert await wire.ended()
