"""Lists of an organization with 100,000 instances and 1,000,000 jobs, and a log of 100 MB: how long each takes.

python -m benchmarks.fleet [--json FILE] [--quick] [--instances N]

The rows are those of `population.py`, with steps and logs, and five kinds of people read them.

A read of one instance before each request shows how fast the machine is at that moment. A list whose p99 is above
50 ms, and whose median is above MOST_READS of these, makes the exit code 1. So does a sequential scan of a large table.
"""

import argparse
import asyncio
import math
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import psycopg

from benchmarks import population
from benchmarks.http_client import Client
from benchmarks.lists import read_on, read_whole
from benchmarks.readers import readers
from benchmarks.reads import running_instance
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

INSTANCES = 100_000
JOBS_EACH = 10
ROUNDS = 100
QUICK_ROUNDS = 20
MUST_MS = 50.0
MOST_READS = 20.0
LOG_LINES = 500_000
LOG_ROUNDS = 5
VACUUM_WITHIN_S = 60.0
COUNTED_S = 12.0  # until PostgreSQL has counted the scans of connections that do nothing
LARGE = ("fleet", "fleet_jobs", "fleet_labels", "instances", "jobs")

# Another organization with a few instances, whose words are among those of the large one.
NEIGHBOR = "f" * 24
_NEIGHBOR = """
WITH made AS (
    INSERT INTO organizations (id, name) VALUES (%(neighbor)s, 'Neighbor') RETURNING id
), member AS (
    INSERT INTO memberships (organization_id, user_id)
    SELECT made.id, user_id FROM memberships, made WHERE organization_id = %(organization)s
), role AS (
    INSERT INTO roles (id, organization_id, name, permissions, kind)
    SELECT substr(md5(roles.id), 1, 24), made.id, name, permissions, kind FROM roles, made
    WHERE organization_id = %(organization)s
), assigned AS (
    INSERT INTO role_assignments (role_id, user_id)
    SELECT substr(md5(role_id), 1, 24), user_id FROM role_assignments JOIN roles ON roles.id = role_id
    WHERE organization_id = %(organization)s
)
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values)
SELECT lpad(to_hex(number), 24, 'd'), %(neighbor)s, application_id, environment_id, version, 'shop-' || number,
       owner_id, status, parameters, components, environment_view, state, return_values
FROM instances, generate_series(1, 50) AS number
WHERE id = (SELECT min(id) FROM instances WHERE organization_id = %(organization)s AND status = 'Running')
"""
_LOG = """
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT %(id)s, 'none', 'step', 'info', repeat('a line of a log ', 12), now() FROM generate_series(1, %(lines)s)
"""
_SCANS = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)"
_UNSEEN = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = ANY (%s) AND relallvisible < relpages * 0.9"
_PERSON = "c" + "7".rjust(23, "0")
_APPLICATION = "a" + "5".rjust(23, "0")
_ENVIRONMENT = "b" + "2".rjust(23, "0")

