"""Parked jobs: what a million of them costs a server, how soon they come back, and what one tenant costs another.

python -m benchmarks.parking [--parked 1000000] [--due 10000] [--backlog 100000] [--json FILE]

Jobs are parked as the product does it, once, and then copied by SQL. A copy is replayed, run and ended by the product.
"""

import argparse
import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import machine
from benchmarks.http_client import Client
from benchmarks.launches import wait_running
from benchmarks.server import Server, running
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

WAITING = """
application:
  components:
    worker:
      type: workflow.Instance
      configuration:
        configuration.workflows:
          launch:
            steps:
              - rest: {action: wait, parameters: {delay: 3600}}
"""
NO_OP = """
application:
  components:
    worker:
      type: workflow.Instance
      configuration: {configuration.workflows: {launch: {steps: []}}}
"""
PIECE = 50_000  # jobs in one transaction
SPREAD_S = 20.0  # over which jobs fall due one after the other
RATE = 25  # of them in a second
LAUNCHES = 200  # of the quiet tenant, one after the other
PARK_AFTER_S = "0.5"
SETTLE_S = 5.0
_COPY = """
WITH made AS MATERIALIZED (
    SELECT launchbay_new_id() AS instance_id, launchbay_new_id() AS job_id, number
    FROM generate_series(1, %(count)s::integer) AS number
), instance AS (
    INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, job_id,
                           parameters, components, environment_view, state, return_values)
    SELECT made.instance_id, organization_id, application_id, environment_id, version, %(name)s || number, owner_id,
           status, made.job_id, parameters, components, environment_view, state, return_values
    FROM made, instances WHERE instances.id = %(instance)s
), job AS (
    INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps, fence, started_at)
    SELECT made.job_id, made.instance_id, name, owner_id, status, plan, steps,
           CASE WHEN %(is_parked)s THEN fence ELSE 0 END, CASE WHEN %(is_parked)s THEN now() END
    FROM made, jobs WHERE jobs.id = %(job)s
), step AS (
    INSERT INTO steps (job_id, path, name, status, percent, is_record, attempt, started_at)
    SELECT made.job_id, path, name, status, percent, is_record, attempt,
           clock_timestamp() + (%(due_s)s + number * %(apart_s)s - 3600) * interval '1 second'
    FROM made, steps WHERE steps.job_id = %(job)s AND %(is_parked)s
), parked_too AS (
    INSERT INTO parked (job_id, organization_id, due_at)
    SELECT job_id, %(organization)s, clock_timestamp() + (%(due_s)s + number * %(apart_s)s) * interval '1 second'
    FROM made WHERE %(is_parked)s
)
INSERT INTO ready (organization_id, job_id) SELECT %(organization)s, job_id FROM made WHERE NOT %(is_parked)s
"""
_LATE = """
SELECT extract(epoch FROM jobs.finished_at - (steps.started_at + interval '1 hour'))::float8
FROM jobs JOIN steps ON steps.job_id = jobs.id JOIN instances ON instances.id = jobs.instance_id
WHERE instances.name LIKE %s
"""


@dataclass(frozen=True)
class Model:
    """The job that the others are copies of."""

    organization: str
    instance: str
    job: str


@dataclass(frozen=True)
class Cost:
    """What a server costs while it has nothing to do."""

    memory_mb: float
    cpu_percent: float


@dataclass(frozen=True)
class Late:
    """The time from when jobs were due to their ends."""

    count: int
    p50_ms: float
    p99_ms: float
    most_ms: float


