"""Jobs that only wait: what a million of them cost, how soon due ones continue, how long many at once and a stop take.

python -m benchmarks.parking [--jobs 1000000] [--at-once 10000] [--json FILE]

One instance is launched, and its parked job copied by SQL with everything that belongs to it. The exit code is 1 if a
figure is not as it must be.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psycopg

from benchmarks.launches import percentiles, stored
from benchmarks.long_jobs import launched
from benchmarks.server import Server, running
from benchmarks.table import Limit, Table
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

DELAY_S = 500_000  # of the step that waits; at most a week
MUST_WAKE_P99_MS = 250
AT_ONCE = 10_000
MUST_AT_ONCE_S = 20
MORE_MB = 5  # than with one parked job; noise of the allocator
STOP_LONGER_S = 0.5  # than with one parked job
LATE = 600  # jobs that fall due one after the other
PIECE = 20_000  # copies in one transaction
LATE_OVER_S = 20.0
SETTLE_S = 3.0
IDLE_S = 6.0
CALM_S = 15  # PostgreSQL looks every 10 s what to vacuum

_MANIFEST = """
launch:
  steps:
    - rest: {action: wait, parameters: {delay: DELAY}}
""".replace("DELAY", str(DELAY_S))
_NEW = """
CREATE TEMP TABLE new ON COMMIT DROP AS
SELECT launchbay_new_id() AS instance, launchbay_new_id() AS job FROM generate_series(1, %s::integer)
"""
_COPY = {
    "instances": ("id = %(instance)s", "'id', new.instance, 'name', new.instance, 'job_id', new.job"),
    "jobs": ("id = %(job)s", "'id', new.job, 'instance_id', new.instance"),
    "steps": ("job_id = %(job)s", "'job_id', new.job"),
    "parked": ("job_id = %(job)s", "'job_id', new.job"),
}
_CHOOSE = """
CREATE TEMP TABLE chosen ON COMMIT DROP AS
SELECT job_id, clock_timestamp() + interval '2 s' + (row_number() OVER () - 1) * %(apart_s)s * interval '1 s' AS due
FROM (SELECT job_id FROM parked WHERE job_id <> %(job)s LIMIT %(count)s) AS few
"""
_DUE_STEPS = """
UPDATE steps SET started_at = due - interval 'DELAY s', ends_at = due FROM chosen
WHERE steps.job_id = chosen.job_id AND steps.status = 'Executing'
""".replace("DELAY", str(DELAY_S))
_DUE = (_DUE_STEPS, "UPDATE parked SET due_at = due FROM chosen WHERE parked.job_id = chosen.job_id")


def fill(connection: psycopg.Connection, instance: str, job: str, count: int) -> None:
    """Copy a parked job, with its instance, so many times."""
    for done in range(0, count, PIECE):
        with connection.transaction():
            connection.execute(_NEW, [min(PIECE, count - done)])
            for table, (which, changed) in _COPY.items():
                connection.execute(
                    f"INSERT INTO {table} SELECT (jsonb_populate_record(old, jsonb_build_object({changed}))).*"
                    f" FROM {table} AS old, new WHERE old.{which}".encode(),
                    {"instance": instance, "job": job},
                )
    for table in _COPY:
        connection.execute(f"VACUUM ANALYZE {table}".encode())


def until_vacuumed(connection: psycopg.Connection) -> None:
    """Wait until PostgreSQL has tidied up after the copies, and has had nothing to vacuum for a while."""
    calm = 0
    while calm < CALM_S:
        time.sleep(1)
        [(vacuuming,)] = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'"
        ).fetchall()
        calm = 0 if vacuuming else calm + 1


def late_s(connection: psycopg.Connection, job: str, count: int, over_s: float) -> list[float]:
    """Let so many jobs fall due within `over_s`; return how late each step ended, sorted."""
    with connection.transaction():
        connection.execute(_CHOOSE, {"job": job, "count": count, "apart_s": over_s / count})
        for statement in _DUE:
            connection.execute(statement.encode())
        chosen = [job for (job,) in connection.execute("SELECT job_id FROM chosen")]
    until = time.monotonic() + over_s + 300
    while time.monotonic() < until:
        [(left,)] = connection.execute(
            "SELECT count(*) FROM jobs WHERE id = ANY (%s) AND finished_at IS NULL", [chosen]
        ).fetchall()
        if not left:
            break
        time.sleep(0.2)
    else:
        raise AssertionError(f"{left} of {count} jobs didn't end")
    return [
        late
        for (late,) in connection.execute(
            "SELECT extract(epoch FROM finished_at - ends_at)::float8 AS late FROM steps"
            " WHERE job_id = ANY (%s) ORDER BY late",
            [chosen],
        )
    ]


def stop_s(server: Server) -> float:
    """Ask the server to stop, and return how long it took."""
    began_s = time.perf_counter()
    os.kill(server.pid, signal.SIGTERM)
    while Path(f"/proc/{server.pid}/stat").exists() and _state(server.pid) != "Z":
        time.sleep(0.01)
    return time.perf_counter() - began_s


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]


async def park_one(server: Server, connection: psycopg.Connection) -> tuple[str, str]:
    """Launch an application that waits; return the instance and the job once it is parked."""
    client = server.client()
    instance = await launched(client, await stored(client, _MANIFEST))
    client.close()
    while (found := connection.execute("SELECT job_id FROM parked").fetchone()) is None:
        await asyncio.sleep(0.1)
    return instance, found[0]


def measure(table: Table, directory: Path, count: int, at_once: int) -> None:
    """Add the figures of a server with one parked job, and with so many more."""
    late = min(LATE, count // 2)
    with ExitStack() as stack:
        with running(directory, park_after_s="1") as server:
            # Kept over the restart, so that a stop is that of the server alone.
            joined = stack.enter_context(EmbeddedPostgres.start(directory, serving=False))
            connection = stack.enter_context(psycopg.connect(conninfo(joined.url), autocommit=True))
            connection.execute("SET statement_timeout = 0")
            instance, job = asyncio.run(park_one(server, connection))
            time.sleep(SETTLE_S)
            alone_mb = Limit("with one", server.memory_mb())
            alone_s = Limit("with one", stop_s(server))
        began_s = time.perf_counter()
        fill(connection, instance, job, count)
        filled_s = time.perf_counter() - began_s
        until_vacuumed(connection)
        with running(directory, park_after_s="1") as server:
            time.sleep(SETTLE_S)
            cpu_s, began_s = server.cpu_s(), time.perf_counter()
            time.sleep(IDLE_S)
            idle_percent = 100 * (server.cpu_s() - cpu_s) / (time.perf_counter() - began_s)
            parked, memory_mb = f"{count:,} parked jobs", server.memory_mb()
            table.add(f"memory with {parked}", memory_mb, "MB", must=alone_mb.value + MORE_MB, limit=alone_mb)
            table.add(f"idle CPU with {parked}", idle_percent, "%", beside=f"they were filled in in {filled_s:.0f} s")
            times = late_s(connection, job, late, LATE_OVER_S)
            p50_ms, p99_ms = percentiles([each * 1e3 for each in times])
            about = f"{late:,} due within {LATE_OVER_S:.0f} s, p50 {p50_ms:.0f} ms"
            table.add(f"lateness p99, {parked}", p99_ms, "ms", must=MUST_WAKE_P99_MS, beside=about)
            cpu_s, own_s = server.cpu_s(), server.own_cpu_s()
            done_s = max(late_s(connection, job, at_once, 0.001))
            own_ms, all_ms = (
                (now - then) * 1e3 / at_once for now, then in ((server.own_cpu_s(), own_s), (server.cpu_s(), cpu_s))
            )
            about = f"{all_ms:.1f} ms CPU each, {own_ms:.1f} ms of the server"
            must_s = MUST_AT_ONCE_S * at_once / AT_ONCE
            table.add(f"{at_once:,} due at once, until the last has ended", done_s, "s", must=must_s, beside=about)
            table.add("memory after that", server.memory_mb(), "MB")
            table.add("stop", stop_s(server), "s", must=alone_s.value + STOP_LONGER_S, limit=alone_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="parked jobs")
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="jobs that fall due at once")
    parser.add_argument("--json", type=Path, help="write the results here")
    options = parser.parse_args()
    table = Table()
    table.head()
    with tempfile.TemporaryDirectory(prefix="launchbay-bench-") as directory:
        measure(table, Path(directory), options.jobs, min(options.at_once, options.jobs))
    table.write(options.json)
    sys.exit(table.unkept())


if __name__ == "__main__":
    main()