FILTERS: Mapping[str, Mapping[str, str]] = {
    "newest": {},
    "by name": {"sort": "name"},
    "by last job": {"sort": "-lastJob"},
    "by expiry": {"sort": "expiry"},
    "exact name": {"name": "shop-c4ca4238a0b923820dcc509a6f75849b"},
    "part of a name": {"namePart": "a0b923820"},
    "part of few names": {"namePart": "b923"},
    "part of all names": {"namePart": "shop"},
    "words": {"q": "dcc509 team-1"},
    "failed": {"status": "Failed"},
    "failed last job": {"lastStatus": "Failed", "sort": "-lastJob"},
    "last workflow": {"lastWorkflow": "restore"},
    "application": {"application": population.LARGE_APPLICATION, "sort": "name"},
    "application, environment, failed": {
        "application": _APPLICATION,
        "environment": _ENVIRONMENT,
        "status": "Failed",
    },
    "nothing fits": {"application": population.SMALL_APPLICATION, "owner": population.INACTIVE},
    "owner": {"owner": _PERSON},
    "labels": {"labels": "team=team-7,tier!=db"},
    "many labels": {"labels": "tier=web", "sort": "name"},
    "expiring": {"expiresBefore": "2000000000000", "sort": "expiry"},
    "counted": {"count": "true"},
    "failed, counted": {"lastStatus": "Failed", "count": "true"},
}
JOB_FILTERS: Mapping[str, Mapping[str, str]] = {
    "newest jobs": {},
    "failed jobs": {"status": "Failed"},
    "jobs of an application": {"application": population.LARGE_APPLICATION},
    "failed jobs of an application": {"application": _APPLICATION, "status": "Failed"},
    "jobs of an environment": {"environment": _ENVIRONMENT},
    "jobs of a rare workflow": {"workflow": "restore"},
    "jobs of an instance": {"instance": "7".rjust(24, "c")},
    "long jobs": {"longerThan": "3600000"},
    "long jobs of an owner": {"longerThan": "3600000", "owner": _PERSON},
    "jobs that took any time": {"longerThan": "1"},
    "jobs of an owner": {"owner": _PERSON},
    "jobs by words": {"q": "dcc509 team-1"},
    "jobs of a time": {"since": "1700000000000", "until": "1800000000000", "sort": "created"},
    "failed jobs, counted": {"status": "Failed", "count": "true"},
    "jobs, counted": {"count": "true"},
}


@dataclass(frozen=True)
class Found:
    """Times of one list in ms, and of the reads of one instance in between."""

    what: str
    times_ms: list[float]
    reads_ms: list[float]

    @property
    def reads(self) -> float:
        """Return the median as a multiple of that of the reads."""
        return statistics.median(self.times_ms) / statistics.median(self.reads_ms)

    def is_slow(self) -> bool:
        return _p99(self.times_ms) > MUST_MS and self.reads > MOST_READS


def fill(url: str, size: population.Size) -> None:
    """Fill the first organization of a server, and the small one next to it."""
    _fill_neighbor(url, population.fill_first(url, size))


