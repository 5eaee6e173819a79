"""What happens to instances: recorded events, log lines, and the feed of live notifications."""

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
from launchbay.store.connection import BoundedConnection
from launchbay.store.database import Connection, Database, conninfo
from launchbay.store.statements import load

_sql = load("events")


class EventRow(NamedTuple):
    """One event. Its kind determines which columns have a meaning.

    `status` (status), `begun` and `ended` (job, name), `step` (job, status, name, path, percent, attempt, its error as
    text), `log` (job, path, level, text), `signal` (all return values as text), `approval` (job, status, path, text,
    its ID as name). Rows of `list_current` share the last ID.
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
    attempt: int | None
    stream: str


list_since = _sql.rows("list_since", EventRow)
list_current = _sql.rows("list_current", EventRow)
insert_watch = _sql.change("insert_watch")
delete_watch = _sql.change("delete_watch")
delete_stale_watches = _sql.change("delete_stale_watches")
list_log_lines = _sql.rows("list_log_lines", LogRow)
find_log_tail = _sql.value("find_log_tail", int)
count_log_lines = _sql.value("count_log_lines", int)
find_numbered_line = _sql.value("find_numbered_line", int)
find_next_error = _sql.value("find_next_error", int)
find_last_error = _sql.value("find_last_error", int)
find_step_start = _sql.value("find_step_start", int)


CHANNEL = "launchbay_events"  # also in migrations/0006_events.sql
WATCH_RENEW_S = 20.0  # rows not renewed for WATCH_EXPIRY_S are deleted
WATCH_EXPIRY_S = 300.0
CONNECT_S = 5.0
RECONNECT_S = 0.5
RETRY_AFTER_S = 5
log = structlog.get_logger(__name__)


class Waiter:
    """Wakes one task when an instance may have new events.

    `credentials_ended` is set when something that the watcher is signed in with has ended, here or elsewhere.
    """

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self.credentials_ended = False

    def wake(self) -> None:
        self._event.set()

    async def wait(self, timeout_s: float) -> bool:
        """Wait until `wake` was called, and reset. Return False after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True


def _is_fair(taken: int, free: int) -> bool:
    """Return whether somebody may take one more, as decision 0080 has it for workers."""
    return free > 0 and (taken == 0 or taken < 4 * free)


