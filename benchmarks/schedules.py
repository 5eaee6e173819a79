"""A million pending schedules: how soon due ones start, what waiting costs, how many can fall due at once.

python -m benchmarks.schedules [--count 1000000] [--json FILE]     (quality.md §4)

The schedules lie on ten thousand instances, and nearly all of them are due in weeks. They are inserted in bulk; one by
one is measured apart, over the API and as statements.
"""

import argparse
import asyncio
import time
from datetime import datetime
from pathlib import Path

import psycopg

from benchmarks.http_client import Client
from benchmarks.limits import commits_per_s
from benchmarks.lists import fill
from benchmarks.reads import running_instance
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

INSTANCES = 10_000
ONE_BY_ONE_S = 4.0
LATE_OVER_S = 15.0
LATE = 600
AT_ONCE = 1_000
IDLE_S = 15.0
CLIENTS = 16

_SOME = """
INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)
SELECT launchbay_new_id(), id, 'workflow', 'destroy', owner_id, {due}
FROM (SELECT id, owner_id, row_number() OVER () AS number
      FROM (SELECT id, owner_id FROM instances
            WHERE status = 'Running' AND id NOT IN (SELECT instance_id FROM jobs WHERE status = 'Executing')
            ORDER BY random() LIMIT %(count)s) AS idle) AS chosen
RETURNING instance_id, due_at
"""
Times = dict[str, datetime]

_EVENLY = "now() + interval '1 second' + number * %(over_s)s / %(count)s * interval '1 second'"
_AT_ONCE = "now() + interval '2 seconds'"


def insert_in_bulk(connection: psycopg.Connection, count: int) -> None:
    connection.execute(
        "INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)"
        " SELECT launchbay_new_id(), id, 'workflow', 'destroy', owner_id,"
        " now() + (20 + random() * 20) * interval '1 day'"
        " FROM instances, generate_series(1, %s) WHERE status = 'Running' LIMIT %s",
        [count // INSTANCES + 1, count],
    )
    connection.execute("VACUUM (ANALYZE) schedules")


def inserts_per_s(connection: psycopg.Connection, seconds: float = ONE_BY_ONE_S) -> float:
    """Return how many schedules one client inserts a second, each a transaction."""
    [(instance, owner)] = connection.execute("SELECT id, owner_id FROM instances LIMIT 1").fetchall()
    statement = (
        "INSERT INTO schedules (id, instance_id, kind, workflow, owner_id, due_at)"
        " VALUES (launchbay_new_id(), %s, 'workflow', 'destroy', %s, now() + interval '30 days')"
    )
    done, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        connection.execute(statement, [instance, owner])
        done += 1
    return done / (time.perf_counter() - began)


async def api_inserts_per_s(server: Server, instance: str) -> float:
    """Return how many schedules sixteen clients make a second through the API."""
    bearer = server.bearer()
    until = time.perf_counter() + ONE_BY_ONE_S

    async def work(client: Client) -> int:
        done = 0
        while time.perf_counter() < until:
            await client.json("POST", f"/api/1/instances/{instance}/destroy/schedule", {"interval": "2000000000"})
            done += 1
        client.close()
        return done

    began = time.perf_counter()
    done = sum(await asyncio.gather(*(work(bearer.another()) for _ in range(CLIENTS))))
    return done / (time.perf_counter() - began)


def idle_cpu_percent(server: Server, seconds: float = IDLE_S) -> float:
    """Return the CPU of the server and its PostgreSQL while nothing is due, in percent of a core."""
    time.sleep(3.0)
    before, began = server.cpu_s(), time.perf_counter()
    time.sleep(seconds)
    return 100 * (server.cpu_s() - before) / (time.perf_counter() - began)


def lateness_ms(connection: psycopg.Connection, count: int = LATE, over_s: float = LATE_OVER_S) -> list[float]:
    """Let schedules fall due one after the other on different instances; return how late each became a job, sorted."""
    due: Times = dict(
        connection.execute(_SOME.format(due=_EVENLY).encode(), {"count": count, "over_s": over_s}).fetchall()
    )
    accepted = _accepted(connection, list(due), within_s=over_s + 30)
    return sorted((accepted[each] - at).total_seconds() * 1000 for each, at in due.items())


def drained_per_s(connection: psycopg.Connection) -> tuple[float, float]:
    """Let a thousand fall due at once; return how many became jobs a second, and how many jobs ended a second."""
    due: Times = dict(connection.execute(_SOME.format(due=_AT_ONCE).encode(), {"count": AT_ONCE}).fetchall())
    accepted = _accepted(connection, list(due), within_s=60)
    began = min(due.values())
    while connection.execute(_UNENDED, [list(due)]).fetchone() != (0,):
        time.sleep(0.02)
    [(ended,)] = connection.execute(
        "SELECT max(finished_at) FROM jobs WHERE instance_id = ANY (%s)", [list(due)]
    ).fetchall()
    return (
        AT_ONCE / (max(accepted.values()) - began).total_seconds(),
        AT_ONCE / (ended - began).total_seconds(),
    )


_UNENDED = "SELECT count(*) FROM jobs WHERE instance_id = ANY (%s) AND status = 'Executing'"


def _accepted(connection: psycopg.Connection, instances: list[str], within_s: float) -> Times:
    until = time.monotonic() + within_s
    statement = (
        "SELECT instance_id, max(created_at) FROM jobs WHERE instance_id = ANY (%s) AND name = 'destroy' GROUP BY 1"
    )
    while time.monotonic() < until:
        found: Times = dict(connection.execute(statement, [instances]).fetchall())
        if len(found) == len(instances):
            return found
        time.sleep(0.1)
    raise AssertionError(f"only {len(found)} of {len(instances)} became jobs within {within_s} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    table = Table()
    table.head()
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        instance = asyncio.run(running_instance(server))
        with psycopg.connect(conninfo(joined.url), autocommit=True) as connection:
            connection.execute("SET statement_timeout = 0")
            fill(joined.url, instance, INSTANCES)
            commits = Limit("INSERT + COMMIT of one small row", commits_per_s(joined.url))
            alone = Limit("with none pending", idle_cpu_percent(server))
            insert_in_bulk(connection, options.count)
            [(pending,)] = connection.execute("SELECT count(*) FROM schedules").fetchall()
            among = f"{pending:,} pending"
            rate = inserts_per_s(connection)
            table.add("schedules inserted one by one", rate, "/s", must=1000, limit=commits, beside=among)
            rate = asyncio.run(api_inserts_per_s(server, instance))
            table.add("schedules through the API, 16 clients", rate, "/s", limit=commits, beside=among)
            table.add("idle CPU", idle_cpu_percent(server), "%", must=3, limit=alone, beside=among)
            late = lateness_ms(connection)
            table.add("lateness p50", late[len(late) // 2], "ms", must=200, beside=f"of {len(late)}, {among}")
            table.add("lateness p99", late[int(len(late) * 0.99)], "ms", must=1000, aim=250)
            fired, ended = drained_per_s(connection)
            table.add("1,000 due at once", fired, "/s", must=200, aim=400, beside=f"their jobs ended at {ended:.0f}/s")
            table.add("memory of the server with them", server.memory_mb(), "MB", must=120)
    table.write(options.json)


if __name__ == "__main__":
    main()
