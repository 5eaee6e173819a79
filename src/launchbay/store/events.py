"""What happens to instances: recorded events, log lines, and the feed of live notifications."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from typing import NamedTuple

import msgspec
import psycopg
import structlog

from launchbay import limits
from launchbay.errors import TooManyRequests, Unavailable
from launchbay.store.connection import BoundedConnection
from launchbay.store.database import Connection, Database, DatabaseError, conninfo
from launchbay.store.statements import load
from launchbay.tenants import Tenants, may_take

_sql = load("events")


class EventRow(NamedTuple):
    """One event. Its kind determines which columns have a meaning.

    `status` (status), `begun` and `ended` (job, name), `step` (job, status, name, path, percent, attempt, its error as
    text, the level `warning` for a failure that is ignored), `log` (job, path, level, text), `signal` (all return
    values as text), `approval` (job, status, path, text, its ID as name). Rows of `list_current` share the last ID.
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
tell_streams = _sql.change("tell_streams")
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
STREAMS_CHANNEL = "launchbay_streams"
TELL_S = 0.2  # at most so often does a process tell the others how many streams it has
SILENT_S = 45.0  # the streams of a process that told nothing for so long don't count
_NEW_PROCESSES = 4  # a process that has just begun to listen supposes that there are so many
_TOLD_AT_ONCE = 150  # organizations in a notification, which has at most 8,000 bytes
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


