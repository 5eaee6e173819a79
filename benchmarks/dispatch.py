"""Launches as users make them: over HTTP, polled until they run, on disks of several speeds; and what each costs.

python -m benchmarks.dispatch [--full] [--rounds N] [--json FILE] [--python FILE] [--database-url URL]
python -m benchmarks.dispatch --compare BEFORE.json AFTER.json [BEFORE.json AFTER.json ...]

`--python` is the interpreter of another version to measure; clients and limits stay those of this one. `--compare`
takes pairs that were measured one after the other, and shows medians and the median of each pair's ratio.

A row has what one launch (or one read) costs on average, with everything that the clients' polls and the server's own
rounds cost meanwhile. `commits` are the transactions that wrote. Statements are counted in a pass of their own, for the
log of all statements takes time. The machine's limits are measured between the rows, in each of the rounds; with
several rounds, a row has the medians. The exit code is 1 if one of DEMANDS was not met or not measured.
"""

import argparse
import asyncio
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import uvloop

from benchmarks import machine
from benchmarks.http_client import Client
from benchmarks.launches import application, percentiles, wait_running
from benchmarks.limits import bare_reads, pgbench_commits_per_s
from benchmarks.reads import hammer, running_instance
from benchmarks.server import Server, running, start_worker
from benchmarks.slow_flushes import SlowPostgres, slow_postgres
from benchmarks.table import ROW, Limit, Line, shown
from launchbay.store.database import conninfo

ACTION = "wait"  # a recorded step; with no delay it does nothing else
CLIENTS = (1, 8, 32)
ADDED_MS = (0, 2, 4)
FIRST_POLL_S = 0.005
POLL_GROWTH = 1.5
LONGEST_POLL_S = 0.1
WAIT_S = 30
READERS = 16
STEPS_OF_CHAIN = 250  # not done before the other worker is there, also on a busy machine
STEP_OF_CHAIN_S = 0.1
LAUNCHES_OF_KILL = 10
STEADY_CLIENTS = 16
STEADY_AFTER_S = 5.0
STEADY_TIMES = 6  # longer than other measurements: acceptance and ends swing around each other
WITHIN_S = 60.0

COLUMNS = {
    "per_s": "/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "server_cpu_ms": "CPU ms",
    "postgres_cpu_ms": "PG CPU ms",
    "statements": "statements",
    "commits": "commits",
    "flushes": "flushes",
    "wal_kb": "WAL KB",
    "cpu_percent": "CPU %",
    "memory_mb": "MB",
}
NAME_WIDTH = 44
WIDTH = 11


@dataclass(frozen=True)
class Demand:
    """What a row must show: the sum of some columns. `limit` is the row with what the machine does in their place."""

    what: str
    row: str
    columns: tuple[str, ...]
    unit: str
    must: float
    aim: float | None = None
    limit: str | None = None
    is_high: bool = False


