"""What is looked at every few seconds: each process from the outside, and the database's own figures."""

import os
import re
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg

TABLES = """
SELECT relname, pg_total_relation_size(relid), n_dead_tup FROM pg_stat_user_tables ORDER BY relname
"""
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
QUEUED = "SELECT count(*) FROM ready WHERE due_at IS NULL OR due_at <= now()"
KB, MB = 1024, 1024 * 1024
LISTENING = "0A"  # in /proc/net/tcp
NO_SOCKET = "0"  # the inode of a connection that its process has closed


@dataclass(frozen=True)
class ProcessSample:
    """A process at a moment. The last three only where it answers: `tasks` of its event loop, connections of its pool
    to the database, and connections of clients to it.
    """

    pid: int
    memory_mb: float
    descriptors: int
    threads: int
    tasks: float | None = None
    pooled: float | None = None
    clients: int | None = None

    def figures(self) -> dict[str, float | None]:
        """Return the figures by name."""
        return {
            "memory": self.memory_mb,
            "descriptors": self.descriptors,
            "own descriptors": self._own_descriptors(),
            "threads": self.threads,
            "tasks": self.tasks,
        }

    def _own_descriptors(self) -> float | None:
        """Return those that are neither pooled connections nor clients: these come and go with the load."""
        if self.pooled is None or self.clients is None:
            return None
        return self.descriptors - self.pooled - self.clients


@dataclass(frozen=True)
class Sample:
    """Everything at a moment, in seconds since the begin."""

    at: float
    processes: dict[str, ProcessSample]
    connections: int
    queued: int
    load: float
    sizes: dict[str, int]
    dead_rows: dict[str, int]


@dataclass
class Samples:
    """The samples of a run, in order."""

    began: float = field(default_factory=time.monotonic)
    taken: list[Sample] = field(default_factory=list)

    def take(self, database: psycopg.Connection[Any], processes: dict[str, ProcessSample]) -> None:
        """Take one."""
        tables = database.execute(TABLES).fetchall()
        self.taken.append(
            Sample(
                at=round(time.monotonic() - self.began, 1),
                processes=processes,
                connections=_number(database, CONNECTIONS),
                queued=_number(database, QUEUED),
                load=os.getloadavg()[0],
                sizes={name: size for name, size, _ in tables},
                dead_rows={name: dead for name, _, dead in tables},
            )
        )


def look_at(pid: int, port: int | None = None, exposition: str = "") -> ProcessSample | None:
    """Return what /proc says of a process, with what its metrics say; None when it is no more."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    except OSError:
        return None
    memory, threads = re.search(r"^VmRSS:\s+(\d+)", status, re.MULTILINE), re.search(r"Threads:\s+(\d+)", status)
    if memory is None or threads is None:  # a process that has ended and is not yet buried
        return None
    found = ProcessSample(pid, int(memory[1]) / KB, descriptors, int(threads[1]))
    tasks = re.search(r"^launchbay_asyncio_tasks (\S+)", exposition, re.MULTILINE)
    if tasks is None or port is None:
        return found
    pooled = re.findall(r"^launchbay_database_pool_connections\{.*\} (\S+)", exposition, re.MULTILINE)
    return replace(found, tasks=float(tasks[1]), pooled=sum(map(float, pooled)), clients=_clients(port))


def _clients(port: int) -> int:
    """Return how many sockets of this machine belong to a server that listens on that port, the listening one not."""
    local = f":{port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(1 for row in rows if row[1].endswith(local) and row[3] != LISTENING and row[9] != NO_SOCKET)


def _number(database: psycopg.Connection[Any], statement: str) -> int:
    row = database.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])
