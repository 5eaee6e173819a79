"""A flood of requests of one organization, from a process of its own, while another organization works.

The flood must not take processor time from the client that measures, so it is a process:
`python -m tests.support.flood` with a `Flood` as JSON.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.support.service import basic
from tests.support.verdict import percentile

WAYS = ("launches", "waits", "streams", "logs", "manifests", "sign-ins", "reads", "reconfigurations")
CONNECTIONS = 16
_LONG_MANIFEST = "launch:\n  steps: []\ndestroy:\n  steps: []\n" + "# a long comment\n" * 10_000


@dataclass(frozen=True)
class Flood:
    """What is sent, where, and by whom; `ids` are the objects that the ways need."""

    way: str
    ports: list[int]
    email: str
    password: str
    ids: dict[str, str]

    def request(self, number: int) -> tuple[str, str, bytes, str]:
        """Return method, path, body and the Authorization header of a request."""
        authorization, ids = basic(self.email, self.password), self.ids
        match self.way:
            case "launches":
                return "POST", f"applications/{ids['quiet']}/launch", b"{}", authorization
            case "waits":
                return "POST", f"applications/{ids['waiting']}/launch", b"{}", authorization
            case "streams":
                return "GET", f"instances/{ids['instance']}/events", b"", authorization
            case "logs":
                return "GET", f"instances/{ids['instance']}/log", b"", authorization
            case "manifests":
                return "PUT", f"applications/{ids['changing']}/manifest", _LONG_MANIFEST.encode(), authorization
            case "sign-ins":
                return "GET", "organizations", b"", basic(self.email, f"wrong {os.getpid()} {number}")
            case "reads":
                return "GET", f"applications/{ids['crowded']}/instances", b"", authorization
            case "reconfigurations":
                return "PUT", f"instances/{ids['instance']}/configuration", b'{"parameters": {}}', authorization
        raise ValueError(self.way)


@contextmanager
def flooded(flood: Flood) -> Iterator["Sender"]:
    """Send the flood from a process of its own until the end of the block, whenever it isn't paused."""
    command = [sys.executable, "-m", "tests.support.flood", json.dumps(asdict(flood))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "flooding\n"
        yield Sender(process)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


class Sender:
    """The process that sends the flood."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)


@dataclass
class Worked:
    """How long the launches and reads of an organization took, in a time of so many seconds."""

    seconds: float
    launches_s: list[float] = field(default_factory=list)
    reads_s: list[float] = field(default_factory=list)

    def rate(self, times_s: list[float]) -> float:
        return len(times_s) / self.seconds

    def and_also(self, other: "Worked") -> "Worked":
        return Worked(self.seconds + other.seconds, self.launches_s + other.launches_s, self.reads_s + other.reads_s)


async def work(port: int, authorization: str, application: str, instance: str, seconds: float) -> Worked:
    """Launch until each instance runs, and read, one after the other on a connection each."""
    worked = Worked(seconds)
    end_s = time.perf_counter() + seconds

    async def launch() -> None:
        async with asyncio.timeout(seconds + 60):
            line = await Line.open(port)
            while time.perf_counter() < end_s:
                started_s = time.perf_counter()
                launched = await line.ask("POST", f"applications/{application}/launch", b"{}", authorization)
                while True:
                    shown = await line.ask("GET", f"instances/{launched['id']}?wait=30", b"", authorization)
                    if shown["status"] == "Running":
                        break
                worked.launches_s.append(time.perf_counter() - started_s)

    async def read() -> None:
        line = await Line.open(port)
        while time.perf_counter() < end_s:
            started_s = time.perf_counter()
            await line.ask("GET", f"instances/{instance}", b"", authorization)
            worked.reads_s.append(time.perf_counter() - started_s)

    await asyncio.gather(launch(), read())
    return worked


def compared(quiet: Worked, busy: Worked) -> dict[str, float]:
    """Return the figures of an organization in a flood, and their ratios to the quiet ones."""
    figures: dict[str, float] = {}
    for name in ("launches", "reads"):
        before_s, during_s = getattr(quiet, f"{name}_s"), getattr(busy, f"{name}_s") or [busy.seconds]
        figures[f"{name}_quiet_per_s"] = quiet.rate(before_s)
        figures[f"{name}_per_s"] = busy.rate(during_s)
        figures[f"{name}_rate_ratio"] = busy.rate(during_s) / quiet.rate(before_s)
        figures[f"{name}_p99_ratio"] = percentile(sorted(during_s), 0.99) / percentile(sorted(before_s), 0.99)
    return figures


class Line:
    """One kept-alive connection; a lean client leaves more of few cores to the servers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int) -> "Line":
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.close()

    async def ask(self, method: str, path: str, body: bytes, authorization: str) -> Any:
        """Return the decoded answer, which must be 200."""
        status, data = await self.request(method, path, body, authorization)
        assert status == 200, (path, status, data[:500])
        return json.loads(data)

    async def request(
        self, method: str, path: str, body: bytes, authorization: str, *, is_stream: bool = False
    ) -> tuple[int, bytes]:
        """Return status and body; of a stream only its beginning."""
        media = "x-yaml" if path.endswith("/manifest") else "json"
        kind = f"Content-Type: application/{media}\r\nContent-Length: {len(body)}\r\n" if method != "GET" else ""
        head = f"{method} /api/1/{path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {authorization}\r\n{kind}\r\n"
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(answer[9:12])
        if b"content-length:" in answer:
            return status, await self._reader.readexactly(
                int(answer.partition(b"content-length:")[2].split(b"\r\n")[0])
            )
        data = b""
        while size := int(await self._reader.readuntil(b"\r\n"), 16):
            data += await self._reader.readexactly(size)
            await self._reader.readexactly(2)
            if is_stream:
                return status, data
        await self._reader.readexactly(2)
        return status, data


async def _send(flood: Flood) -> None:
    number = 0

    async def send(port: int) -> None:
        nonlocal number
        line = await Line.open(port)
        while True:
            number += 1
            is_stream = flood.way == "streams"
            try:
                status, _ = await line.request(*flood.request(number), is_stream=is_stream)
            except (OSError, asyncio.IncompleteReadError):
                status = 0
            if status == 0 or is_stream:
                line.close()
                with suppress(OSError):
                    line = await Line.open(port)

    print("flooding", flush=True)
    await asyncio.gather(*(send(port) for port in flood.ports for _ in range(CONNECTIONS // len(flood.ports))))


if __name__ == "__main__":
    asyncio.run(_send(Flood(**json.loads(sys.argv[1]))))
