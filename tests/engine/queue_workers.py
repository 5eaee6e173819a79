"""Workers with a handler that can be watched and held, and what tests do to them and ask about them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, LiteralString

from psycopg import AsyncConnection

from launchbay.engine.queue import Queue, defer
from launchbay.store.database import Database

POLL_S = 1.0  # what is found only by polling takes up to this long


class Runs:
    """A handler that writes down its runs, and holds each until it is let go."""

    def __init__(self, *, holding: bool = False) -> None:
        self.started: asyncio.Queue[str] = asyncio.Queue()
        self.running: list[str] = []
        self.most = 0
        self.cancelled: list[str] = []
        self.go = asyncio.Event()
        if not holding:
            self.go.set()

    async def __call__(self, name: str) -> None:
        self.running.append(name)
        self.most = max(self.most, len(self.running))
        self.started.put_nowait(name)
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise
        finally:
            self.running.remove(name)

    async def next(self, within_s: float = 5.0) -> str:
        """Return the name of the next run to start."""
        async with asyncio.timeout(within_s):
            return await self.started.get()


@contextlib.asynccontextmanager
async def working(
    database: Database, handler: Callable[..., Awaitable[None]], *, concurrency: int = 10, **options: float
) -> AsyncIterator[asyncio.Event]:
    """Run a worker around the block; yields its stop event."""
    stop = asyncio.Event()
    queue = Queue(database.pool, database.url, **{"heartbeat_s": 0.1, "grace_s": 0.0} | options)
    worker = asyncio.create_task(queue.work({"job": handler}, concurrency=concurrency, name="test", stop=stop))
    try:
        await until(database, "SELECT count(*) > 0 FROM procrastinate_workers")
        await asyncio.sleep(0.05)
        yield stop
    finally:
        stop.set()
        await worker


async def put(database: Database, name: str, lock: str | None = None, priority: int = 0) -> int:
    async with database.connection() as conn:
        return await defer(conn, task="job", lock=lock or name, arguments={"name": name}, priority=priority)


async def until(database: Database, condition: str, within_s: float = 5.0) -> None:
    async with asyncio.timeout(within_s):
        while await ask(database, condition) != (True,):
            await asyncio.sleep(0.01)


async def ask(database: Database, query: str) -> Any:
    async with database.connection() as conn:
        return await (await conn.execute(query)).fetchone()


async def empty(database: Database) -> None:
    await until(database, "SELECT count(*) = 0 FROM procrastinate_jobs")


async def cut_connections(database: Database, which: LiteralString = "") -> None:
    """End connections to the database, all of them unless told otherwise, as a restart of PostgreSQL does."""
    async with await AsyncConnection.connect(database.url, autocommit=True) as conn:
        cut = await conn.execute(
            "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() " + which
        )
        assert cut.rowcount > 0
