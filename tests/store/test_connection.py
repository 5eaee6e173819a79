"""What the product's own way through a connection adds to psycopg's: round trips, deferred statements, parameters."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from launchbay.store import connection as connections
from launchbay.store.connection import BoundedConnection, Statement
from launchbay.store.database import Database, OutcomeUnknown, conninfo
from launchbay.store.statements import Change, Column, Query, Value, first_row
from tests.support.databases import Databases, row_of
from tests.support.eventually import eventually

insert = Change("insert", b"INSERT INTO organizations (id, name) VALUES (%(id)s, %(name)s)")
names: Column[str] = Column("names", b"SELECT name FROM organizations ORDER BY name")
prepared: Value[int] = Value("prepared", b"SELECT count(*) FROM pg_prepared_statements")
PREPARED = b"SELECT count(*) FROM pg_prepared_statements"


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: some end its connections."""
    return fresh_database


@pytest.fixture
async def connection(database: Database) -> AsyncIterator[BoundedConnection]:
    async with await BoundedConnection.connect(conninfo(database.url), autocommit=True) as alone:
        yield alone


@pytest.fixture
def exchanges(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """Collects the statements of each round trip."""
    made: list[list[bytes]] = []
    exchange = BoundedConnection._exchange

    async def collecting(self: BoundedConnection, statements: Any) -> Any:
        made.append([statement.text for statement in statements])
        return await exchange(self, statements)

    monkeypatch.setattr(BoundedConnection, "_exchange", collecting)
    return made


async def test_a_transaction_begins_with_its_first_statement(database: Database, exchanges: list[list[bytes]]) -> None:
    async with database.transaction() as connection:
        await insert(connection, id="a", name="A")
        await insert(connection, id="b", name="B")
    assert [len(made) for made in exchanges] == [2, 1, 1]
    assert (exchanges[0][0], exchanges[2][0]) == (b"BEGIN", b"COMMIT")


async def test_a_transaction_without_statements_costs_no_round_trip(
    database: Database, exchanges: list[list[bytes]]
) -> None:
    async with database.transaction():
        pass
    assert exchanges == []


async def test_deferred_statements_are_one_transaction_in_one_round_trip(
    database: Database, exchanges: list[list[bytes]]
) -> None:
    async with database.transaction() as connection:
        insert.later(connection, id="a", name="A")
        insert.later(connection, id="b", name="B")
        assert exchanges == []
    assert [len(made) for made in exchanges] == [2]

    async def fail() -> None:
        async with database.transaction() as connection:
            insert.later(connection, id="c", name="C")
            insert.later(connection, id="a", name="A")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await fail()
    async with database.connection() as connection:
        assert await names(connection) == ["A", "B"]


async def test_a_statement_sees_what_was_deferred_before_it(database: Database, exchanges: list[list[bytes]]) -> None:
    async with database.transaction() as connection:
        insert.later(connection, id="a", name="A")
        assert await names(connection) == ["A"]
    assert [len(made) for made in exchanges] == [3, 1]


async def test_a_read_before_the_first_change_does_not_begin_the_transaction(
    database: Database, exchanges: list[list[bytes]]
) -> None:
    read = Query("read", b"SELECT name FROM organizations WHERE id = %(id)s")
    async with database.transaction() as connection:
        assert first_row(connection, await read(connection, id="a")) is None
        insert.later(connection, id="a", name="A")
        assert first_row(connection, await read(connection, id="a")) == ("A",)
    assert [len(made) for made in exchanges] == [1, 3, 1]


async def test_psycopgs_own_way_sees_the_transaction_too(database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as connection:
            insert.later(connection, id="a", name="A")
            async with connection.transaction():
                await connection.execute("INSERT INTO organizations (id, name) VALUES ('b', 'B')")
            assert await names(connection) == ["A", "B"]
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await fail()
    async with database.connection() as connection:
        assert await names(connection) == []


async def test_a_connection_lost_with_the_deferred_statements_makes_the_outcome_unknown(database: Database) -> None:
    async def lose() -> None:
        async with database.transaction() as connection:
            pid = connection.info.backend_pid
            async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as admin:
                await admin.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
            insert.later(connection, id="a", name="A")

    with pytest.raises(OutcomeUnknown):
        await lose()
    async with database.connection() as connection:
        assert await names(connection) == []


@pytest.mark.parametrize("deferred", [0, 2])
async def test_a_cancelled_statement_ends_on_the_server_and_the_connection_serves_on(
    connection: BoundedConnection, deferred: int
) -> None:
    connection.begin()
    for number in range(deferred):
        insert.later(connection, id=f"{number}", name=f"{number}")
    task = asyncio.create_task(connection.run(Statement(b"SELECT pg_sleep(60)")))
    async with asyncio.timeout(20):
        async with await psycopg.AsyncConnection.connect(connection.info.dsn, autocommit=True) as admin:
            active = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND query LIKE '%%pg_sleep%%'"
            await eventually(lambda: row_of(admin, active, connection.info.backend_pid), lambda found: found == (1,))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert connection.in_failed_transaction
        await connection.roll_back_transaction()
        assert await names(connection) == []


async def forget_socket(connection: BoundedConnection) -> None:
    """Let the event loop lose the registration of the socket that a statement waits for."""
    while connection._reader is None:
        await asyncio.sleep(0)
    asyncio.get_running_loop().remove_reader(connection.fileno())


async def test_an_answer_that_the_event_loop_does_not_report_is_read_all_the_same(
    connection: BoundedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.02)
    answer = asyncio.create_task(connection.run(Statement(b"SELECT pg_sleep(0.05)")))
    async with asyncio.timeout(5.0):
        await forget_socket(connection)
        await answer
        assert (await connection.run(Statement(b"SELECT 1"))).ntuples == 1


async def test_a_server_that_does_not_answer_in_time_loses_the_connection(
    connection: BoundedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LOOK_S", 0.02)
    monkeypatch.setattr(connection, "timeout_s", 0.05)
    answer = asyncio.create_task(connection.run(Statement(b"SELECT pg_sleep(60)")))
    async with asyncio.timeout(5.0):
        await forget_socket(connection)
        with pytest.raises(psycopg.OperationalError):
            await answer


@pytest.mark.slow
async def test_statements_larger_than_the_sockets_buffers_pass(database: Database) -> None:
    echo: Value[str] = Value("echo", b"SELECT %(text)s::text || 'x'")
    text = "y" * 20_000_000
    async with database.transaction() as connection:
        for _ in range(3):
            assert await echo(connection, text=text) == text + "x"


async def test_values_arrive_as_they_were(connection: BoundedConnection) -> None:
    echo: Value[Any] = Value("echo", b"SELECT %(value)s::text[]")
    texts = ['a"b', "a\\b", "{}", "", "NULL", None, "ä, €", "line\nline", " "]
    assert await echo(connection, value=texts) == texts
    for kind, value in [
        ("text", "100% 'quoted' \\"),
        ("bigint", -(2**60)),
        ("boolean", False),
        ("double precision", 0.1),
        ("bytea", bytes(range(256))),
        ("timestamptz", datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)),
        ("integer[]", [1, None, -3]),
        ("text[]", [["a", "b"], ["c", "d"]]),
        ("bytea[]", [b"\\\x00", None]),
        ("text", None),
    ]:
        typed: Value[Any] = Value("typed", f"SELECT %(value)s::{kind}".encode())
        for _ in range(3):  # the second use prepares it, the third one uses that
            assert await typed(connection, value=value) == value


async def test_text_that_postgresql_cannot_store_is_refused_before_it_is_cut_off(connection: BoundedConnection) -> None:
    echo: Value[str] = Value("echo", b"SELECT %(value)s::text")
    with pytest.raises(psycopg.DataError, match="NUL"):
        await echo(connection, value="a\0b")
    with pytest.raises(psycopg.DataError, match="NUL"):
        await echo(connection, value=["a\0b"])
    with pytest.raises(psycopg.ProgrammingError, match="object"):
        await echo(connection, value=object())


async def test_a_statement_is_prepared_at_its_second_use(connection: BoundedConnection) -> None:
    counts = [first_row(connection, await connection.run(Statement(PREPARED))) for _ in range(3)]
    assert counts == [(0,), (1,), (1,)]


async def test_a_connection_forgets_its_statements_when_they_are_too_many(
    connection: BoundedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PREPARED_STATEMENTS", 5)
    for number in range(20):
        for _ in range(2):
            await connection.run(Statement(b"SELECT %d" % number))
    assert (await prepared(connection) or 0) <= 6
    assert first_row(connection, await connection.run(Statement(b"SELECT 1"))) == (1,)


async def test_many_shapes_of_lists_push_out_no_other_statement(
    connection: BoundedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "PREPARED_SHAPES", 4)
    for _ in range(2):
        await connection.run(Statement(PREPARED))
    for number in range(20):
        for _ in range(3):
            found = await connection.run(Statement(b"SELECT %d" % number, is_shape=True))
            assert first_row(connection, found) == (number,)
    # itself, and the shapes that are left
    assert 1 < (await prepared(connection) or 0) <= 6


async def test_a_statement_that_fails_to_be_prepared_says_why_each_time(connection: BoundedConnection) -> None:
    for _ in range(4):
        with pytest.raises(psycopg.errors.UndefinedTable):
            await connection.run(Statement(b"SELECT * FROM nowhere"))
    await connection.execute("CREATE TEMPORARY TABLE nowhere (id int)")
    for _ in range(4):
        assert (await connection.run(Statement(b"SELECT * FROM nowhere"))).ntuples == 0


async def test_a_notification_that_comes_with_an_answer_is_not_lost(connection: BoundedConnection) -> None:
    await connection.execute("LISTEN something")
    await connection.run(Statement(b"NOTIFY something, 'heard'"))
    heard = [each.payload async for each in connection.notifies(timeout=5.0, stop_after=1)]
    assert heard == ["heard"]


async def test_callers_get_connections_in_turn_and_one_that_gives_up_takes_none_along(databases: Databases) -> None:
    async with Database(url := databases.create(), connections=1) as database:
        turns: list[int] = []

        async def take(number: int) -> None:
            async with database.connection() as connection:
                turns.append(number)
                await connection.run(Statement(b"SELECT 1"))

        async with database.connection():
            tasks = []
            for number in range(5):
                tasks.append(asyncio.create_task(take(number)))
                while database.pool.waiting < number + 1:
                    await asyncio.sleep(0)
            tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert turns == [0, 1, 3, 4]
        assert (database.pool.used, database.pool.idle, database.pool.waiting) == (0, 1, 0)
    databases.drop(url)


@pytest.mark.parametrize("uses", [1, 3])  # of one text: the third time it goes by its name, without a pipeline
@pytest.mark.parametrize("count", [1, 2])
async def test_a_commit_that_fails_after_its_statements_have_succeeded_is_an_error(
    connection: BoundedConnection, uses: int, count: int
) -> None:
    await connection.execute("CREATE TABLE seats (number text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    take = Statement(b"INSERT INTO seats VALUES ($1)", [b"1"])
    for number in range(1, uses):
        await connection.run_all([take._replace(parameters=[b"free %d" % number])])
    await connection.execute("INSERT INTO seats VALUES ('1')")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await connection.run_all([take, *[Statement(b"SELECT 1")] * (count - 1)])
    assert await (await connection.execute("SELECT count(*) FROM seats WHERE number = '1'")).fetchone() == (1,)
