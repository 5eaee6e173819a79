"""Typed statements, read from `queries/<aggregate>.sql`.

To add a statement, write it into the file of its aggregate. The comment under its name explains it; parameters are
psycopg's own, `%(name)s`:

    -- name: list_by_organization
    -- The applications of an organization, by name.
    SELECT id, name, latest_version FROM applications WHERE organization_id = %(organization_id)s ORDER BY name;

Then bind it under the same name in `store/<aggregate>.py`, with the class of its rows:

    class ApplicationRow(NamedTuple):          # fields named as the columns, in their order
        id: str
        name: str
        latest_version: int

    _sql = load("applications")
    list_by_organization = _sql.rows("list_by_organization", ApplicationRow)

and call it with a connection: `await applications.list_by_organization(connection, organization_id=…)`.

`row` returns one row or None; `rows` a list, or with `chunks` a stream of lists; `value` the first column of the first
row, or None; `column` the first column of all rows; `change` the number of rows it changed. A row is any class that
takes its fields by position; a NamedTuple is the cheapest. The first execution compares the columns with the fields.

aiosql reads the files. Its own adapter returns untyped rows, so the classes here execute the statements.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from importlib import resources
from typing import Any, Generic, TypeVar

from aiosql import SQLParseException
from aiosql.adapters.ageneric import AsyncGenericAdapter
from aiosql.query_loader import QueryLoader
from psycopg import AsyncCursor

from launchbay.limits import LIST_CHUNK_ROWS
from launchbay.store.database import Connection

T = TypeVar("T")


class _Statement:
    __slots__ = ("_text", "name")

    def __init__(self, name: str, text: bytes) -> None:
        self.name = name
        self._text = text


class Change(_Statement):
    """A statement that returns how many rows it changed."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> int:
        return (await connection.execute(self._text, parameters)).rowcount

    async def each(self, connection: Connection, /, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Execute it once for each set of parameters, in a pipeline."""
        async with connection.cursor() as cursor:
            await cursor.executemany(self._text, parameters)


class Value(_Statement, Generic[T]):
    """A statement that returns one value."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> T | None:
        values = await (await connection.execute(self._text, parameters)).fetchone()
        return None if values is None else values[0]


class Column(_Statement, Generic[T]):
    """A statement that returns a list of values."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> list[T]:
        return [values[0] for values in await (await connection.execute(self._text, parameters)).fetchall()]


class _Rows(_Statement, Generic[T]):
    __slots__ = ("_fields", "_make")

    def __init__(self, name: str, text: bytes, row: Callable[..., T]) -> None:
        super().__init__(name, text)
        self._make: Callable[[tuple[Any, ...]], T] = getattr(row, "_make", None) or (lambda values: row(*values))
        self._fields: tuple[str, ...] | None = row.__match_args__  # type: ignore[attr-defined] # dataclasses, tuples, structs

    async def _execute(self, connection: Connection, parameters: dict[str, Any]) -> AsyncCursor[tuple[Any, ...]]:
        cursor = await connection.execute(self._text, parameters)
        if self._fields is not None:
            self._compare(cursor)
        return cursor

    def _compare(self, cursor: AsyncCursor[tuple[Any, ...]]) -> None:
        columns = tuple(column.name for column in cursor.description or ())
        assert columns == self._fields, f"{self.name} returns the columns {columns}, its row has {self._fields}"
        self._fields = None


class Row(_Rows[T]):
    """A statement that returns at most one row."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> T | None:
        values = await (await self._execute(connection, parameters)).fetchone()
        return None if values is None else self._make(values)


class Rows(_Rows[T]):
    """A statement that returns any number of rows."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> list[T]:
        """Return all rows. Use `chunks` for lists without a bound."""
        make = self._make
        return [make(values) for values in await (await self._execute(connection, parameters)).fetchall()]

    async def chunks(self, connection: Connection, /, **parameters: Any) -> AsyncGenerator[list[T], None]:
        """Stream the rows in lists of LIST_CHUNK_ROWS, in constant memory (conformance.md, "Wire" 9).

        The next list is fetched while the caller works on this one. The connection must be in a transaction and serves
        nothing else until the end. Close the stream (`contextlib.aclosing`) if the loop may end early.
        """
        make = self._make
        async with connection.cursor(name=self.name) as cursor:
            await cursor.execute(self._text, parameters)
            if self._fields is not None:
                self._compare(cursor)
            pending = asyncio.ensure_future(cursor.fetchmany(LIST_CHUNK_ROWS))
            try:
                while chunk := await pending:
                    if len(chunk) == LIST_CHUNK_ROWS:
                        pending = asyncio.ensure_future(cursor.fetchmany(LIST_CHUNK_ROWS))
                        await asyncio.sleep(0)  # sends the request, and lets other tasks run
                    yield [make(values) for values in chunk]
                    if len(chunk) < LIST_CHUNK_ROWS:
                        return
            finally:
                # An abandoned fetch still uses the connection, and cancelling it would break the transaction.
                if not pending.done():
                    await asyncio.wait([pending])


class Statements:
    """The statements of one aggregate, to be bound to types."""

    def __init__(self, aggregate: str, texts: Mapping[str, bytes]) -> None:
        self._aggregate = aggregate
        self._texts = texts

    def row(self, name: str, row: type[T]) -> Row[T]:
        return Row(name, self.text(name), row)

    def rows(self, name: str, row: type[T]) -> Rows[T]:
        return Rows(name, self.text(name), row)

    def value(self, name: str, _kind: type[T]) -> Value[T]:
        """Bind a statement that returns one value; its type serves the type checker."""
        return Value(name, self.text(name))

    def column(self, name: str, _kind: type[T]) -> Column[T]:
        """Bind a statement that returns rows of one value; its type serves the type checker."""
        return Column(name, self.text(name))

    def change(self, name: str) -> Change:
        return Change(name, self.text(name))

    def text(self, name: str) -> bytes:
        """Return a statement as it is sent. Raises LookupError for an unknown name."""
        if name not in self._texts:
            raise LookupError(
                f"queries/{self._aggregate}.sql has no statement {name!r}. It has {', '.join(self._texts)}."
            )
        return self._texts[name]

    def names(self) -> list[str]:
        """Return the names of all statements, in the order of the file."""
        return list(self._texts)


def load(aggregate: str) -> Statements:
    """Read `queries/<aggregate>.sql`. Raises ValueError if aiosql can't read it or a name is duplicated."""
    text = (resources.files("launchbay.store") / "queries" / f"{aggregate}.sql").read_text("utf-8")
    loader = QueryLoader(AsyncGenericAdapter(), None, mandatory_parameters=False)
    try:
        found = loader.load_query_data_from_sql(text, [], f"{aggregate}.sql")
    except SQLParseException as error:
        raise ValueError(f"Can't read queries/{aggregate}.sql: {error}") from error
    texts = {query.query_name: query.sql.encode() for query in found}
    if len(texts) != len(found):
        raise ValueError(f"queries/{aggregate}.sql has two statements with the same name.")
    return Statements(aggregate, texts)
