"""A connection that breaks is "unavailable", whatever the last error on it was: poolers have codes of their own."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from launchbay.errors import Unavailable
from launchbay.ids import new_id
from launchbay.store.connection import Statement
from launchbay.store.database import Database, OutcomeUnknown, unavailable
from tests.support.databases import Databases
from tests.support.network import CuttingProxy, answered_by
from tests.support.service import running_api

CODES = ["08P01", "XX000", "42601", "58000", "0A000", "25P01"]  # of lost servers, of poolers, and of nobody


def error_message(code: str) -> bytes:
    fields = b"SERROR\0VERROR\0C" + code.encode() + b"\0Mserver conn crashed?\0\0"
    return b"E" + (len(fields) + 4).to_bytes(4, "big") + fields


@dataclass
class Refusing(CuttingProxy):
    """Answers what has these bytes in it with two errors, and closes."""

    wanted: bytes = b""
    code: str = ""

    def intercepts(self, data: bytes, writer: asyncio.StreamWriter) -> bool:
        if not self.wanted or self.wanted not in data:
            return False
        self.cuts += 1
        writer.write(2 * error_message(self.code))
        return True


@pytest.fixture
async def way(databases: Databases, tmp_path: Path) -> AsyncIterator[tuple[Database, Refusing]]:
    """A database, and what may refuse on the way to it."""
    url = databases.create()
    target = Path(str(conninfo_to_dict(url)["host"]))
    proxy = Refusing(target, tmp_path, Random(0))
    async with answered_by(proxy), Database(make_conninfo(url, host=str(tmp_path))) as database:
        yield database, proxy


async def insert(connection: Any) -> None:
    await connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'x')", [new_id()])


async def in_savepoint(database: Database) -> None:
    async with database.transaction() as outer:
        with database.joined(outer):
            async with database.transaction() as inner:
                await insert(inner)


async def fail(database: Database) -> None:
    async with database.transaction() as connection:
        await insert(connection)
        raise ZeroDivisionError


async def in_transaction(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.run(Statement(b"INSERT INTO organizations (id, name) VALUES ('x', 'x')"))


async def in_pipeline(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.run_all([Statement(b"SELECT 1"), Statement(b"SELECT 2"), Statement(b"SELECT 3")])


async def alone(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("SELECT 4")


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize(
    ("wanted", "work"),
    [(b"RELEASE", in_savepoint), (b"SAVEPOINT", in_savepoint), (b"SELECT 2", in_pipeline), (b"SELECT 4", alone)],
    ids=["release", "savepoint", "pipeline", "statement"],
)
async def test_two_errors_and_the_end_are_unavailable(
    way: tuple[Database, Refusing], wanted: bytes, work: Any, code: str
) -> None:
    database, proxy = way
    proxy.wanted, proxy.code = wanted, code
    with pytest.raises(Unavailable) as caught:
        await work(database)
    assert proxy.cuts == 1
    assert caught.value.retry_after_s
    proxy.wanted = b""
    await alone(database)  # which gets another connection


@pytest.mark.parametrize("code", CODES)
async def test_two_errors_at_the_commit_leave_the_outcome_open(way: tuple[Database, Refusing], code: str) -> None:
    database, proxy = way
    proxy.wanted, proxy.code = b"COMMIT", code
    with pytest.raises(OutcomeUnknown):
        await in_transaction(database)
    assert proxy.cuts == 1


@pytest.mark.parametrize("code", CODES)
async def test_an_idle_connection_that_refuses_is_replaced(way: tuple[Database, Refusing], code: str) -> None:
    database, proxy = way
    await alone(database)
    proxy.wanted, proxy.code = b"ROLLBACK", code  # what takes a connection back
    with pytest.raises(ZeroDivisionError):
        await fail(database)
    proxy.wanted = b""
    await alone(database)


async def test_a_server_that_became_a_standby_is_unavailable() -> None:
    found = unavailable(psycopg.errors.ReadOnlySqlTransaction())
    assert found is not None
    assert "unavailable" in str(found)
    assert "too long" not in str(found)


@pytest.mark.slow
async def test_a_launch_with_a_key_is_told_to_retry(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    proxy = Refusing(Path(str(conninfo_to_dict(url)["host"])), tmp_path, Random(0))
    async with answered_by(proxy), running_api(make_conninfo(url, host=str(tmp_path)), engine=False) as api:
        application = await api.application("launch: {steps: []}")
        proxy.wanted, proxy.code = b"RELEASE", "XX000"
        answer = await api.send(
            "POST", f"applications/{application}/launch", b"{}", idempotency_key="k", content_type="application/json"
        )
        proxy.wanted = b""
        assert (answer.status_code, proxy.cuts) == (503, 1), answer.text
        assert int(answer.headers["retry-after"]) > 0
