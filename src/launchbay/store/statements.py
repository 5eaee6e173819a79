"""Typed statements, read from `queries/<aggregate>.sql` or a feature's `statements.sql`.

To add a statement, write it into the file of its aggregate. The comment under its name explains it; parameters are
psycopg's own, `%(name)s`:

    -- name: list_by_organization
    -- The applications of an organization, by name.
    SELECT id, name, latest_version FROM applications WHERE organization_id = %(organization_id)s ORDER BY name;

Then bind it under the same name in `store/<aggregate>.py` (of a feature in its `rows.py`, with
`load("features.<name>")`), with the class of its rows:

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

A statement of a transaction whose result nobody needs can wait for the next one, or else for the commit:
`audit.insert.later(connection, …)`. That saves a round trip. Its errors come from there, too.

`{visible(application_id, instance_id, environment_id)}` is the condition for instances that the caller may see.

aiosql reads the files. Its own adapter returns untyped rows, so the classes here execute the statements.
"""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import psycopg
from aiosql import SQLParseException
from aiosql.adapters.ageneric import AsyncGenericAdapter
from aiosql.query_loader import _QUERY_DEF, QueryLoader
from psycopg.pq.abc import PGresult

from launchbay.limits import LIST_CHUNK_ROWS
from launchbay.store.connection import Statement
from launchbay.store.database import CommitGroup, Connection

T = TypeVar("T")
_SEEN, _SEEN_END = b"/* seen */", b"/* end */"
_CONDITION = re.compile(re.escape(_SEEN) + rb".*?" + re.escape(_SEEN_END), re.DOTALL)
SHAPES = 100  # kept of each statement; a connection prepares a text at its second use
_LITERALS = {None: b"NULL", True: b"true", False: b"false"}
_PARAMETER = re.compile(r"%(?:%|\((\w+)\)s)")


class Shape(NamedTuple):
    """Says which sets of optional conditions of a list are prepared.

    Each set is a statement (decision 0233). `constants` have few values, which are part of its text, as are NULL and
    booleans. `free` may have any value, since the plan is the same. If another parameter is given, the list is planned
    for its values.
    """

    constants: frozenset[str]
    free: frozenset[str]


class _Statement:
    __slots__ = ("_is_prepared", "_is_shape", "_parameters", "_shape", "_shaped", "_text", "_whole", "name", "text")

    def __init__(
        self, name: str, text: bytes, *, is_prepared: bool = True, shape: Shape | None = None, is_shape: bool = False
    ) -> None:
        self.name = name
        self.text = text
        self._is_shape = is_shape
        self._is_prepared = is_prepared and shape is None
        self._shape = shape
        self._shaped: dict[tuple[Any, ...], _Statement] = {}
        self._text, self._parameters = _numbered(text.decode())
        # With the condition of what the caller may see, each caller has a plan of their own.
        # Who sees everything needs no condition.
        self._whole: _Statement | None = None
        if _SEEN in text:
            self._is_prepared = False
            self._whole = _Statement(name, _CONDITION.sub(b"TRUE", text), is_prepared=is_prepared, shape=shape)
            self._shape = None

    def _filled(self, parameters: Mapping[str, Any]) -> Statement:
        if self._whole is not None and parameters["seen"] is None and parameters["scoped"] is None:
            return self._whole._filled(parameters)  # noqa: SLF001 - of its own kind
        if self._shape is not None and (shaped := self._shaped_for(parameters, self._shape)) is not None:
            return shaped._filled(parameters)  # noqa: SLF001 - of its own kind
        # Most parameters are short strings or None: a call for each costs more than its text.
        values = [
            value.encode()
            if type(value) is str and "\0" not in value
            else None
            if value is None
            else _CONVERSIONS.get(type(value), _to_text)(value)
            for value in [parameters[name] for name in self._parameters]
        ]
        return Statement(self._text, values, self._is_prepared, self._is_shape)

    def _shaped_for(self, parameters: Mapping[str, Any], shape: Shape) -> "_Statement | None":
        """Return the statement that is prepared for these conditions.

        It is None if it must be planned for their values.
        """
        fixed: list[bytes | None] = []  # by parameter, what the statement has in its place
        for name in self._parameters:
            value = parameters[name]
            if value is None or value is True or value is False:
                fixed.append(_LITERALS[value])
            elif name in shape.constants:
                fixed.append(b"'%s'" % (_to_text(value) or b"").replace(b"'", b"''"))
            elif name in shape.free:
                fixed.append(None)
            else:
                return None
        key = tuple(fixed)
        found = self._shaped.pop(key, None)
        if found is None:
            if len(self._shaped) >= SHAPES:
                del self._shaped[next(iter(self._shaped))]
            found = _Statement(self.name, self._with_literals(fixed), is_shape=True)
        self._shaped[key] = found  # at the end: the first one was used longest ago
        return found

    def _with_literals(self, fixed: Sequence[bytes | None]) -> bytes:
        literals = dict(zip(self._parameters, fixed, strict=True))

        def fill(found: re.Match[str]) -> str:
            literal = literals[found[1]] if found[1] else None
            return found[0] if literal is None else literal.decode()

        return _PARAMETER.sub(fill, self.text.decode()).encode()

    def later(self, connection: Connection, /, **parameters: Any) -> None:
        """Send it with the transaction's next statement, or else with its commit."""
        connection.defer(self._filled(parameters))


