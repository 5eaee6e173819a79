"""Connections to PostgreSQL: the pool, the two ways to use it, and the one place where its errors become ours.

    async with database.connection() as connection:      # single statements, each its own commit
    async with database.transaction() as connection:     # all or nothing; leaving the block is the promise

Inside a transaction `async with connection.transaction():` makes a savepoint. `with database.joined(connection):` lets
everything in the block that asks for a connection or transaction get this one, each with a savepoint of its own: what
is written under an Idempotency-Key is committed with the answer.

What callers see: `Unavailable` when the database is away, full or overloaded (nothing was committed); `OutcomeUnknown`
when the connection broke during COMMIT (architecture, "Rules of shape" 6); psycopg's own `IntegrityError`s, because
what a duplicate means is for the caller to say.
"""

import asyncio
import os
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

import psycopg
import psycopg_pool
from psycopg import AsyncConnection, AsyncTransaction, errors
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from launchbay.errors import BadRequest, CannotStart, Conflict, Unavailable

# A connection that does not wait for ever (decision 0082).
#
# PostgreSQL ends a statement that takes too long, and TCP notices a peer that is gone. Neither helps against a database
# whose machine hangs, is suspended, or sits behind something that swallows what is sent: all is acknowledged, and
# nothing answered.

T = TypeVar("T")


class BoundedConnection(AsyncConnection[tuple[Any, ...]]):
    """Closes itself when an answer does not come within `patience_s`; who waited sees a lost connection."""

    timeout_s = 35.0  # longer than PostgreSQL lets a statement run

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """Do one exchange with the server. One with a time-out of its own, such as listening, keeps to that."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        timer = asyncio.get_running_loop().call_later(self.timeout_s, self._hang_up)
        try:
            return await super().wait(gen, interval)
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        """Make the wait end with the error of a lost connection, which everybody knows how to handle."""
        with suppress(OSError), socket.socket(fileno=os.dup(self.fileno())) as ours:
            ours.shutdown(socket.SHUT_RDWR)


@contextmanager
def unique_violation_as(sentence: str, code: str) -> Iterator[None]:
    """Raise BadRequest with the sentence when the block violates a unique constraint. The transaction is over then."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise BadRequest(sentence, code=code) from error


@contextmanager
def foreign_key_violation_as(sentence: str) -> Iterator[None]:
    """Raise Conflict with the sentence when what the block refers to was deleted meanwhile; the transaction is over."""
    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise Conflict(sentence) from error


Connection: TypeAlias = AsyncConnection[tuple[Any, ...]]
Pool: TypeAlias = psycopg_pool.AsyncConnectionPool[Connection]
OLDEST_MAJOR = 15
_WAIT_WHILE_AWAY_S = 0.5
WAIT_S = 5.0  # for a free connection, then 503: a queue that grows longer helps nobody
STATEMENT_S = 30
IDLE_IN_TRANSACTION_S = 60
CONNECT_S = 5
_CONNECT_TO_EACH_S = 2  # of several hosts: less than a lease, so that one that is gone makes nobody seem dead
_RECONNECT_S = 2.0  # a longer series of attempts would back off further and notice a returned database late
_PREPARED_STATEMENTS = 500
# What a server says when it cannot serve at all; psycopg files these under errors of other kinds.
_READ_ONLY = "25006"  # it has become a standby
_AWAY_STATES = {_READ_ONLY, "25P03", "25P04"}  # idle in transaction too long, transaction too long
# The first row that fits decides; the last one is everything that psycopg calls operational.
_CAUSES: list[tuple[tuple[type[psycopg.Error], ...], str, int]] = [
    ((psycopg_pool.PoolClosed,), "The server is shutting down.", 2),
    ((psycopg_pool.TooManyRequests, psycopg_pool.PoolTimeout), "The database is away or too busy.", 2),
    ((errors.QueryCanceled, errors.LockNotAvailable), "The database took too long.", 2),
    ((errors.DiskFull, errors.OutOfMemory), "The database has no room left; the operator must make some.", 30),
    ((errors.SerializationFailure, errors.DeadlockDetected), "Another change was made at the same moment.", 1),
    ((psycopg.OperationalError, psycopg.InterfaceError), "The database is away.", 2),
]
_OUTDATED = "cached plan must not change result type"  # feature_not_supported, which is other things too
_UNKNOWN = (
    "The connection to the database broke while the change was being committed.",
    "Look whether it was made before you try again.",
)
# The server took the transaction back and said so: serialization failure, deadlock.
_ROLLED_BACK_CLASS = "40"
_enclosing: "ContextVar[tuple[Database, Connection] | None]" = ContextVar("enclosing transaction", default=None)