_CPU = ("server_cpu_ms", "postgres_cpu_ms")
_COMMITS_32 = "limit: INSERT + COMMIT, 32 clients, +0 ms"
_BARE = f"limit: bare ASGI, one query, {READERS} clients"
DEMANDS = (
    Demand(
        "launches, 32 polling clients", "launch, 32 clients, polling, +0 ms", ("per_s",), "/s", 280, 350, _COMMITS_32
    ),
    Demand(
        "launches, 32 clients, ?wait=", "launch, 32 clients, ?wait=30, +0 ms", ("per_s",), "/s", 380, 500, _COMMITS_32
    ),
    # A client that polls has slept for 5 ms when it first asks, however fast the launch was.
    Demand("launch complete p50, 1 polling client", "launch, 1 clients, polling, +0 ms", ("p50_ms",), "ms", 7),
    Demand("launch complete p50, 1 client, ?wait=", "launch, 1 clients, ?wait=30, +0 ms", ("p50_ms",), "ms", 7, 5),
    Demand("burst, accepted", "burst, accepted, +0 ms", ("per_s",), "/s", 1_500, 2_000, _COMMITS_32),
    Demand("burst, drained", "burst, drained, +0 ms", ("per_s",), "/s", 500, 700, _COMMITS_32),
    Demand("CPU a launch, burst", "burst, drained, +0 ms", _CPU, "ms", 2.6, 2),
    Demand("CPU a launch, 32 polling", "launch, 32 clients, polling, +0 ms", _CPU, "ms", 5, 4),
    Demand("CPU a launch, 32 with ?wait=", "launch, 32 clients, ?wait=30, +0 ms", _CPU, "ms", 3.8, 3),
    Demand(
        "launches, 4 ms flushes, 32 clients, ?wait=",
        *("launch, 32 clients, ?wait=30, +4 ms", ("per_s",), "/s", 250, 400),
        "limit: INSERT + COMMIT, 32 clients, +4 ms",
    ),
    Demand("commits a launch", "launch, 1 clients, ?wait=30, +0 ms", ("commits",), "", 5, 4),
    Demand("flushes a launch", "launch, 1 clients, ?wait=30, +0 ms", ("flushes",), "", 4, 3),
    Demand("WAL a launch", "launch, 1 clients, ?wait=30, +0 ms", ("wal_kb",), "KB", 6, 4),
    Demand("GET an instance, a process", f"GET an instance, {READERS} clients", ("per_s",), "/s", 6_000, 8_000, _BARE),
    Demand("the same, ratio to the limit", "GET, ratio to bare ASGI with one query", ("per_s",), "", 0.6, is_high=True),
    Demand(
        "first step elsewhere after kill -9, p99",
        "kill -9 of a worker to the next step",
        ("p99_ms",),
        "ms",
        5_000,
        3_000,
    ),
    Demand("steady load, ended for one accepted", "ended for one accepted, +0 ms", ("per_s",), "", 0.8, is_high=True),
    Demand("idle CPU", "idle server, with PostgreSQL's CPU", ("cpu_percent",), "%", 1.5),
    Demand("idle memory", "idle server, with PostgreSQL's CPU", ("memory_mb",), "MB", 110),
)


def demanded(rows: list[dict[str, Any]]) -> list[Line]:
    """Return the lines of what must be reached, as far as it was measured."""
    by_name = {row["name"]: row for row in rows}
    found = []
    for each in DEMANDS:
        row, bound = by_name.get(each.row, {}), by_name.get(each.limit or "")
        if all(name in row for name in each.columns):
            value = sum(row[name] for name in each.columns)
            limit = None if bound is None else Limit(bound["name"].removeprefix("limit: "), bound["per_s"])
            found.append(
                Line(each.what, value, each.unit, each.must, each.aim, limit, f"load {row['load']}", each.is_high)
            )
    return found


def missed(lines: list[Line]) -> str | None:
    """Return what of the demands was not met or not measured, for `sys.exit`; None if all were met."""
    kept = {line.what for line in lines if line.is_kept()}
    left = [each.what for each in DEMANDS if each.what not in kept]
    return f"not met or not measured: {'; '.join(left)}" if left else None


@dataclass(frozen=True)
class Extent:
    """How long to measure."""

    seconds: float = 2.0
    burst: int = 1_000
    idle_s: float = 4.0
    kills: int = 2
    counted: int = 50


FULL = Extent(seconds=15.0, idle_s=20.0, kills=10, counted=200)