class Query(_Statement):
    """A read whose result the caller decodes (`columns`, `first_row`). It doesn't begin a transaction."""

    __slots__ = ()

    def later(self, connection: Connection, /, **parameters: Any) -> None:
        """Send it with the transaction's next statement, or else with its commit."""
        connection.defer(self._filled(parameters), is_read=True)

    def __call__(self, connection: Connection, /, **parameters: Any) -> Awaitable[PGresult]:
        return connection.run(self._filled(parameters), begins=False)


class Change(_Statement):
    """A statement that returns how many rows it changed."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> int:
        return (await connection.run(self._filled(parameters))).command_tuples or 0

    async def each(self, connection: Connection, /, parameters: Iterable[Mapping[str, Any]]) -> None:
        """Execute it once for each set of parameters, in one round trip."""
        await connection.run_all([self._filled(each) for each in parameters])


class Value(_Statement, Generic[T]):
    """A statement that returns one value."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> T | None:
        values = first_row(connection, await connection.run(self._filled(parameters)))
        return None if values is None else values[0]


class Column(_Statement, Generic[T]):
    """A statement that returns a list of values."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> list[T]:
        return [values[0] for values in _all_rows(connection, await connection.run(self._filled(parameters)), tuple)]


class _Rows(_Statement, Generic[T]):
    __slots__ = ("_fields", "_make")

    def __init__(
        self,
        name: str,
        text: bytes,
        row: Callable[..., T],
        *,
        is_prepared: bool = True,
        shape: Shape | None = None,
    ) -> None:
        super().__init__(name, text, is_prepared=is_prepared, shape=shape)
        self._make: Callable[[Sequence[Any]], T] = getattr(row, "_make", None) or (lambda values: row(*values))
        self._fields: tuple[str, ...] | None = row.__match_args__  # type: ignore[attr-defined] # dataclasses, tuples, structs

    async def _run(self, connection: Connection | CommitGroup, parameters: dict[str, Any]) -> PGresult:
        result = await connection.run(self._filled(parameters))
        if self._fields is not None:
            self._compare(columns(result))
        return result

    def _compare(self, found: tuple[str, ...]) -> None:
        assert found == self._fields, f"{self.name} returns the columns {found}, its row has {self._fields}"
        self._fields = None


class Row(_Rows[T]):
    """A statement that returns at most one row."""

    __slots__ = ()

    async def __call__(self, connection: Connection | CommitGroup, /, **parameters: Any) -> T | None:
        values = first_row(connection, await self._run(connection, parameters))
        return None if values is None else self._make(values)


class Rows(_Rows[T]):
    """A statement that returns any number of rows."""

    __slots__ = ()

    async def __call__(self, connection: Connection, /, **parameters: Any) -> list[T]:
        """Return all rows. Use `chunks` for lists without a bound."""
        return _all_rows(connection, await self._run(connection, parameters), self._make)

    async def chunks(
        self,
        lend: Callable[[], AbstractAsyncContextManager[Connection]],
        /,
        *,
        after: Any,
        limit: int | None,
        **parameters: Any,
    ) -> AsyncGenerator[list[T], None]:
        """Stream the rows after an ID in lists of up to LIST_CHUNK_ROWS ("Wire" 9).

        The statement takes `after` and `limit`, and orders its rows by `id`. Each list comes through a loan of its own:
        a client that reads slowly, or waits for a turn, holds no connection.
        """
        left = limit
        while left is None or left > 0:
            count = LIST_CHUNK_ROWS if left is None else min(left, LIST_CHUNK_ROWS)
            async with lend() as connection:
                rows = await self(connection, after=after, limit=count, **parameters)
            if rows:
                yield rows
            if len(rows) < count:
                return
            after = rows[-1].id  # type: ignore[attr-defined] # what such a statement orders by
            left = None if left is None else left - count


class Look(_Statement):
    """Several reads in one statement, which says of each whether it has rows.

    Reads share the parameters of one name.
    """

    __slots__ = ()

    def __init__(self, reads: Sequence[_Statement]) -> None:
        exists = b",\n".join(b"EXISTS (\n%s\n)" % read.text.strip().rstrip(b";") for read in reads)
        super().__init__("look", b"SELECT " + exists)

    async def __call__(self, connection: Connection, /, **parameters: Any) -> tuple[bool, ...]:
        """Return whether each read has rows."""
        found = first_row(connection, await connection.run(self._filled(parameters)))
        assert found is not None, "a SELECT without FROM gives a row"
        return found


def _numbered(text: str) -> tuple[bytes, tuple[str, ...]]:
    """Return a statement with `$1` for `%(name)s`, and the names in order."""
    names = list(dict.fromkeys(name for name in _PARAMETER.findall(text) if name))

    def number(found: re.Match[str]) -> str:
        return "%" if found[1] is None else f"${names.index(found[1]) + 1}"

    return _PARAMETER.sub(number, text).encode(), tuple(names)


def columns(result: PGresult) -> tuple[str, ...]:
    """Return the names of a result's columns."""
    return tuple((result.fname(number) or b"").decode() for number in range(result.nfields))


