"""What many waiting jobs cost those that don't wait: claims among 5,000 organizations, launches beside a full queue.

python -m benchmarks.fairness [--organizations 5000] [--jobs 1000000] [--queued 100000] [--launches 400] [--json FILE]

Waiting jobs are copied by SQL from one that a client has launched. Launches beside the queue are compared with the same
ones before it, in the same run: the tenant with the queue has recorded steps, its neighbor launches what does nothing.
The exit code is 1 if a figure is not as it must be.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.dispatch import WAIT_S
from benchmarks.http_client import Client
from benchmarks.launches import application, percentiles, stored
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.engine.admission import MOST_CLAIMED, MOST_CLAIMED_EACH
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

MUST_CLAIM_MS = 1.0
MUST_DELAY_MS = 100.0
CLAIMS = 300
PIECE = 20_000  # jobs in one transaction
PAUSE_S = 0.02  # between launches, so that the neighbor is no load of its own
SETTLE_S = 3.0
NOTHING = "launch:\n  steps: []\n"
SERVED = {"queue_limit": "1000000", "quota_jobs": "1000000"}

_NEW = """
CREATE TEMP TABLE new ON COMMIT DROP AS
SELECT launchbay_new_id() AS instance, launchbay_new_id() AS job, organization
FROM unnest(%(organizations)s::text[]) AS organization, generate_series(1, %(each)s::integer) AS number ORDER BY number
"""
_INSTANCES = """
INSERT INTO instances SELECT (jsonb_populate_record(
    old, jsonb_build_object('id', instance, 'name', instance, 'job_id', job, 'organization_id', organization)
)).* FROM instances AS old, new WHERE old.id = %(instance)s
"""
_JOBS = """
INSERT INTO jobs SELECT (jsonb_populate_record(
    old, jsonb_build_object('id', job, 'instance_id', instance, 'organization_id', organization)
)).* FROM jobs AS old, new WHERE old.instance_id = %(instance)s
"""
_READY = "INSERT INTO ready (organization_id, job_id) SELECT organization, job FROM new"
_CLAIM = "SELECT job_id, organization_id, fence FROM launchbay_claim(%s, %s, '{}'::text[], %s, %s)"
# What a claim cannot do without: so many rows get a worker and another fence.
_UPDATE = "UPDATE jobs SET worker_id = %s, fence = fence + 1 WHERE id = ANY (%s)"


def fill(connection: psycopg.Connection[Any], instance: str, organizations: list[str], each: int) -> None:
    """Copy an instance with its waiting job so many times for each organization."""
    step = max(1, PIECE // len(organizations))
    for done in range(0, each, step):
        with connection.transaction():
            about = {"instance": instance, "organizations": organizations, "each": min(step, each - done)}
            for statement in (_NEW, _INSTANCES, _JOBS, _READY):
                connection.execute(statement.encode(), about)
    connection.execute("VACUUM ANALYZE instances, jobs, ready")


def claim_ms(connection: psycopg.Connection[Any], count: int = CLAIMS) -> tuple[list[float], list[float], float]:
    """Return the sorted times of so many claims by one worker, and of the updates alone, of as many jobs.

    The third is the CPU time of PostgreSQL for a claim, which is the same on a busy machine.
    """
    [(worker,)] = connection.execute("INSERT INTO workers (name) VALUES ('measured') RETURNING id").fetchall()
    connection.execute("SET synchronous_commit = off")  # as claims do
    last, claims, updates, cpu_ms = "", [], [], []
    for _ in range(count):
        began_s, began_cpu_ms = time.perf_counter(), _cpu_ms(connection)
        found = connection.execute(_CLAIM, [worker, last, MOST_CLAIMED, MOST_CLAIMED_EACH]).fetchall()
        claims.append((time.perf_counter() - began_s) * 1000)
        cpu_ms.append(_cpu_ms(connection) - began_cpu_ms)
        assert len(found) == MOST_CLAIMED, found
        last = found[-1][1]
        began_s = time.perf_counter()
        connection.execute(_UPDATE, [worker, [job for job, _, _ in found]])
        updates.append((time.perf_counter() - began_s) * 1000)
    connection.execute("DELETE FROM workers")
    return sorted(claims), sorted(updates), statistics.median(cpu_ms)


def _cpu_ms(connection: psycopg.Connection[Any]) -> float:
    """Return the CPU time that the session's process of PostgreSQL has used."""
    return int(Path(f"/proc/{connection.info.backend_pid}/schedstat").read_text().split()[0]) / 1e6


