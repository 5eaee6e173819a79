"""Connections that give up a database which takes everything and answers nothing (decision 0082)."""

import asyncio
import gc

import psycopg
import pytest

from launchbay.errors import Unavailable
from launchbay.store.connection import BoundedConnection
from launchbay.store.database import Database, conninfo


@pytest.fixture
def database(fresh_database: Database) -> Database:
    """A database for each test: its connections hang."""
    return fresh_database


async def test_an_answer_that_does_not_come_is_a_lost_connection(database: Database) -> None:
    async with await BoundedConnection.connect(conninfo(database.url), autocommit=True) as connection:
        connection.timeout_s = 0.2
        await connection.execute("SELECT 1")
        async with asyncio.timeout(10):
            with pytest.raises(psycopg.OperationalError):
                await connection.execute("SELECT pg_sleep(60)")
        assert connection.broken


async def test_a_connection_that_does_not_come_about_is_closed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psycopg.connection_async.timeout_from_conninfo", lambda parameters: 0.1)  # 2 s at least
    was_closed = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        was_closed.set()

    gc.disable()  # it would close what is forgotten some time later, in an idle server after minutes
    try:
        async with await asyncio.start_server(hang, "127.0.0.1", 0) as hanging:
            port = hanging.sockets[0].getsockname()[1]
            with pytest.raises(psycopg.errors.ConnectionTimeout) as raised:
                await BoundedConnection.connect(f"host=127.0.0.1 port={port} user=somebody dbname=any sslmode=disable")
            async with asyncio.timeout(5.0):
                await was_closed.wait()
        assert "timeout" in str(raised.value)
    finally:
        gc.enable()


async def test_listening_is_not_bounded_and_goes_on(database: Database) -> None:
    async with await BoundedConnection.connect(conninfo(database.url), autocommit=True) as connection:
        connection.timeout_s = 0.1
        await connection.execute("LISTEN something")
        assert [each async for each in connection.notifies(timeout=0.4)] == []
        await connection.execute("NOTIFY something, 'heard'")
        async for each in connection.notifies(timeout=5.0, stop_after=1):
            assert each.payload == "heard"


async def test_the_pool_replaces_what_hung(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedConnection, "timeout_s", 0.2)
    with pytest.raises(Unavailable):
        async with database.connection() as connection:
            await connection.execute("SELECT pg_sleep(60)")
    monkeypatch.undo()
    async with database.connection() as connection:
        assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