@dataclass
class Report:
    """Rows of one run, printed as they come. A row has a name and figures, by the names of COLUMNS."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=machine.facts)

    def head(self) -> None:
        facts = self.machine
        print(f"Python {facts['python']}, {facts['cores']} cores, load {facts['load_before']} before the run\n")
        print(line("", list(COLUMNS.values())))

    def add(self, name: str, **figures: float | None) -> None:
        """Add a row. A figure that is None could not be measured."""
        kept = {key: round(value, 3) for key, value in figures.items() if value is not None}
        load = round(os.getloadavg()[0], 2)
        self.rows.append({"name": name, **kept, "load": load})
        print(line(name, cells(kept)), flush=True)


@dataclass
class Meter:
    """What the server and PostgreSQL have used since a moment. Counters that PostgreSQL updates late are not used."""

    server: Server
    connection: psycopg.Connection[Any]
    postgres: SlowPostgres | None

    def read(self) -> dict[str, float | None]:
        [row] = self.connection.execute(
            "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint,"
            " (pg_current_wal_insert_lsn() - '0/0')::bigint"
        ).fetchall()
        own_s = self.server.own_cpu_s()
        return {
            "server_cpu_ms": own_s * 1000,
            "postgres_cpu_ms": None if self.postgres is None else (self.server.cpu_s() - own_s) * 1000,
            "commits": row[0],
            "flushes": None if self.postgres is None else self.postgres.flushes(),
            "wal_kb": row[1] / 1000,
        }

    def each(self, before: dict[str, float | None], count: int) -> dict[str, float | None]:
        """Return what was used since `before`, divided by a count."""
        return {
            name: None if then is None or now is None else (now - then) / count
            for (name, now), then in zip(self.read().items(), before.values(), strict=True)
        }


@dataclass(frozen=True)
class Waiting:
    """Where the server answers only when a launch has ended or the time is over."""

    at_launch: bool = False
    at_read: bool = False

    @classmethod
    def offered(cls, document: dict[str, Any]) -> "Waiting":
        """Read it from the server's OpenAPI document."""
        paths = document["paths"]
        return cls(
            *(
                any(
                    parameter.get("name") == "wait" and parameter.get("in") == "query"
                    for path, operations in paths.items()
                    if re.fullmatch(pattern, path)
                    for parameter in operations.get(method, {}).get("parameters", [])
                )
                for method, pattern in (
                    ("post", r"/api/1/applications/\{\w+\}/launch"),
                    ("get", r"/api/1/instances/\{\w+\}"),
                )
            )
        )


def poll_pauses() -> Iterator[float]:
    """Return how long a client waits before each of its polls, in seconds."""
    pause_s = FIRST_POLL_S
    while True:
        yield pause_s
        pause_s = min(pause_s * POLL_GROWTH, LONGEST_POLL_S)


async def complete(client: Client, app: str, waiting: Waiting | None) -> None:
    """Launch, and return when the instance runs."""
    asks = "" if waiting is None else f"?wait={WAIT_S}"
    seen = await client.json(
        "POST", f"/api/1/applications/{app}/launch{asks if waiting and waiting.at_launch else ''}", {}
    )
    path = f"/api/1/instances/{seen['id']}{asks if waiting and waiting.at_read else ''}"
    for pause_s in poll_pauses():
        if seen.get("status") == "Running":
            return
        assert seen.get("status") in {None, "Requested", "Executing"}, seen
        if waiting is None:
            await asyncio.sleep(pause_s)
        seen = await client.json("GET", path)


async def closed_loop(
    make: Callable[[], Client], app: str, clients: int, seconds: float, waiting: Waiting | None
) -> tuple[float, list[float]]:
    """Return how long it took, and the sorted times in ms of all launches by clients that make one after the other."""
    times: list[float] = []
    began = time.perf_counter()

    async def work() -> None:
        client = make()
        while (sent := time.perf_counter()) < began + seconds:
            await complete(client, app, waiting)
            times.append((time.perf_counter() - sent) * 1000)
        client.close()

    await asyncio.gather(*(work() for _ in range(clients)))
    return time.perf_counter() - began, sorted(times)


async def burst(make: Callable[[], Client], app: str, launches: int, clients: int = 32) -> tuple[float, float]:
    """Send so many launches as fast as they are accepted; return the seconds until that, and until all ended well."""
    left = iter(range(launches))

    async def work() -> None:
        client = make()
        for _ in left:
            await client.json("POST", f"/api/1/applications/{app}/launch", {})
        client.close()

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(clients)))
    accepted_s = time.perf_counter() - began
    client = make()
    await until_drained(client, app)
    client.close()
    return accepted_s, time.perf_counter() - began


