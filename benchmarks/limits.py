"""What the machine itself can do, measured in the same run: the figures that the product's are compared with."""

import math
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import uvloop
from psycopg import sql

from benchmarks.http_client import Client
from benchmarks.reads import hammer
from launchbay.postgres.cluster import binaries
from launchbay.store.database import conninfo

LISTENS_WITHIN_S = 30.0


@contextmanager
def bare_application(url: str, instance: str) -> Iterator[int]:
    """Run the bare ASGI application and give its port."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.bare", url, instance], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(10)


def _await_listening(port: int) -> None:
    until = time.monotonic() + LISTENS_WITHIN_S
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < until, "the bare application does not listen"
        time.sleep(0.05)


def bare_reads(url: str, instance: str, clients: int, seconds: float, path: str = "/") -> tuple[float, float]:
    """Return requests per second and the 99th percentile in ms of a bare endpoint with one indexed query.

    The path `/empty` is one without it. The clients run in the event loop in which they read from the product:
    asyncio's own takes half as much again of the processors, which the application then lacks.
    """
    with bare_application(url, instance) as port:
        _await_listening(port)
        return uvloop.run(hammer(lambda: Client("127.0.0.1", port, ""), path, clients, seconds))


def commits_per_s(url: str, seconds: float = 2.0) -> float:
    """Return how many single-row INSERT + COMMIT one client makes in a second: the disk's and the protocol's limit."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS benchmark_commits (id bigserial PRIMARY KEY, text text)")
        count, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            connection.execute("INSERT INTO benchmark_commits (text) VALUES ('x')")
            count += 1
        connection.execute("DROP TABLE benchmark_commits")
    return count / seconds


def pgbench_commits_per_s(url: str, clients: int, seconds: float) -> float:
    """Return how many single-row INSERT + COMMIT so many clients make in a second, by PostgreSQL's own pgbench."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection, tempfile.NamedTemporaryFile("w") as script:
        connection.execute("CREATE TABLE IF NOT EXISTS benchmark_commits (id bigserial PRIMARY KEY, text text)")
        script.write("INSERT INTO benchmark_commits (text) VALUES ('x');\n")
        script.flush()
        command = [str(binaries() / "pgbench"), "-n", "-M", "prepared", "-f", script.name]
        extent = ["-T", str(math.ceil(seconds)), "-c", str(clients), "-j", str(min(clients, 2))]
        told = subprocess.check_output([*command, *extent, url], text=True)
        connection.execute("DROP TABLE benchmark_commits")
    found = re.search(r"tps = ([\d.]+)", told)
    assert found, told
    return float(found[1])


def copied_s(url: str, instance: str) -> float:
    """Return how long PostgreSQL alone takes to give out what lists show of this instance and its like."""
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        statement = (
            "COPY (SELECT id, name, status, version, return_values, created_at FROM instances WHERE application_id ="
            " (SELECT application_id FROM instances WHERE id = {})) TO STDOUT"
        )
        began = time.perf_counter()
        with connection.cursor() as cursor, cursor.copy(sql.SQL(statement).format(sql.Literal(instance))) as rows:
            for _ in rows:
                pass
        return time.perf_counter() - began
