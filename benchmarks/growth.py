"""How figures grow with size: with instances, with pending schedules, and with processes that work.

python -m benchmarks.growth [--quick] [--json FILE]
"""

import argparse
import asyncio
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psycopg

from benchmarks import lists, machine, schedules
from benchmarks.http_client import Client
from benchmarks.launches import application, latency, percentiles, throughput, wait_running
from benchmarks.limits import commits_per_s
from benchmarks.reads import hammer, running_instance
from benchmarks.server import EMAIL, PASSWORD, Server, running, working
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

PAGE = 50  # rows of a list's first page
WAIT_S = 0.2  # of each of the three steps of a launch, where steps wait
PLACES = 8  # of each worker, where steps wait: so few that they, and not the processors, bound the rate


@dataclass(frozen=True)
class Extent:
    """How far to go, and how long to measure at each size."""

    instances: tuple[int, ...] = (10, 100, 1_000, 10_000, 100_000)
    schedules: tuple[int, ...] = (1, 1_000, 100_000, 1_000_000)
    workers: tuple[int, ...] = (1, 2, 3, 4)
    reads_s: float = 2.0
    launches: int = 60
    pages: int = 30
    idle_s: float = 8.0
    inserts_s: float = 2.0
    late: int = 400
    late_over_s: float = 8.0
    waiting_launches: int = 60  # for each worker
    light_launches: int = 500


QUICK = Extent(
    instances=(10, 1_000),
    schedules=(1, 1_000),
    workers=(1, 2),
    reads_s=0.5,
    launches=10,
    pages=5,
    idle_s=1.0,
    inserts_s=0.5,
    late=50,
    late_over_s=2.0,
    waiting_launches=20,
    light_launches=50,
)


def by_instances(extent: Extent) -> list[dict[str, Any]]:
    """Return the times of reads, launches, lists and pages among more and more instances."""
    found = []
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        instance = asyncio.run(running_instance(server))
        there = 0
        for count in extent.instances:
            lists.fill(joined.url, instance, count - there)
            there = count
            row = asyncio.run(_among_instances(server, instance, extent))
            row |= {"page_ms": _page_ms(server, extent.pages), "memory_mb": server.memory_mb()}
            found.append(_told("instances", count, row))
    return found


async def _among_instances(server: Server, instance: str, extent: Extent) -> dict[str, float]:
    bearer = server.bearer()
    application_of = (await bearer.json("GET", f"/api/1/instances/{instance}"))["applicationId"]
    per_s, p99_ms = await hammer(bearer.another, f"/api/1/instances/{instance}", 16, extent.reads_s)
    first_page = f"/api/1/applications/{application_of}/instances?limit={PAGE}"
    listed = [await _get_ms(bearer, first_page) for _ in range(extent.pages)]
    accepted, running_after = await _launch_ms(server, extent.launches)
    return {
        "reads_per_s": per_s,
        "read_p99_ms": p99_ms,
        "list_ms": median(listed),
        "launch_accepted_ms": accepted,
        "launch_first_step_ms": running_after,
    }


async def _get_ms(client: Client, path: str) -> float:
    began = time.perf_counter()
    status, _ = await client.request("GET", path)
    assert status == 200, (path, status)
    return (time.perf_counter() - began) * 1000


async def _launch_ms(server: Server, launches: int) -> tuple[float, float]:
    """Return the medians until a launch is accepted, and until its first step starts, one after the other."""
    client, times = server.client(), []
    app = await application(client, "wait")
    for _ in range(launches):
        began = time.perf_counter()
        made = await client.json("POST", f"/api/1/applications/{app}/launch", {})
        times.append((time.perf_counter() - began) * 1000)
        await wait_running(client, made["id"])
    client.close()
    return median(times), percentiles(await latency(server, launches))[0]


def _page_ms(server: Server, rounds: int) -> float:
    """Return the median of the console's first page of instances."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.port}", trust_env=False, timeout=30) as browser:
        browser.post("/console/signIn", data={"email": EMAIL, "password": PASSWORD})
        path = f"{browser.get('/console').headers['location']}/instances"
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            browser.get(path).raise_for_status()
            times.append((time.perf_counter() - began) * 1000)
    return median(times)


def by_schedules(extent: Extent) -> list[dict[str, Any]]:
    """Return insert rates, idle CPU and lateness among more and more pending schedules."""
    found = []
    with (
        running() as server,
        EmbeddedPostgres.start(server.data_dir, serving=False) as joined,
        psycopg.connect(conninfo(joined.url), autocommit=True) as connection,
    ):
        connection.execute("SET statement_timeout = 0")
        lists.fill(joined.url, asyncio.run(running_instance(server)), schedules.INSTANCES)
        for count in extent.schedules:
            [(there,)] = connection.execute("SELECT count(*) FROM schedules").fetchall()
            if count > there:
                schedules.insert_in_bulk(connection, count - there)
            row = {"idle_cpu_percent": schedules.idle_cpu_percent(server, extent.idle_s)}
            late = schedules.lateness_ms(connection, extent.late, extent.late_over_s)
            row |= {"late_p50_ms": late[len(late) // 2], "late_p99_ms": late[int(len(late) * 0.99)]}
            row |= {
                "inserts_per_s": schedules.inserts_per_s(connection, extent.inserts_s),
                "commits_per_s": commits_per_s(joined.url, 1.0),
            }
            found.append(_told("schedules", count, row))
    return found


def by_workers(extent: Extent) -> list[dict[str, Any]]:
    """Return launches a second with more and more workers, where steps wait and where they only compute.

    The server runs no jobs itself here. Computing steps stop growing when the processors are busy, which clients and
    PostgreSQL share.
    """
    found = []
    with running(None, "--no-engine") as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        for count in extent.workers:
            with working(server, joined.url, count, engine_concurrency=str(PLACES)):
                launches = extent.waiting_launches * count
                waiting = asyncio.run(throughput(server, "wait", launches, clients=8 * count, delay_s=WAIT_S))
            with working(server, joined.url, count):
                light = asyncio.run(throughput(server, "getInstanceContext", extent.light_launches))
            row = {"waiting_per_s": waiting.per_s, "light_per_s": light.per_s}
            found.append(_told("workers", count, row))
    return found


def _told(what: str, count: int, row: dict[str, float]) -> dict[str, Any]:
    rounded = {name: round(value, 2) for name, value in row.items()}
    print(f"{count:>9,} {what:<10} {rounded}", flush=True)
    return {"count": count, **rounded}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes and short times, to try it")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    extent, began = QUICK if options.quick else Extent(), time.monotonic()
    result: dict[str, Any] = {"machine": machine.facts(), "extent": asdict(extent)}
    result |= {"wait_s": WAIT_S, "places": PLACES}
    for name, measure in (("instances", by_instances), ("schedules", by_schedules), ("workers", by_workers)):
        result[name] = measure(extent)
    print(f"{time.monotonic() - began:.0f} s in all")
    if options.json is not None:
        machine.write(options.json, result)


if __name__ == "__main__":
    main()
