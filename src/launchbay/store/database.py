"""Connections to PostgreSQL: the pool, its two uses, and the translation of database errors.

    async with database.connection() as connection:      # single statements, each its own commit
    async with database.transaction() as connection:     # all or nothing; committed when the block ends

`CommitGroup` writes in one transaction what several callers have at the same moment.

Inside a transaction `async with connection.transaction():` creates a savepoint. In `with database.joined(connection):`
every connection or transaction is this one, with its own savepoint. Changes under an Idempotency-Key are committed
with the response that way.

Errors: `Unavailable` if the database is down, full or overloaded (nothing was committed); `OutcomeUnknown` if the
connection was lost during COMMIT (architecture, "Rules of shape" 6). psycopg's `IntegrityError`s pass through, because
only the caller knows what a duplicate means.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import psycopg
import structlog
from psycopg import AsyncConnection, AsyncTransaction, errors, sql
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import PGconn, Ping
from psycopg.pq.abc import PGresult

from launchbay.errors import BadRequest, CannotStart, Conflict, SecretKeyOutdated, Unavailable
from launchbay.limits import KIB
from launchbay.store.connection import BoundedConnection, Statement
from launchbay.store.page_scope import PageScope
from launchbay.store.pool import Pool
from launchbay.tenants import TurnQueue, current_tenant


def on_transaction_end(connection: "Connection", callback: Callable[[bool], object]) -> None:
    """Call back once the transaction under way has ended, with whether it is known to be committed.

    The outermost transaction counts, not a savepoint in it. The callback must not wait or raise.
    """
    assert connection.in_transaction, "there is no transaction"
    if connection.on_end is None:
        connection.on_end = []
    connection.on_end.append(callback)


def after_commit(connection: "Connection", act: Callable[[], Awaitable[None]]) -> None:
    """Await `act` once the transaction under way is committed, before its block ends.

    The connection is back in the pool by then. `act` isn't awaited if the transaction is rolled back.
    """
    if connection.after_commit is None:
        connection.after_commit = []
    connection.after_commit.append(act)


@contextmanager
def unique_violation_as(message: str, code: str, field: str = "") -> Iterator[None]:
    """Raise BadRequest if the block violates a unique constraint, which also ends the transaction."""
    try:
        yield
    except psycopg.errors.UniqueViolation as error:
        raise BadRequest(message, code=code, field=field) from error


@contextmanager
def foreign_key_violation_as(message: str) -> Iterator[None]:
    """Raise Conflict if the block refers to a deleted row, which also ends the transaction."""
    try:
        yield
    except psycopg.errors.ForeignKeyViolation as error:
        raise Conflict(message) from error


log = structlog.get_logger(__name__)
# What the driver raises, as modules outside of the store catch it.
DatabaseError = psycopg.Error
Connection: TypeAlias = BoundedConnection
OLDEST_MAJOR = 15
WAIT_S = 5.0  # for a free connection, then 503; a longer queue would not help
STATEMENT_S = 30
IDLE_IN_TRANSACTION_S = 60
CONNECT_S = 5
ROOM_S = 5.0  # between two looks whether a full disk has room again
_CONNECT_TO_EACH_S = 2  # with several hosts: less than a lease, so that a dead host costs no worker its lease
# States of a server that cannot serve at all, which psycopg files under other errors.
_READ_ONLY = "25006"  # it has become a standby
_OUTDATED_KEY = "LBKEY"  # of launchbay_check_key
_AWAY_STATES = {_READ_ONLY, "25P03", "25P04"}  # idle in transaction too long, transaction too long
_AWAY = "The database is unavailable; jobs wait for it."
_SEGMENT_BYTES = 16 * 1024 * KIB  # of its log, which PostgreSQL must be able to write whole
# The first match decides; the last row covers every operational error of psycopg.
_CAUSES: list[tuple[tuple[type[psycopg.Error], ...], str, int]] = [
    ((errors.QueryCanceled, errors.LockNotAvailable), "The database took too long.", 2),
    ((errors.OutOfMemory,), "The database is out of memory.", 30),
    ((errors.SerializationFailure, errors.DeadlockDetected), "Another request changed the same data.", 1),
    ((psycopg.OperationalError, psycopg.InterfaceError), _AWAY, 2),
]
# Fills more than what a table that has room left would take without asking the file system. It leaves nothing behind.
_TAKE_ROOM = "CREATE TEMPORARY TABLE launchbay_room ON COMMIT DROP AS SELECT generate_series(1, 30000)"
_OUTDATED = "cached plan must not change result type"  # feature_not_supported, which is other things too
_VARIABLE = "LAUNCHBAY_DATABASE_URL"
_DIRECT_VARIABLE = "LAUNCHBAY_DATABASE_DIRECT_URL"
_UNSUPPORTED = "unsupported startup parameter"  # PgBouncer's refusal of our options
# Two connections lead to the same database if these are equal. The start of a server is as good as a name of it.
_IDENTITY = (
    "SELECT extract(epoch FROM pg_postmaster_start_time())::text, oid::text"
    " FROM pg_database WHERE datname = current_database()"
)
_SESSION_SETTINGS: list[tuple[str, str, Callable[[str], bool]]] = [
    ("statement_timeout", f"{STATEMENT_S}s", lambda value: value != "0"),
    ("idle_in_transaction_session_timeout", f"{IDLE_IN_TRANSACTION_S}s", lambda value: value != "0"),
    ("timezone", "UTC", lambda value: value == "UTC"),
    ("synchronous_commit", "on", lambda value: value != "off"),  # promise 1
]
_SESSION = f"SELECT current_database(), {', '.join(f'current_setting({name!r})' for name, *_ in _SESSION_SETTINGS)}"
_UNKNOWN = (
    "Lost the database connection while committing the change, so it may have been saved.",
    "Check the result before you retry.",
)
_LOST = ("57P", "08")  # the server ends the session, or the connection broke
_GROUP = 16  # commits together: more would gain little, and each waits for all
_GROUP_MEMBER_BYTES = 32 * KIB  # of parameters: whoever has more would make the others wait
# A member that waits for a lock of another transaction makes the others of its group wait. This is also less than
# PostgreSQL's `deadlock_timeout`: where a group locks rows in another order than somebody else, the group gives up.
_PATIENCE = Statement(b"SELECT set_config('lock_timeout', '100ms', true)")
_CANCELLED_S = 5.0  # a group is written on so long for its other members
_TURN_S = 0.1  # then others write, too: whoever writes alone may wait long for a lock
_enclosing: "ContextVar[tuple[Database, Connection] | None]" = ContextVar("enclosing transaction", default=None)


class OutcomeUnknown(Unavailable):
    """The connection was lost during COMMIT, which may have succeeded.

    Read the object by the ID that you chose.
    """

    code = "OutcomeUnknown"


class DatabaseFull(Unavailable):
    """The disk of the database is full: it refuses changes, or has stopped."""

    code = "DatabaseFull"

    def __init__(self) -> None:
        super().__init__(
            "The database is out of space: its disk is full.",
            "The server's administrator must free some space; then retry.",
            retry_after_s=30,
        )


class NotTogether(Unavailable):
    """A group of commits failed, and nothing of it was committed.

    Repeat the transaction without a group.
    """

    def __init__(self) -> None:
        super().__init__("The change couldn't be saved together with others.", "Retry.", retry_after_s=1)


class Database:
    """A pool of connections to one database.

    Open and close it in the event loop that uses it.

    If `url` leads to a pooler, `direct_url` leads to PostgreSQL itself: for what needs a session of its own, such as
    LISTEN. Every transaction of the pool may then run in another session, so it leaves nothing behind in one.

    `directory` has the files of a PostgreSQL on this machine. Its file system says whether one that is away is full.
    """

    def __init__(
        self,
        url: str,
        *,
        direct_url: str = "",
        connections: int = 20,
        wait_s: float = WAIT_S,
        directory: Path | None = None,
    ) -> None:
        self._directory = directory
        self.url = url
        self.direct_url = direct_url or url
        self._is_pooled = bool(direct_url)
        self._is_full = False
        parameters = conninfo(url, is_pooled=self._is_pooled)
        self.pool = Pool(
            parameters, most=connections, wait_s=wait_s, prepares=not self._is_pooled, find_cause=self.find_cause
        )
        self.commits = CommitGroup(self)

    async def open(self) -> None:
        """Connect.

        Raises CannotStart if the database refuses, is older than PostgreSQL 15, or is behind a pooler without a direct
        URL or without the settings that a pooler can't pass on.
        """
        if self._is_pooled:
            await self._check_pooler()
        else:
            async with await connect_directly(self.url):
                pass
        self.pool.open()

    async def _check_pooler(self) -> None:
        try:
            async with await connect_directly(self.direct_url, _DIRECT_VARIABLE) as direct:
                same = await (await direct.execute(_IDENTITY)).fetchone()
        except psycopg.Error as error:
            raise refused(self.direct_url, error) from error
        try:
            pooled = await AsyncConnection.connect(
                conninfo(self.url, is_pooled=True), autocommit=True, prepare_threshold=None
            )
            async with pooled:
                identity = await (await pooled.execute(_IDENTITY)).fetchone()
                row = await (await pooled.execute(_SESSION)).fetchone()
        except (psycopg.Error, UnicodeError) as error:
            raise refused(self.url, error) from error
        if identity != same:
            raise CannotStart(
                f"{_VARIABLE} and {_DIRECT_VARIABLE} lead to different databases.",
                "Set both to the same one: the first through the pooler, the second to PostgreSQL itself.",
            )
        assert row is not None, "a SELECT without FROM gives a row"
        name, *found = row
        wrong = [
            f"ALTER DATABASE {sql.Identifier(name).as_string()} SET {setting} = '{wanted}';"
            for (setting, wanted, accepts), value in zip(_SESSION_SETTINGS, found, strict=True)
            if not accepts(value)
        ]
        if wrong:
            raise CannotStart(
                "The sessions of the database pooler lack settings that Launchbay can't give them. As the owner of the"
                " database, run:",
                *wrong,
                "Then let the pooler make new connections (RECONNECT in PgBouncer's console), and start again.",
            )

    async def ping(self) -> None:
        """Run a statement. Raises Unavailable, also while the disk of the database is full."""
        await self.look_for_room()
        if self._is_full:
            raise DatabaseFull
        async with self.connection() as connection:
            await connection.execute("SELECT 1")

    def note_error(self, error: psycopg.Error) -> None:
        """Log the first error of a full disk."""
        if isinstance(error, errors.DiskFull):
            self._note_full(error.diag.message_primary or str(error))

    def _note_full(self, error: str) -> None:
        if not self._is_full:
            self._is_full = True
            log.error("database.disk_full", error=error, effect="Changes are refused with 503.")

    def find_cause(self, error: Exception | None) -> Unavailable | None:
        """Return the error for a database that is away if its disk is full.

        `error` is that of a connection. PostgreSQL stops when it can't write its log, and doesn't start without room
        for the next part of that.
        """
        if isinstance(error, errors.DiskFull) or (self._directory is not None and has_no_room(self._directory)):
            self._note_full(str(error or "PostgreSQL is away, and its disk is full."))
        return DatabaseFull() if self._is_full else None

    async def look_for_room(self) -> None:
        """Once a full disk has refused a change, try to write, and log if it has room again."""
        if not self._is_full:
            return
        try:
            async with self.transaction() as connection:
                await connection.execute(_TAKE_ROOM)
        except Unavailable:
            return
        except errors.InsufficientPrivilege:
            pass  # without temporary tables, the next change tells
        if self._is_full:
            self._is_full = False
            log.info("database.disk_has_room")

    async def close(self) -> None:
        """Close the connections. Waiting callers get Unavailable."""
        await self.pool.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def connection(self) -> "_Borrowed":
        """Borrow a connection in autocommit mode: every statement is its own transaction."""
        return _Borrowed(self)

    def transaction(self, *, shares_commit: bool = False) -> "_Transaction":
        """Borrow a connection in a transaction, committed at the end of the block or rolled back by an exception.

        With `shares_commit`, changes that were all deferred may be committed together with those of others. The end of
        the block then raises NotTogether if that fails.
        """
        return _Transaction(self, shares_commit=shares_commit)

    @contextmanager
    def joined(self, connection: Connection) -> Iterator[None]:
        """Make all loans in the block, also in tasks that it starts, use this connection in its transaction.

        They must not overlap, because savepoints of one connection can't.
        """
        token = _enclosing.set((self, connection))
        try:
            yield
        finally:
            _enclosing.reset(token)

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Make loans in the block use connections of their own.

        A transaction may enclose it. For what another process must see before that ends. It must not need what the
        transaction has locked.
        """
        token = _enclosing.set(None)
        try:
            yield
        finally:
            _enclosing.reset(token)

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[None]:
        """Make all loans in the block read one point in time, in one transaction that changes nothing.

        In a block of `joined` they read what that transaction sees.
        """
        if self.enclosing() is not None:
            yield
            return
        async with self.transaction() as connection:
            await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            with self.joined(connection):
                yield

    def enclosing(self) -> Connection | None:
        """Return the connection that loans join, or None."""
        found = _enclosing.get()
        return found[1] if found is not None and found[0] is self else None


