"""Workers that PostgreSQL wakes, and workers that NATS wakes: launches over a server without an engine.

python -m benchmarks.workers [--seconds N] [--rounds N] [--workers N,N,…] [--json FILE]

Each round measures both ways, one after the other, with each number of workers. Only ratios within a round mean
anything: clients, server, workers, PostgreSQL and NATS share the machine, whose load each row has. `claims` are looks
for jobs that are ready, found or not; each worker also looks once a second, whatever wakes it (`polls`, at most). It
needs `nats-server`.
"""

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from benchmarks import machine
from benchmarks.dispatch import Waiting, closed_loop, complete
from benchmarks.launches import application, percentiles
from benchmarks.server import Server, process_cpu_s, running, working
from launchbay.engine.dispatch import POLL_S
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import conninfo

WORKERS = (1, 2, 4, 8)
CLIENTS = (1, 16)
ACTION = "wait"  # a recorded step; with no delay it does nothing else
WARM_UP = 20
WAITING = Waiting(at_launch=True, at_read=True)
COLUMNS = ("per_s", "p50_ms", "p99_ms", "claims", "polls", "cpu_ms", "postgres_cpu_ms", "nats_cpu_ms", "load")
PATH = f"{os.environ['PATH']}:/usr/sbin"


@contextmanager
def nats_server() -> Iterator[tuple[str, int]]:
    """Run one NATS server; yields its URL and its process."""
    program = shutil.which("nats-server", path=PATH)
    if program is None:
        sys.exit("nats-server is missing: make debian")
    with tempfile.TemporaryDirectory() as directory:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = str(free.getsockname()[1])
        log = f"{directory}/log"
        process = subprocess.Popen([program, "-js", "-a", "127.0.0.1", "-p", port, "-sd", directory, "-l", log])
        try:
            yield f"nats://127.0.0.1:{port}", process.pid
        finally:
            process.kill()
            process.wait()


def claims(connection: psycopg.Connection[Any]) -> int:
    """Return how often workers have looked for jobs; PostgreSQL counts with up to a second's delay."""
    time.sleep(1.5)
    [row] = connection.execute(
        "SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_user_functions WHERE funcname = 'launchbay_claim'"
    ).fetchall()
    return int(row[0])


async def loop(server: Server, clients: int, seconds: float) -> tuple[float, list[float]]:
    """Return how long the launches took together, and each in ms."""
    first = server.client()
    app = await application(first, ACTION)
    for _ in range(WARM_UP):
        await complete(first, app, WAITING)
    first.close()
    return await closed_loop(server.client, app, clients, seconds, WAITING)


def measure(way: str, count: int, seconds: float) -> Iterator[dict[str, Any]]:
    """Measure one way with so many workers."""
    with ExitStack() as stack:
        settings: dict[str, str] = {}
        nats_pid = 0
        if way == "nats":
            settings["dispatch_url"], nats_pid = stack.enter_context(nats_server())
        directory = Path(tempfile.mkdtemp(prefix="launchbay-bench-"))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        postgres = EmbeddedPostgres.start(directory, overrides={"track_functions": "pl"})
        stack.callback(postgres.stop)
        server = stack.enter_context(running(directory, "--no-engine", "--database-url", postgres.url, **settings))
        connection = stack.enter_context(psycopg.connect(conninfo(postgres.url), autocommit=True))
        pids = [server.pid, *stack.enter_context(working(server, postgres.url, count, **settings))]
        for clients in CLIENTS:
            looked = claims(connection)
            own_s, all_s = sum(map(process_cpu_s, pids)), server.cpu_s() - server.own_cpu_s()
            nats_s = process_cpu_s(nats_pid)
            took_s, times = uvloop.run(loop(server, clients, seconds))
            launches = len(times) + WARM_UP
            p50_ms, p99_ms = percentiles(times)
            yield {
                "way": way,
                "workers": count,
                "clients": clients,
                "per_s": len(times) / took_s,
                "p50_ms": p50_ms,
                "p99_ms": p99_ms,
                "cpu_ms": (sum(map(process_cpu_s, pids)) - own_s) * 1000 / launches,
                "postgres_cpu_ms": (server.cpu_s() - server.own_cpu_s() - all_s) * 1000 / launches,
                "nats_cpu_ms": (process_cpu_s(nats_pid) - nats_s) * 1000 / launches,
                "polls": count * took_s / len(times) / POLL_S,
                "claims": (claims(connection) - looked) / launches,
                "load": os.getloadavg()[0],
            }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    facts, rows = machine.facts(), []
    print(f"Python {facts['python']}, {facts['cores']} cores, load {facts['load_before']} before the run\n")
    print(f"{'':<34}" + "".join(f"{name:>16}" for name in COLUMNS))
    for _ in range(chosen.rounds):
        for count in map(int, chosen.workers.split(",")):
            for way in ("postgresql", "nats"):
                for row in measure(way, count, chosen.seconds):
                    rows.append(
                        {name: round(each, 3) if isinstance(each, float) else each for name, each in row.items()}
                    )
                    name = f"{count} workers, {row['clients']} clients, {way}"
                    print(f"{name:<34}" + "".join(f"{row[column]:>16.2f}" for column in COLUMNS), flush=True)
    if chosen.json is not None:
        machine.write(chosen.json, {"machine": facts, "rows": rows})


if __name__ == "__main__":
    main()
