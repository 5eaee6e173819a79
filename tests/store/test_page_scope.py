"""The reads of a page: one connection, one snapshot, each statement once, those asked together in one round trip."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from starlette.responses import Response

from launchbay.console.request import PageRequest, PageRoute
from launchbay.errors import Unavailable
from launchbay.store.connection import BoundedConnection
from launchbay.store.database import Database, conninfo
from launchbay.store.page_scope import PageScope
from launchbay.store.statements import Change, Column, Value
from tests.support.statements import Reads, counted, note_statements

insert = Change("insert", b"INSERT INTO organizations (id, name) VALUES (%(id)s, %(name)s)")
names: Column[str] = Column("names", b"SELECT name FROM organizations ORDER BY name")
names_again: Column[str] = Column("names_again", b"SELECT name FROM organizations ORDER BY name ASC")
number: Value[int] = Value("number", b"SELECT %(value)s::integer")
quotient: Value[int] = Value("quotient", b"SELECT 1 / %(value)s::integer")
rest: Value[str] = Value("rest", b"SELECT pg_sleep(0.1)::text")
canceled: Value[int] = Value(
    "canceled", b"SELECT %(value)s::integer FROM pg_cancel_backend(pg_backend_pid()), pg_sleep(5)"
)
gone: Value[bool] = Value("gone", b"SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: some end its connections."""
    return fresh_database


