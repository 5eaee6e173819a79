"""A psycopg connection with a short way for the product's statements (decision 0093).

psycopg's cursors cost several times what PostgreSQL needs for a one-row query. `run` sends a statement with libpq's own
functions, which psycopg offers, and keeps its reader registered with the event loop. Everything else, such as LISTEN
and savepoints, goes psycopg's ordinary way. The two can alternate.

A transaction begins with its first statement, in the same round trip. `defer` leaves a statement to the next round
trip, which is that of the commit at the latest. A transaction that consists of deferred statements needs no BEGIN and
no COMMIT: PostgreSQL runs what it gets up to a synchronization point as one transaction.
"""

import asyncio
import os
import select
import socket
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

import psycopg
import structlog
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGconn, PGresult

T = TypeVar("T")
PREPARED_STATEMENTS = 1000  # of a connection; beyond that it forgets all of them
PREPARED_SHAPES = 200  # of these, of lists with optional conditions, which callers choose; beyond that the older half
_CANCEL_S = 5.0
LOOK_S = 1.0  # how often a wait for the server looks at the socket itself
log = structlog.get_logger(__name__)


class Statement(NamedTuple):
    """A statement with `$1`, `$2`, … and its parameters in PostgreSQL's text form.

    PostgreSQL plans it with its parameters each time, unless `is_prepared`. Of one that `is_shape`, the text depends on
    what callers ask for.
    """

    text: bytes
    parameters: Sequence[bytes | None] = ()
    is_prepared: bool = True
    is_shape: bool = False


_BEGIN = Statement(b"BEGIN")
_COMMIT = Statement(b"COMMIT")
_ROLLBACK = Statement(b"ROLLBACK")