def late(seconds: list[float]) -> Late:
    ms = sorted(1000 * each for each in seconds)
    return Late(len(ms), *(round(each, 1) for each in (ms[len(ms) // 2], ms[int(len(ms) * 0.99)], ms[-1])))


@contextmanager
def serving() -> Iterator[tuple[Server, str]]:
    """Run a server, and yield it with the address of its database."""
    with (
        running(None, park_after_s=PARK_AFTER_S) as server,
        EmbeddedPostgres.start(server.data_dir, serving=False) as joined,
    ):
        yield server, joined.url


def rows(url: str, statement: str, *values: Any) -> list[Any]:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        return connection.execute(statement.encode(), values).fetchall()


async def launched(client: Client, organization: str, manifest: str) -> tuple[str, str]:
    """Make an application and launch it; return both."""
    name = {"name": f"bench-{time.time_ns()}"}
    app = str((await client.json("POST", f"/api/1/organizations/{organization}/applications", name))["id"])
    await client.yaml(f"/api/1/applications/{app}/manifest", manifest)
    return app, str((await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])


async def model(client: Client, url: str, manifest: str, *, is_parked: bool) -> Model:
    """Return a job to copy: a parked one, or one that has ended."""
    organization = (await client.json("GET", "/api/1/organizations"))[0]["id"]
    _, instance = await launched(client, organization, manifest)
    if not is_parked:
        await wait_running(client, instance)
    while is_parked and rows(url, "SELECT count(*) FROM parked") == [(0,)]:
        await asyncio.sleep(0.1)
    [(job,)] = rows(url, "SELECT id FROM jobs WHERE instance_id = %s", instance)
    return Model(organization, instance, job)


def copy(
    url: str, of: Model, count: int, name: str, *, due_s: float = 0.0, apart_s: float = 0.0, is_parked: bool = True
) -> None:
    """Copy a job: parked until `due_s` from now, each `apart_s` later than the one before, or ready."""
    given = {**asdict(of), "name": name, "due_s": due_s, "apart_s": apart_s, "is_parked": is_parked}
    with psycopg.connect(conninfo(url)) as connection:
        for done in range(0, count, PIECE):
            connection.execute(_COPY.encode(), given | {"count": min(PIECE, count - done)})
            connection.commit()


async def cost(server: Server) -> Cost:
    """Return what the server costs in some seconds without work."""
    await asyncio.sleep(SETTLE_S)
    cpu_s = server.own_cpu_s()
    await asyncio.sleep(SETTLE_S)
    return Cost(round(server.memory_mb(), 1), round(100 * (server.own_cpu_s() - cpu_s) / SETTLE_S, 2))


async def ended(url: str, name: str, count: int) -> None:
    """Wait until so many copies have ended."""
    like = f"{name}%"
    counted = """
    SELECT count(*) FROM jobs JOIN instances ON instances.id = instance_id
    WHERE instances.name LIKE %s AND finished_at IS NOT NULL
    """
    while rows(url, counted, like) != [(count,)]:
        await asyncio.sleep(0.2)


async def parked(count: int, due: int) -> dict[str, Any]:
    """Measure a server with so many parked jobs, of which some fall due."""
    with serving() as (server, url):
        client = server.client()
        of = await model(client, url, WAITING, is_parked=True)
        before = await cost(server)
        copy(url, of, count, "far-", due_s=30 * 86400.0)
        rows(url, "ANALYZE parked")
        after = await cost(server)
        spread = int(SPREAD_S * RATE)
        copy(url, of, spread, "spread-", due_s=3.0, apart_s=1 / RATE)
        await ended(url, "spread-", spread)
        one_by_one = late([row[0] for row in rows(url, _LATE, "spread-%")])
        copy(url, of, due, "together-", due_s=max(5.0, due / 1000))
        await ended(url, "together-", due)
        together = late([row[0] for row in rows(url, _LATE, "together-%")])
        stop_s = time.perf_counter()
    stop_s = time.perf_counter() - stop_s
    return {
        "before": asdict(before),
        "with them": asdict(after),
        "one by one": asdict(one_by_one),
        "at once": asdict(together),
        "stop, s": round(stop_s, 2),
    }


async def noisy_neighbor(backlog: int) -> dict[str, Any]:
    """Measure launches of one tenant without and with a backlog of another."""
    with serving() as (server, url):
        client = server.client()
        of = await model(client, url, NO_OP, is_parked=False)
        quiet = (await client.json("POST", "/api/1/organizations", {"name": "quiet"}))["id"]
        app, instance = await launched(client, quiet, NO_OP)
        await wait_running(client, instance)
        alone = await latencies(client, app)
        rows(url, "UPDATE instances SET status = 'Executing' WHERE id = %s RETURNING id", of.instance)
        rows(url, "UPDATE jobs SET status = 'Executing', finished_at = NULL WHERE id = %s RETURNING id", of.job)
        copy(url, of, backlog, "queued-", is_parked=False)
        [(left,)] = rows(url, "SELECT count(*) FROM ready")
        beside = await latencies(client, app)
        [(at_the_end,)] = rows(url, "SELECT count(*) FROM ready")
        assert at_the_end > 0, "the backlog must last"
    return {"alone": asdict(alone), "beside": asdict(beside), "queued before": left, "queued after": at_the_end}


async def latencies(client: Client, app: str) -> Late:
    """Launch again and again, and time each until it runs."""
    seconds = []
    for _ in range(LAUNCHES):
        began = time.perf_counter()
        instance = (await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"]
        seen = await client.json("GET", f"/api/1/instances/{instance}?wait=30")
        assert seen["status"] == "Running", seen
        seconds.append(time.perf_counter() - began)
    return late(seconds)


async def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure everything."""
    return {
        "machine": machine.facts(),
        "parked": await parked(arguments.parked, arguments.due),
        "neighbor": await noisy_neighbor(arguments.backlog),
    }


def main() -> None:
    """Print the figures, and write them to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--backlog", type=int, default=100_000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = asyncio.run(run(arguments))
    for part, found in figures.items():
        print(part)
        for what, value in found.items() if isinstance(found, dict) else [("", found)]:
            print(f"  {what}: {value}")
    if arguments.json is not None:
        machine.write(arguments.json, figures)


if __name__ == "__main__":
    main()