class EventFeed:
    """Listens to the database on one connection, and wakes the waiters of this process.

        async with feed.watching(instance_id, watcher, organization_id) as waiter:
            ... read the instance ...
            await waiter.wait(timeout_s=15)

    A notification says only that an instance has news, or that credentials of a watcher ended; several before the next
    read count as one. The database notifies only for instances with a row in `event_watches`, which the feed maintains.
    It connects for the first watcher.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._process_id = secrets.token_hex(8)
        self._waiters: dict[str, set[Waiter]] = {}
        self._streams: dict[str, Counter[str]] = {}  # open ones by organization and user
        self._waiters_of: dict[str, set[Waiter]] = {}  # by watcher
        self._rows = asyncio.Lock()  # serializes changes of `event_watches`
        self._listening: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()  # set while the connection listens
        self.closing = asyncio.Event()

    @asynccontextmanager
    async def watching(
        self, instance_id: str, watcher: str, organization_id: str, allowed: int = 0
    ) -> AsyncIterator[Waiter]:
        """Provide a waiter for the events of an instance; `watcher` is a user's ID.

        Of `limits.EVENT_STREAMS`, an organization may take up to `allowed` (0: any number), and no more than four times
        as many as are free. The same holds for its users among each other. Raises Unavailable, TooManyRequests.
        """
        with self._counted(organization_id, watcher, allowed):
            await self._listen()
            waiter = Waiter()
            self._waiters_of.setdefault(watcher, set()).add(waiter)
            try:
                await self._watch(instance_id, waiter)
                yield waiter
            finally:
                self._waiters_of[watcher].discard(waiter)
                if not self._waiters_of[watcher]:
                    del self._waiters_of[watcher]
                await asyncio.shield(self._unwatch(instance_id, waiter))

    async def close(self) -> None:
        """Stop listening and wake every waiter: watchers see `closing` and end."""
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
                await self._is_listening.wait()
        except TimeoutError:
            raise Unavailable("The database is unavailable.", "Retry.") from None

    async def _keep_listening(self) -> None:
        while True:
            try:
                connection = await BoundedConnection.connect(conninfo(self._database.direct_url), autocommit=True)
                connection.timeout_s = CONNECT_S
                async with connection:
                    await self._listen_once(connection)
            except (psycopg.Error, OSError) as error:
                log.warning("event_feed.disconnected", error=str(error), retry_in_s=RECONNECT_S)
            finally:
                self._is_listening.clear()
            await asyncio.sleep(RECONNECT_S)

    async def _listen_once(self, connection: Connection) -> None:
        await connection.execute(f"LISTEN {CHANNEL}".encode())
        while True:
            # Restores rows that the database lost in a crash.
            if self._waiters:
                await insert_watch(connection, instance_ids=list(self._waiters), process_id=self._process_id)
            await delete_stale_watches(connection, seconds=WATCH_EXPIRY_S)
            if not self._is_listening.is_set():
                self._is_listening.set()
                self._wake_all()  # events may have been missed
            async for notification in connection.notifies(timeout=WATCH_RENEW_S):
                about = notification.payload  # the ID of an instance, or of a user
                for waiter in self._waiters.get(about, ()):
                    waiter.wake()
                for waiter in self._waiters_of.get(about, ()):
                    waiter.credentials_ended = True
                    waiter.wake()

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.credentials_ended = True  # perhaps: nobody told
                waiter.wake()

    def count_streams(self, organization_id: str) -> int:
        """Return how many streams of this process the organization has open."""
        return self._streams[organization_id].total() if organization_id in self._streams else 0

    @contextmanager
    def _counted(self, organization_id: str, watcher: str, allowed: int) -> Iterator[None]:
        users = self._streams.setdefault(organization_id, Counter())
        taken = users.total()
        most = min(allowed or limits.EVENT_STREAMS, limits.EVENT_STREAMS)
        free = limits.EVENT_STREAMS - sum(each.total() for each in self._streams.values())
        if taken >= most:
            who = "Your organization has"
        elif not _is_fair(taken, free):
            who = "Together with others, your organization has"
        elif not _is_fair(users[watcher], most - taken):
            who = "Together with others of your organization, you have"
        else:
            who = ""
        if who:
            self._forget_if_idle(organization_id, watcher)
            raise TooManyRequests(
                f"{who} too many event streams open.", "Close some, or retry.", retry_after_s=RETRY_AFTER_S
            )
        users[watcher] += 1
        try:
            yield
        finally:
            users[watcher] -= 1
            self._forget_if_idle(organization_id, watcher)

    def _forget_if_idle(self, organization_id: str, watcher: str) -> None:
        users = self._streams[organization_id]
        if not users[watcher]:
            del users[watcher]
        if not users:
            del self._streams[organization_id]

    async def _watch(self, instance_id: str, waiter: Waiter) -> None:
        async with self._rows:
            self._waiters.setdefault(instance_id, set()).add(waiter)
            if len(self._waiters[instance_id]) == 1:
                async with self._database.connection() as connection:
                    await insert_watch(connection, instance_ids=[instance_id], process_id=self._process_id)

    async def _unwatch(self, instance_id: str, waiter: Waiter) -> None:
        async with self._rows:
            waiters = self._waiters.get(instance_id, set())
            waiters.discard(waiter)
            if waiters or instance_id not in self._waiters:
                return
            del self._waiters[instance_id]
            try:
                async with self._database.connection() as connection:
                    await delete_watch(connection, instance_id=instance_id, process_id=self._process_id)
            except Unavailable:
                log.info("event_watch.removal_failed", instance=instance_id)  # delete_stale_watches removes it
