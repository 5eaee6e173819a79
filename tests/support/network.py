"""A way to PostgreSQL that breaks: it passes on what a client sends, and may close before the answer comes back.

So a COMMIT is carried out and its answer is lost, the one case in which nobody can know at once what has happened.

Or it falls silent: connections stay open, new ones are taken, and nothing gets through, until it speaks again and what
was held back arrives late.
"""

import asyncio
import contextlib
import io
import json
import random
import socket
import ssl
import tarfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.routes import ID
from tests.support.service import EMAIL, PASSWORD, basic


@dataclass
class Event:
    name: str
    data: Any
    id: int | None


@dataclass
class Stream:
    """An open stream. `comments` counts heartbeats, `retry_ms` is what the server wants a browser to wait."""

    response: httpx.Response
    comments: int = 0
    retry_ms: int | None = None
    last_id: int | None = None
    _lines: AsyncIterator[str] | None = None
    seen: list[Event] = field(default_factory=list)

    async def next(self, timeout_s: float = 10.0) -> Event | None:
        """Return the next event, None at the end of the stream."""
        if self._lines is None:
            self._lines = self.response.aiter_lines()
        name, data, number = "", "", None
        async with asyncio.timeout(timeout_s):
            async for line in self._lines:
                field_name, _, value = line.partition(": ")
                if line == ":":
                    self.comments += 1
                elif field_name == "retry":
                    self.retry_ms = int(value)
                elif field_name == "event":
                    name = value
                elif field_name == "data":
                    data = value
                elif field_name == "id":
                    number = self.last_id = int(value)
                elif line == "" and name:
                    self.seen.append(Event(name, json.loads(data), number))
                    return self.seen[-1]
        return None

    async def until(self, kind: str, /, **data: Any) -> Event:
        """Read on to an event of this kind with these data."""
        while event := await self.next():
            if event.name == kind and all(event.data[key] == value for key, value in data.items()):
                return event
        raise AssertionError(f"the stream ended before {kind} {data}; it had {self.seen}")

    async def ended(self) -> bool:
        """Read to the end; True when it is a proper one."""
        while await self.next():
            pass
        return True

    def of(self, name: str) -> list[Any]:
        """Return the data of the events of one name so far."""
        return [event.data for event in self.seen if event.name == name]


@asynccontextmanager
async def stream(
    port: int, instance: str, after: int | str | None = None, authorization: str | None = None, query: str = ""
) -> AsyncIterator[Stream]:
    """Open a stream of an instance's events, by default as the administrator."""
    headers = {"Authorization": authorization or basic(EMAIL, PASSWORD)}
    if after is not None:
        headers["Last-Event-ID"] = str(after)
    url = f"http://127.0.0.1:{port}/api/1/instances/{instance}/events{query}"
    async with httpx.AsyncClient(timeout=30) as client, client.stream("GET", url, headers=headers) as response:
        yield Stream(response)


_SOCKET = ".s.PGSQL.5432"


