"""Which worker holds which job: the tables `workers`, `ready` and `parked`, and the column `jobs.worker_id`.

A job under way is held by a worker, waits in `ready`, is parked, or belongs to the job that called it. Statements that
accept or end a job are in `jobs.sql`, because they do so in the same transaction. Decisions 0092 and 0096 say why.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple, TypeAlias

import structlog

from launchbay.store.connection import BoundedConnection
from launchbay.store.database import DatabaseError, conninfo
from launchbay.store.statements import load

_sql = load("dispatch")
CHANNEL = "launchbay_dispatch"  # also in queries/dispatch.sql and jobs.sql
RECONNECT_S = 0.2
SILENCE_S = 5.0  # a few beats, far less than a TCP timeout
SLOW_LOOP_S = 1.0
DEAD_LOOP_S = 60.0
log = structlog.get_logger(__name__)

WorkerBeat: TypeAlias = tuple[int, datetime]  # a worker's id and its last heartbeat by the database's clock


class ClaimedJob(NamedTuple):
    """A job that a worker holds. Only its newest claim (fence) may write."""

    job_id: str
    organization_id: str
    fence: int


class WorkerRow(NamedTuple):
    """A registered worker.

    `has_session`: PostgreSQL has the session of its heartbeats; None if that isn't known.
    """

    id: int
    beat_at: datetime
    has_session: bool | None


class WokenRow(NamedTuple):
    """How many parked jobs became ready, and the seconds until the next one."""

    jobs: int
    next_s: float | None


register = _sql.value("register", int)
unregister = _sql.change("unregister")
beat = _sql.value("beat", int)
list_workers = _sql.rows("list_workers", WorkerRow)
claim = _sql.rows("claim", ClaimedJob)
list_held = _sql.rows("list_held", ClaimedJob)
release = _sql.change("release")
park = _sql.value("park", bool)
wake = _sql.value("wake", int)
wake_due = _sql.row("wake_due", WokenRow)
list_unheld = _sql.column("list_unheld", str)
rescue = _sql.value("rescue", int)
announce = _sql.value("announce", object)
is_free = _sql.value("is_free", bool)


class Heartbeat:
    """Sends a worker's heartbeats, and receives announcements, in a thread of its own.

    The thread has an event loop and a connection for this alone: a worker whose loop is busy or whose pool is exhausted
    is alive, and others must not take its jobs. A loop that hasn't moved for DEAD_LOOP_S is not.

    The callbacks run in the event loop that called `start`: `on_announced` with the ID of a job that its worker is to
    release, or "" if jobs may be ready; `on_dead` once the others have declared the worker dead.
    """

    def __init__(
        self,
        url: str,
        worker_id: int,
        interval_s: float,
        on_announced: Callable[[str], object],
        on_dead: Callable[[], object],
    ) -> None:
        self._url = url
        self._worker_id = worker_id
        self._interval_s = interval_s
        self._on_announced = on_announced
        self._on_dead = on_dead
        self._asked_at_s: float | None = None  # when the loop was asked to move; None once it has
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._own_loop = asyncio.new_event_loop()
        self._task = self._own_loop.create_task(self._beat())
        self._thread.start()

    async def stop(self) -> None:
        """End the thread."""
        with suppress(RuntimeError):  # it ended by itself, and closed its loop
            self._own_loop.call_soon_threadsafe(self._task.cancel)
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            self._own_loop.run_until_complete(self._task)
        except asyncio.CancelledError:
            pass
        finally:
            self._own_loop.close()

    async def _beat(self) -> None:
        self._failures = 0
        while True:
            try:
                await self._connected()
                return
            except (DatabaseError, OSError) as error:
                self._failures += 1
                if self._failures > 1:  # a lost connection that the next one replaces is nothing to read about
                    log.warning("worker.heartbeat_disconnected", error=str(error), repeats=True)
            await asyncio.sleep(RECONNECT_S)

    async def _connected(self) -> None:
        async with await BoundedConnection.connect(conninfo(self._url), autocommit=True) as connection:
            connection.timeout_s = max(SILENCE_S, 4 * self._interval_s)
            await connection.execute(f"LISTEN {CHANNEL}".encode())
            self._failures = 0
            # This connection was not notified of jobs that were committed before LISTEN took effect.
            self._post(self._on_announced, "")
            while True:
                if self._is_loop_alive() and await beat(connection, worker_id=self._worker_id) is None:
                    self._post(self._on_dead)
                    return
                # psycopg keeps notifications that arrive during a heartbeat and yields them first.
                async for notification in connection.notifies(timeout=self._interval_s):
                    self._post(self._on_announced, notification.payload)

    def _is_loop_alive(self) -> bool:
        # Measured from the question, not from the last move: nobody asks while there is no connection.
        now_s = time.monotonic()
        asked_at_s = self._asked_at_s
        if asked_at_s is None:
            self._asked_at_s = now_s
            self._post(self._moved)
            return True
        stuck_s = now_s - asked_at_s
        if stuck_s > SLOW_LOOP_S:
            log.warning("worker.event_loop_blocked", seconds=round(stuck_s, 1))
        return stuck_s < DEAD_LOOP_S

    def _moved(self) -> None:
        self._asked_at_s = None

    def _post(self, callback: Callable[..., object], *arguments: object) -> None:
        try:
            self._loop.call_soon_threadsafe(callback, *arguments)
        except RuntimeError:  # that loop is closed: the process ends
            self._task.cancel()
