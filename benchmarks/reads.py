"""Instance reads from one server process, and how to hammer any path (quality.md §4)."""

import asyncio
import time

from benchmarks.http_client import Client
from benchmarks.launches import application, wait_running
from benchmarks.server import Server


async def hammer(make: "type[Client] | object", path: str, clients: int, seconds: float) -> tuple[float, float]:
    """Return requests per second and the 99th percentile in ms."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def work() -> None:
        client = make()  # type: ignore[operator]
        while time.perf_counter() < until:
            began = time.perf_counter()
            status, _ = await client.request("GET", path)
            assert status == 200, status
            times.append(time.perf_counter() - began)
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    took = time.perf_counter() - began
    times.sort()
    return len(times) / took, times[int(len(times) * 0.99)] * 1000


async def instance_reads(server: Server, clients: int = 16, seconds: float = 5.0) -> tuple[float, float]:
    """Read one running instance again and again."""
    client = server.client()
    app = await application(client, "getInstanceContext")
    instance = (await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"]
    await wait_running(client, instance)
    return await hammer(server.client, f"/api/1/instances/{instance}", clients, seconds)
