"""A lean HTTP/1.1 client for load: on two cores every microsecond of the client is taken from the server."""

import asyncio
import base64
import json
from typing import Any


class Client:
    """One kept-alive connection; it is opened again if the server has closed it meanwhile."""

    def __init__(self, host: str, port: int, authorization: str) -> None:
        self._host = host
        self._port = port
        self._authorization = authorization
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Return where it connects to."""
        return self._host, self._port

    @property
    def authorization(self) -> str:
        """Return the value of its Authorization header."""
        return self._authorization

    async def request(
        self, method: str, path: str, body: bytes = b"", media: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body."""
        if self._writer is None or (self._reader is not None and self._reader.at_eof()):
            self.close()
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        assert self._reader is not None
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {self._authorization}\r\n"
        if body or method in {"POST", "PUT"}:
            head += f"Content-Type: {media}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        status = int(answer[9:12])
        length = 0
        for line in answer.split(b"\r\n")[1:]:
            if line.lower().startswith(b"content-length:"):
                length = int(line[15:])
        return status, await self._reader.readexactly(length)

    async def json(self, method: str, path: str, value: Any = None) -> Any:
        """Return the decoded answer; anything but 200 is an error of the benchmark."""
        status, body = await self.request(method, path, b"" if value is None else json.dumps(value).encode())
        assert status == 200, (method, path, status, body)
        return json.loads(body)

    async def yaml(self, path: str, text: str) -> Any:
        """Upload a manifest."""
        status, body = await self.request("PUT", path, text.encode(), "application/x-yaml")
        assert status == 200, (path, status, body)
        return json.loads(body)

    def another(self) -> "Client":
        """Return a further connection with the same credentials."""
        return Client(self._host, self._port, self._authorization)

    def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()


def basic(email: str, password: str) -> str:
    """Return the value of a Basic Authorization header."""
    return "Basic " + base64.b64encode(f"{email}:{password}".encode()).decode()
