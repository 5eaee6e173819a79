"""A list of many instances: its time, its first byte, the memory, and how others fare meanwhile (quality.md §4)."""

import asyncio
import json
import socket
import time
from dataclasses import dataclass
from pathlib import Path

import httptools
import psycopg

from benchmarks.http_client import Client
from benchmarks.server import Server
from launchbay.store.database import conninfo

COUNT = 100_000
PAUSE_S = 0.005  # between two other requests; what is measured is their wait, not what the server can do in all
LISTS = 5

FILL = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values, created_at)
SELECT lpad(to_hex(extract(epoch FROM now())::bigint - %(count)s / 100 + number / 100), 8, '0')
       || substr(launchbay_new_id(), 9), organization_id, application_id, environment_id, version, name || number,
       owner_id, status, parameters, components, environment_view, state, return_values, created_at
FROM instances, generate_series(1, %(count)s::integer) AS number WHERE id = %(id)s
"""


@dataclass(frozen=True)
class Found:
    """Times in seconds, other requests' in ms, memory in MB: of the server before, and at its most during the lists."""

    best_s: float
    median_s: float
    first_byte_s: float
    megabytes: float
    others_p50_ms: float
    others_p99_ms: float
    memory_before: float
    memory_peak: float


def fill(url: str, instance: str, count: int = COUNT) -> None:
    """Insert copies of an instance, launched at a hundred a second: ids in the order of time, as they come to be."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(FILL, {"count": count, "id": instance})
        connection.execute("VACUUM (ANALYZE) instances")


async def measure(server: Server, client: Client, instance: str, count: int = COUNT) -> Found:
    """List all instances of the application of this one, several times, while others read the instance."""
    path = f"/api/1/instances/{instance}"
    detail = await client.json("GET", path)
    listed = f"/api/1/applications/{detail['applicationId']}/instances"
    await asyncio.to_thread(read_whole, client, listed)  # whose connections and caches are then as they stay
    before = server.memory_mb()
    forget_peak(server)
    waits: list[float] = []
    others = asyncio.create_task(read_on(client.another(), path, waits))
    lists = [await asyncio.to_thread(read_whole, client, listed) for _ in range(LISTS)]
    others.cancel()
    peak = peak_mb(server)
    for body, _, _ in lists:
        assert len(json.loads(body)) == count + 1
    whole = sorted(seconds for _, _, seconds in lists)
    waits.sort()
    return Found(
        best_s=whole[0],
        median_s=whole[len(whole) // 2],
        first_byte_s=sorted(first for _, first, _ in lists)[len(lists) // 2],
        megabytes=len(lists[0][0]) / 1e6,
        others_p50_ms=waits[len(waits) // 2] * 1000,
        others_p99_ms=waits[int(len(waits) * 0.99)] * 1000,
        memory_before=before,
        memory_peak=peak,
    )


def forget_peak(server: Server) -> None:
    """Let the kernel count the peak of the server's memory anew."""
    Path(f"/proc/{server.pid}/clear_refs").write_text("5")


def peak_mb(server: Server) -> float:
    """Return the most that the server has had in memory, in MB."""
    status = Path(f"/proc/{server.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) / 1024


async def read_on(client: Client, path: str, waits: list[float]) -> None:
    """Read one path again and again, and note how long each took, in seconds."""
    while True:
        began = time.perf_counter()
        status, _ = await client.request("GET", path)
        waits.append(time.perf_counter() - began)
        assert status == 200, status
        await asyncio.sleep(PAUSE_S)


def read_whole(client: Client, path: str) -> tuple[bytes, float, float]:
    """Return the body of a list, when its first byte came and when its last, in seconds. Blocks: meant for a thread."""
    body = _Body()
    parser = httptools.HttpResponseParser(body)
    with socket.create_connection(client.address) as connection:
        began = time.perf_counter()
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {client.authorization}\r\n\r\n"
        connection.sendall(head.encode())
        received = [connection.recv(1 << 18)]
        first_s = time.perf_counter() - began
        while not received[-1].endswith(b"0\r\n\r\n"):
            received.append(connection.recv(1 << 18))
            assert received[-1], "the connection was cut"
        took_s = time.perf_counter() - began
    for part in received:
        parser.feed_data(part)
    assert parser.get_status_code() == 200
    return b"".join(body.parts), first_s, took_s


class _Body:
    def __init__(self) -> None:
        self.parts: list[bytes] = []

    def on_body(self, part: bytes) -> None:
        self.parts.append(part)
