"""Bounds of open connections, with real sockets: who is idle makes room for who works."""

import asyncio
import resource
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from launchbay.errors import CannotStart
from launchbay.settings import Settings
from launchbay.web.connections import bounds
from launchbay.web.server import serve
from tests.support.external_services import made_certificate
from tests.support.network import LIVE, Wire, exchange
from tests.support.routes import sample_app


@asynccontextmanager
async def server(**settings: object) -> AsyncIterator[int]:
    stop = asyncio.Event()
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    chosen = Settings(**{"port": 0, "stop_grace_s": 1, **settings})  # type: ignore[arg-type]  # of several types
    serving = asyncio.create_task(serve(sample_app(), chosen, stop, started=lambda _, port: bound.set_result(port)))
    yield await bound
    stop.set()
    await serving


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def connected(stack: ExitStack, port: int, count: int, address: str = "127.0.0.1") -> list[socket.socket]:
    """Open connections that say nothing, from an address of this machine."""

    def connect() -> list[socket.socket]:
        return [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 5, (address, 0))) for _ in range(count)
        ]

    return await asyncio.to_thread(connect)


async def test_hundreds_of_silent_connections_of_one_address_cut_nobody_off() -> None:
    before = open_descriptors()
    async with server(connections=200) as port:
        with ExitStack() as stack:
            await connected(stack, port, 400, "127.0.0.2")
            # The clients are in this process too.
            assert (await exchange(port, LIVE)).status == 200
            assert open_descriptors() - before < 400 + 100 + 20
            await connected(stack, port, 400, "127.0.0.3")
            assert (await exchange(port, LIVE)).status == 200
            assert open_descriptors() - before < 800 + 200 + 20


async def test_idle_connections_go_before_slow_ones_and_busy_ones_stay() -> None:
    async with server(connections=3, connections_per_address=3) as port:
        busy = await Wire.open(port)
        await busy.send(b"GET /api/1/sleep HTTP/1.1\r\nHost: x\r\n\r\n")
        slow = await Wire.open(port)
        await slow.send(b"GET /health/live HTTP/1.1\r\nHost: ")
        idle = await Wire.open(port)
        await idle.send(LIVE)
        assert (await idle.answer()).status == 200
        newcomer = await Wire.open(port)
        assert await idle.ended()
        await newcomer.send(LIVE)
        assert (await newcomer.answer()).status == 200
        await slow.send(b"x\r\n\r\n")
        assert (await slow.answer()).status == 200
        assert (await busy.answer()).status == 200


async def test_a_newcomer_is_refused_when_all_are_busy_and_gets_in_later() -> None:
    async with server(connections=2, connections_per_address=2) as port:
        busy = [await Wire.open(port) for _ in range(2)]
        for wire in busy:
            await wire.send(b"GET /api/1/sleep HTTP/1.1\r\nHost: x\r\n\r\n")
        late = await Wire.open(port)
        assert await late.ended()
        for wire in busy:
            assert (await wire.answer()).status == 200
        welcome = await Wire.open(port)
        await welcome.send(LIVE)
        assert (await welcome.answer()).status == 200


async def test_handshakes_that_never_end_count_too(tmp_path: Path) -> None:
    certificate, key = made_certificate(tmp_path)
    async with server(connections=50, tls_certificate=str(certificate), tls_key=str(key)) as port:
        with ExitStack() as stack:
            before = open_descriptors()
            await connected(stack, port, 200, "127.0.0.2")
            context = ssl.create_default_context(cafile=str(certificate))
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            assert open_descriptors() - before < 200 + 50 + 20
            writer.transport.abort()


def test_the_bounds_leave_descriptors_for_the_database() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))
        reserved = 256 + Settings().database_connections
        each = 1024 - reserved
        assert bounds(Settings()) == (each, each // 2, each)
        assert bounds(Settings(processes=3)) == (3 * each, 3 * each // 2, each)
        with pytest.raises(CannotStart, match="LimitNOFILE"):
            bounds(Settings(connections=1000))
        assert bounds(Settings(connections=1000, processes=2)) == (1000, 500, each)
        assert bounds(Settings(connections=10, connections_per_address=50)) == (10, 10, 10)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
