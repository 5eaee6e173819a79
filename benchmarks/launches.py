"""Launches: how many a second, how much CPU each, and how soon the first step starts (quality.md §4)."""

import asyncio
import statistics
import time
from dataclasses import dataclass

from benchmarks.http_client import Client
from benchmarks.server import Server

THREE_STEPS = """
application:
  interfaces:
    result:
      done: bind(worker#result.done)
  components:
    worker:
      type: workflow.Instance
      interfaces:
        result:
          done: publish-signal(string)
      configuration:
        configuration.workflows:
          launch:
            steps:
              - first: {action: ACTION, parameters: {delay: DELAY}}
              - second: {action: ACTION, precedingPhases: [first], parameters: {delay: DELAY}}
              - third: {action: ACTION, precedingPhases: [second], parameters: {delay: DELAY}}
            return:
              done: {value: "yes"}
          destroy:
            steps: []
"""


@dataclass(frozen=True)
class Throughput:
    per_s: float
    cpu_ms: float


async def application(client: Client, action: str, delay_s: float = 0) -> str:
    """Create the three-step application and return its id; a step that waits does so for `delay_s`."""
    return await stored(client, THREE_STEPS.replace("ACTION", action).replace("DELAY", str(delay_s)))


async def stored(client: Client, manifest: str, organization: str = "") -> str:
    """Create an application in an organization, by default the first one, and return its id."""
    organization = organization or (await client.json("GET", "/api/1/organizations"))[0]["id"]
    name = {"name": f"bench-{time.time_ns()}"}
    app = str((await client.json("POST", f"/api/1/organizations/{organization}/applications", name))["id"])
    await client.yaml(f"/api/1/applications/{app}/manifest", manifest)
    return app


async def wait_running(client: Client, instance: str, pause_s: float = 0.02) -> dict[str, object]:
    """Poll until a launch has ended well."""
    while True:
        seen: dict[str, object] = await client.json("GET", f"/api/1/instances/{instance}")
        if seen["status"] == "Running":
            return seen
        assert seen["status"] in {"Requested", "Executing"}, seen
        await asyncio.sleep(pause_s)


async def throughput(server: Server, action: str, launches: int, clients: int = 16, delay_s: float = 0) -> Throughput:
    """Launch from many clients at once, and wait until every instance runs."""
    first = server.client()
    app = await application(first, action, delay_s)
    await wait_running(first, (await first.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])
    left = iter(range(launches))
    last: dict[int, str] = {}

    async def work(number: int) -> None:
        client = server.client()
        for _ in left:
            last[number] = (await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"]
        client.close()

    cpu, began = server.cpu_s(), time.perf_counter()
    await asyncio.gather(*(work(number) for number in range(clients)))
    pending = f"/api/1/applications/{app}/instances?limit=1&status="
    while True:
        waiting = [await first.json("GET", pending + status) for status in ("Requested", "Executing")]
        if not any(waiting):
            break
        await asyncio.sleep(0.05)
    took = time.perf_counter() - began
    failed = await first.json("GET", pending + "Failed")
    assert not failed, failed
    first.close()
    return Throughput(launches / took, (server.cpu_s() - cpu) * 1000 / launches)


async def latency(server: Server, launches: int) -> list[float]:
    """Return, for launches one at a time, the milliseconds from the answer's request to the first step's start.

    Client and server share a clock; the job's start is the database's.
    """
    client = server.client()
    app = await application(client, "wait")
    found = []
    for _ in range(launches):
        sent_ms = time.time() * 1000
        instance = (await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"]
        seen = await wait_running(client, instance)
        history = seen["workflowHistory"]
        assert isinstance(history, list)
        found.append(history[0]["startedAt"] - sent_ms)
        await asyncio.sleep(0.01)
    client.close()
    return sorted(found)


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    return statistics.median(values), values[min(len(values) - 1, int(len(values) * 0.99))]
