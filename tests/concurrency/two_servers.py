"""Two servers as processes of their own on one PostgreSQL, and connections that ask both at the same moment."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import httpx

from tests.api.running import fresh_name
from tests.durability.servers import EMAIL, PASSWORD, Process

BUSY = {"Requested", "Executing", "Destroying"}


@dataclass(frozen=True)
class Answer:
    """What came back: the status and the body."""

    status: int
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Connection:
    """One kept-alive connection to one server; on few cores, a lean client leaves more of them to the servers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, authorization: str) -> None:
        self._reader = reader
        self._writer = writer
        self._authorization = authorization

    @classmethod
    async def open(cls, port: int, authorization: str) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port), authorization)

    def send(self, method: str, path: str, body: Any = None) -> None:
        """Write a request; `path` is relative to `/api/1/`."""
        data = b"" if body is None else json.dumps(body).encode()
        kind = "" if body is None else "Content-Type: application/json\r\n"
        head = f"{method} /api/1/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: {self._authorization}\r\n{kind}"
        self._writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)

    async def receive(self) -> Answer:
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        return Answer(int(head[9:12]), await self._reader.readexactly(length))

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        self.send(method, path, body)
        return await self.receive()

    def close(self) -> None:
        self._writer.close()


@dataclass(frozen=True)
class Pair:
    """Two running servers. `authorization` is a session token, which either of them verifies."""

    ports: tuple[int, int]
    authorization: str
    organization: str

    @asynccontextmanager
    async def connections(self, count: int) -> AsyncIterator[list[Connection]]:
        """Open connections, to the two servers in turn."""
        ports = itertools.islice(itertools.cycle(self.ports), count)
        opened = await asyncio.gather(*(Connection.open(port, self.authorization) for port in ports))
        try:
            yield opened
        finally:
            for connection in opened:
                connection.close()

    async def application(self, manifest: str) -> str:
        """Make an application with this manifest."""
        headers = {"Authorization": self.authorization}
        url = f"http://127.0.0.1:{self.ports[0]}/api/1/"
        async with httpx.AsyncClient(base_url=url, headers=headers) as client:
            name = {"name": fresh_name("app")}
            made = await client.post(f"organizations/{self.organization}/applications", json=name)
            application = str(made.json()["id"])
            uploaded = await client.put(
                f"applications/{application}/manifest",
                content=manifest.encode(),
                headers={"Content-Type": "application/x-yaml"},
            )
            assert uploaded.status_code == 200, uploaded.text
        return application


@contextmanager
def running_pair(database_url: str, directory: Path, *, seed: str | None = None) -> Iterator[Pair]:
    """Start two servers, with a known defect in them if `seed` names one, and stop them at the end."""
    settings = {
        "LAUNCHBAY_DATABASE_URL": database_url,
        "LAUNCHBAY_SECRET_KEY_FILE": str(directory / "secret.key"),
        "LAUNCHBAY_LOG_LEVEL": "warning",
        "LAUNCHBAY_STAGER_INTERVAL_MS": "20",
        "LAUNCHBAY_RATE_LIMIT_ADDRESS_PER_S": "100000",
        "LAUNCHBAY_RATE_LIMIT_USER_PER_S": "100000",
    }
    servers = []
    for number in (1, 2):
        place = directory / f"server-{number}"
        place.mkdir()
        command = ["serve", "--port", "0", "--data-dir", str(place / "data")]
        servers.append(Process(command, place, seed=seed, settings=settings))
    try:
        for server in servers:
            server.start()
        first, second = (server.port or 0 for server in servers)
        yield _pair(first, second)
    finally:
        for server in servers:
            server.end()


def _pair(first: int, second: int) -> Pair:
    root = f"http://127.0.0.1:{first}"
    with httpx.Client(base_url=root, timeout=30, headers={"Origin": root}) as client:
        page = client.post("/refreshToken", data={"email": EMAIL, "password": PASSWORD})
        token = "lbr_" + page.text.partition("lbr_")[2].partition("<")[0].strip()
        session = client.post("/refreshToken/jwtBearer", json={"refreshToken": token})
        authorization = f"Bearer {session.json()['jwtBearer']}"
        [organization] = client.get("/api/1/organizations", headers={"Authorization": authorization}).json()
    return Pair((first, second), authorization, organization["id"])


async def settled(connection: Connection, instance: str, timeout_s: float = 60.0) -> str:
    """Wait until no job is under way and return the status."""
    async with asyncio.timeout(timeout_s):
        while (status := str((await connection.ask("GET", f"instances/{instance}")).json()["status"])) in BUSY:
            await asyncio.sleep(0.02)
    return status


async def launched(connection: Connection, application: str, count: int) -> list[str]:
    """Launch instances that never expire, and wait until all of them are Running."""
    body = {"destroyInterval": -1}
    made = [await connection.ask("POST", f"applications/{application}/launch", body) for _ in range(count)]
    instances = [str(answer.json()["id"]) for answer in made]
    for instance in instances:
        assert await settled(connection, instance) == "Running"
    return instances
