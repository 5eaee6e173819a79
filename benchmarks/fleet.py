"""Lists of an organization with 100,000 instances and 1,000,000 jobs: how long each filter and order takes."""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

import psycopg

from benchmarks.http_client import Client
from benchmarks.reads import running_instance
from benchmarks.server import running
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

INSTANCES = 100_000
JOBS_EACH = 10
ROUNDS = 40

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
INSERT INTO jobs (id, instance_id, organization_id, name, owner_id, status, plan, steps, error_message, created_at,
                  started_at, finished_at)
SELECT lpad(to_hex(extract(epoch FROM created)::bigint), 8, '0') || lpad(to_hex(row_number() OVER ()), 16, '0'), id,
       organization_id,
       CASE WHEN number = 1 THEN 'launch' WHEN one.place %% 500 = 0 THEN 'restore' ELSE 'check' END, owner_id,
       CASE WHEN number = %(each)s AND one.status = 'Failed' THEN 'Failed' ELSE 'Succeeded' END, '{"version":1}', '[]',
       CASE WHEN number = %(each)s AND one.status = 'Failed' THEN 'The disk is full.' END, created, created, created
FROM (SELECT *, row_number() OVER (ORDER BY id) AS place FROM instances WHERE application_id LIKE 'aaaa%%') AS one,
     generate_series(1, %(each)s::integer) AS number,
     LATERAL (SELECT one.created_at - (%(each)s - number) * interval '7 minutes' AS created) AS at
"""
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
    "failed jobs, counted": {"status": "Failed", "count": "true"},
    "jobs, counted": {"count": "true"},
}


@dataclass(frozen=True)
class Found:
    """Times of one list in ms."""

    what: str
    p50_ms: float
    p99_ms: float


def fill(url: str, instance: str, instances: int = INSTANCES, jobs_each: int = JOBS_EACH) -> None:
    """Fill the organization of an instance with copies of it and their jobs."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("SET statement_timeout = 0")
        row = connection.execute("SELECT organization_id FROM instances WHERE id = %s", [instance]).fetchone()
        assert row is not None, "the instance exists"
        for statement in (_APPLICATIONS, _MANIFESTS, _ENVIRONMENTS):
            connection.execute(statement.encode(), {"organization": row[0]})
        connection.execute(_INSTANCES.encode(), {"count": instances, "id": instance})
        connection.execute(_JOBS.encode(), {"each": jobs_each})
        connection.execute(_LAST_JOBS.encode())
        connection.execute("VACUUM (ANALYZE)")


async def measure(client: Client, path: str, filters: Mapping[str, Mapping[str, str]], rounds: int) -> list[Found]:
    """Make each request several times, one after the other."""
    found = []
    for what, query in filters.items():
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            status, body = await client.request("GET", f"{path}?{urlencode(query)}")
            times.append((time.perf_counter() - began) * 1000)
            assert status == 200, body
        times.sort()
        found.append(Found(what, times[len(times) // 2], times[int(len(times) * 0.99)]))
    return found


async def lists_of(client: Client, rounds: int = ROUNDS) -> list[Found]:
    """Return how long the lists and the summary of the first organization take."""
    organizations = await client.json("GET", "/api/1/organizations")
    path = f"/api/1/organizations/{organizations[0]['id']}"
    instances = await measure(client, f"{path}/instances", FILTERS, rounds)
    jobs = await measure(client, f"{path}/jobs", JOB_FILTERS, rounds)
    return instances + jobs + await measure(client, f"{path}/summary", {"summary": {}}, rounds)


def main() -> None:
    """Print the times of a server of its own."""
    with running() as server, EmbeddedPostgres.start(server.data_dir, serving=False) as joined:
        instance = asyncio.run(running_instance(server))
        fill(joined.url, instance)
        for found in asyncio.run(lists_of(server.bearer())):
            print(f"{found.what:40} {found.p50_ms:8.1f} {found.p99_ms:8.1f}", flush=True)


if __name__ == "__main__":
    main()
