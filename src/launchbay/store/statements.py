"""The statements in `queries/<noun>.sql`, and what they answer, with types.

To add a statement, write it into the file of its noun. The comment under its name says what it is for; parameters are
psycopg's own, `%(name)s`:

    -- name: of_organization
    -- The applications of an organization, by name.
    SELECT id, name, latest_version FROM applications WHERE organization_id = %(organization_id)s ORDER BY name;

Then bind it in `store/<noun>.py`, where everybody finds it under its name, and say what a row is:

    class ApplicationRow(NamedTuple):          # fields named as the columns, in their order
        id: str
        name: str
        latest_version: int

    _sql = load("applications")
    of_organization = _sql.rows("of_organization", ApplicationRow)

and call it with a connection: `await applications.of_organization(connection, organization_id=actor.organization_id)`.

`row` answers one row or None; `rows` a list, or with `chunks` a stream of lists; `value` the first column of the first
row, or None; `change` the number of rows it touched. A row is any class that takes its fields by position: a NamedTuple
is the cheapest, a frozen dataclass of `model/` saves a conversion. The first execution compares columns with fields.

aiosql reads the files. Its own adapter answers untyped rows, hence the four classes here; they cost the same.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from importlib import resources
from typing import Any, Generic, NamedTuple, TypeVar

from aiosql import SQLParseException
from aiosql.adapters.ageneric import AsyncGenericAdapter
from aiosql.query_loader import QueryLoader
from psycopg import AsyncCursor

from launchbay.limits import LIST_CHUNK_ROWS
from launchbay.store.database import Connection

T = TypeVar("T")


class Change:
    """A statement that changes rows and answers how many."""

    __slots__ = ("_text", "name")

    def __init__(self, name: str, text: bytes) -> None:
        self.name = name
        self._text = text

    async def __call__(self, connection: Connection, /, **parameters: Any) -> int:
        """Execute it; return the number of rows."""
        return (await connection.execute(self._text, parameters)).rowcount

    async def each(self, connection: Connection, /, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Execute it once for each set of parameters, without waiting for the answers in between."""
        async with connection.cursor() as cursor:
            await cursor.executemany(self._text, parameters)


class Value(Generic[T]):
    """A statement that answers one value, or None where there is no row."""

    __slots__ = ("_text", "name")

    def __init__(self, name: str, text: bytes) -> None:
        self.name = name
        self._text = text

    async def __call__(self, connection: Connection, /, **parameters: Any) -> T | None:
        """Execute it; return the first column of the first row."""
        values = await (await connection.execute(self._text, parameters)).fetchone()
        return None if values is None else values[0]


class _Rows(Generic[T]):
    __slots__ = ("_fields", "_make", "_text", "name")

    def __init__(self, name: str, text: bytes, row: Callable[..., T]) -> None:
        self.name = name
        self._text = text
        self._make: Callable[[tuple[Any, ...]], T] = getattr(row, "_make", None) or (lambda values: row(*values))
        self._fields: tuple[str, ...] | None = row.__match_args__  # type: ignore[attr-defined] # dataclasses, tuples, structs

    async def _execute(self, connection: Connection, parameters: dict[str, Any]) -> AsyncCursor[tuple[Any, ...]]:
        cursor = await connection.execute(self._text, parameters)
        if self._fields is not None:
            self._compare(cursor)
        return cursor

    def _compare(self, cursor: AsyncCursor[tuple[Any, ...]]) -> None:
        columns = tuple(column.name for column in cursor.description or ())
        assert columns == self._fields, f"{self.name} answers the columns {columns}, its row has {self._fields}"
        self._fields = None


class Row(_Rows[T]):
    """A statement that answers one row, or None."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> T | None:
        """Execute it; return the first row."""
        values = await (await self._execute(connection, parameters)).fetchone()
        return None if values is None else self._make(values)


class Rows(_Rows[T]):
    """A statement that answers any number of rows."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> list[T]:
        """Execute it; return all rows. For lists without a bound there is `chunks`."""
        make = self._make
        return [make(values) for values in await (await self._execute(connection, parameters)).fetchall()]

    async def chunks(self, connection: Connection, /, **parameters: Any) -> AsyncGenerator[list[T], None]:
        """Stream the rows in lists of LIST_CHUNK_ROWS: memory does not grow with them (api-decisions, "Wire" 9).

        The next list is fetched while the caller works on this one; until the end the connection is the stream's alone.
        It must be in a transaction. Close the stream (`contextlib.aclosing`) where the loop may end early.
        """
        make = self._make
        async with connection.cursor(name=self.name) as cursor:
            await cursor.execute(self._text, parameters)
            if self._fields is not None:
                self._compare(cursor)
            coming = asyncio.ensure_future(cursor.fetchmany(LIST_CHUNK_ROWS))
            try:
                while chunk := await coming:
                    if len(chunk) == LIST_CHUNK_ROWS:
                        coming = asyncio.ensure_future(cursor.fetchmany(LIST_CHUNK_ROWS))
                        await asyncio.sleep(0)  # so that the request is on its way, and others have their turn
                    yield [make(values) for values in chunk]
                    if len(chunk) < LIST_CHUNK_ROWS:
                        return
            finally:
                # A fetch that nobody waits for still has the connection, and to cancel it would spoil the transaction.
                if not coming.done():
                    await asyncio.wait([coming])


class Statements:
    """The statements of one noun, waiting to be bound."""

    def __init__(self, noun: str, texts: Mapping[str, bytes]) -> None:
        self._noun = noun
        self._texts = texts

    def row(self, name: str, row: type[T]) -> Row[T]:
        """Bind a statement that answers at most one row."""
        return Row(name, self.text(name), row)

    def rows(self, name: str, row: type[T]) -> Rows[T]:
        """Bind a statement that answers rows."""
        return Rows(name, self.text(name), row)

    def value(self, name: str, _kind: type[T]) -> Value[T]:
        """Bind a statement that answers one value; its type is for the reader and the type checker."""
        return Value(name, self.text(name))

    def change(self, name: str) -> Change:
        """Bind a statement that changes rows and answers none."""
        return Change(name, self.text(name))

    def text(self, name: str) -> bytes:
        """Return a statement as it is sent. Raises LookupError when the file has none of this name."""
        if name not in self._texts:
            raise LookupError(f"queries/{self._noun}.sql has no statement {name!r}; it has {', '.join(self._texts)}.")
        return self._texts[name]

    def names(self) -> list[str]:
        """Return the names of all statements, in the order of the file."""
        return list(self._texts)


def load(noun: str) -> Statements:
    """Read `queries/<noun>.sql`. Raises ValueError for a file that aiosql cannot read or that has a name twice."""
    text = (resources.files("launchbay.store") / "queries" / f"{noun}.sql").read_text("utf-8")
    loader = QueryLoader(AsyncGenericAdapter(), None, mandatory_parameters=False)
    try:
        found = loader.load_query_data_from_sql(text, [], f"{noun}.sql")
    except SQLParseException as error:
        raise ValueError(f"queries/{noun}.sql cannot be read: {error}") from error
    texts = {query.query_name: query.sql.encode() for query in found}
    if len(texts) != len(found):
        raise ValueError(f"queries/{noun}.sql has two statements of one name.")
    return Statements(noun, texts)


class AddressRow(NamedTuple):
    """An object with an address that is kept in the clear."""

    id: str
    url: str
