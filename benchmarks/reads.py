"""Instance reads from one server process, and how to hammer any path (quality.md §4)."""

import asyncio
import time
from collections.abc import Callable

from benchmarks.http_client import Client
from benchmarks.launches import application, wait_running
from benchmarks.server import Server


async def hammer(make: Callable[[], Client], path: str, clients: int, seconds: float) -> tuple[float, float]:
    """Return requests per second and the 99th percentile in ms."""
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def work() -> None:
        client = make()
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


async def running_instance(server: Server) -> str:
    """Return the id of an instance that runs."""
    client = server.client()
    app = await application(client, "getInstanceContext")
    instance = str((await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])
    await wait_running(client, instance)
    client.close()
    return instance