class BoundedConnection(AsyncConnection[tuple[Any, ...]]):
    """Closes itself if the server doesn't respond within `timeout_s` (decision 0082); the caller loses the connection.

    PostgreSQL ends slow statements, and TCP notices a peer that is gone. Neither helps if the database's machine hangs,
    is suspended, or sits behind a network that drops data after acknowledging it.
    """

    timeout_s = 35.0  # longer than PostgreSQL lets a statement run
    known: dict[tuple[Hashable, Hashable], Any] | None = None  # what a PageScope looked up in its snapshot
    prepares = True  # False behind a pooler that gives every transaction another session
    on_end: list[Callable[[bool], object]] | None = None  # of the transaction under way
    after_commit: list[Callable[[], Awaitable[None]]] | None = None  # of the transaction under way

    def __init__(self, pgconn: PGconn, *arguments: Any, **more: Any) -> None:
        super().__init__(pgconn, *arguments, **more)
        self.decoder = Transformer(self)
        self._names: dict[bytes, bytes | None] = {}  # of prepared statements; None after the first use
        self._shapes: dict[bytes, None] = {}  # those of them that are shapes, the oldest first
        self._next_name = 0
        self._begins = False  # the next statement begins the transaction
        self._deferred: list[Statement] = []
        self._defers_changes = False
        self.has_only_read = False  # in the transaction under way; deferred changes count once they are sent
        self._arrival: asyncio.Future[None] | None = None
        self._reader: tuple[asyncio.AbstractEventLoop, int] | None = None  # where it is registered, for which socket
        self._sent_at_s: float | None = None  # when the statement under way was, by the event loop's clock
        self._poller: select.poll | None = None
        self._look: asyncio.TimerHandle | None = None  # runs on for up to LOOK_S after a statement

    @classmethod
    async def connect(cls, conninfo: str = "", **given: Any) -> Self:
        """Connect to a database.

        Raises psycopg's errors. A connection that didn't come about is closed by then.
        """
        try:
            return await super().connect(conninfo, **given)
        except psycopg.Error as error:
            # The error holds psycopg's frames, and one of them holds the error and the socket. Until the garbage
            # collector comes, a database that hung would have a session for each attempt.
            raise error.with_traceback(None)  # noqa: B904 - it is the same error

    # Transactions

    def begin(self) -> None:
        """Let the next statement begin a transaction."""
        self._begins = True
        self._defers_changes = False
        self.has_only_read = True

    @property
    def in_transaction(self) -> bool:
        return self._begins or self.pgconn.transaction_status != TransactionStatus.IDLE

    @property
    def in_failed_transaction(self) -> bool:
        return self.pgconn.transaction_status == TransactionStatus.INERROR

    def defer(self, statement: Statement, *, is_read: bool = False) -> None:
        """Send it with the transaction's next statement, or else with its commit.

        That one raises its errors, too.
        """
        assert self.in_transaction, "there is no transaction, so nothing would send it"
        self._deferred.append(statement)
        self._defers_changes |= not is_read

    def take_deferred(self) -> list[Statement]:
        """Return what was deferred, for others to send."""
        deferred, self._deferred = self._deferred, []
        return deferred

    def forget_deferred(self) -> None:
        """Drop what was deferred: the transaction or savepoint is rolled back."""
        self._deferred = []

    async def commit_transaction(self) -> None:
        """Commit what `begin` began.

        If it raises, nothing was committed, unless the connection was lost.
        """
        async with self.lock:
            deferred, self._deferred = self._deferred, []
            is_begun, self._begins = not self._begins, False
            if is_begun:
                await self._exchange([*deferred, _COMMIT])
            elif deferred:
                await self._exchange(deferred)

    async def roll_back_transaction(self) -> None:
        """Undo what was done since `begin`."""
        async with self.lock:
            self._begins = False
            self._deferred = []
            if self.pgconn.transaction_status in {TransactionStatus.INTRANS, TransactionStatus.INERROR}:
                await self._exchange([_ROLLBACK])

    # Statements

    async def run(self, statement: Statement, *, begins: bool = True) -> PGresult:
        """Run a statement, after those that were deferred. Raises psycopg's errors.

        With `begins=False`, it doesn't begin the transaction. That is for reads without locks, which see the same
        either way in PostgreSQL's READ COMMITTED.
        """
        async with self.lock:
            self.has_only_read &= not (begins or self._defers_changes)
            before = self._outstanding() if begins or self._deferred else []
            return (await self._exchange([*before, statement] if before else (statement,)))[-1]

    async def run_all(self, statements: Iterable[Statement]) -> list[PGresult]:
        """Run statements in one round trip. Raises psycopg's errors.

        Returns the results of all that were sent, also of those deferred before. Outside of a transaction they are one.
        """
        async with self.lock:
            self.has_only_read = False
            found = [*self._outstanding(), *statements]
            return await self._exchange(found) if found else []

    def _outstanding(self) -> list[Statement]:
        """Take what must be sent before the next statement."""
        outstanding, self._deferred = self._deferred, []
        if self._begins:
            self._begins = False
            outstanding.insert(0, _BEGIN)
        return outstanding

    async def _exchange(self, statements: Sequence[Statement]) -> list[PGresult]:
        """Send statements and return their results, in one round trip."""
        connection = self.pgconn
        if connection.status != ConnStatus.OK:
            raise psycopg.OperationalError("the connection is closed")
        try:
            # Few coroutines within each other: each wait for the socket goes through all of them, twice.
            if len(statements) == 1 and (name := self._names.get(statements[0].text)):
                connection.send_query_prepared(name, statements[0].parameters)
                return self._answers(await self._receive(until_sync=False), (None,))
            if len(self._names) > PREPARED_STATEMENTS and connection.transaction_status == TransactionStatus.IDLE:
                self._names.clear()
                self._shapes.clear()
                connection.send_query(b"DEALLOCATE ALL")
                self._answers(await self._receive(until_sync=False), (None,))
            is_full = len(self._shapes) > PREPARED_SHAPES and connection.transaction_status == TransactionStatus.IDLE
            if is_full and (names := self._forget_shapes()):
                connection.send_query(b"; ".join(b"DEALLOCATE %s" % name for name in names))
                self._answers(await self._receive(until_sync=False), (None,) * len(names))
            connection.enter_pipeline_mode()
            try:
                prepared = [self._send(statement) for statement in statements]
                connection.pipeline_sync()
                return self._answers(await self._receive(until_sync=True), prepared)
            finally:
                if connection.status == ConnStatus.OK:
                    connection.exit_pipeline_mode()
        finally:
            self._stop_reading_if_lost()

    def _forget_shapes(self) -> list[bytes]:
        """Forget the older half of the shapes.

        Returns the names of those that are prepared.
        """
        oldest = list(self._shapes)[: len(self._shapes) // 2]
        for text in oldest:
            del self._shapes[text]
        return [name for text in oldest if (name := self._names.pop(text, None))]

    def _send(self, statement: Statement) -> tuple[bytes, bytes] | None:
        """Send a statement. Its second use prepares it, and returns text and name."""
        text, parameters, is_prepared, is_shape = statement
        if not (self.prepares and is_prepared):
            self.pgconn.send_query_params(text, parameters)
            return None
        if text not in self._names:
            self._names[text] = None
            if is_shape:
                self._shapes[text] = None
            self.pgconn.send_query_params(text, parameters)
            return None
        name = self._names[text]
        if name is not None:
            self.pgconn.send_query_prepared(name, parameters)
            return None
        self._next_name += 1
        name = b"launchbay%d" % self._next_name
        self.pgconn.send_prepare(name, text)
        self.pgconn.send_query_prepared(name, parameters)
        return text, name

    async def _receive(self, *, until_sync: bool) -> list[PGresult]:
        """Return the results of what was sent."""
        loop = asyncio.get_running_loop()
        self._sent_at_s = loop.time()
        if self._look is None:  # one timer for many statements
            self._look = loop.call_later(LOOK_S, self._look_at_socket)
        try:
            return await self._read(until_sync=until_sync)
        except asyncio.CancelledError:
            await self._abandon(until_sync=until_sync)
            raise
        finally:
            self._sent_at_s = None

    def _answers(self, results: Sequence[PGresult], prepared: Sequence[tuple[bytes, bytes] | None]) -> list[PGresult]:
        """Return the results of statements without those of preparing.

        Raises the first error among them.
        """
        answers = []
        received = iter(results)
        for new in prepared:
            result = next(received, None)
            if new is not None and result is not None and result.status == ExecStatus.COMMAND_OK:
                self._names[new[0]] = new[1]
                result = next(received, None)
            if result is None:
                raise psycopg.OperationalError("the connection is lost")
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
            answers.append(result)
        # The transaction ends after the last statement. PostgreSQL may end the session before, or refuse the commit.
        for result in received:
            if result.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(result)
        return answers

    async def _read(self, *, until_sync: bool) -> list[PGresult]:
        connection = self.pgconn
        while connection.flush():
            await self._writable()
            connection.consume_input()
        results: list[PGresult] = []
        try:
            while True:
                while connection.is_busy():
                    await self._arrives()
                    connection.consume_input()
                result = connection.get_result()
                if result is None:
                    if not until_sync or connection.status != ConnStatus.OK:
                        break
                elif result.status == ExecStatus.PIPELINE_SYNC:
                    break
                else:
                    results.append(result)
        except psycopg.OperationalError:
            # A server that ends the session says why before it closes the connection.
            if not any(result.status == ExecStatus.FATAL_ERROR for result in results):
                raise
        while notification := connection.notifies():
            if connection.notify_handler:
                connection.notify_handler(notification)
        return results

    async def _abandon(self, *, until_sync: bool) -> None:
        """Cancel what the server does and read its answer, or else close the connection."""
        try:
            if self.pgconn.status == ConnStatus.OK:
                await self.cancel_safe(timeout=_CANCEL_S)
                async with asyncio.timeout(_CANCEL_S):
                    await self._read(until_sync=until_sync)
        except BaseException as error:
            self._stop_reading()
            self.pgconn.finish()
            if not isinstance(error, Exception):
                raise

    # The socket

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Run an exchange of psycopg's own, which keeps a timeout that it has."""
        self.has_only_read = False
        if outstanding := self._outstanding():
            await self._exchange(outstanding)
        self._stop_reading()  # psycopg registers its own reader
        if timeout is not None:
            # For notifications: psycopg would look at the socket ten times a second.
            return await super().wait(gen, LOOK_S, timeout)
        timer = asyncio.get_running_loop().call_later(self.timeout_s, self._hang_up)
        try:
            return await super().wait(gen, interval)
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Close the connection."""
        self._stop_reading()
        await super().close()

    def _look_at_socket(self) -> None:
        """Wake the reader if data arrived that the event loop doesn't report; hang up when the time is over.

        uvloop loses the registration of a socket now and then while many sockets close at once, as at the end of
        PostgreSQL (decision 0104). Without a look, the caller would wait forever.
        """
        if self._sent_at_s is None:
            self._look = None
            return
        loop = asyncio.get_running_loop()
        self._look = loop.call_later(LOOK_S, self._look_at_socket)
        waited_s = loop.time() - self._sent_at_s
        if waited_s >= self.timeout_s:
            self._hang_up()
        arrival = self._arrival
        if waited_s >= LOOK_S and arrival is not None and not arrival.done() and self.is_readable():
            log.warning("database.socket_forgotten", repeats=True)
            self._stop_reading()
            arrival.set_result(None)

    def is_readable(self) -> bool:
        """Return whether there is something to read: data, or the end of the connection."""
        if self._poller is None:
            self._poller = select.poll()
            self._poller.register(self.pgconn.socket, select.POLLIN)
        return bool(self._poller.poll(0))

    def _hang_up(self) -> None:
        """End the wait with the error of a lost connection, which every caller handles."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)

    def _arrives(self) -> asyncio.Future[None]:
        """Return what ends when there is something to read."""
        loop = asyncio.get_running_loop()
        arrival = self._arrival = loop.create_future()
        if self._reader is None:
            descriptor = self.pgconn.socket
            loop.add_reader(descriptor, self._on_ready)
            self._reader = (loop, descriptor)
        return arrival

    async def _writable(self) -> None:
        """Wait until there is room to write, or something to read."""
        loop, descriptor = asyncio.get_running_loop(), self.pgconn.socket
        arrival = self._arrives()
        loop.add_writer(descriptor, self._on_ready)
        try:
            await arrival
        finally:
            loop.remove_writer(descriptor)

    def _on_ready(self) -> None:
        if self._arrival is None or self._arrival.done():
            self._stop_reading()  # nobody waits: the server has ended the session
        else:
            self._arrival.set_result(None)

    def _stop_reading_if_lost(self) -> None:
        """Forget the socket of a lost connection, before anything else can happen.

        libpq has closed it, and the next connection may get its number. The event loop would take that socket for one
        that is registered already, and never report its data.
        """
        if self.pgconn.status != ConnStatus.OK:
            self._stop_reading()

    def _stop_reading(self) -> None:
        if self._reader is not None:
            loop, descriptor = self._reader
            self._reader = None
            if not loop.is_closed():
                loop.remove_reader(descriptor)
