"""The reads of one page: one connection, one snapshot, each statement once (decision 0167).

    scope = PageScope(database.pool)
    scope.begin()                                   # from here on it is what `database.connection()` lends
    record = await read_instance_record(ctx, id)    # a round trip
    life, labels = scope.ask(read_lifetime(ctx, id)), scope.ask(read_object_labels(ctx, "instance", id))
    await life, await labels                        # one round trip for both
    await scope.end()

What tasks ask at the same time goes out together, and a statement that was asked before isn't sent again. A transaction
ends the snapshot: what is read after a change sees it.
"""

import asyncio
from collections.abc import Coroutine, Hashable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGresult

from launchbay.store.connection import BoundedConnection, Statement
from launchbay.store.pool import Pool

T = TypeVar("T")
_QUIET_PASSES = 3  # of the event loop: the end of a task, its caller, and the task that this one starts
_BEGIN = Statement(b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_SAVEPOINT = Statement(b"SAVEPOINT before_reads")
_BACK = Statement(b"ROLLBACK TO SAVEPOINT before_reads")
_current: "ContextVar[PageScope | None]" = ContextVar("page scope", default=None)


class PageScope:
    """Stands for a connection while a page reads.

    It has what reads need of one, and borrows one for its first statement. `known` has what was looked up in the
    snapshot and the grants there, by caller, and ends with it.

    A read that fails ends the snapshot, and `is_torn` says so: later reads see another moment. With `keeps_snapshot`,
    which costs a statement in each round trip, it doesn't.
    """

    in_transaction = False  # one that could change something

    def __init__(self, pool: Pool, *, keeps_snapshot: bool = False) -> None:
        self.pool = pool
        self.is_torn = False
        self._before = (_SAVEPOINT,) if keeps_snapshot else ()
        self.known: dict[tuple[Hashable, Hashable], Any] = {}
        self._connection: BoundedConnection | None = None
        self._decoder: Any = None  # that of the connection
        self._has_begun = False
        self._answers: dict[tuple[bytes, tuple[bytes | None, ...]], asyncio.Future[PGresult]] = {}
        self._asked: list[tuple[Statement, asyncio.Future[PGresult]]] = []
        self._sending: asyncio.Task[None] | None = None
        self._reads: list[asyncio.Task[Any]] = []
        self._ending: asyncio.Task[None] | None = None
        self.is_over = False

    @staticmethod
    def current(pool: Pool) -> "PageScope | None":
        """Return the scope whose connection loans from this pool share."""
        scope = _current.get()
        return scope if scope is not None and scope.pool is pool and not scope.is_over else None

    def begin(self) -> None:
        """Make this the connection of this task, and of those that it starts."""
        _current.set(self)

    def ask(self, read: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin a read, whose statements go out with those of others.

        Await it for its result.
        """
        self.begin()
        task = asyncio.create_task(read)
        self._reads.append(task)
        return task

    async def release(self) -> None:
        """Give back the connection. A later read begins another snapshot."""
        sending = self._sending
        try:
            if sending is not None:
                await asyncio.wait({sending})
        finally:
            connection, self._connection = self._connection, None
            self._has_begun = False
            self._answers, self.known = {}, {}
            if connection is not None:
                await self.pool.take_back(connection)  # which ends the transaction

    async def end(self) -> None:
        """Cancel reads that nobody waits for, and give back the connection.

        The connection goes back also if the caller is cancelled, as a stream is whose browser has gone.
        """
        _current.set(None)
        self.is_over = True
        self._ending = asyncio.create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        left = [task for task in self._reads if not task.done()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)
        for task in self._reads:
            _retrieve(task)
        await self.release()

    # What reads need of a connection

    @property
    def decoder(self) -> Any:
        assert self._decoder is not None, "there is an answer before somebody decodes it"
        return self._decoder

    @property
    def closed(self) -> bool:
        """Whether the connection was lost."""
        return self._connection is not None and self._connection.closed

    def forget_deferred(self) -> None:
        """Do nothing: reads defer nothing."""

    async def run(self, statement: Statement, *, begins: bool = True) -> PGresult:  # noqa: ARG002 - as a connection
        """Return the answer to a read. Raises psycopg's errors, and Unavailable without a connection."""
        key = statement.text, tuple(statement.parameters)
        answer = self._answers.get(key)
        if answer is None or answer.cancelled():
            answer = self._answers[key] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_retrieve)
            self._asked.append((statement, answer))
            if self._sending is None:
                self._sending = asyncio.create_task(self._send())
        return await answer

    async def _send(self) -> None:
        """Send what is asked, in one round trip, until nothing is."""
        try:
            while True:
                await self._quiet()
                asked, self._asked = self._asked, []
                if not asked:
                    return
                try:
                    await self._answer(asked)
                except Exception as error:  # noqa: BLE001 - it is raised to whoever asked
                    for _, answer in asked:
                        if not answer.done():
                            answer.set_exception(error)
                finally:
                    for _, answer in asked:
                        answer.cancel()  # which changes nothing once it is there
        finally:
            self._sending = None

    async def _quiet(self) -> None:
        """Wait until those who have just got an answer have asked.

        That includes the tasks which they start.
        """
        number, passes = len(self._asked), 0
        while passes < _QUIET_PASSES:
            await asyncio.sleep(0)
            passes = passes + 1 if len(self._asked) == number else 0
            number = len(self._asked)

    async def _answer(self, asked: Sequence[tuple[Statement, "asyncio.Future[PGresult]"]]) -> None:
        if self._connection is None:
            self._connection = await self.pool.lend()
            self._decoder = self._connection.decoder
        connection = self._connection
        begin = (*(() if self._has_begun else (_BEGIN,)), *self._before)
        self._has_begun = True
        try:
            results = await connection.run_all([*begin, *(statement for statement, _ in asked)])
        except psycopg.NotSupportedError:
            await connection.close()  # after an upgrade, its prepared statements are invalid
            raise
        except psycopg.Error as error:
            if connection.closed:
                raise
            await self._recover(connection)  # one that failed has failed all behind it, in its transaction
            # An operational error, such as a timeout, would meet the others as well.
            if len(asked) == 1 or isinstance(error, psycopg.OperationalError):
                raise
            await self._answer_alone(connection, asked)
            return
        for (_, answer), result in zip(asked, results[len(begin) :], strict=True):
            if not answer.done():
                answer.set_result(result)

    async def _recover(self, connection: BoundedConnection) -> None:
        """Make a connection usable after an error.

        The next read is within the snapshot if that is kept, otherwise in another one.
        """
        if self._before and connection.pgconn.transaction_status == TransactionStatus.INERROR:
            await connection.run_all([_BACK])
            return
        await connection.roll_back_transaction()
        self._has_begun = False
        self.is_torn = True

    async def _answer_alone(
        self, connection: BoundedConnection, asked: Sequence[tuple[Statement, "asyncio.Future[PGresult]"]]
    ) -> None:
        """Send each statement by itself: a wrong one fails no other."""
        for statement, answer in asked:
            begin = () if self._has_begun else (_BEGIN,)
            self._has_begun = True
            try:
                *_, result = await connection.run_all([*begin, *self._before, statement])
            except psycopg.Error as error:
                if not answer.done():
                    answer.set_exception(error)
                await self._recover(connection)
            else:
                if not answer.done():
                    answer.set_result(result)


def _retrieve(answer: "asyncio.Future[Any]") -> None:
    """Let an error that nobody waits for any more go unlogged."""
    if not answer.cancelled():
        answer.exception()