class _Borrowed:
    """The loan of a connection. A class, since each request enters one (decision 0169)."""

    __slots__ = ("_connection", "_database", "_savepoint", "_scope")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._savepoint: AsyncTransaction | None = None
        self._scope: PageScope | None = None

    async def __aenter__(self) -> Connection:
        joined = self._database.enclosing()
        if joined is None:
            scope = PageScope.current(self._database.pool)
            if scope is None:
                self._connection = await self._database.pool.lend()
            else:
                self._connection = await self._share(scope)
        else:
            self._connection = joined
            self._savepoint = AsyncTransaction(joined)
            try:
                await self._savepoint.__aenter__()
            except psycopg.Error as failure:
                self._raise_if_unavailable(failure, is_lost=joined.closed)
                raise
        return self._connection

    async def _share(self, scope: PageScope) -> Connection:
        """Return what a page reads through, which it gives back itself."""
        self._scope = scope
        return cast("Connection", scope)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope is not None:
            if isinstance(error, psycopg.Error):
                self._raise_if_unavailable(error, is_lost=self._scope.closed)
            return
        if error is None and self._savepoint is None:
            await self._database.pool.take_back(self._connection)
            return
        if error is not None:
            self._connection.forget_deferred()
        if isinstance(error, errors.FeatureNotSupported) and _OUTDATED in str(error):
            # A newer version changed a table, so the prepared statements of this connection are invalid.
            await self._connection.close()
        # The pool discards a broken connection, and rolls back an open transaction.
        if self._savepoint is None:
            try:
                if isinstance(error, psycopg.Error) and error.sqlstate == _READ_ONLY:
                    await self._database.pool.drain()  # new ones find the server that accepts changes
            finally:
                is_lost = await self._database.pool.take_back(self._connection)
        else:
            try:
                await self._savepoint.__aexit__(kind, error, trace)
            except psycopg.Error as failure:
                self._raise_if_unavailable(failure, is_lost=self._connection.closed)
                raise
            is_lost = self._connection.closed
        if isinstance(error, psycopg.Error):
            self._raise_if_unavailable(error, is_lost=is_lost)

    def _raise_if_unavailable(self, error: psycopg.Error, *, is_lost: bool) -> None:
        self._database.note_error(error)
        translated = (self._database.find_cause(error) if is_lost else None) or unavailable(error, is_lost=is_lost)
        if translated is not None:
            raise translated from error


