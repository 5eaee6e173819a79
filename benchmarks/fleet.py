"""Lists of an organization with 100,000 instances and 1,000,000 jobs, and a log of 100 MB: how long each takes.

python -m benchmarks.fleet [--json FILE] [--quick]

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

from benchmarks.http_client import Client
from benchmarks.lists import read_on, read_whole
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

# Copies of one instance: over twenty applications and four environments, with labels. One in fifty has failed.
_APPLICATIONS = """
INSERT INTO applications (id, organization_id, name, latest_version)
SELECT lpad(to_hex(number), 24, 'a'), %(organization)s, 'shop ' || number, 1 FROM generate_series(1, 20) AS number
"""
_MANIFESTS = """
INSERT INTO manifests (application_id, version, content, author_id)
SELECT id, 1, 'launch: {steps: []}', 'nobody' FROM applications WHERE id LIKE 'aaaa%%'
"""
_ENVIRONMENTS = """
INSERT INTO environments (id, organization_id, name)
SELECT lpad(to_hex(number), 24, 'b'), %(organization)s, 'region ' || number FROM generate_series(1, 4) AS number
"""
_INSTANCES = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values, created_at, labels, destroy_at)
SELECT lpad(to_hex(extract(epoch FROM now())::bigint - %(count)s + number), 8, '0') || lpad(to_hex(number), 16, '0'),
       organization_id, lpad(to_hex(1 + number %% 20), 24, 'a'), lpad(to_hex(1 + number / 20 %% 4), 24, 'b'), 1,
       'shop-' || md5(number::text), CASE WHEN number %% 1000 = 0 THEN lpad('c', 24, 'c') ELSE owner_id END,
       CASE WHEN number %% 50 = 0 THEN 'Failed' ELSE 'Running' END, parameters, components, environment_view, state,
       return_values, now() - (%(count)s - number) * interval '1 second',
       jsonb_build_object('team', 'team-' || number %% 200, 'tier', CASE WHEN number %% 3 = 0 THEN 'db' ELSE 'web' END),
       CASE WHEN number %% 10 = 0 THEN now() + number * interval '1 minute' END
FROM instances, generate_series(1, %(count)s::integer) AS number WHERE id = %(id)s
"""
_JOBS = """
INSERT INTO jobs (id, instance_id, organization_id, number, name, owner_id, status, plan, steps, error_message,
                  created_at, started_at, finished_at)
SELECT lpad(to_hex(extract(epoch FROM created)::bigint), 8, '0') || lpad(to_hex(row_number() OVER ()), 16, '0'), id,
       organization_id, number,
       CASE WHEN number = 1 THEN 'launch' WHEN one.place %% 500 = 0 THEN 'restore' ELSE 'check' END, owner_id,
       CASE WHEN number = %(each)s AND one.status = 'Failed' THEN 'Failed' ELSE 'Succeeded' END, '{"version":1}', '[]',
       CASE WHEN number = %(each)s AND one.status = 'Failed' THEN 'The disk is full.' END, created, created, created
FROM (SELECT *, row_number() OVER (ORDER BY id) AS place FROM instances WHERE application_id LIKE 'aaaa%%') AS one,
     generate_series(1, %(each)s::integer) AS number,
     LATERAL (SELECT one.created_at - (%(each)s - number) * interval '7 minutes' AS created) AS at
"""
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
FROM instances, generate_series(1, 50) AS number WHERE id = %(id)s
"""
_LOG = """
INSERT INTO log_lines (instance_id, job_id, step, level, text, at)
SELECT %(id)s, 'none', 'step', 'info', repeat('a line of a log ', 12), now() FROM generate_series(1, %(lines)s)
"""
_SCANS = "SELECT sum(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname = ANY (%s)"
_UNSEEN = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname = ANY (%s) AND relallvisible < relpages * 0.9"
_LAST_JOBS = """
UPDATE fleet SET job_id = last.id, job_name = last.name, job_status = last.status, job_ended_at = last.finished_at
FROM (SELECT DISTINCT ON (instance_id) * FROM jobs ORDER BY instance_id, created_at DESC) AS last
WHERE fleet.instance_id = last.instance_id
"""

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
    "application": {"application": "1".rjust(24, "a"), "sort": "name"},
    "application, environment, failed": {
        "application": "b".rjust(24, "a"),
        "environment": "2".rjust(24, "b"),
        "status": "Failed",
    },
    "nothing fits": {"application": "2".rjust(24, "a"), "owner": "c" * 24},
    "owner": {"owner": "c" * 24},
    "labels": {"labels": "team=team-7,tier!=db"},
    "many labels": {"labels": "tier=web", "sort": "name"},
    "expiring": {"expiresBefore": "2000000000000", "sort": "expiry"},
    "counted": {"count": "true"},
    "failed, counted": {"lastStatus": "Failed", "count": "true"},
}
JOB_FILTERS: Mapping[str, Mapping[str, str]] = {
    "newest jobs": {},
    "failed jobs": {"status": "Failed"},
    "jobs of an application": {"application": "1".rjust(24, "a")},
    "failed jobs of an application": {"application": "b".rjust(24, "a"), "status": "Failed"},
    "jobs of an environment": {"environment": "2".rjust(24, "b")},
    "jobs of a rare workflow": {"workflow": "restore"},
    "jobs of an instance": {"instance": "7".rjust(24, "c")},
    "long jobs": {"longerThan": "3600000"},
    "long jobs of an owner": {"longerThan": "3600000", "owner": "c" * 24},
    "jobs that took any time": {"longerThan": "1"},
    "jobs of an owner": {"owner": "c" * 24},
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


def fill(url: str, instance: str, instances: int = INSTANCES, jobs_each: int = JOBS_EACH) -> None:
    """Fill the organization of an instance with copies of it and their jobs."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        row = connection.execute("SELECT organization_id FROM instances WHERE id = %s", [instance]).fetchone()
        assert row is not None, "the instance exists"
        about = {"organization": row[0], "neighbor": NEIGHBOR, "id": instance}
        for statement in (_APPLICATIONS, _MANIFESTS, _ENVIRONMENTS, _NEIGHBOR):
            connection.execute(statement.encode(), about)
        connection.execute(_INSTANCES.encode(), {"count": instances, "id": instance})
        connection.execute(_JOBS.encode(), {"each": jobs_each})
        connection.execute(_LAST_JOBS.encode())
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
    client: Client, path: str, filters: Mapping[str, Mapping[str, str]], instance: str, rounds: int
) -> list[Found]:
    """Make each request several times, one after the other, and read an instance before each."""

    async def took_ms(path: str) -> float:
        began = time.perf_counter()
        status, body = await client.request("GET", path)
        assert status == 200, body
        return (time.perf_counter() - began) * 1000

    found = []
    for what, query in filters.items():
        of = Found(what, [], [])
        for _ in range(rounds):
            of.reads_ms.append(await took_ms(f"/api/1/instances/{instance}"))
            of.times_ms.append(await took_ms(f"{path}?{urlencode(query)}"))
        found.append(of)
    return found