class OutcomeUnknown(Unavailable):
    """The connection broke during COMMIT: it may have happened or not. Read again by the id that you chose."""

    code = "OutcomeUnknown"


class Database:
    """A pool of connections to one database. `open` and `close` it in the event loop that uses it, or enter it."""

    def __init__(self, url: str, *, connections: int = 20, wait_s: float = WAIT_S) -> None:
        self.url = url
        self._away = False
        self.pool: Pool = psycopg_pool.AsyncConnectionPool(
            conninfo(url),
            min_size=min(2, connections),
            max_size=connections,
            timeout=wait_s,
            max_waiting=connections * 50,
            reconnect_timeout=_RECONNECT_S,
            configure=_configure,
            reconnect_failed=self._reconnect_failed,
            connection_class=BoundedConnection,
            kwargs={"autocommit": True, "prepare_threshold": 2},
            name="launchbay",
            open=False,
        )

    async def open(self) -> None:
        """Connect. Raises CannotStart when the database does not answer, refuses us, or is older than PostgreSQL 15."""
        try:
            connection = await AsyncConnection.connect(conninfo(self.url), autocommit=True)
        except (psycopg.Error, UnicodeError) as error:
            raise CannotStart(
                f"The database at {redacted_url(self.url)} does not let us in: {str(error).strip()}",
                "Check LAUNCHBAY_DATABASE_URL, and that the server runs and knows the user.",
            ) from error
        async with connection:
            check_version(connection.info.server_version)
        await self.pool.open()

    async def close(self) -> None:
        """Close the connections. Who waits for one gets Unavailable."""
        await self.pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def connection(self) -> "_Borrowed":
        """Lend a connection in autocommit mode: every statement is its own transaction."""
        return _Borrowed(self)

    def transaction(self) -> "_Transaction":
        """Lend a connection in a transaction, committed at the end of the block and rolled back by an exception."""
        return _Transaction(self)

    @contextmanager
    def joined(self, connection: Connection) -> Iterator[None]:
        """Let all loans in the block, of this task and of those that it makes, be this connection in its transaction.

        They must come one after the other: savepoints of one connection cannot overlap.
        """
        token = _enclosing.set((self, connection))
        try:
            yield
        finally:
            _enclosing.reset(token)

    def enclosing(self) -> Connection | None:
        """Return the connection that loans are to join, if there is one."""
        found = _enclosing.get()
        return found[1] if found is not None and found[0] is self else None

    async def borrow(self) -> Connection:
        """Take a connection out of the pool, to be given back with `pool.putconn`. Raises Unavailable."""
        try:
            while True:
                # While the database is known to be away, nobody waits long to hear so.
                connection = await self.pool.getconn(_WAIT_WHILE_AWAY_S if self._away else None)
                if await _is_alive(connection):
                    self._away = False
                    return connection
                # The server went away, and every connection with it; finding them one by one would take minutes.
                self._away = True
                await self.pool.drain()
                await self.pool.putconn(connection)
        except psycopg.Error as error:
            raise unavailable(error) or error from error

    async def _reconnect_failed(self, _: Pool) -> None:
        self._away = True


class _Borrowed:
    """The loan of a connection. A class, because a generator-based context manager costs more than the loan itself."""

    __slots__ = ("_connection", "_database", "_savepoint")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._savepoint: AsyncTransaction | None = None

    async def __aenter__(self) -> Connection:
        joined = self._database.enclosing()
        if joined is None:
            self._connection = await self._database.borrow()
        else:
            self._connection = joined
            self._savepoint = AsyncTransaction(joined)
            await self._savepoint.__aenter__()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, errors.FeatureNotSupported) and _OUTDATED in str(error):
            # A newer version changed a table under this server: what the connection has prepared is of no use any more.
            await self._connection.close()
        # The pool throws away a connection that is broken, and rolls back one that was left in a transaction.
        if self._savepoint is None:
            if isinstance(error, psycopg.Error) and error.sqlstate == _READ_ONLY:
                await self._database.pool.drain()  # new ones find the server that accepts changes
            await self._database.pool.putconn(self._connection)
        else:
            await self._savepoint.__aexit__(kind, error, trace)
        if isinstance(error, psycopg.Error):
            ours = unavailable(error)
            if ours is not None:
                raise ours from error


