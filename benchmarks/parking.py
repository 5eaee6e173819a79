"""Jobs that only wait: what a million of them cost, how soon due ones continue, how long many at once and a stop take.

python -m benchmarks.parking [--jobs 1000000] [--json FILE]

One instance is launched, and its parked job copied by SQL with everything that belongs to it.
"""

import argparse
import asyncio
import os
import signal
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import machine
from benchmarks.launches import percentiles
from benchmarks.long_jobs import application, launched
from benchmarks.server import Server, running
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

DELAY_S = 500_000  # of the step that waits; at most a week
MUST_WAKE_P99_MS = 250
MUST_AT_ONCE_S = 20
PIECE = 20_000  # copies in one transaction
LATE_OVER_S = 20.0
SETTLE_S = 3.0

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
    instance = await launched(client, await application(client, _MANIFEST))
    client.close()
    while (found := connection.execute("SELECT job_id FROM parked").fetchone()) is None:
        await asyncio.sleep(0.1)
    return instance, found[0]


def measure(directory: Path, count: int) -> dict[str, Any]:
    """Return the figures of a server with one parked job, and with so many more."""
    found: dict[str, Any] = {"jobs": count}
    at_once, late = min(10_000, count // 10), min(600, count // 10)
    with ExitStack() as stack:
        with running(directory, park_after_s="1") as server:
            # Kept over the restart, so that a stop is that of the server alone.
            joined = stack.enter_context(EmbeddedPostgres.start(directory, serving=False))
            connection = stack.enter_context(psycopg.connect(conninfo(joined.url), autocommit=True))
            connection.execute("SET statement_timeout = 0")
            instance, job = asyncio.run(park_one(server, connection))
            time.sleep(SETTLE_S)
            found["memory_before_mb"] = server.memory_mb()
            found["stop_before_s"] = stop_s(server)
        began_s = time.perf_counter()
        fill(connection, instance, job, count)
        found["filled_s"] = time.perf_counter() - began_s
        with running(directory, park_after_s="1") as server:
            time.sleep(SETTLE_S)
            cpu_s, began_s = server.cpu_s(), time.perf_counter()
            time.sleep(2 * SETTLE_S)
            found["idle_cpu_percent"] = 100 * (server.cpu_s() - cpu_s) / (time.perf_counter() - began_s)
            found["memory_mb"] = server.memory_mb()
            times = late_s(connection, job, late, LATE_OVER_S)
            found["wake_p50_ms"], found["wake_p99_ms"] = percentiles([each * 1e3 for each in times])
            found["at_once"], found["at_once_s"] = at_once, max(late_s(connection, job, at_once, 0.001))
            found["memory_after_mb"] = server.memory_mb()
            found["stop_s"] = stop_s(server)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="parked jobs")
    parser.add_argument("--json", type=Path, help="write the results here")
    options = parser.parse_args()
    facts = machine.facts()
    with tempfile.TemporaryDirectory(prefix="launchbay-bench-") as directory:
        found = measure(Path(directory), options.jobs)
    for name, value in found.items():
        print(f"{name:>20} {value:,.2f}")
    if options.json is not None:
        machine.write(options.json, {"machine": facts, **found})


if __name__ == "__main__":
    main()