def first_row(connection: Connection | CommitGroup, result: PGresult) -> tuple[Any, ...] | None:
    """Return the values of a result's first row, or None if it has none."""
    if not result.ntuples:
        return None
    connection.decoder.set_pgresult(result)
    return connection.decoder.load_row(0, tuple)


def _all_rows(connection: Connection, result: PGresult, make: Callable[[Sequence[Any]], T]) -> list[T]:
    connection.decoder.set_pgresult(result)
    return connection.decoder.load_rows(0, result.ntuples, make)


# Parameters go as text, of no stated type: PostgreSQL infers the types, so that a statement is prepared once. psycopg
# states those of the values, and prepares a statement again for each combination of them.


def _to_text(value: Any) -> bytes | None:
    convert = _CONVERSIONS.get(type(value))
    if convert is not None:
        return convert(value)
    if isinstance(value, str):
        return _string(value)
    raise psycopg.ProgrammingError(f"A statement can't have a parameter of the type {type(value).__name__}.")


def _string(value: str) -> bytes:
    data = str.encode(value)  # of a StrEnum its value
    if b"\0" in data:
        raise psycopg.DataError("PostgreSQL text can't contain NUL characters.")
    return data


def _array(values: Sequence[Any]) -> bytes:
    return _string(_array_text(values)) if values else b"{}"


