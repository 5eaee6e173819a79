"""One connection of its own per worker: it hears of new jobs, and tells the others that this worker lives.

Both on one connection, outside the pool, so that neither depends on how busy the pool is: a worker whose handlers hold
every pooled connection must still beat, or it would be taken for dead. See docs/decisions/0002-missed-wake-ups.md.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NoReturn

import psycopg
import structlog
from psycopg import sql

from launchbay.store.database import BoundedConnection

log = structlog.get_logger(__name__)

RECONNECT_S = 0.2
PATIENCE_S = 5.0  # with a database that does not answer: a few intervals, not TCP's own patience

Beat = Callable[[psycopg.AsyncConnection[tuple[object, ...]]], Awaitable[None]]
Hear = Callable[[str], Awaitable[None]]


class Pulse:
    """Listens on a channel and beats at an interval, for as long as `run` is not cancelled; reconnects by itself."""

    def __init__(
        self,
        conninfo: str,
        *,
        channel: str,
        beat: Beat,
        hear: Hear,
        interval_s: float,
    ) -> None:
        """Take what to do: `beat` runs a statement on the connection, `hear` gets each payload ("" = look now)."""
        self._conninfo = conninfo
        self._channel = channel
        self._beat = beat
        self._hear = hear
        self._interval_s = interval_s

    async def run(self) -> NoReturn:
        """Listen and beat until cancelled."""
        while True:
            try:
                await self._connected()
            except (psycopg.Error, OSError) as error:
                log.warning("queue.pulse_lost", error=str(error), retry_in_s=RECONNECT_S)
            await asyncio.sleep(RECONNECT_S)

    async def _connected(self) -> NoReturn:
        conn = await BoundedConnection.connect(self._conninfo, autocommit=True)
        async with conn:
            conn.patience_s = max(PATIENCE_S, 4 * self._interval_s)
            # A heartbeat that a power cut forgets harms nobody; without this an idle worker costs a disk flush
            # per beat.
            await conn.execute("SET synchronous_commit = off")
            await conn.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
            # Whatever was committed before LISTEN took effect was announced to nobody here.
            await self._hear("")
            while True:
                await self._beat(conn)
                # Notifications that arrive during a beat wait in psycopg's backlog and come out first here.
                async for notification in conn.notifies(timeout=self._interval_s):
                    await self._hear(notification.payload)