@pytest.fixture
async def scope(database: Database) -> AsyncIterator[PageScope]:
    """A scope that has begun."""
    scope = PageScope(database.pool)
    scope.begin()
    yield scope
    await scope.end()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `counted` see what is sent."""
    note_statements(monkeypatch)


async def _number(database: Database, value: int) -> int | None:
    async with database.connection() as connection:
        return await number(connection, value=value)


async def _quotient(database: Database, value: int) -> int | None:
    async with database.connection() as connection:
        return await quotient(connection, value=value)


async def _too_long(database: Database, value: int) -> int | None:
    async with database.connection() as connection:
        return await canceled(connection, value=value)


async def _rest(database: Database) -> None:
    async with database.connection() as connection:
        await rest(connection)


async def _names(database: Database) -> list[str]:
    async with database.connection() as connection:
        return await names(connection)


async def _all_names(database: Database) -> list[str]:
    """Ask for the names by another statement, which was never asked before."""
    async with database.connection() as connection:
        return await names_again(connection)


def texts(reads: Reads) -> list[list[str]]:
    """Return the first word of each statement, by round trip."""
    return [[each.text.decode().split()[0] for each in trip] for trip in reads.trips]


@pytest.mark.usefixtures("reads")
async def test_reads_that_are_asked_together_take_one_round_trip(database: Database, scope: PageScope) -> None:
    with counted() as sent:
        asked = [scope.ask(_number(database, value)) for value in range(5)]
        assert [await each for each in asked] == [0, 1, 2, 3, 4]
    assert texts(sent) == [["BEGIN", *["SELECT"] * 5]]


@pytest.mark.usefixtures("reads")
async def test_a_statement_is_sent_once(database: Database, scope: PageScope) -> None:
    with counted() as sent:
        first, second = scope.ask(_number(database, 1)), scope.ask(_number(database, 1))
        assert (await first, await second, await _number(database, 1)) == (1, 1, 1)
    assert texts(sent) == [["BEGIN", "SELECT"]]


async def test_all_reads_see_one_moment(database: Database, scope: PageScope) -> None:
    assert await _number(database, 1) == 1
    async with await BoundedConnection.connect(conninfo(database.url), autocommit=True) as other:
        await insert(other, id="a", name="A")
    assert await _names(database) == []


async def test_a_transaction_ends_the_snapshot_and_needs_no_second_connection(
    database: Database, scope: PageScope
) -> None:
    assert await _names(database) == []
    async with database.transaction() as connection:
        assert database.pool.used == 1
        await insert(connection, id="a", name="A")
    assert await _names(database) == ["A"]


async def test_a_read_that_fails_fails_no_other_one(database: Database, scope: PageScope) -> None:
    before, wrong, after = (
        scope.ask(_number(database, 1)),
        scope.ask(_quotient(database, 0)),
        scope.ask(_number(database, 2)),
    )
    assert (await before, await after) == (1, 2)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await wrong
    assert await _number(database, 3) == 3


@pytest.mark.parametrize("read", [_quotient, _too_long])
async def test_a_read_that_fails_alone_fails_no_later_one(
    database: Database, scope: PageScope, read: Callable[[Database, int], Awaitable[int | None]]
) -> None:
    assert await _number(database, 1) == 1
    with pytest.raises((psycopg.errors.DivisionByZero, Unavailable, psycopg.errors.QueryCanceled)):
        await read(database, 0)
    assert await _number(database, 2) == 2


async def _added(database: Database, name: str) -> None:
    """Insert an organization over another connection."""
    async with await psycopg.AsyncConnection.connect(conninfo(database.url), autocommit=True) as connection:
        await connection.execute("INSERT INTO organizations (id, name) VALUES (%s, %s)", [name, name])


@pytest.mark.parametrize("read", [_quotient, _too_long])
@pytest.mark.parametrize("together", [False, True])
async def test_a_scope_can_keep_its_snapshot_after_a_read_that_fails(
    database: Database, read: Callable[[Database, int], Coroutine[Any, Any, int | None]], together: bool
) -> None:
    for keeps, added in ((True, "A"), (False, "B")):
        scope = PageScope(database.pool, keeps_snapshot=keeps)
        scope.begin()
        before = await _names(database)
        await _added(database, added)
        asked = [scope.ask(read(database, 0)), *([scope.ask(_number(database, 1))] if together else [])]
        await asyncio.wait(asked)
        assert asked[0].exception() is not None
        both = [await scope.ask(_number(database, 2)), await scope.ask(_all_names(database))]
        assert both == [2, before if keeps else [*before, added]]
        assert scope.is_torn is not keeps
        await scope.end()


async def test_a_page_that_is_shown_although_a_read_failed_is_of_one_moment(database: Database) -> None:
    shown: list[tuple[list[str], list[str]]] = []

    async def handler(request: PageRequest) -> Response:
        before = await _names(database)
        await _added(database, f"During {len(shown)}")
        with suppress(psycopg.errors.DivisionByZero):
            await request.ask(_quotient(database, 0))
        shown.append((before, await _all_names(database)))
        return Response("shown")

    http: Any = SimpleNamespace(method="GET")
    deps: Any = SimpleNamespace(app=SimpleNamespace(database=database))
    answer = await PageRoute("GET", "/console", handler).answer(PageRequest(http=http, deps=deps))
    assert (answer.body, len(shown)) == (b"shown", 2)
    assert shown[0][0] != shown[0][1]
    assert shown[1][0] == shown[1][1] == shown[0][1]
    assert database.pool.used == 0


async def test_a_connection_that_is_lost_is_an_error_of_all_reads(database: Database, scope: PageScope) -> None:
    async def _ends() -> None:
        async with database.connection() as connection:
            await gone(connection)

    asked = [scope.ask(_ends()), scope.ask(_ends()), scope.ask(_number(database, 1))]
    for each in asked:
        with pytest.raises(Unavailable):
            await each
    await scope.end()
    assert await _number(database, 2) == 2


async def test_a_scope_changes_nothing(database: Database, scope: PageScope) -> None:
    async with database.connection() as connection:
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            await insert(connection, id="a", name="A")


async def test_a_change_that_is_asked_together_with_reads_changes_nothing(database: Database, scope: PageScope) -> None:
    async def _insert() -> None:
        async with database.connection() as connection:
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
                await insert(connection, id="a", name="A")

    change, read = scope.ask(_insert()), scope.ask(_names(database))
    await change
    assert await read == []


async def test_the_connection_goes_back_before_the_page_is_rendered_and_at_its_end(database: Database) -> None:
    scope = PageScope(database.pool)
    scope.begin()
    assert await _number(database, 1) == 1
    assert database.pool.used == 1
    await scope.release()
    assert database.pool.used == 0
    left = scope.ask(_number(database, 2))  # that nobody waits for
    await asyncio.sleep(0)
    await scope.end()
    assert left.cancelled()
    assert database.pool.used == 0
    assert PageScope.current(database.pool) is None


@pytest.mark.parametrize("is_waiting", [False, True])
async def test_a_page_that_is_cancelled_again_and_again_gives_back_its_connection(
    database: Database, *, is_waiting: bool
) -> None:
    """As the stream of a browser that has gone is, at each place where it waits."""
    held = [await database.pool.lend() for _ in range(database.pool.most)] if is_waiting else []
    scope = PageScope(database.pool)

    async def _page() -> None:
        scope.begin()
        try:
            for read in [scope.ask(_rest(database)), scope.ask(_number(database, 1))]:
                await read
        finally:
            await scope.end()

    page = asyncio.create_task(_page())
    while not (database.pool.waiting if is_waiting else database.pool.used):
        await asyncio.sleep(0)
    while not page.done():
        page.cancel()
        await asyncio.sleep(0)
    for connection in held:
        await database.pool.take_back(connection)
    lent = [await database.pool.lend() for _ in range(database.pool.most)]  # raises Unavailable if one never comes back
    for connection in lent:
        await database.pool.take_back(connection)


async def test_a_read_that_is_cancelled_leaves_the_others_their_answers(database: Database, scope: PageScope) -> None:
    first, second = scope.ask(_number(database, 1)), scope.ask(_number(database, 2))
    await asyncio.sleep(0)
    first.cancel()
    assert await second == 2
    assert await _number(database, 1) == 1