def _fill_neighbor(url: str, organization: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute(_NEIGHBOR.encode(), {"neighbor": NEIGHBOR, "organization": organization})
        _vacuum(connection)


def _vacuum(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Vacuum until indexes alone answer, as autovacuum does in time: rows that an open snapshot needs are left out."""
    until_s = time.monotonic() + VACUUM_WITHIN_S
    while True:
        connection.execute("VACUUM (ANALYZE)")
        if connection.execute(_UNSEEN, [list(LARGE)]).fetchone() == (0,) or time.monotonic() > until_s:
            return
        time.sleep(0.2)


def fill_log(url: str, instance: str, lines: int = LOG_LINES) -> None:
    """Give an instance a long log; 500,000 lines have 100 MB."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        connection.execute(_LOG.encode(), {"id": instance, "lines": lines})
        connection.execute("VACUUM (ANALYZE)")


def scans(url: str) -> int:
    """Return how often PostgreSQL has read a large table from one end to the other."""
    time.sleep(COUNTED_S)
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        row = connection.execute(_SCANS, [list(LARGE)]).fetchone()
    return 0 if row is None else int(row[0])


async def measure(
    readers: Mapping[str, Client], path: str, filters: Mapping[str, Mapping[str, str]], instance: str, rounds: int
) -> list[Found]:
    """Make each request several times as each reader, and read an instance before each."""

    async def took_ms(client: Client, path: str) -> float:
        began = time.perf_counter()
        status, body = await client.request("GET", path)
        assert status in {200, 403}, body
        return (time.perf_counter() - began) * 1000

    found = []
    for what, query in filters.items():
        for who, client in readers.items():
            of = Found(f"{what}: {who}", [], [])
            for _ in range(rounds):
                of.reads_ms.append(await took_ms(readers[population.ADMINISTRATOR], f"/api/1/instances/{instance}"))
                of.times_ms.append(await took_ms(client, f"{path}?{urlencode(query)}"))
            found.append(of)
    return found


async def lists_of(root: str, readers: Mapping[str, Client], instance: str, rounds: int = ROUNDS) -> list[Found]:
    """Return how long the lists and the summary of an organization take, and a search in the small one."""
    administrator = {population.ADMINISTRATOR: readers[population.ADMINISTRATOR]}
    neighbor = f"/api/1/organizations/{NEIGHBOR}/instances"
    return [
        *await measure(readers, f"{root}/instances", FILTERS, instance, rounds),
        *await measure(readers, f"{root}/jobs", JOB_FILTERS, instance, rounds),
        *await measure(readers, f"{root}/summary", {"summary": {}}, instance, rounds),
        *await measure(readers, f"{root}/schedules", {"schedules": {}}, instance, rounds),
        *await measure(administrator, neighbor, {"words of a small organization": {"q": "shop"}}, instance, rounds),
    ]


async def measure_log(table: Table, server: Server, instance: str, read: Limit) -> None:
    """Read a log of 100 MB, several times, while others read another instance."""
    client = server.bearer()
    other = await running_instance(server)
    waits_s: list[float] = []
    others = asyncio.create_task(read_on(client.another(), f"/api/1/instances/{other}", waits_s))
    path = f"/api/1/instances/{instance}/log"
    found = [await asyncio.to_thread(read_whole, client, path) for _ in range(LOG_ROUNDS)]
    others.cancel()
    first_ms = sorted(first_s * 1000 for _, first_s, _ in found)
    whole_s = sorted(took_s for _, _, took_s in found)[LOG_ROUNDS // 2]
    waits_s.sort()
    size = f"{len(found[0][0]) / 1e6:.0f} MB in {whole_s:.1f} s"
    table.add("log of 100 MB, first byte, longest", first_ms[-1], "ms", must=MUST_MS, limit=read, beside=size)
    middle = f"p50 {waits_s[len(waits_s) // 2] * 1000:.1f} ms"
    waited_ms = waits_s[int(len(waits_s) * 0.99)] * 1000
    table.add("others' reads meanwhile, p99", waited_ms, "ms", must=MUST_MS, limit=read, beside=middle)


def measure_fleet(table: Table, *, rounds: int, instances: int = INSTANCES) -> list[str]:
    """Add the lists, and the log, of a server of its own to a table. Return what is too slow."""
    size = population.Size(instances, JOBS_EACH, people=2_000, versions=100, steps_each=2)
    with (
        running(None, quota_requests_per_s="0") as server,
        EmbeddedPostgres.start(server.data_dir, serving=False) as joined,
    ):
        root, people = asyncio.run(readers(server, joined.url, size))
        instance = asyncio.run(running_instance(server))
        _fill_neighbor(joined.url, root.rpartition("/")[2])
        before = scans(joined.url)
        found = asyncio.run(lists_of(root, people, instance, rounds))
        scanned = scans(joined.url) - before
        read = Limit("reading one instance, p99", _p99([each for one in found for each in one.reads_ms]))
        for one in found:
            middle = f"p50 {statistics.median(one.times_ms):.1f} ms, {one.reads:.1f} reads"
            table.add(f"list: {one.what}, p99", _p99(one.times_ms), "ms", must=MUST_MS, limit=read, beside=middle)
        table.add("lists: sequential scans of large tables", float(scanned), "", must=0)
        fill_log(joined.url, instance)
        asyncio.run(measure_log(table, server, instance, read))
    return [one.what for one in found if one.is_slow()] + ["a large table was scanned"] * (scanned > 0)


def _p99(times_ms: list[float]) -> float:
    """Return the time within which 99 of 100 requests are answered."""
    return sorted(times_ms)[math.ceil(len(times_ms) * 0.99) - 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--json", type=Path, help="write the result here")
    parser.add_argument("--instances", type=int, default=INSTANCES)
    options = parser.parse_args()
    table = Table()
    table.head()
    rounds = QUICK_ROUNDS if options.quick else ROUNDS
    missed = measure_fleet(table, rounds=rounds, instances=options.instances)
    table.write(options.json)
    if missed:
        sys.exit(
            f"p99 above {MUST_MS:.0f} ms, and median above {MOST_READS:.0f} reads of one instance: {', '.join(missed)}"
        )


if __name__ == "__main__":
    main()