async def steady(
    make: Callable[[], Client], app: str, seconds: float, ended: Callable[[], int], clients: int = STEADY_CLIENTS
) -> tuple[float, float]:
    """Launch all the time, without waiting for anything; return how many were accepted and ended a second.

    What happens before the load is steady is not counted.
    """
    accepted = 0
    until_s = time.perf_counter() + STEADY_AFTER_S + seconds

    async def work() -> None:
        nonlocal accepted
        client = make()
        while time.perf_counter() < until_s:
            await client.json("POST", f"/api/1/applications/{app}/launch", {})
            accepted += 1
        client.close()

    working = [asyncio.create_task(work()) for _ in range(clients)]
    await asyncio.sleep(STEADY_AFTER_S)
    before, began = (accepted, ended()), time.perf_counter()
    await asyncio.sleep(seconds)
    took_s, after = time.perf_counter() - began, (accepted, ended())
    await asyncio.gather(*working)
    return (after[0] - before[0]) / took_s, (after[1] - before[1]) / took_s


async def until_drained(client: Client, app: str) -> None:
    """Wait until every launch of an application has ended, and ended well."""
    pending = f"/api/1/applications/{app}/instances?limit=1&status="
    while any([await client.json("GET", pending + status) for status in ("Requested", "Executing")]):
        await asyncio.sleep(0.05)
    failed = await client.json("GET", pending + "Failed")
    assert not failed, failed


def counted(postgres: SlowPostgres, work: Callable[[], Coroutine[Any, Any, None]]) -> int:
    """Return how many statements PostgreSQL got meanwhile."""
    with postgres.statements_logged():
        begin = postgres.log.stat().st_size
        uvloop.run(work())
        with postgres.log.open("rb") as log:
            log.seek(begin)
            return statements_in(log.read().decode("utf-8", "replace"))


def statements_in(log: str) -> int:
    """Count the statements in a PostgreSQL log."""
    return len(re.findall(r"^.*LOG:  (?:statement|execute [^:]*): ", log, re.MULTILINE))