class _Transaction(_Borrowed):
    """The loan of a connection for one transaction."""

    __slots__ = ("_shares_commit",)

    def __init__(self, database: Database, *, shares_commit: bool = False) -> None:
        super().__init__(database)
        self._shares_commit = shares_commit

    async def _share(self, scope: PageScope) -> Connection:
        """Return a connection of its own.

        The page's goes back first: many that hold one and wait for another would wait for each other.
        """
        await scope.release()
        return await self._database.pool.lend()

    async def __aenter__(self) -> Connection:
        connection = await super().__aenter__()
        if self._savepoint is None:
            connection.begin()
        return connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._savepoint is not None:
            await super().__aexit__(kind, error, trace)
            return
        committed = False
        # Others may use the connection as soon as it is back in the pool.
        callbacks, self._connection.on_end = self._connection.on_end or (), None
        acts, self._connection.after_commit = self._connection.after_commit or (), None
        try:
            if error is None:
                await self._commit()
                committed = True
        except BaseException as failure:
            await super().__aexit__(type(failure), failure, None)
            raise
        finally:
            for callback in callbacks:
                callback(committed)
        await super().__aexit__(kind, error, trace)  # the pool rolls back
        if committed:
            for act in acts:
                await act()

    async def _commit(self) -> None:
        if self._connection.in_failed_transaction:
            # PostgreSQL would answer COMMIT with ROLLBACK, without an error.
            raise AssertionError("A failed statement was caught in a transaction without a savepoint around it.")
        try:
            if self._shares_commit and self._connection.has_only_read:
                await self._database.commits.commit(self._connection)
            else:
                await self._connection.commit_transaction()
        except psycopg.Error as failure:
            if _may_have_committed(self._connection, failure):
                raise OutcomeUnknown(*_UNKNOWN) from failure
            raise  # the server says that it rolled back