class _Transaction(_Borrowed):
    """The loan of a connection for one transaction."""

    __slots__ = ("_block",)

    async def __aenter__(self) -> Connection:
        connection = await super().__aenter__()
        if self._savepoint is not None:
            return connection
        self._block = AsyncTransaction(connection)
        try:
            await self._block.__aenter__()
        except BaseException as error:
            await super().__aexit__(type(error), error, None)
            raise
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._savepoint is not None:
            await super().__aexit__(kind, error, trace)
            return
        try:
            if error is not None:
                await self._block.__aexit__(kind, error, trace)
            else:
                await self._commit()
        except BaseException as failure:
            await super().__aexit__(type(failure), failure, None)
            raise
        await super().__aexit__(kind, error, trace)

    async def _commit(self) -> None:
        if self._connection.pgconn.transaction_status == TransactionStatus.INERROR:
            # PostgreSQL answers COMMIT with ROLLBACK here, without an error, and that would pass for success.
            swallowed = AssertionError("A failed statement was caught in a transaction with no savepoint around it.")
            await self._block.__aexit__(AssertionError, swallowed, None)
            raise swallowed
        try:
            await self._block.__aexit__(None, None, None)
        except (psycopg.OperationalError, psycopg.InterfaceError) as failure:
            if (failure.sqlstate or "").startswith(_ROLLED_BACK_CLASS):
                raise
            raise OutcomeUnknown(*_UNKNOWN) from failure
        # Where the connection was broken already, psycopg ends the block without sending COMMIT, and without a word.
        if self._block.status is not AsyncTransaction.Status.COMMITTED:
            raise OutcomeUnknown(*_UNKNOWN)


def conninfo(url: str) -> str:
    """Return the connection string with our time-outs; what the URL itself sets stays as it is.

    Raises CannotStart when the text is no PostgreSQL connection string.
    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise CannotStart(
            f"LAUNCHBAY_DATABASE_URL cannot be read: {str(error).strip()}",
            "It looks like postgresql://user:password@host:5432/database.",
        ) from error
    options = (
        f"-c statement_timeout={STATEMENT_S}s -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_S}s"
        f" -c timezone=UTC {given.pop('options', None) or ''}"
    )
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    # A peer that vanished is noticed within seconds, not after the system's two hours.
    ours: dict[str, Any] = {
        "application_name": "launchbay",
        "connect_timeout": CONNECT_S if len(hosts) < 2 else _CONNECT_TO_EACH_S,
        # A replica answers with what was true a while ago: nobody is to read from it by accident.
        "target_session_attrs": "read-write",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    return make_conninfo("", **{**ours, **given, "options": options.strip()})


def redacted_url(url: str) -> str:
    """Return the host and database of a connection string, without user and password (promise 10)."""
    parts = conninfo_to_dict(url)
    return f"{parts.get('host', 'local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def check_version(server_version: int) -> None:
    """Refuse a server older than PostgreSQL 15, given as libpq numbers it (150004). Raises CannotStart."""
    if server_version < OLDEST_MAJOR * 10_000:
        raise CannotStart(
            f"The database is PostgreSQL {server_version // 10_000}; this product needs {OLDEST_MAJOR} or newer.",
            "Upgrade it, or leave LAUNCHBAY_DATABASE_URL empty to use the embedded one.",
        )


def unavailable(error: psycopg.Error) -> Unavailable | None:
    """Return what the caller is to see of a database error, or None where the error is not about availability."""
    if isinstance(error, errors.FeatureNotSupported) and _OUTDATED in str(error):
        return Unavailable("The database was upgraded at this moment.", "Try again.", retry_after_s=1)
    for kinds, sentence, retry_after_s in _CAUSES:
        if isinstance(error, kinds) or error.sqlstate in _AWAY_STATES:
            return Unavailable(sentence, "Try again.", retry_after_s=retry_after_s)
    return None


async def _configure(connection: Connection) -> None:
    connection.prepared_max = _PREPARED_STATEMENTS


async def _is_alive(connection: Connection) -> bool:
    """Tell whether a connection ended while it lay in the pool, without asking the server each time.

    A healthy idle connection has nothing to read. One that has brings a notice or its end.
    """
    if not connection.closed and not _readable(connection.fileno()):
        return True
    try:
        await psycopg_pool.AsyncConnectionPool.check_connection(connection)
    except psycopg.Error:
        return False
    return True


def _readable(descriptor: int) -> bool:
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(0))