class Run:
    """One server with its database, and a report that fills."""

    def __init__(self, report: Report, extent: Extent, server: Server, url: str, postgres: SlowPostgres | None) -> None:
        self._report = report
        self._extent = extent
        self._server = server
        self._url = url
        self._postgres = postgres
        self._bearer = server.bearer()
        document = httpx.get(f"http://127.0.0.1:{server.port}/api/1/openapi.json", trust_env=False).json()
        self._waiting = Waiting.offered(document)

    def measure_idle(self) -> None:
        """Measure what the server costs before it has done much, and how many statements launches and reads take."""
        self._app = uvloop.run(self._application())
        self._idle()
        if self._postgres is not None:
            self._statements(self._postgres)

    def measure(self) -> None:
        """Measure reads and launches."""
        self._reads()
        delays = ADDED_MS if self._postgres is not None and self._postgres.can_delay else (0,)
        if len(delays) == 1:
            print("No rows with slower flushes: they need a PostgreSQL of the benchmark's own and a C compiler.")
        for added_ms in delays:
            if self._postgres is not None and self._postgres.can_delay:
                self._postgres.delay(added_ms)
            self._launches(f", +{added_ms} ms")
        if self._postgres is not None and self._postgres.can_delay:
            self._postgres.delay(0)

    async def _application(self) -> str:
        client = self._server.client()
        app = await application(client, ACTION)
        for _ in range(20):  # what is loaded and planned once is not measured
            await complete(client, app, None)
        client.close()
        return app

    def _idle(self) -> None:
        time.sleep(3.0)
        cpu_s, began = self._server.cpu_s(), time.perf_counter()
        time.sleep(self._extent.idle_s)
        percent = 100 * (self._server.cpu_s() - cpu_s) / (time.perf_counter() - began)
        self._report.add("idle server, with PostgreSQL's CPU", cpu_percent=percent, memory_mb=self._server.memory_mb())

    def _statements(self, postgres: SlowPostgres) -> None:
        count, pause_s = self._extent.counted, 0.1
        instance = uvloop.run(running_instance(self._server))

        async def launches() -> None:
            client = self._bearer.another()
            for _ in range(count):
                await client.json("POST", f"/api/1/applications/{self._app}/launch", {})
                await asyncio.sleep(pause_s)
            client.close()

        async def nothing() -> None:
            await asyncio.sleep(count * pause_s)

        async def reads() -> None:
            client = self._bearer.another()
            for _ in range(count):
                await client.json("GET", f"/api/1/instances/{instance}")
            client.close()

        idle = counted(postgres, nothing)
        self._report.add("one launch, without polls", statements=(counted(postgres, launches) - idle) / count)
        self._report.add("one GET", statements=counted(postgres, reads) / count)
        uvloop.run(self._drained())

    async def _drained(self) -> None:
        client = self._bearer.another()
        await until_drained(client, self._app)
        client.close()

    def _reads(self) -> None:
        instance = uvloop.run(running_instance(self._server))
        path, seconds = f"/api/1/instances/{instance}", self._extent.seconds
        with self._meter() as meter:
            before = meter.read()
            per_s, p99_ms = uvloop.run(hammer(self._bearer.another, path, READERS, seconds))
            used = meter.each(before, int(per_s * seconds))
        self._report.add(f"GET an instance, {READERS} clients", per_s=per_s, p99_ms=p99_ms, **used)
        for name, where in (("one query", "/"), ("no query", "/empty")):
            bare, bare_ms = bare_reads(self._url, instance, READERS, seconds, where)
            self._report.add(f"limit: bare ASGI, {name}, {READERS} clients", per_s=bare, p99_ms=bare_ms)
            if where == "/":
                self._report.add("GET, ratio to bare ASGI with one query", per_s=per_s / bare)

    def _launches(self, added: str) -> None:
        for clients in (1, 32):
            commits = pgbench_commits_per_s(self._url, clients, min(self._extent.seconds, 2))
            self._report.add(f"limit: INSERT + COMMIT, {clients} clients{added}", per_s=commits)
        offered = self._waiting if self._waiting.at_launch or self._waiting.at_read else None
        with self._meter() as meter:
            for waiting in (None, offered) if offered is not None else (None,):
                for clients in CLIENTS:
                    how = "polling" if waiting is None else f"?wait={WAIT_S}"
                    before = meter.read()
                    loop = closed_loop(self._bearer.another, self._app, clients, self._extent.seconds, waiting)
                    took_s, times = uvloop.run(loop)
                    p50_ms, p99_ms = percentiles(times)
                    used = meter.each(before, len(times))
                    figures = {"per_s": len(times) / took_s, "p50_ms": p50_ms, "p99_ms": p99_ms}
                    self._report.add(f"launch, {clients} clients, {how}{added}", **figures, **used)
            before, launches = meter.read(), self._extent.burst
            accepted_s, drained_s = uvloop.run(burst(self._bearer.another, self._app, launches))
            used = meter.each(before, launches)
        self._report.add(f"burst, accepted{added}", per_s=launches / accepted_s)
        self._report.add(f"burst, drained{added}", per_s=launches / drained_s, **used)
        self._steady(added)

    def _steady(self, added: str) -> None:
        with psycopg.connect(conninfo(self._url), autocommit=True) as connection:

            def ended() -> int:
                [[count]] = connection.execute("SELECT count(*) FROM jobs WHERE finished_at IS NOT NULL").fetchall()
                return int(count)

            seconds = STEADY_TIMES * self._extent.seconds
            accepted, finished = uvloop.run(steady(self._bearer.another, self._app, seconds, ended))
        name = f"{STEADY_CLIENTS} clients launch all the time"
        self._report.add(f"{name}, accepted{added}", per_s=accepted)
        self._report.add(f"{name}, ended{added}", per_s=finished)
        self._report.add(f"ended for one accepted{added}", per_s=finished / accepted)
        uvloop.run(self._drained())

    @contextmanager
    def _meter(self) -> Iterator[Meter]:
        with psycopg.connect(conninfo(self._url), autocommit=True) as connection:
            yield Meter(self._server, connection, self._postgres)


