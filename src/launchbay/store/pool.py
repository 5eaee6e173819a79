"""The connections of a process to its database, lent to one caller at a time."""

import asyncio
import time
from collections.abc import Callable, Sequence

import psycopg
import structlog
from psycopg.pq import ConnStatus

from launchbay.errors import Unavailable
from launchbay.store.connection import BoundedConnection, Statement
from launchbay.tenants import TurnQueue, current_tenant, may_take

LIFETIME_S = 3600.0  # then a connection is replaced: it may lead to a server that others have left
IDLE_S = 120.0  # how often connections that nobody needed meanwhile are closed
_LEAST = 2
_WAITING_EACH = 50  # callers that may wait for each connection
_WAIT_WHILE_AWAY_S = 0.5
_RECONNECT_S = (0.1, 0.2, 0.5, 1.0)
_PING = Statement(b"SELECT 1")
log = structlog.get_logger(__name__)


class _Pooled(BoundedConnection):
    generation = 0
    expires_at_s = 0.0


class Pool:
    """Lends the connection that was returned last.

    Callers that wait for one get it in turns of their tenants.

    Open and close it in the event loop that uses it.

    While the database is known to be away, callers wait a short time only, and one connection is tried at a time.
    `find_cause` returns what they get then if the cause is known, and has logged that.
    """

    def __init__(
        self,
        conninfo: str,
        *,
        most: int,
        wait_s: float,
        prepares: bool,
        find_cause: Callable[[Exception | None], Unavailable | None] = lambda _: None,
    ) -> None:
        self._find_cause = find_cause
        self.most = most
        self._conninfo = conninfo
        self._wait_s = wait_s
        self._prepares = prepares
        self._idle: list[_Pooled] = []
        self._waiting: TurnQueue[asyncio.Future[_Pooled]] = TurnQueue()
        self._lent = 0
        self._open: set[_Pooled] = set()  # also those on the way from one caller to the next, neither idle nor lent
        self._generation = 0
        self._is_away = False
        self._away_since_s: float | None = None  # since the first attempt to connect that failed
        self._is_open = False
        self._least_idle = 0  # since the last time that connections were closed
        self._connecting: set[asyncio.Task[None]] = set()
        self._trimming: asyncio.Task[None] | None = None

    @property
    def idle(self) -> int:
        return len(self._idle)

    @property
    def used(self) -> int:
        return self._lent

    @property
    def waiting(self) -> int:
        """Return how many callers wait for a connection."""
        return len(self._waiting)

    def open(self) -> None:
        """Begin to lend, and to connect."""
        self._is_open = True
        self._trimming = asyncio.create_task(self._trim(), name="idle connections")
        self._connect()

    async def close(self) -> None:
        """Close idle connections now, and lent ones when they are returned.

        Waiting callers get Unavailable.
        """
        self._is_open = False
        tasks = {*self._connecting, *([self._trimming] if self._trimming else [])}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        while self._waiting:
            if not (waiter := self._waiting.take()).done():
                waiter.set_exception(_closed())
        await self._close(self._take_idle())

    async def drain(self) -> None:
        """Replace all connections: close the idle ones now, the others when they are returned."""
        self._generation += 1
        await self._close(self._take_idle())

    async def lend(self) -> BoundedConnection:
        """Return a connection that is open, usually without asking the server. Raises Unavailable."""
        while True:
            connection = self._idle.pop() if self._idle else await self._wait()
            self._lent += 1
            self._least_idle = min(self._least_idle, len(self._idle))
            try:
                # A healthy idle connection has nothing to read. Readable data is a notice or the end.
                is_quiet = not connection.closed and not connection.is_readable()
                is_alive = is_quiet or await _is_alive(connection)
            except BaseException:  # such as a cancellation
                await self._discard(connection)
                raise
            if is_alive:
                self._is_away = False
                if self._away_since_s is not None:
                    self._note_return(self._away_since_s)
                return connection
            # The server went down with every connection; finding them one by one would take minutes.
            self._is_away = True
            await self.take_back(connection)
            await self.drain()

    def _note_return(self, away_since_s: float) -> None:
        self._away_since_s = None
        log.info("database.returned", away_s=round(time.monotonic() - away_since_s, 1))

    async def take_back(self, connection: BoundedConnection) -> bool:
        """Return a connection, and whether it was lost.

        One that is broken or too old is closed.
        """
        assert isinstance(connection, _Pooled), "it was lent"
        self._lent -= 1
        is_lost = connection.closed
        try:
            if connection.in_transaction:
                await connection.roll_back_transaction()
        except psycopg.Error:
            is_lost = True
            await connection.close()
        except BaseException:  # such as a cancellation: the state of the connection is unknown
            await self._close([connection])
            raise
        if connection.closed or connection.in_transaction or not self._is_current(connection):
            await self._close([connection])
            if self._waiting and self._is_open:
                self._connect()
        else:
            self._offer(connection)
        return is_lost

    async def _discard(self, connection: _Pooled) -> None:
        self._lent -= 1
        await self._close([connection])

    def _is_current(self, connection: _Pooled) -> bool:
        return (
            self._is_open and connection.generation == self._generation and time.monotonic() < connection.expires_at_s
        )

    def _offer(self, connection: _Pooled) -> None:
        while self._waiting:
            waiter = self._waiting.take()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    async def _wait(self) -> _Pooled:
        if not self._is_open:
            raise _closed()
        owner, places = current_tenant.get(), self.most * _WAITING_EACH
        if not may_take(self._waiting.count_of_group(owner), places - len(self._waiting), places):
            raise self._away()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[_Pooled] = loop.create_future()
        self._waiting.put(owner, waiter)
        self._connect()
        timer = loop.call_later(_WAIT_WHILE_AWAY_S if self._is_away else self._wait_s, self._give_up, owner, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                self._waiting.discard(owner, waiter)
            elif waiter.exception() is None:
                self._offer(waiter.result())
            raise
        finally:
            timer.cancel()

    def _give_up(self, owner: str, waiter: asyncio.Future[_Pooled]) -> None:
        if not waiter.done():
            self._waiting.discard(owner, waiter)
            waiter.set_exception(self._away())

    def _away(self) -> Unavailable:
        return (self._find_cause(None) if self._is_away else None) or _overloaded()

    def _connect(self) -> None:
        """Begin to make the connections that are missing."""
        # A lost connection doesn't count, wherever it is: its place must never stay taken.
        self._open.difference_update([each for each in self._open if each.pgconn.status == ConnStatus.BAD])
        existing = len(self._open) + len(self._connecting)
        wanted = max(len(self._waiting) - len(self._connecting), min(_LEAST, self.most) - existing)
        if self._is_away:
            wanted = min(wanted, 1 - len(self._connecting))
        for _ in range(min(wanted, self.most - existing)):
            task = asyncio.create_task(self._connect_one(), name="connect")
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect_one(self) -> None:
        for attempt in range(1_000_000):
            generation = self._generation
            try:
                connection = await _Pooled.connect(self._conninfo, autocommit=True, prepare_threshold=None)
            except (psycopg.Error, OSError) as error:
                self._is_away = True
                if self._away_since_s is None:
                    self._away_since_s = time.monotonic()
                    if self._find_cause(error) is None:
                        log.warning("database.away", error=str(error))
                await asyncio.sleep(_RECONNECT_S[min(attempt, len(_RECONNECT_S) - 1)])
                if not self._waiting:
                    return
            else:
                was_away, self._is_away = self._is_away, False
                if self._away_since_s is not None:
                    self._note_return(self._away_since_s)
                connection.generation = generation
                connection.expires_at_s = time.monotonic() + LIFETIME_S
                connection.prepares = self._prepares
                self._connecting.discard(asyncio.current_task())
                self._open.add(connection)
                self._offer(connection)
                if was_away:
                    self._connect()
                return

    def _take_idle(self) -> list[_Pooled]:
        idle, self._idle = self._idle, []
        return idle

    async def _close(self, connections: Sequence[_Pooled]) -> None:
        self._open.difference_update(connections)
        for connection in connections:
            await connection.close()

    async def _trim(self) -> None:
        """Close connections that nobody needed for a while, the longest idle first."""
        while True:
            self._least_idle = len(self._idle)
            await asyncio.sleep(IDLE_S)
            kept = min(_LEAST, self.most)
            surplus = min(self._least_idle, len(self._idle) + self._lent - kept, len(self._idle))
            if surplus > 0:
                gone, self._idle = self._idle[:surplus], self._idle[surplus:]
                await self._close(gone)


def _closed() -> Unavailable:
    return Unavailable("The server is shutting down.", "Retry.", retry_after_s=2)


def _overloaded() -> Unavailable:
    return Unavailable("The database is unavailable or overloaded.", "Retry.", retry_after_s=2)


async def _is_alive(connection: BoundedConnection) -> bool:
    """Return whether the server answers."""
    try:
        await connection.run(_PING)
    except (psycopg.Error, OSError):
        return False
    return True
