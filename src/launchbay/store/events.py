"""What happens to instances, live and in the log (`queries/events.sql`)."""

import asyncio
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import NamedTuple

import psycopg
import structlog

from launchbay import limits
from launchbay.errors import TooManyRequests, Unavailable
from launchbay.store.database import BoundedConnection, Connection, Database, conninfo
from launchbay.store.statements import load


class EventRow(NamedTuple):
    """Something that has happened. The kind says which of the columns mean something.

    `status` (status), `begun` and `ended` (job, name), `step` (job, status, name, path, percent, attempt, its error as
    text), `log` (job, path, level, text), `signal` (all return values as text), `approval` (job, status, path, text,
    its id as name). Rows of "now" share the last number.
    """

    id: int
    kind: str
    job_id: str | None
    status: str | None
    job_status: str | None
    name: str | None
    path: str | None
    percent: int | None
    attempt: int | None
    level: str | None
    text: str | None
    at: datetime | None


class LogRow(NamedTuple):
    """A line of an instance's log."""

    id: int
    at: datetime
    level: str
    job_id: str
    step: str | None
    text: str


_sql = load("events")
list_since = _sql.rows("since", EventRow)
list_current = _sql.rows("now", EventRow)
insert_watch = _sql.change("watch")
delete_watch = _sql.change("unwatch")
delete_stale_watches = _sql.change("forget_watches")
delete_old_events = _sql.change("forget_events")
list_log_lines = _sql.rows("log_page", LogRow)

# Who wants to hear that something has happened to an instance, hears it: one listening connection for a whole process.
#
#     async with feed.watching(instance_id, watcher) as bell:
#         ... look at the instance ...
#         await bell.rung(timeout_s=15)
#
# Notifications say only that there is something to look at; a bell that rings twice before anybody looks rings once.
# The database notifies for instances only that have a row in `event_watches`: the feed keeps those rows.

CHANNEL = "launchbay_events"  # also in migrations/0006_events.sql
WATCH_RENEW_S = 20.0  # rows of a process that does not renew them for some times as long are removed
WATCH_EXPIRY_S = 300.0
CONNECT_S = 5.0
RECONNECT_S = 0.5
RETRY_AFTER_S = 5
log = structlog.get_logger(__name__)


class Waiter:
    """Rings when there may be something new."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Let the one who waits look."""
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the bell, at most so many seconds; tell whether it rang. It is quiet again after that."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


class EventFeed:
    """Hears the notifications of a database and rings the bells of this process. The first watcher makes it listen."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process_id = secrets.token_hex(8)
        self._waiters: dict[str, set[Waiter]] = {}
        self._watchers: Counter[str] = Counter()
        self._rows = asyncio.Lock()  # orders the coming and going of rows in `event_watches`
        self._listening: asyncio.Task[None] | None = None
        self._heard = asyncio.Event()  # set while the connection listens
        self.closing = asyncio.Event()

    @asynccontextmanager
    async def watching(self, instance_id: str, watcher: str) -> AsyncIterator[Waiter]:
        """Give a bell that rings for an instance, from now on.

        Raises Unavailable, and TooManyRequests when the watcher, named by an id, has too many bells already.
        """
        with self._counted(watcher):
            await self._listen()
            waiter = Waiter()
            try:
                await self._watch(instance_id, waiter)
                yield waiter
            finally:
                await asyncio.shield(self._unwatch(instance_id, waiter))

    async def close(self) -> None:
        """Stop listening and ring every bell: whoever watches sees `closing` and ends."""
        self.closing.set()
        self._wake_all()
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait({self._listening})

    async def _listen(self) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._keep_listening(), name="event feed")
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._heard.wait()
        except TimeoutError:
            raise Unavailable("The database is away.", "Try again.") from None

    async def _keep_listening(self) -> None:
        while True:
            try:
                connection = await BoundedConnection.connect(conninfo(self._database.url), autocommit=True)
                connection.timeout_s = CONNECT_S
                async with connection:
                    await self._listen_once(connection)
            except (psycopg.Error, OSError) as error:
                log.warning("event_feed.disconnected", error=str(error), retry_in_s=RECONNECT_S)
            finally:
                self._heard.clear()
            await asyncio.sleep(RECONNECT_S)

    async def _listen_once(self, connection: Connection) -> None:
        await connection.execute(f"LISTEN {CHANNEL}".encode())
        while True:
            # Rows that a crash of the database has forgotten come back here.
            if self._waiters:
                await insert_watch(connection, instance_ids=list(self._waiters), process_id=self._process_id)
            await delete_stale_watches(connection, seconds=WATCH_EXPIRY_S)
            if not self._heard.is_set():
                self._heard.set()
                self._wake_all()  # nobody knows what was missed
            async for notification in connection.notifies(timeout=WATCH_RENEW_S):
                for waiter in self._waiters.get(notification.payload, ()):
                    waiter.wake()

    def _wake_all(self) -> None:
        for bells in self._waiters.values():
            for waiter in bells:
                waiter.wake()

    @contextmanager
    def _counted(self, watcher: str) -> Iterator[None]:
        if self._watchers[watcher] >= limits.EVENT_STREAMS_PER_USER or self._watchers.total() >= limits.EVENT_STREAMS:
            raise TooManyRequests(
                f"Too many event streams are open; {limits.EVENT_STREAMS_PER_USER} are possible for one user.",
                "Close one, or try again.",
                retry_after_s=RETRY_AFTER_S,
            )
        self._watchers[watcher] += 1
        try:
            yield
        finally:
            self._watchers[watcher] -= 1
            if not self._watchers[watcher]:
                del self._watchers[watcher]

    async def _watch(self, instance_id: str, waiter: Waiter) -> None:
        async with self._rows:
            self._waiters.setdefault(instance_id, set()).add(waiter)
            if len(self._waiters[instance_id]) == 1:
                async with self._database.connection() as connection:
                    await insert_watch(connection, instance_ids=[instance_id], process_id=self._process_id)

    async def _unwatch(self, instance_id: str, waiter: Waiter) -> None:
        async with self._rows:
            bells = self._waiters.get(instance_id, set())
            bells.discard(waiter)
            if bells or instance_id not in self._waiters:
                return
            del self._waiters[instance_id]
            try:
                async with self._database.connection() as connection:
                    await delete_watch(connection, instance_id=instance_id, process_id=self._process_id)
            except Unavailable:
                log.info("event_watch.removal_failed", instance=instance_id)  # it is removed with time