CHAIN_HEAD = """
application:
  interfaces: {}
  components:
    worker:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
"""


def chain() -> str:
    """Return a manifest of many short steps, one after the other."""
    text, indent = CHAIN_HEAD, " " * 14
    for number in range(STEPS_OF_CHAIN):
        after = f"precedingPhases: [s{number - 1}], " if number else ""
        text += f"{indent}- s{number}: {{action: wait, {after}parameters: {{delay: {STEP_OF_CHAIN_S}}}}}\n"
    return f"{text}          destroy:\n            steps: []\n"


def measure_kills(report: Report, server: Server, url: str, python: str, kills: int) -> None:
    """Kill the worker that runs all launches, while another one is there; time the next step of each launch."""
    found: list[float] = []
    worker = start_worker(server, url, python)
    other: subprocess.Popen[str] | None = None
    try:
        app = uvloop.run(_chain(server))
        for kill in range(kills):
            instances = uvloop.run(_launched(server, app))
            other = start_worker(server, url, python)
            killed_s = time.perf_counter()
            worker.kill()
            worker.wait()
            found += uvloop.run(_resumed_ms(server, instances, killed_s))
            worker, other = other, None
            if kill + 1 < kills:
                uvloop.run(_all_run(server, instances))
    finally:
        for process in (worker, other):
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(WITHIN_S)
    p50_ms, p99_ms = percentiles(sorted(found))
    report.add("kill -9 of a worker to the next step", p50_ms=p50_ms, p99_ms=p99_ms)


async def _chain(server: Server) -> str:
    client = server.client()
    app = await application(client, ACTION)
    await client.yaml(f"/api/1/applications/{app}/manifest", chain())
    client.close()
    return app


async def _launched(server: Server, app: str) -> list[str]:
    """Launch several instances and return them when each has ended a step."""
    client = server.client()
    made = [await client.json("POST", f"/api/1/applications/{app}/launch", {}) for _ in range(LAUNCHES_OF_KILL)]
    instances = [str(each["id"]) for each in made]
    await _until_further(client, dict.fromkeys(instances, 0))
    client.close()
    return instances


async def _resumed_ms(server: Server, instances: list[str], killed_s: float) -> list[float]:
    """Return for each instance how long after the kill it ended a further step."""
    client = server.client()
    at_death = {instance: await _steps_done(client, instance) for instance in instances}
    seen_s = await _until_further(client, at_death)
    client.close()
    return [(at_s - killed_s) * 1000 for at_s in seen_s]


async def _until_further(client: Client, done: dict[str, int]) -> list[float]:
    """Wait until each instance has ended more steps than that; return when this was seen of each."""
    left, seen_s = dict(done), []
    async with asyncio.timeout(WITHIN_S):
        while left:
            for instance, before in list(left.items()):
                if await _steps_done(client, instance) > before:
                    seen_s.append(time.perf_counter())
                    del left[instance]
            await asyncio.sleep(FIRST_POLL_S)
    return seen_s


async def _steps_done(client: Client, instance: str) -> int:
    history = (await client.json("GET", f"/api/1/instances/{instance}"))["workflowHistory"]
    return sum(step["status"] == "Succeeded" for job in history for step in job["steps"])


async def _all_run(server: Server, instances: list[str]) -> None:
    client = server.client()
    for instance in instances:
        await wait_running(client, instance, 0.1)
    client.close()


def line(name: str, texts: list[str]) -> str:
    return f"{name:<{NAME_WIDTH}}" + "".join(f"{text:>{WIDTH}}" for text in texts).rstrip()


