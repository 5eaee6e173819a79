"""Retention after a million jobs: how long its batches take, how others fare meanwhile, and what is left of the tables.

python -m benchmarks.retention [--jobs 1000000] [--fills 2] [--json FILE]

A million ended jobs is filled in and thrown away, twice: the second time the tables must find room where the first
left it. The duty runs in this process, as a worker's would; the server answers reads and launches meanwhile.
"""

import argparse
import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
import structlog

from benchmarks import history, machine
from benchmarks.http_client import Client
from benchmarks.launches import application, wait_running
from benchmarks.server import Server, running
from launchbay.auth.secret_key import KEY_BYTES, SecretKey
from launchbay.clock import SystemClock
from launchbay.engine.retention import PAUSE_S, Retention, RetentionPolicy
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import Database, conninfo

KEEPING = RetentionPolicy(destroyed_days=30, history_days=30, log_days=30, audit_days=0)
# By the server's own duty, which would purge while the history is filled in.
KEPT_FOR_EVER = dict.fromkeys(("retention_days", "history_retention_days", "log_retention_days"), "0")
QUIET_S = 8.0  # of the same use, before retention begins
READ_PAUSE_S = 0.005
LAUNCH_PAUSE_S = 0.05
VACUUMED_S = 240.0
DEAD_AT_REST = 60_000  # no table here is vacuumed for fewer
TABLES = ("instances", "jobs", "steps", "log_lines", "instance_events", "audit_entries")
MB = 1024 * 1024


@dataclass(frozen=True)
class Times:
    """Of many, in ms."""

    count: int
    p50: float
    p99: float
    most: float