def _array_text(values: Sequence[Any]) -> str:
    # As above: a call for each short string would cost more than its text.
    parts = [
        f'"{value}"' if type(value) is str and '"' not in value and "\\" not in value else _element(value)
        for value in values
    ]
    return "{" + ",".join(parts) + "}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    kind = type(value)
    if kind is int:
        return str(value)
    if kind is datetime:
        return f'"{value}"'
    if kind is not str and isinstance(value, list | tuple):
        return _array_text(value)
    if isinstance(value, str):
        return _quoted(value)
    data = _to_text(value)
    return "NULL" if data is None else _element(data.decode())


_CONVERSIONS: dict[type, Callable[[Any], bytes | None]] = {
    str: _string,
    type(None): lambda _: None,
    bool: lambda value: b"t" if value else b"f",
    int: lambda value: b"%d" % value,
    float: lambda value: repr(value).encode(),
    bytes: lambda value: b"\\x" + value.hex().encode(),
    datetime: lambda value: str(value).encode(),
    list: _array,
    tuple: _array,
}


class Statements:
    """The statements of one aggregate, to be bound to types."""

    def __init__(self, aggregate: str, texts: Mapping[str, bytes]) -> None:
        self._aggregate = aggregate
        self._texts = texts

    def row(self, name: str, row: type[T]) -> Row[T]:
        return Row(name, self.text(name), row)

    def rows(self, name: str, row: type[T], *, is_prepared: bool = True, shape: Shape | None = None) -> Rows[T]:
        """Bind a statement that returns rows.

        One with many optional conditions isn't prepared: planned with its parameters, it has only those that it needs.
        """
        return Rows(name, self.text(name), row, is_prepared=is_prepared, shape=shape)

    def value(self, name: str, _kind: type[T]) -> Value[T]:
        """Bind a statement that returns one value; its type serves the type checker."""
        return Value(name, self.text(name))

    def column(self, name: str, _kind: type[T]) -> Column[T]:
        """Bind a statement that returns rows of one value; its type serves the type checker."""
        return Column(name, self.text(name))

    def query(self, name: str) -> Query:
        return Query(name, self.text(name))

    def change(self, name: str) -> Change:
        return Change(name, self.text(name))

    def text(self, name: str) -> bytes:
        """Return a statement as it is sent. Raises LookupError for an unknown name."""
        if name not in self._texts:
            raise LookupError(f"{self._aggregate} has no statement {name!r}. It has {', '.join(self._texts)}.")
        return self._texts[name]

    def names(self) -> list[str]:
        """Return the names of all statements, in the order of the file."""
        return list(self._texts)