def cells(figures: dict[str, Any]) -> list[str]:
    return [shown(figures[name]) if name in figures else "" for name in COLUMNS]


def compared(results: list[dict[str, Any]]) -> list[str]:
    """Return the lines of a comparison, from pairs of results: before, after, before, after, and so on."""
    befores, afters = results[::2], results[1::2]
    loads = [[each["machine"]["load_before"] for each in side] for side in (befores, afters)]
    found = [f"load before the runs: before {loads[0]}, after {loads[1]}", line("", ["", *COLUMNS.values()])]
    names = list(dict.fromkeys(row["name"] for result in results for row in result["rows"]))
    for name in names:
        old, new = (
            [{row["name"]: row for row in result["rows"]}.get(name, {}) for result in side]
            for side in (befores, afters)
        )
        ratios = {
            key: statistics.median(pairs)
            for key in COLUMNS
            if (pairs := [b[key] / a[key] for a, b in zip(old, new, strict=True) if a.get(key) and key in b])
        }
        found.append(line(name, ["before", *cells(_medians(old))]))
        found.append(line("", ["after", *cells(_medians(new))]))
        found.append(line("", ["ratio", *cells(ratios)]))
    return found


def collapsed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each name, with the medians of all rounds."""
    by_name: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_name.setdefault(row["name"], []).append(row)
    return [
        {"name": name, **_medians(of), "load": statistics.median(row["load"] for row in of)}
        for name, of in by_name.items()
    ]


def _medians(rows: list[dict[str, Any]]) -> dict[str, float]:
    return {key: statistics.median(values) for key in COLUMNS if (values := [row[key] for row in rows if key in row])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="longer measurements and more kills")
    parser.add_argument("--rounds", type=int, default=1, help="of which the medians count")
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the version to measure")
    parser.add_argument("--database-url", default="", help="an empty database to use instead of an embedded one")
    parser.add_argument("--compare", type=Path, nargs="+", metavar="FILE", help="show results beside each other")
    options = parser.parse_args()
    if options.compare:
        if len(options.compare) % 2:
            parser.error("--compare takes pairs of results")
        print("\n".join(compared([machine.read(path) for path in options.compare])))
        return
    report, extent = Report(), FULL if options.full else Extent()
    report.head()
    try:
        with _database(options.database_url) as (data_dir, url, postgres):
            served = {
                "python": options.python,
                "rate_limit_user_per_s": "1000000",
                "rate_limit_address_per_s": "1000000",
                "quota_requests_per_s": "0",
            }
            with running(data_dir, "--database-url", url, **served) as server:
                run = Run(report, extent, server, url, postgres)
                run.measure_idle()
                for _ in range(options.rounds):
                    run.measure()
            with running(data_dir, "--database-url", url, "--no-engine", **served) as server:
                measure_kills(report, server, url, options.python, extent.kills)
    finally:
        rows = collapsed(report.rows)
        lines = demanded(rows)
        if options.json is not None:  # also what was measured before a failure
            rows_of = {"machine": report.machine, "rounds": options.rounds, "rows": rows}
            machine.write(options.json, {**rows_of, "lines": [each.row() for each in lines]})
    print()
    for each in lines:
        demands = ["" if bound is None else shown(bound, each.unit) for bound in (each.must, each.aim)]
        verdict = "yes" if each.is_kept() else "NO"
        print(ROW.format(each.what, shown(each.value, each.unit), *demands, verdict))
    sys.exit(missed(lines))


@contextmanager
def _database(given_url: str) -> Iterator[tuple[Path, str, SlowPostgres | None]]:
    """Give a data directory, and the address of a database of its own or the given one."""
    data_dir = Path(tempfile.mkdtemp(prefix="launchbay-bench-"))
    try:
        if given_url:
            yield data_dir, given_url, None
        else:
            with slow_postgres(data_dir) as postgres:
                yield data_dir, postgres.url, postgres
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


if __name__ == "__main__":
    main()