def times_of(seconds: list[float]) -> Times:
    ms = sorted(each * 1000 for each in seconds)
    return Times(len(ms), *(round(each, 1) for each in (ms[len(ms) // 2], ms[int(len(ms) * 0.99)], ms[-1])))


class Use:
    """Somebody who reads an instance, and somebody who launches, until `end`."""

    def __init__(self, client: Client, app: str, instance: str) -> None:
        self.reads: list[float] = []
        self.launches: list[float] = []
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(
                self._again(client.another(), "GET", f"/api/1/instances/{instance}", self.reads, READ_PAUSE_S)
            ),
            loop.create_task(
                self._again(
                    client.another(), "POST", f"/api/1/applications/{app}/launch", self.launches, LAUNCH_PAUSE_S
                )
            ),
        ]

    async def end(self) -> dict[str, Any]:
        """Return the times of reads, and of launches until they are accepted."""
        for task in self._tasks:
            assert not task.done(), task.exception()
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return {"GET of an instance": asdict(times_of(self.reads)), "launch accepted": asdict(times_of(self.launches))}

    @staticmethod
    async def _again(client: Client, method: str, path: str, times: list[float], pause_s: float) -> None:
        while True:
            began = time.perf_counter()
            await client.json(method, path, None if method == "GET" else {"destroyInterval": -1})
            times.append(time.perf_counter() - began)
            await asyncio.sleep(pause_s)


async def purge(url: str, keeping: RetentionPolicy = KEEPING) -> dict[str, list[float]]:
    """Do rounds until nothing is left to do; return how long each took, without pauses."""
    async with Database(url, connections=2) as database:
        retention = Retention(database, keeping, SystemClock(), SecretKey(bytes(KEY_BYTES)))
        return {"retention": await _rounds(retention.purge, PAUSE_S)}


async def _rounds(duty: Callable[[], Awaitable[bool]], pauses_s: float) -> list[float]:
    took, more = [], True
    while more:
        began = time.perf_counter()
        more = await duty()
        took.append(time.perf_counter() - began - (pauses_s if more else 0.0))
    return took


def sizes(connection: psycopg.Connection[Any]) -> dict[str, dict[str, float]]:
    """Return the size of each table with its indexes, and of the indexes alone, in MB, and its dead rows."""
    rows = connection.execute(
        "SELECT of_table, sum(pg_total_relation_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint,"
        " sum(n_dead_tup)::bigint"
        " FROM (SELECT *, regexp_replace(relname, '_[0-9]+$', '') AS of_table FROM pg_stat_user_tables) AS each"
        " WHERE of_table = ANY (%s) GROUP BY of_table",
        [list(TABLES)],
    ).fetchall()
    return {
        name: {"all_mb": round(total / MB, 1), "indexes_mb": round(indexes / MB, 1), "dead": dead}
        for name, total, indexes, dead in sorted(rows)
    }


def wait_for_vacuum(connection: psycopg.Connection[Any]) -> float | None:
    """Wait until autovacuum has been everywhere where it is due; return after how many seconds, None for never."""
    began = time.monotonic()
    while time.monotonic() - began < VACUUMED_S:
        if all(figures["dead"] < DEAD_AT_REST for figures in sizes(connection).values()):
            return round(time.monotonic() - began, 1)
        time.sleep(1.0)
    return None


async def one_fill(
    server: Server, url: str, connection: psycopg.Connection[Any], jobs: int, name: str
) -> dict[str, Any]:
    """Fill and purge once."""
    client = server.client()
    app = await application(client, "wait")
    instance = str((await client.json("POST", f"/api/1/applications/{app}/launch", {"destroyInterval": -1}))["id"])
    await wait_running(client, instance)
    began = time.monotonic()
    filled = await asyncio.to_thread(history.fill, connection, instance, jobs, name)
    filled_s = time.monotonic() - began
    connection.execute("VACUUM (ANALYZE) jobs, steps, log_lines, instances, instance_events")
    full = sizes(connection)
    use = Use(client, app, instance)
    await asyncio.sleep(QUIET_S)
    before = await use.end()
    use, began = Use(client, app, instance), time.monotonic()
    rounds = await purge(url)
    took = time.monotonic() - began
    meanwhile = await use.end()
    client.close()
    vacuumed_s = await asyncio.to_thread(wait_for_vacuum, connection)
    [(left,)] = connection.execute("SELECT count(*) FROM jobs").fetchall()
    return {
        "filled": asdict(filled),
        "filled_in_s": round(filled_s, 1),
        "purged_in_s": round(took, 1),
        "jobs_left": left,
        "rounds": {name: asdict(times_of(took)) for name, took in rounds.items()},
        "use_before": before,
        "use_meanwhile": meanwhile,
        "sizes_full": full,
        "vacuumed_after_s": vacuumed_s,
        "sizes_after": sizes(connection),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--fills", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    result: dict[str, Any] = {"machine": machine.facts(), "jobs": options.jobs, "fills": []}
    with (
        running(None, **KEPT_FOR_EVER) as server,
        EmbeddedPostgres.start(server.data_dir, serving=False) as joined,
        psycopg.connect(conninfo(joined.url), autocommit=True) as connection,
    ):
        connection.execute("SET statement_timeout = 0")
        for number in range(options.fills):
            found = asyncio.run(one_fill(server, joined.url, connection, options.jobs, f"fill{number}"))
            result["fills"].append(found)
            show(number, found)
    if options.json is not None:
        machine.write(options.json, result)


def show(number: int, found: dict[str, Any]) -> None:
    """Print what a fill has shown."""
    print(f"fill {number}: {found['filled']} in {found['filled_in_s']} s, purged in {found['purged_in_s']} s")
    for duty, times in found["rounds"].items():
        print(f"  rounds of {duty}, ms: {times}")
    for kind in ("use_before", "use_meanwhile"):
        print(f"  {kind}, ms: {found[kind]}")
    for table, full in found["sizes_full"].items():
        print(f"  {table:<16} {full} → {found['sizes_after'][table]}")
    print(f"  {found['jobs_left']} jobs are left; vacuumed {found['vacuumed_after_s']} s later", flush=True)


if __name__ == "__main__":
    main()