# What the caller may see, by the roles and by the scope of the access token. The parameters are `InstancePatterns` of
# `auth/gate.py`. PostgreSQL plans such a statement with the parameters, and what they don't need folds away (0191). Who
# sees nothing has a plan that reads nothing. Exact applications and environments are left as conditions that an index
# serves, and one of them as a value, by which an index has its rows in the order of a list. Arrays are hashed once. For
# those who see everything, the statement is sent without it, and can be prepared.
_VISIBLE = re.compile(r"\{visible\(([\w.]+), ([\w.]+), ([\w.]+)\)\}")
_VISIBLE_SQL = """\
(%(seen)s::text[] IS NULL
 OR cardinality(%(seen_whole)s::text[]) > 0 AND CASE cardinality(%(seen_whole)s::text[])
     WHEN 1 THEN APPLICATION = (%(seen_whole)s::text[])[1] ELSE APPLICATION = ANY (%(seen_whole)s::text[]) END
 OR cardinality(%(seen_places)s::text[]) > 0 AND CASE cardinality(%(seen_places)s::text[])
     WHEN 1 THEN ENVIRONMENT = (%(seen_places)s::text[])[1] ELSE ENVIRONMENT = ANY (%(seen_places)s::text[]) END
 OR cardinality(%(seen)s::text[]) > 0
    AND (%(seen_named)s::text[] IS NULL OR APPLICATION = ANY (%(seen_named)s::text[])
         OR INSTANCE = ANY (%(seen_named)s::text[]))
    AND (%(seen_named_environments)s::text[] IS NULL OR ENVIRONMENT = ANY (%(seen_named_environments)s::text[]))
    AND EXISTS (
        SELECT FROM unnest(%(seen)s::text[], %(seen_instances)s::text[], %(seen_entries)s::integer[])
            AS seen (application, instance, entry)
        WHERE APPLICATION LIKE seen.application AND INSTANCE LIKE seen.instance AND seen.entry = ANY (ARRAY(
            SELECT place.entry
            FROM unnest(%(seen_environments)s::text[], %(seen_environment_entries)s::integer[])
                AS place (environment, entry)
            WHERE ENVIRONMENT LIKE place.environment))))"""


def _visible(found: re.Match[str]) -> str:
    """Return the condition for `{visible(application_id, instance_id, environment_id)}`, with these columns."""
    text = _VISIBLE_SQL
    for word, column in zip(("APPLICATION", "INSTANCE", "ENVIRONMENT"), found.groups(), strict=True):
        text = re.sub(rf"\b{word}\b", column, text)
    return f"{_SEEN.decode()} {text} AND {text.replace('%(seen', '%(scoped')} {_SEEN_END.decode()}"


def aggregates() -> list[str]:
    """Return what `load` takes, by name: the aggregates of the kernel, then those of features."""
    own = (entry.name for entry in (resources.files("launchbay.store") / "queries").iterdir())
    features = (entry for entry in resources.files("launchbay.features").iterdir() if entry.is_dir())
    return [
        *sorted(name.removesuffix(".sql") for name in own if name.endswith(".sql")),
        *sorted(f"features.{entry.name}" for entry in features if (entry / "statements.sql").is_file()),
    ]


def _file(aggregate: str) -> Traversable:
    place, _, feature = aggregate.rpartition(".")
    if place:
        return resources.files(f"launchbay.{aggregate}") / "statements.sql"
    return resources.files("launchbay.store") / "queries" / f"{feature}.sql"


class _Loader(QueryLoader):
    """aiosql's reader, without its search for `/* … */`."""

    # No file has such comments, and the search took a tenth of the start of a server.

    def load_query_data_from_sql(self, sql: str, ns_parts: list[str], fname: Path | str = "<unknown>") -> list[Any]:
        ends = [found.end() for found in _QUERY_DEF.finditer(sql)]
        starts = [*(found.start() for found in _QUERY_DEF.finditer(sql)), len(sql)][1:]
        return [
            self._make_query_datum(sql[start:end], ns_parts, (fname, 1 + sql.count("\n", 0, start)))
            for start, end in zip(ends, starts, strict=True)
        ]


def load(aggregate: str) -> Statements:
    """Read `queries/<aggregate>.sql`, or `statements.sql` of the feature for `features.<feature>`.

    Raises ValueError if aiosql can't read it or a name is duplicated.
    """
    text = _file(aggregate).read_text("utf-8")
    loader = _Loader(AsyncGenericAdapter(), None, mandatory_parameters=False)
    try:
        found = loader.load_query_data_from_sql(text, [], f"{aggregate}.sql")
    except SQLParseException as error:
        raise ValueError(f"Can't read the statements of {aggregate}: {error}") from error
    texts = {query.query_name: _VISIBLE.sub(_visible, query.sql).encode() for query in found}
    if len(texts) != len(found):
        raise ValueError(f"{aggregate} has two statements with the same name.")
    return Statements(aggregate, texts)