async def lists_of(client: Client, instance: str, rounds: int = ROUNDS) -> list[Found]:
    """Return how long the lists and the summary of the organization of an instance take."""
    organizations = await client.json("GET", "/api/1/organizations")
    [own] = [each["id"] for each in organizations if each["id"] != NEIGHBOR]
    path = f"/api/1/organizations/{own}"
    neighbor = f"/api/1/organizations/{NEIGHBOR}/instances"
    return [
        *await measure(client, f"{path}/instances", FILTERS, instance, rounds),
        *await measure(client, f"{path}/jobs", JOB_FILTERS, instance, rounds),
        *await measure(client, f"{path}/summary", {"summary": {}}, instance, rounds),
        *await measure(client, f"{path}/schedules", {"schedules": {}}, instance, rounds),
        *await measure(client, neighbor, {"words of a small organization": {"q": "shop"}}, instance, rounds),
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


def measure_fleet(table: Table, *, rounds: int) -> list[str]:
    """Add the lists, and the log, of a server of its own to a table. Return what is too slow."""
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        instance = asyncio.run(running_instance(server))
        fill(joined.url, instance)
        before = scans(joined.url)
        found = asyncio.run(lists_of(server.bearer(), instance, rounds))
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
    options = parser.parse_args()
    table = Table()
    table.head()
    missed = measure_fleet(table, rounds=QUICK_ROUNDS if options.quick else ROUNDS)
    table.write(options.json)
    if missed:
        sys.exit(
            f"p99 above {MUST_MS:.0f} ms, and median above {MOST_READS:.0f} reads of one instance: {', '.join(missed)}"
        )


if __name__ == "__main__":
    main()