@dataclass
class CuttingProxy:
    """Cuts with this chance each time that a client has sent something; `cuts` counts. Silent while not `flowing`."""

    target: Path
    directory: Path
    chance: random.Random
    share: float = 0.0
    cuts: int = 0
    flowing: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.flowing.set()

    @property
    def url(self) -> str:
        return f"postgresql://launchbay@/launchbay?host={self.directory}&port=5432"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.target / _SOCKET)

    def intercepts(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        """Return whether the connection ends here, instead of the data's going on. May answer first."""
        return False

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection until an end closes it or it is cut."""
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self.flowing.wait()
            there, back = await self.connect()
        except (OSError, asyncio.CancelledError):
            writer.close()
            self._open.discard(task)
            return
        answering = asyncio.create_task(self._answer(there, writer))
        try:
            while (data := await reader.read(65_536)) and not answering.done():
                if self.intercepts(data, writer):
                    answering.cancel()
                    await writer.drain()
                    writer.close()
                    return
                if self.chance.random() < self.share:
                    self.cuts += 1
                    answering.cancel()  # before it is sent, so that nothing of the answer can slip through
                    back.write(data)
                    await back.drain()
                    await asyncio.sleep(0.05)  # the statement is carried out; a closed connection would end it
                    break
                await self.flowing.wait()
                back.write(data)
                await back.drain()
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            answering.cancel()
            if not writer.is_closing():
                writer.transport.abort()
            back.close()
            self._open.discard(task)

    async def end(self) -> None:
        """Close what is open."""
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                await self.flowing.wait()
                writer.write(data)
                await writer.drain()
            writer.close()


@asynccontextmanager
async def cutting_proxy(target: Path, directory: Path, seed: int) -> AsyncIterator[CuttingProxy]:
    """Listen in a directory for the PostgreSQL whose socket is in `target`."""
    directory.mkdir(parents=True, exist_ok=True)
    proxy = CuttingProxy(target, directory, random.Random(seed))
    async with answered_by(proxy):
        yield proxy


@asynccontextmanager
async def answered_by(proxy: CuttingProxy) -> AsyncIterator[None]:
    """Let a proxy listen in its directory."""
    server = await asyncio.start_unix_server(proxy.accept, proxy.directory / _SOCKET)
    try:
        yield
    finally:
        server.close()
        await proxy.end()


@dataclass
class TcpProxy(CuttingProxy):
    """The same in front of a port of this machine; listens on `port`."""

    target_port: int = 0
    port: int = 0

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.target_port)


@asynccontextmanager
async def tcp_proxy(target_port: int) -> AsyncIterator[TcpProxy]:
    """Listen on a free port for a server of this machine."""
    proxy = TcpProxy(Path(), Path(), random.Random(0), target_port=target_port)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.end()


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


# Spellings that the machine's resolver reads as the loopback address 127.0.0.1.
LOOPBACK_SPELLINGS = [
    "127.0.0.1", "2130706433", "0x7f000001", "0x7F000001", "017700000001", "0x7f.0.0.1", "0x7f.0x0.0x0.0x1",
    "127.1", "127.0.1", "127.0x1", "0x7f.1", "0177.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:1]", "localhost", "LOCALHOST", "LocalHost", "user@127.0.0.1", "user:pass@127.0.0.1",
    "8.8.8.8@127.0.0.1", "public.example%40@127.0.0.1",
]  # fmt: skip
# Everything else that must not be reached, as the host of a URL.
OTHER_TARGETS = [
    "0", "0.0.0.0", "0x0", "000000000", "127.0.0.2", "127.255.255.255", "10.0.0.1", "10.255.255.255",
    "167772161", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0xc0a80101", "192.168.257", "3232235777",
    "169.254.169.254", "2852039166", "0xa9fea9fe", "169.254.43518", "169.254.170.2", "168.63.129.16",
    "100.64.0.1", "100.100.100.200", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "4294967295", "0xffffffff",
    "[::]", "[::1]", "[0:0:0:0:0:0:0:1]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[::ffff:10.0.0.1]",
    "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::127.0.0.1]", "[64:ff9b::169.254.169.254]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]", "[2001:0:5db8:d822:0:0:80ff:fffe]",
    "[fc00::1]", "[fd00:ec2::254]", "[fe80::1]", "[fec0::1]", "[ff02::1]", "[2001:db8::1]", "[3fff::1]",
    "[100::1]", "[5f00::1]", "metadata@169.254.169.254", "::1@169.254.169.254",
]  # fmt: skip
# What is no http URL of a host; some readers see a loopback address in several of these.
NO_URLS = [
    "ftp://127.0.0.1/", "file:///etc/passwd", "gopher://127.0.0.1/_x", "//127.0.0.1/", "127.0.0.1", "", "http://",
    "http:///x", "http:127.0.0.1", "unix:///run/docker.sock", "http+unix://%2Frun%2Fdocker.sock/", "javascript:1",
    "http://[::1", "http://[::1]x/", "http://127.0.0.1:99999/", "http://127.0.0.1:x/", "http://127.0.0.1\r\nHost: x/",
    "http://１２７.０.０.１/", "http://①②⑦.0.0.1/", "http://127。0。0。1/", "http://127.0.0.1\\@public.example/",
    "http://a\x00b/", "http://%31%32%37.0.0.1/", "http://0177.0.0.1/", "http://0177.0.0.01/", "http://012.0.0.1/",
    "http://0251.0376.0251.0376/", "http://0300.0250.1.1.1/", f"http://{'a' * 300}.example/", f"http://{'x' * 9000}",
]  # fmt: skip
# Names, with what a resolver that an attacker controls would answer.
NAMES = {
    "loopback.example": ["127.0.0.1"],
    "loopback.example.": ["127.0.0.1"],
    "localhost.": ["127.0.0.1", "::1"],
    "metadata.google.internal": ["169.254.169.254"],
    "half.example": ["93.184.216.34", "127.0.0.1"],
    "other-half.example": ["127.0.0.1", "93.184.216.34"],
    "six.example": ["2606:4700:4700::1111", "::1"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "zone.example": ["fe80::1%lo"],
    "bücher.example": ["127.0.0.1"],
    "xn--bcher-kva.example": ["10.1.2.3"],
    "127.0.0.1.nip.example": ["127.0.0.1"],
    "1.1.1.1.nip.example": ["10.0.0.1"],
    "last-of-many.example": [f"93.184.216.{n}" for n in range(40)] + ["192.168.0.1"],
}


def packed(files: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as archive:
        for name, content in files.items():
            if isinstance(content, tarfile.TarInfo):
                archive.addfile(content)
                continue
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return written.getvalue()


GOOD = b"Authorization: Bearer good\r\n"
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"
RUN = f"POST /api/1/things/{ID}/go HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n".encode() + GOOD


@dataclass(frozen=True)
class RawAnswer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int) -> "Wire":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    async def send(self, *parts: bytes) -> None:
        for part in parts:
            self.writer.write(part)
        await self.writer.drain()

    async def answer(self) -> RawAnswer:
        """Read one answer that has a length."""
        async with asyncio.timeout(5):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
            return RawAnswer(int(head[0].split()[1]), headers, body)

    async def ended(self) -> bool:
        """Wait for the server to close; tell whether it did so without another byte."""
        async with asyncio.timeout(5):
            try:
                return await self.reader.read() == b""
            except ConnectionResetError:
                return True

    def close(self) -> None:
        self.writer.transport.abort()


def send_all_then_read(port: int, data: bytes) -> bytes:
    """Send everything on a blocking socket, whatever the server thinks of it, and only then look for an answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        time.sleep(0.2)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer


async def exchange(port: int, *parts: bytes) -> RawAnswer:
    """Send the bytes on a connection of their own and return the first answer."""
    wire = await Wire.open(port)
    try:
        await wire.send(*parts)
        return await wire.answer()
    finally:
        wire.close()