def _may_have_committed(connection: Connection, failure: psycopg.Error) -> bool:
    """Return whether a commit that failed may have been made."""
    if connection.closed:  # whatever a pooler said about it
        return True
    if not isinstance(failure, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return failure.sqlstate is None or failure.sqlstate.startswith(_LOST)


@dataclass(eq=False, slots=True)
class _Member:
    """What one caller writes with a group.

    `turn` ends with whether it is to write the next group.
    """

    statements: Sequence[Statement]
    owner: str = field(default_factory=current_tenant.get)
    turn: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    writing: "asyncio.Task[None] | None" = None  # by which its group is written
    results: Sequence[PGresult] = ()
    failure: Unavailable | None = None

    @property
    def is_large(self) -> bool:
        parameters = [value for statement in self.statements for value in statement.parameters if value is not None]
        return sum(map(len, parameters)) > _GROUP_MEMBER_BYTES


class CommitGroup:
    """Writes in one transaction what several callers have at once (decision 0127).

    Whoever finds nothing under way writes at once. Those who come meanwhile wait, and the first of them then writes for
    all of them. PostgreSQL needs half as much for each of 16 that it gets together. If a group fails, whatever the
    reason, nothing of it is committed, and each member does its work again by itself, with an outcome of its own.

    Tenants take turns, however many members each has. A turn ends after _TURN_S: whoever waits for a lock or for a slow
    disk holds up the others no longer.

    It takes the place of a connection for statements that may be repeated. Transactions use `commit`.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._writer: _Member | None = None  # whose turn it is
        self._waiting: TurnQueue[_Member] = TurnQueue()
        self.decoder = Transformer()

    async def run(self, statement: Statement, *, begins: bool = True) -> PGresult:
        """Run a statement alone, or in one transaction with others.

        Raises psycopg's errors, and Unavailable. It must be one that may be repeated: after a lost connection, it may
        have been committed.
        """
        member = _Member([statement])
        if not member.is_large:
            if await self._has_turn(member):
                with self._turn_of(member), suppress(NotTogether, OutcomeUnknown):
                    async with self._database.connection() as connection:
                        if self._waiting:
                            await self._write_all(connection, member)
                        else:
                            return await connection.run(statement, begins=begins)
            if member.results:
                return member.results[0]
        async with self._database.connection() as connection:
            return await connection.run(statement, begins=begins)

    async def commit(self, connection: Connection) -> None:
        """Commit the changes that a transaction has deferred, if it has only read.

        It lasts until the changes are committed, and so do its locks. Raises psycopg's errors, NotTogether and
        OutcomeUnknown.
        """
        member = _Member(connection.take_deferred())
        if member.is_large:
            await _commit(connection, member.statements)
        elif await self._has_turn(member):
            with self._turn_of(member):
                if self._waiting:
                    await self._write_all(connection, member)
                else:
                    await _commit(connection, member.statements)
        elif member.failure is not None:
            raise member.failure
        else:
            with suppress(psycopg.Error):  # the changes are committed; this only ends the locks
                await connection.commit_transaction()

    async def _has_turn(self, member: _Member) -> bool:
        """Wait, and return whether a member has the turn to write.

        If not, another has written for it, well or not.
        """
        if self._writer is None:
            self._writer = member
            return True
        self._waiting.put(member.owner, member)
        try:
            return await member.turn
        except asyncio.CancelledError:
            self._waiting.discard(member.owner, member)
            if member.writing is not None:
                await _finished(member.writing)
            self._pass_turn(member)  # if it has just got it
            raise

    @contextmanager
    def _turn_of(self, member: _Member) -> Iterator[None]:
        """Let the next one write after the block, or when it has taken _TURN_S."""
        passing = asyncio.get_running_loop().call_later(_TURN_S, self._pass_turn, member)
        try:
            yield
        finally:
            passing.cancel()
            self._pass_turn(member)

    def _pass_turn(self, member: _Member) -> None:
        """Let the next one write, if it is the member's turn."""
        if self._writer is not member:
            return
        self._writer = None
        while self._waiting and self._writer is None:
            following = self._waiting.take()
            if not following.turn.done():  # else it was cancelled
                following.turn.set_result(True)
                self._writer = following

    async def _write_all(self, connection: Connection, first: _Member) -> None:
        """Commit the changes of a member and of those who wait.

        Raises NotTogether and OutcomeUnknown. A cancellation comes after the commit: the others need the connection
        until then.
        """
        members = [first]
        while self._waiting and len(members) < _GROUP:
            member = self._waiting.take()
            if not member.turn.done():  # else it was cancelled
                members.append(member)
        writing = asyncio.create_task(_write_together(connection, members))
        for member in members:
            member.writing = writing
        await _finished(writing)
        if first.failure is not None:
            raise first.failure


async def _write_together(connection: Connection, members: Sequence[_Member]) -> None:
    """Run the statements of all members in one transaction, and tell each of them."""
    # In one order, so that two groups with the same rows don't wait for each other.
    ordered = sorted(
        members, key=lambda each: [value or b"" for one in each.statements for value in one.parameters[:1]]
    )
    statements = [_PATIENCE, *(each for member in ordered for each in member.statements)]
    make_failure: Callable[[], Unavailable] | None = partial(OutcomeUnknown, *_UNKNOWN)
    try:
        if connection.in_transaction:
            await _commit(connection, statements)
        else:
            answers = iter((await connection.run_all(statements))[1:])
            for member in ordered:
                member.results = [next(answers) for _ in member.statements]
        make_failure = None
    except psycopg.Error as error:
        if not _may_have_committed(connection, error):
            make_failure = NotTogether
    finally:
        for member in members:
            member.failure = make_failure and make_failure()
            if not member.turn.done():
                member.turn.set_result(False)


async def _commit(connection: Connection, statements: Sequence[Statement]) -> None:
    """Run statements and commit the transaction under way, in one round trip."""
    for statement in statements:
        connection.defer(statement)
    await connection.commit_transaction()


async def _finished(task: "asyncio.Task[None]") -> None:
    """Wait for a task to its end. Raises what it raises.

    A cancellation of the caller comes only then. It cancels the task, too, but after _CANCELLED_S: a database that
    hangs doesn't keep the process from ending.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            if cancelled is None:
                asyncio.get_running_loop().call_later(_CANCELLED_S, task.cancel)
            cancelled = error
    if cancelled is not None:
        raise cancelled
    if not task.cancelled():  # by another member of the group
        task.result()


def connection_parameters(url: str) -> dict[str, Any]:
    """Return the parameters of libpq with our timeouts.

    Raises CannotStart for an invalid connection string.
    """
    return _parsed(conninfo(url))


def conninfo(url: str, *, is_pooled: bool = False, name: str = _VARIABLE) -> str:
    """Return the connection string with our timeouts; parameters of the URL take precedence.

    A pooler gets no settings of the session, because it can't pass them on. Raises CannotStart for an invalid
    connection string, whose setting is `name`.
    """
    given = _parsed(url, name)
    options = given.pop("options", None) or ""
    if not is_pooled:
        options = (
            f"-c statement_timeout={STATEMENT_S}s -c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_S}s"
            f" -c timezone=UTC {options}"
        )
    hosts = str(given.get("host") or given.get("hostaddr") or "").split(",")
    # Notices a vanished peer within seconds, not after the system's two hours.
    ours: dict[str, Any] = {
        "application_name": "launchbay",
        "connect_timeout": CONNECT_S if len(hosts) < 2 else _CONNECT_TO_EACH_S,
        # A replica may be out of date, so never read from one.
        "target_session_attrs": "read-write",
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    return make_conninfo("", **{**ours, **given, "options": options.strip() or None})


def redacted_url(url: str) -> str:
    """Return the host and database of a connection string, without user and password (promise 10).

    Raises CannotStart for an invalid connection string.
    """
    parts = _parsed(url)
    return f"{parts.get('host', 'local socket')}:{parts.get('port', 5432)}/{parts.get('dbname', '')}"


def _parsed(url: str, name: str = _VARIABLE) -> dict[str, Any]:
    """Return the parameters of a connection string. Raises CannotStart.

    libpq's own message repeats parts of the string, which may be the password, so it isn't shown.
    """
    try:
        parts: dict[str, Any] | None = dict(conninfo_to_dict(url))
    except psycopg.Error:
        parts = None
    if parts is None or _has_misplaced_password(parts):
        raise CannotStart(
            f"{name} is invalid. Expected: postgresql://user:password@host:5432/database. In a password, write %2F for"
            " a slash, %40 for @ and %25 for a percent sign."
        )
    return parts


def _has_misplaced_password(parts: dict[str, Any]) -> bool:
    """Return whether an unescaped slash or @ moved the password into other parameters."""
    ports = str(parts.get("port") or "").split(",")
    return (
        any(port and not (port.isascii() and port.isdigit()) for port in ports)
        or "@" in str(parts.get("host") or "")[1:]  # the first character can be the @ of an abstract socket
        or ("@" in str(parts.get("dbname") or "") and "user" not in parts)
    )


def refuses_connections(url: str) -> bool:
    """Return whether a server lets nobody in, as during recovery; waits 5 s."""
    return PGconn.ping(make_conninfo(url, connect_timeout=CONNECT_S).encode()) == Ping.REJECT


async def connect_directly(
    url: str, variable: str = _VARIABLE, *, name: str | None = None
) -> AsyncConnection[tuple[Any, ...]]:
    """Return a connection to PostgreSQL itself.

    `name` is its application name. Raises CannotStart if the database refuses, is too old, or if a pooler answers: what
    the connection is for would run in any session, and change it for others.
    """
    try:
        parameters = conninfo(url) if name is None else make_conninfo(conninfo(url), application_name=name)
        connection = await AsyncConnection.connect(parameters, autocommit=True)
        row = await (await connection.execute("SELECT pg_backend_pid()")).fetchone()
    except (psycopg.Error, UnicodeError) as error:
        if _UNSUPPORTED in str(error):
            raise _is_pooler(variable) from error
        raise refused(url, error) from error
    try:
        check_version(connection.info.server_version)
        if row != (connection.info.backend_pid,):  # a pooler has numbers of its own
            raise _is_pooler(variable)
    except CannotStart:
        await connection.close()
        raise
    return connection


def _is_pooler(variable: str) -> CannotStart:
    return CannotStart(
        f"{variable} leads to a connection pooler.",
        f"Set {_DIRECT_VARIABLE} to the address of PostgreSQL itself, for the few connections that need a session of"
        " their own: launchbay docs --print howto/connection-pooler",
    )


_MORE_SESSIONS = (
    "Raise max_connections of PostgreSQL, lower LAUNCHBAY_DATABASE_CONNECTIONS, or use a pooler:"
    " launchbay docs --print howto/connection-pooler"
)
# What to do about a failed connection, by a part of libpq's message.
_FIXES = {
    "password authentication failed": "Correct the user or the password in LAUNCHBAY_DATABASE_URL. Write special"
    " characters of a password as in URLs, such as %40 for @.",
    "too many clients": _MORE_SESSIONS,
    "connection slots are reserved": _MORE_SESSIONS,
    "root certificate file": "Set sslrootcert in the URL to a file of this machine with the authority of PostgreSQL's"
    " certificate. For a public authority, that is /etc/ssl/certs/ca-certificates.crt on Debian and Ubuntu.",
    "certificate verify failed": "The authority in sslrootcert hasn't issued PostgreSQL's certificate, or the"
    " certificate has expired. Set sslrootcert in the URL to the file with the right authority.",
    "does not match host name": "Use a host name in the URL that PostgreSQL's certificate has, or sslmode=verify-ca,"
    " which doesn't compare it.",
    "server does not support SSL": "Set ssl = on and a certificate in postgresql.conf, or change sslmode in the URL.",
    "no encryption": "PostgreSQL may accept only TLS: add sslmode=verify-full and sslrootcert to the URL. Otherwise,"
    " add the user and this machine's address to pg_hba.conf.",
    # After "root certificate file", which doesn't exist either.
    "does not exist": "Correct LAUNCHBAY_DATABASE_URL, or create the user and the database:"
    " launchbay docs --print howto/configure#create-a-database-of-your-own",
}


def refused(url: str, error: Exception) -> CannotStart:
    """Return the error for a database that refused a connection at start."""
    # libpq explains on lines of their own what may be the cause; each of several hosts has a line.
    reason = " ".join(line for line in str(error).strip().splitlines() if not line.startswith("\t"))
    usual = "Check LAUNCHBAY_DATABASE_URL, and that the server is running and has this user."
    return CannotStart(
        f"The database at {redacted_url(url)} refused the connection: {reason}",
        next((fix for part, fix in _FIXES.items() if part in reason), usual),
    )


def check_version(server_version: int) -> None:
    """Raise CannotStart for a server older than PostgreSQL 15; libpq's number of 15.4 is 150004."""
    if server_version < OLDEST_MAJOR * 10_000:
        raise CannotStart(
            f"The database is PostgreSQL {server_version // 10_000}. Launchbay needs {OLDEST_MAJOR} or later.",
            "Upgrade it, or unset LAUNCHBAY_DATABASE_URL to use the embedded one.",
        )


def has_no_room(directory: Path) -> bool:
    """Return whether the disk of a PostgreSQL is too full for it to run."""
    for place in (directory, directory / "pg_wal"):
        with suppress(OSError):
            found = os.statvfs(place)
            if found.f_bavail * found.f_frsize < _SEGMENT_BYTES:
                return True
    return False


def unavailable(error: psycopg.Error, *, is_lost: bool = False) -> Unavailable | None:
    """Return the error to raise for a database error, or None if it isn't about availability.

    With `is_lost`, the connection broke. Any error can be the last one that it gave: a pooler has codes of its own.
    """
    if isinstance(error, errors.FeatureNotSupported) and _OUTDATED in str(error):
        return Unavailable("The database was upgraded during this request.", "Retry.", retry_after_s=1)
    if error.sqlstate == _OUTDATED_KEY:
        return SecretKeyOutdated()
    if isinstance(error, errors.DiskFull):
        return DatabaseFull()
    for kinds, message, retry_after_s in _CAUSES:
        if isinstance(error, kinds):
            return Unavailable(message, "Retry.", retry_after_s=retry_after_s)
    if is_lost or error.sqlstate in _AWAY_STATES:
        return Unavailable(_AWAY, "Retry.", retry_after_s=2)
    return None