class _News(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a process tells the others: its open streams by organization.

    One that `asks` wants to know all of theirs.
    """

    process: str
    streams: dict[str, int] = {}
    asks: bool = False
    ends: bool = False


_read_news = msgspec.json.Decoder(_News).decode


class StreamBounds(NamedTuple):
    """How many streams an organization, and all that count with it, may have open.

    0 is any number.
    """

    own: int
    together: int


ANY_NUMBER = StreamBounds(0, 0)


class StreamCounts:
    """Open streams by organization, of all processes on a database (decision 0106).

    Processes tell each other what changed. In between, each may open a share of what it knows to be free: half of it
    divided by the number of processes, because two of its turns may fall into one of another. So all together exceed
    what is allowed by one for each process, at most.
    """

    def __init__(self, process_id: str, tenants: Tenants | None = None) -> None:
        self._process_id = process_id
        self._tenants = tenants or Tenants()
        self._own: dict[str, Counter[str]] = {}  # by organization and user
        self._others: dict[str, dict[str, int]] = {}  # by process and organization
        self._heard_s: dict[str, float] = {}
        self._untold: Counter[str] = Counter()  # opened since the last news
        self._changed: set[str] = set()
        self._asks = False
        self._listens_since_s = float("inf")
        self._told = asyncio.Event()
        self.has_news = asyncio.Event()

    def of(self, *organization_ids: str) -> int:
        """Return how many streams these organizations have open, on all servers."""
        return sum(self._here(each) + self._elsewhere(each) for each in organization_ids)

    async def wait_for_share(self, organization_id: str, allowed: StreamBounds) -> None:
        """Wait until this process may open one more, or until nothing is free."""
        together = self._tenants.together(organization_id)
        while self._is_share_used([organization_id], allowed.own) or self._is_share_used(together, allowed.together):
            self.has_news.set()
            await self._told.wait()

    def _is_share_used(self, organization_ids: Sequence[str], allowed: int) -> bool:
        untold = sum(self._untold[each] for each in organization_ids)
        return allowed > 0 and untold >= self._share(organization_ids, allowed)

    @contextmanager
    def counted(self, organization_id: str, user_id: str, allowed: StreamBounds) -> Iterator[None]:
        """Count a stream. Raises TooManyRequests."""
        users = self._own.setdefault(organization_id, Counter())
        siblings = self._tenants.together(organization_id)
        taken, together = users.total(), sum(map(self._here, siblings))
        total = limits.EVENT_STREAMS
        most = min(total, allowed.own - self._elsewhere(organization_id)) if allowed.own else total
        most_together = (
            min(total, allowed.together - sum(map(self._elsewhere, siblings))) if allowed.together else total
        )
        free = total - sum(each.total() for each in self._own.values())
        if taken >= most:
            who = "Your organization has"
        elif together >= most_together:
            who = "Together with others of its creator, your organization has"
        elif not (may_take(taken, free, total) and may_take(together, free, total)):
            who = "Together with others, your organization has"
        elif not may_take(users[user_id], most - taken, most):
            who = "Together with others of your organization, you have"
        else:
            who = ""
        if who:
            self._forget_if_idle(organization_id, user_id)
            raise TooManyRequests(
                f"{who} too many event streams open.", "Close some, or retry.", retry_after_s=RETRY_AFTER_S
            )
        users[user_id] += 1
        self._untold[organization_id] += 1
        self._change(organization_id)
        try:
            yield
        finally:
            users[user_id] -= 1
            self._forget_if_idle(organization_id, user_id)
            self._change(organization_id)

    def begin(self) -> None:
        """Ask the other processes: this one has begun to listen."""
        self._listens_since_s = min(self._listens_since_s, time.monotonic())
        self._asks = True
        self.tell_all()

    def tell_all(self) -> None:
        """Tell others of all streams, although nothing may have changed."""
        self._changed.update(self._own)
        self.has_news.set()

    async def tell(self, database: Database) -> None:
        """Tell others what has changed. Raises Unavailable."""
        self.has_news.clear()
        changed, opened, asks = sorted(self._changed), self._untold.copy(), self._asks
        self._changed, self._asks = set(), False
        news = [_News(self._process_id, asks=asks)]
        for start in range(0, len(changed), _TOLD_AT_ONCE):
            part = changed[start : start + _TOLD_AT_ONCE]
            counts = {each: self._here(each) for each in part}
            news.append(_News(self._process_id, counts))
        try:
            await self._send(database, news)
        except BaseException:
            self._changed.update(changed)
            self._asks |= asks
            self.has_news.set()
            raise
        self._untold -= opened
        self._told.set()
        self._told = asyncio.Event()

    async def tell_the_end(self, database: Database) -> None:
        """Tell others that the streams of this process don't count any more. Raises Unavailable."""
        await self._send(database, [_News(self._process_id, ends=True)])

    async def _send(self, database: Database, news: list[_News]) -> None:
        texts = [msgspec.json.encode(each).decode() for each in news]
        async with database.connection() as connection:
            await tell_streams(connection, channel=STREAMS_CHANNEL, news=texts)

    def hear(self, text: str) -> None:
        """Take in what another process told."""
        try:
            news = _read_news(text)
        except msgspec.MsgspecError:
            return  # of a newer version
        if news.process == self._process_id:
            return
        if news.ends:
            self._forget(news.process)
            return
        counts = self._others.setdefault(news.process, {})
        self._heard_s[news.process] = time.monotonic()
        for organization_id, count in news.streams.items():
            if count > 0:
                counts[organization_id] = count
            else:
                counts.pop(organization_id, None)
        if news.asks:
            self.tell_all()

    def _share(self, organization_ids: Sequence[str], allowed: int) -> float:
        free = allowed - self.of(*organization_ids)
        processes = 1 + len(self._others)
        if time.monotonic() < self._listens_since_s + TELL_S:
            processes = max(processes, _NEW_PROCESSES)
        if free <= 0 or processes == 1:
            return float("inf")
        return max(1, free // (2 * processes))

    def _here(self, organization_id: str) -> int:
        return self._own[organization_id].total() if organization_id in self._own else 0

    def _elsewhere(self, organization_id: str) -> int:
        least_s = time.monotonic() - SILENT_S
        for silent in [process for process, heard_s in self._heard_s.items() if heard_s < least_s]:
            self._forget(silent)
        return sum(counts.get(organization_id, 0) for counts in self._others.values())

    def _forget(self, process: str) -> None:
        self._others.pop(process, None)
        self._heard_s.pop(process, None)

    def _change(self, organization_id: str) -> None:
        self._changed.add(organization_id)
        self.has_news.set()

    def _forget_if_idle(self, organization_id: str, user_id: str) -> None:
        users = self._own[organization_id]
        if not users[user_id]:
            del users[user_id]
        if not users:
            del self._own[organization_id]


class EventFeed:
    """Listens to the database on one connection, and wakes the waiters of this process.

        async with feed.watching(instance_id, watcher, organization_id) as waiter:
            ... read the instance ...
            await waiter.wait(timeout_s=15)

    A notification says only that an instance has news, or that credentials of a watcher ended; several before the next
    read count as one. The database notifies only for instances with a row in `event_watches`, which the feed maintains.
    It connects for the first watcher.
    """

    def __init__(self, database: Database, tenants: Tenants | None = None) -> None:
        self._database = database
        self._process_id = secrets.token_hex(8)
        self._waiters: dict[str, set[Waiter]] = {}
        self.streams = StreamCounts(self._process_id, tenants)
        self._waiters_of: dict[str, set[Waiter]] = {}  # by watcher
        self._rows = asyncio.Lock()  # serializes changes of `event_watches`
        self._listening: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._is_listening = asyncio.Event()  # set while the connection listens
        self.closing = asyncio.Event()

    @asynccontextmanager
    async def watching(
        self, instance_id: str, watcher: str, organization_id: str, allowed: StreamBounds = ANY_NUMBER
    ) -> AsyncIterator[Waiter]:
        """Provide a waiter for the events of an instance; `watcher` is a user's ID.

        On all servers, an organization may take up to `allowed`. Of the `limits.EVENT_STREAMS` of a process, it takes
        no more than `may_take` says, and all that count together with it neither. The same holds for its users.
        Raises Unavailable, TooManyRequests.
        """
        await self._listen()
        try:
            async with asyncio.timeout(CONNECT_S):
                await self.streams.wait_for_share(organization_id, allowed)
        except TimeoutError:
            raise self._away() from None
        with self.streams.counted(organization_id, watcher, allowed):
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
        if self._listening is None or self._telling is None:
            return
        self._listening.cancel()
        self._telling.cancel()
        await asyncio.wait({self._listening, self._telling})
        with suppress(TimeoutError, Unavailable, DatabaseError):
            async with asyncio.timeout(RECONNECT_S):
                await self.streams.tell_the_end(self._database)

    def _away(self) -> Unavailable:
        return self._database.find_cause(None) or Unavailable("The database is unavailable.", "Retry.")

    async def _listen(self) -> None:
        if self._listening is None or self._listening.done():
            self._listening = asyncio.create_task(self._keep_listening(), name="event feed")
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._keep_telling(), name="counts of event streams")
        try:
            async with asyncio.timeout(CONNECT_S):
                await self._is_listening.wait()
        except TimeoutError:
            raise self._away() from None

    async def _keep_listening(self) -> None:
        while True:
            try:
                connection = await BoundedConnection.connect(conninfo(self._database.direct_url), autocommit=True)
                connection.timeout_s = CONNECT_S
                async with connection:
                    await self._listen_once(connection)
            except (psycopg.Error, OSError) as error:
                log.warning("event_feed.disconnected", error=str(error), repeats=True)
            finally:
                self._is_listening.clear()
            await asyncio.sleep(RECONNECT_S)

    async def _listen_once(self, connection: Connection) -> None:
        for channel in (CHANNEL, STREAMS_CHANNEL):
            await connection.execute(f"LISTEN {channel}".encode())
        self.streams.begin()
        while True:
            # Restores rows that the database lost in a crash.
            if self._waiters:
                await insert_watch(connection, instance_ids=list(self._waiters), process_id=self._process_id)
            await delete_stale_watches(connection, seconds=WATCH_EXPIRY_S)
            if not self._is_listening.is_set():
                self._is_listening.set()
                self._wake_all()  # events may have been missed
            self.streams.tell_all()
            async for notification in connection.notifies(timeout=WATCH_RENEW_S):
                if notification.channel == STREAMS_CHANNEL:
                    self.streams.hear(notification.payload)
                    continue
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

    async def _keep_telling(self) -> None:
        while True:
            await self.streams.has_news.wait()
            try:
                await self.streams.tell(self._database)
            except (Unavailable, DatabaseError) as error:
                log.info("event_streams.not_told", error=str(error), repeats=True)
            await asyncio.sleep(TELL_S)

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
