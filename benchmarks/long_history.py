"""Lists, reads and retention with millions of jobs in the database, beside the same with ten thousand.

python -m benchmarks.long_history [--jobs 1000000] [--days 90] [--keep DIRECTORY] [--json FILE]

The rows are made by SQL from a job that really ran: jobs, steps, log lines, audit entries, and events of the last days.
They lie in the partitions that servers would have made. Half of the jobs are on few busy instances. Then retention
drops a partition of each table and deletes a day of jobs, while somebody reads and somebody launches.

Ten million jobs take 36 GB and most of an hour. With `--keep`, the next run finds them.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg
import structlog

from benchmarks import machine
from benchmarks.history import ANALYZE, COPY_JOBS, COPY_STEPS, EVENTS_OF_JOBS, LINES, LINES_OF_JOBS
from benchmarks.launches import application, wait_running
from benchmarks.retention import KEPT_FOR_EVER, Use, purge, times_of
from benchmarks.server import EMAIL, PASSWORD, Server, running
from launchbay.engine.retention import RetentionPolicy
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

DAYS = 90
INSTANCES_PER_JOBS = 100  # jobs on each instance, over all days
BUSY_SHARE = 0.5  # of the jobs, on few instances that run every minute
BUSY_INSTANCES = 200
EVENT_DAYS = 8  # older events are gone
SMALL = 10_000  # jobs, to which the large history is compared
SESSIONS = 2  # that write; divides the numbers of both kinds of instances
BATCH, ROUNDS = 10, 10  # of reads of a page
DAY_S = 86_400
SPANS = (8, 1, 8)  # blocks in a partition of log lines, of events and of what instances were, with the default settings
BLOCK_S = 7 / 8 * DAY_S

_LIVING = """
INSERT INTO instances (id, organization_id, application_id, environment_id, version, name, owner_id, status, parameters,
                       components, environment_view, state, return_values, created_at)
SELECT lpad(to_hex(%(origin)s::bigint), 8, '0')
       || substr(md5(%(name)s || number::text), 1, 16), organization_id, application_id, environment_id, version,
       %(name)s || number, owner_id, 'Running', parameters, components, environment_view, state, return_values,
       now() - %(days)s * interval '1 day'
FROM instances, generate_series(1, %(count)s::integer) AS number WHERE id = %(id)s
"""
_DAY = """
CREATE TEMP TABLE filled ON COMMIT DROP AS
SELECT lpad(to_hex((extract(epoch FROM now()) - %(ago)s * 86400.0 + number * 86400.0 / %(count)s)::bigint), 8, '0')
       || substr(md5(%(ago)s || '-' || number), 1, 16) AS id,
       lpad(to_hex(%(origin)s::bigint), 8, '0')
       || substr(md5(CASE WHEN number %% 100 < %(busy_percent)s THEN 'busy-' || number %% %(busy)s + 1
                          ELSE 'calm-' || (number + %(ago)s::bigint * %(count)s) %% %(calm)s + 1 END), 1, 16)
       AS instance_id,
       now() - %(ago)s * interval '1 day' + number * 86400.0 / %(count)s * interval '1 second' AS at,
       NULL::bigint AS lines_after
FROM generate_series(%(session)s + 1, %(count)s::integer, %(sessions)s) AS number
"""
_ENTRIES = """
INSERT INTO audit_entries (organization_id, at, actor_id, actor_email, method, address, operation, object, object_id)
SELECT organization_id, filled.at, owner_id, 'somebody@example.org', 'Bearer', '192.0.2.1', 'run_workflow',
       '/applications/' || application_id || '/instances/' || filled.instance_id, filled.instance_id
FROM filled, instances WHERE instances.id = %(id)s
"""
# They hold by themselves here, and their checks take half of the time.
_REFERENCES = (
    ("jobs", "jobs_instance_id_fkey", "FOREIGN KEY (instance_id) REFERENCES instances"),
    ("steps", "steps_job_id_fkey", "FOREIGN KEY (job_id) REFERENCES jobs"),
)
# What a day makes older.
_AGE = "UPDATE number_blocks SET began_at = began_at - interval '1 day'"
_BEGIN = (
    "SELECT launchbay_begin_block('instance_changes', %s, '{log_lines,instance_events,instance_history}', %s),"
    " launchbay_begin_block('audit_numbers', %s, '{audit_entries}', '{1}')"
)

# The lock of the servers' own retention, which would make partitions of other widths meanwhile.
_KEEP_RETENTION_OUT, _LET_RETENTION_IN = (f"SELECT pg_advisory_{word}(5064719320041)" for word in ("lock", "unlock"))

_FULLEST = """
SELECT instances.id FROM instances JOIN jobs ON jobs.instance_id = instances.id WHERE instances.name LIKE %s
GROUP BY instances.id ORDER BY count(*) DESC LIMIT 1
"""
_SIZES = """
SELECT regexp_replace(relname, '_[0-9]+$', ''), sum(greatest(reltuples, 0))::bigint,
       sum(pg_total_relation_size(oid))::bigint, count(*)
FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND regexp_replace(relname, '_[0-9]+$', '') IN (
    'instances', 'jobs', 'steps', 'log_lines', 'instance_events', 'audit_entries')
GROUP BY 1 ORDER BY 1
"""


def fill_days(connection: psycopg.Connection[Any], instance: str, jobs: int, days: int = DAYS) -> None:
    """Copy the newest job of an instance over many days, with the partitions that servers would have made."""
    [(job,)] = connection.execute(
        "SELECT id FROM jobs WHERE instance_id = %s ORDER BY created_at DESC LIMIT 1", [instance]
    ).fetchall()
    calm = SESSIONS * max(1, int(jobs * (1 - BUSY_SHARE)) // INSTANCES_PER_JOBS // SESSIONS)
    about = {"id": instance, "job": job, "days": days, "lines": LINES, "calm": calm, "busy": BUSY_INSTANCES}
    about |= {"origin": int(time.time()) - days * DAY_S, "count": jobs // days, "busy_percent": int(BUSY_SHARE * 100)}
    about["sessions"] = SESSIONS
    for table, rule, _ in _REFERENCES:
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {rule}".encode())
    for name, count in (("busy-", BUSY_INSTANCES), ("calm-", calm)):
        connection.execute(_LIVING, about | {"name": name, "count": count})
    connection.execute(_KEEP_RETENTION_OUT)
    with ExitStack() as stack:
        sessions = [stack.enter_context(_session(connection.info.dsn)) for _ in range(SESSIONS)]
        pool = stack.enter_context(ThreadPoolExecutor(SESSIONS))
        for ago in range(days, 0, -1):
            abouts = [about | {"ago": ago, "session": number} for number in range(SESSIONS)]
            list(pool.map(_fill_day, sessions, abouts))
            with connection.transaction():
                connection.execute(_AGE)
                connection.execute(_BEGIN, [BLOCK_S, list(SPANS), 7 * DAY_S])
            connection.execute("SELECT launchbay_drop_partitions('instance_events', 7)")
            print(f"filled day {days - ago + 1} of {days}", end="\r", file=sys.stderr, flush=True)
    connection.execute(_LET_RETENTION_IN)
    for table, rule, refers in _REFERENCES:
        connection.execute(f"ALTER TABLE {table} ADD CONSTRAINT {rule} {refers} ON DELETE CASCADE NOT VALID".encode())
    connection.execute("VACUUM (ANALYZE)")


def _fill_day(connection: psycopg.Connection[Any], about: dict[str, Any]) -> None:
    """Write the share that a session has of a day: no other one writes jobs of the same instances."""
    events = [EVENTS_OF_JOBS] if about["ago"] <= EVENT_DAYS else []
    with connection.transaction():
        for statement in (_DAY, ANALYZE, LINES_OF_JOBS, COPY_JOBS, COPY_STEPS, _ENTRIES, *events):
            connection.execute(statement, about)


def _session(dsn: str) -> psycopg.Connection[Any]:
    connection = psycopg.connect(dsn, autocommit=True)
    connection.execute("SET statement_timeout = 0")
    connection.execute("SET synchronous_commit = off")
    return connection


class Reader:
    """Somebody who reads what people and programs read, of one instance."""

    def __init__(self, server: Server, instance: str, organization: str) -> None:
        self._server = server
        origin = f"http://127.0.0.1:{server.port}"
        self._client = httpx.Client(base_url=origin, trust_env=False, auth=(EMAIL, PASSWORD))
        of = f"/instances/{instance}"
        detail = self.read(of)
        lines = self.read(f"{of}/log?limit=10000")
        job = self.read(f"{of}/jobs?limit=1")[0]["id"]
        all_of_it = f"/organizations/{organization}"
        audit = f"{all_of_it}/audit?limit=100"
        self.pages = {
            "an instance": of,
            "its jobs, first page": f"{of}/jobs?limit=20",
            "a job": f"{of}/jobs/{job}",
            "its log, first page": f"{of}/log?limit=100",
            "its log, last page": f"{of}/log?limit=100&after={lines[max(0, len(lines) - 101)]['id']}",
            "the log of a job": f"{of}/log?job={job}",
            "instances of an application": f"/applications/{detail['applicationId']}/instances?limit=100",
            "audit log of an instance": f"{audit}&object={instance}",
            "audit log, first page": audit,
            "audit log, newest": f"{audit}&sort=-at",
            "all instances": f"{all_of_it}/instances?limit=100",
            "instances by last job": f"{all_of_it}/instances?limit=100&sort=-lastJob",
            "instances by words": f"{all_of_it}/instances?limit=100&q=busy-12",
            "all jobs": f"{all_of_it}/jobs?limit=100",
            "jobs by words": f"{all_of_it}/jobs?limit=100&q=busy-12",
            "failed jobs": f"{all_of_it}/jobs?limit=100&status=Failed",
            "summary": f"{all_of_it}/summary",
        }

    def read(self, path: str) -> Any:
        """Return a decoded answer; anything but 200 is an error of the benchmark."""
        answer = self._client.get(f"/api/1{path}")
        assert answer.status_code == 200, (path, answer.status_code, answer.text)
        return answer.json()

    def batch(self, name: str) -> tuple[list[float], float]:
        """Read a page some times; return the seconds of each, and of CPU in all, of the server and of PostgreSQL."""
        took, cpu_s = [], self._server.cpu_s()
        for _ in range(BATCH):
            began = time.perf_counter()
            self._client.get(f"/api/1{self.pages[name]}")
            took.append(time.perf_counter() - began)
        return took, self._server.cpu_s() - cpu_s


def compare(small: Reader, large: Reader) -> dict[str, dict[str, Any]]:
    """Read each page of the two in turns, so that both meet the same weather."""
    found: dict[str, dict[str, Any]] = {}
    for name in small.pages:
        times: tuple[list[float], list[float]] = ([], [])
        cpu_s = [0.0, 0.0]
        for _ in range(ROUNDS):
            for place, reader in enumerate((small, large)):
                took, cpu = reader.batch(name)
                times[place].extend(took)
                cpu_s[place] += cpu
        found[name] = {
            kind: asdict(times_of(times[place])) | {"cpu_ms": round(cpu_s[place] * 1000 / BATCH / ROUNDS, 2)}
            for place, kind in enumerate(("small", "large"))
        }
    return found


def drop(connection: psycopg.Connection[Any]) -> dict[str, float | None]:
    """Drop the oldest partition of log lines and of audit entries; return the ms that each took, None if busy."""
    took: dict[str, float | None] = {}
    for table in ("log_lines", "audit_entries"):
        [(days,)] = connection.execute(
            "SELECT extract(epoch FROM now() - min(began_at)) / 86400 - 0.001 FROM number_blocks JOIN partitions"
            " USING (sequence)"
            " WHERE parent = %s AND block >= (SELECT min(end_block) FROM partitions WHERE parent = %s)",
            [table, table],
        ).fetchall()
        began = time.perf_counter()
        [(dropped,)] = connection.execute("SELECT launchbay_drop_partitions(%s, %s)", [table, float(days)]).fetchall()
        took[table] = None if dropped is None else round((time.perf_counter() - began) * 1000, 1)
        assert dropped in {None, 1}, (table, dropped)
    return took


@dataclass(frozen=True)
class History:
    """A running server with a history. `kept_days` are what earlier runs have left of its jobs."""

    server: Server
    connection: psycopg.Connection[Any]
    url: str
    application: str
    instance: str
    filled_in_s: int
    kept_days: int

    def reader(self, kind: str) -> Reader:
        """Return a reader of the instance of a kind that has the most jobs."""
        [(organization,)] = self.connection.execute("SELECT id FROM organizations LIMIT 1").fetchall()
        [(instance,)] = self.connection.execute(_FULLEST, [f"{kind}-%"]).fetchall()
        return Reader(self.server, instance, organization)


@contextmanager
def history(jobs: int, days: int, directory: Path | None) -> Iterator[History]:
    """Run a server on a database with so many jobs, which is made unless the directory has it from the last run."""
    filled = None if directory is None else directory / "filled.json"
    with (
        running(None if directory is None else directory / "data", **KEPT_FOR_EVER) as server,
        EmbeddedPostgres.start(server.data_dir, serving=False) as joined,
        _session(conninfo(joined.url)) as connection,
    ):
        if filled is not None and filled.exists():
            made = json.loads(filled.read_text())
            assert (made["jobs"], made["days"]) == (jobs, days), (str(directory), made)
        else:
            app, instance = asyncio.run(_instance(server))
            began = time.monotonic()
            fill_days(connection, instance, jobs, days)
            made = {"jobs": jobs, "days": days, "application": app, "instance": instance}
            made["filled_in_s"] = round(time.monotonic() - began)
            made["kept_days"] = days
        # The look at all rows for quotas takes minutes, twice a day, and isn't what is measured.
        connection.execute("UPDATE organization_bytes SET measured_at = now()")
        about = (made["application"], made["instance"], made["filled_in_s"], made["kept_days"])
        if filled is not None:
            filled.write_text(json.dumps(made))
        yield History(server, connection, joined.url, *about)
        if filled is not None:
            filled.write_text(json.dumps(made | {"kept_days": made["kept_days"] - 1}))


async def retain(of: History, work: Callable[[], Any]) -> dict[str, Any]:
    """Do something to the history while somebody reads an instance and somebody launches."""
    use = Use(of.server.client(), of.application, of.instance)
    await asyncio.sleep(2.0)
    began = time.monotonic()
    result = await asyncio.to_thread(work)
    took_s = time.monotonic() - began
    await asyncio.sleep(1.0)
    return {"took_s": round(took_s, 2), "result": result, "use": await use.end()}


def retention(of: History) -> dict[str, Any]:
    """Drop a partition of each table, then delete a day of jobs."""
    found: dict[str, Any] = {"drop": asyncio.run(retain(of, lambda: drop(of.connection)))}
    policy = RetentionPolicy(destroyed_days=0, history_days=of.kept_days - 1, log_days=0, audit_days=0)
    count = "SELECT count(*) FROM jobs WHERE finished_at < now() - interval '1 hour'"
    [(before,)] = of.connection.execute(count.encode()).fetchall()
    deletion = asyncio.run(retain(of, lambda: asyncio.run(purge(of.url, policy))))
    [(after,)] = of.connection.execute(count.encode()).fetchall()
    deletion["result"] = {name: asdict(times_of(took)) for name, took in deletion["result"].items()}
    return found | {"delete jobs": deletion | {"jobs": before - after}}


async def _instance(server: Server) -> tuple[str, str]:
    client = server.client()
    app = await application(client, "wait")
    instance = str((await client.json("POST", f"/api/1/applications/{app}/launch", {"destroyInterval": -1}))["id"])
    await wait_running(client, instance)
    client.close()
    return app, instance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--keep", type=Path, help="a directory for the databases, which the next run uses again")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    result: dict[str, Any] = {"machine": machine.facts(), "jobs": options.jobs, "days": options.days}
    result["small"] = SMALL
    places = [None if options.keep is None else options.keep / size for size in ("small", "large")]
    with history(SMALL, options.days, places[0]) as small, history(options.jobs, options.days, places[1]) as large:
        result["filled_in_s"] = large.filled_in_s
        result["sizes"] = {
            table: {"rows": rows, "mb": round(size / 2**20), "partitions": count}
            for table, rows, size, count in large.connection.execute(_SIZES).fetchall()
        }
        result["reads"] = {
            f"of a {kind} instance": compare(small.reader(kind), large.reader(kind)) for kind in ("busy", "calm")
        }
        result["retention"] = retention(large)
    if options.json is not None:
        machine.write(options.json, result)
    show(result)


def show(result: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"{result['jobs']:,} jobs over {result['days']} days, filled in {result['filled_in_s']} s")
    for kind, pages in result["reads"].items():
        print(f"reads {kind}: p50, p99, CPU in ms with {SMALL:,} jobs, then with {result['jobs']:,}")
        for name, sizes in pages.items():
            figures = [sizes[size][figure] for size in ("small", "large") for figure in ("p50", "p99", "cpu_ms")]
            print(f"  {name:<30}" + "".join(f"{figure:>9}" for figure in figures))
    for table, size in result["sizes"].items():
        print(f"  {table:<16} {size}")
    for name, found in result["retention"].items():
        print(f"{name}: {found}", flush=True)


if __name__ == "__main__":
    main()
