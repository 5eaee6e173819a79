"""Raw HTTP over a socket, where a client library would be too well behaved."""

import asyncio
import contextlib
import json
import socket
import time
from dataclasses import dataclass
from typing import Any

from tests.web.sample import ID

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
