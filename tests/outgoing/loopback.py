"""A real HTTP server on the loopback addresses, whose answers a test writes itself, down to the bytes."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


def answer(status: int = 200, body: bytes = b"", headers: Sequence[tuple[str, str]] = ()) -> Answer:
    lines = [
        f"HTTP/1.1 {status} Status",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers),
    ]

    async def write(received: Received, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + (b"" if received.method == "HEAD" else body))

    return write


def redirect(location: str, status: int = 302) -> Answer:
    return answer(status, headers=[("Location", location)])


@dataclass
class LoopbackServer:
    port: int = 0
    connections: int = 0
    received: list[Received] = field(default_factory=list)
    sni_names: list[str | None] = field(default_factory=list)
    routes: dict[str, Answer] = field(default_factory=dict)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.split("\r\n")[:-2]
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            method, target, _version = first.split(" ")
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            received = Received(method, target, headers, body)
            self.received.append(received)
            await self.routes.get(target.partition("?")[0], answer(body=b"hello"))(received, writer)
            await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def loopback_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[LoopbackServer]:
    server = LoopbackServer()
    if tls is not None:
        tls.sni_callback = lambda _socket, name, _context: server.sni_names.append(name)
    listener = await asyncio.start_server(server.serve, ["127.0.0.1"], 0, ssl=tls)
    server.port = listener.sockets[0].getsockname()[1]
    listeners = [listener]
    with contextlib.suppress(OSError):  # a machine without IPv6
        listeners.append(await asyncio.start_server(server.serve, ["::1"], server.port, ssl=tls))
    try:
        yield server
    finally:
        for each in listeners:
            each.close()


class FakeResolver:
    """Gives its answers in turn, the last one for ever, and counts the questions."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.questions: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.questions.append(host)
        found = self.answers[min(len(self.questions), len(self.answers)) - 1]
        if not found:
            raise OSError("no address")
        return found