def measure_claims(table: Table, organizations: int, jobs: int) -> None:
    """Add the cost of a claim while so many organizations have few jobs each, and while they have so many in all."""
    names = [f"organization {number}" for number in range(organizations)]
    few = 2 * CLAIMS * MOST_CLAIMED // organizations + 2
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="launchbay-bench-")))
        with running(directory, "--no-engine") as server:
            joined = stack.enter_context(EmbeddedPostgres.start(directory, serving=False))
            instance = asyncio.run(_launched(server, asyncio.run(_application(server))))
        connection = stack.enter_context(psycopg.connect(conninfo(joined.url), autocommit=True))
        connection.execute("SET statement_timeout = 0")
        connection.execute("TRUNCATE ready")
        # The lists and events of so many instances are not what is measured, and they take most of the time.
        for name in ("instances", "jobs"):
            connection.execute(f"ALTER TABLE {name} DISABLE TRIGGER USER".encode())
        connection.execute(
            "INSERT INTO organizations (id, name) SELECT name, name FROM unnest(%s::text[]) AS name", [names]
        )
        for each in (few, max(few, jobs // organizations)):
            [(there,)] = connection.execute("SELECT count(*) FROM ready").fetchall()
            fill(connection, instance, names, each - there // organizations)
            claims, updates, cpu_ms = claim_ms(connection)
            (p50_ms, p99_ms), (alone_ms, _) = percentiles(claims), percentiles(updates)
            table.add(
                f"a claim, {organizations * each:,} jobs of {organizations:,} wait",
                *(p50_ms, "ms"),
                must=MUST_CLAIM_MS,
                limit=Limit("updating as many rows", alone_ms),
                beside=f"p99 {p99_ms:.2f} ms, {cpu_ms:.2f} ms CPU of PostgreSQL, {MOST_CLAIMED} jobs",
            )


async def _application(server: Server, organization: str = "") -> str:
    client = server.client()
    app = await (stored(client, NOTHING, organization) if organization else application(client, "wait"))
    client.close()
    return app


async def _launched(server: Server, app: str) -> str:
    client = server.client()
    instance = str((await client.json("POST", f"/api/1/applications/{app}/launch", {}))["id"])
    client.close()
    return instance


async def launch_ms(client: Client, app: str, launches: int) -> list[float]:
    """Return the sorted times from launches, one after the other, to their instances' running."""
    times = []
    for _ in range(launches):
        began_s = time.perf_counter()
        seen = await client.json("POST", f"/api/1/applications/{app}/launch?wait={WAIT_S}", {})
        while seen.get("status") != "Running":
            assert seen.get("status") in {None, "Requested", "Executing"}, seen
            seen = await client.json("GET", f"/api/1/instances/{seen['id']}?wait={WAIT_S}")
        times.append((time.perf_counter() - began_s) * 1000)
        await asyncio.sleep(PAUSE_S)
    return sorted(times)


async def _launch_ms(server: Server, app: str, launches: int) -> list[float]:
    client = server.bearer()
    await launch_ms(client, app, launches // 10)  # what is loaded and planned once is not measured
    found = await launch_ms(client, app, launches)
    client.close()
    return found


async def _neighbor(server: Server) -> str:
    client = server.client()
    organization = (await client.json("POST", "/api/1/organizations", {"name": "Neighbor"}))["id"]
    client.close()
    return await _application(server, organization)


def measure_neighbor(table: Table, queued: int, launches: int) -> None:
    """Add how long launches take of a tenant whose neighbor has so many jobs that wait, and without them."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="launchbay-bench-")))
        with running(directory, **SERVED) as server:
            joined = stack.enter_context(EmbeddedPostgres.start(directory, serving=False))
            mine, theirs = asyncio.run(_neighbor(server)), asyncio.run(_application(server))
            quiet_ms = asyncio.run(_launch_ms(server, mine, launches))
        connection = stack.enter_context(psycopg.connect(conninfo(joined.url), autocommit=True))
        connection.execute("SET statement_timeout = 0")
        with running(directory, "--no-engine", **SERVED) as server:
            instance = asyncio.run(_launched(server, theirs))
        [(tenant,)] = connection.execute("SELECT organization_id FROM instances WHERE id = %s", [instance]).fetchall()
        fill(connection, instance, [tenant], queued)
        count = "SELECT count(*) FROM ready WHERE organization_id = %s"
        with running(directory, **SERVED) as server:
            time.sleep(SETTLE_S)
            began_s = time.perf_counter()
            [(before,)] = connection.execute(count, [tenant]).fetchall()
            beside_ms = asyncio.run(_launch_ms(server, mine, launches))
            [(left,)] = connection.execute(count, [tenant]).fetchall()
            drained_per_s = (before - left) / (time.perf_counter() - began_s)
        assert left > 0, "the queue was empty before the launches had ended: take more jobs or fewer launches"
    (quiet_p50, quiet_p99), (beside_p50, beside_p99) = percentiles(quiet_ms), percentiles(beside_ms)
    quiet = Limit("without the queue", quiet_p99)
    told = f"{queued:,} jobs of another wait"
    table.add(f"no-op launch, p50, {told}", beside_p50, "ms", limit=Limit("without the queue", quiet_p50))
    table.add(f"no-op launch, p99, {told}", beside_p99, "ms", limit=quiet, beside=f"they end at {drained_per_s:.0f}/s")
    table.add(f"delay at p99, {told}", beside_p99 - quiet_p99, "ms", must=MUST_DELAY_MS, beside=f"{launches} launches")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--organizations", type=int, default=5_000)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="that wait in all organizations")
    parser.add_argument("--queued", type=int, default=100_000, help="jobs that wait of one tenant")
    parser.add_argument("--launches", type=int, default=400, help="of its neighbor; 0 for claims only")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    table = Table()
    table.head()
    if options.launches:
        measure_neighbor(table, options.queued, options.launches)
    measure_claims(table, options.organizations, options.jobs)
    table.write(options.json)
    sys.exit(table.unkept())


if __name__ == "__main__":
    main()
