"""Loans that join a transaction: committed with it, rolled back with it, and by themselves."""

import asyncio

import pytest

from launchbay.ids import new_id
from launchbay.store.database import Connection, Database


async def insert(connection: Connection) -> str:
    made = new_id()
    await connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'x')", [made])
    return made


async def stored(database: Database) -> set[str]:
    async with database.connection() as connection:
        return {row[0] for row in await (await connection.execute("SELECT id FROM organizations")).fetchall()}


async def test_what_joins_is_committed_with_the_outer_transaction(database: Database) -> None:
    async with database.transaction() as outer:
        with database.joined(outer):
            async with database.transaction() as inner:
                assert inner is outer
                first = await insert(inner)
            async with database.connection() as lent:
                assert lent is outer
                second = await insert(lent)
        assert await stored(database) == set(), "others see nothing before the commit"
    assert await stored(database) == {first, second}


async def test_what_joins_is_rolled_back_with_the_outer_transaction(database: Database) -> None:
    async def fail_after_joining() -> None:
        async with database.transaction() as outer:
            with database.joined(outer):
                async with database.transaction() as inner:
                    await insert(inner)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await fail_after_joining()
    assert await stored(database) == set()


async def test_a_joined_transaction_that_fails_takes_back_only_its_own(database: Database) -> None:
    async def fail() -> None:
        async with database.transaction() as inner:
            await insert(inner)
            raise RuntimeError

    async with database.transaction() as outer:
        kept = await insert(outer)
        with database.joined(outer):
            with pytest.raises(RuntimeError):
                await fail()
            async with database.transaction() as inner:
                later = await insert(inner)
    assert await stored(database) == {kept, later}


async def test_after_the_block_loans_come_from_the_pool_again(database: Database) -> None:
    async with database.transaction() as outer:
        with database.joined(outer):
            pass
        async with database.connection() as lent:
            assert lent is not outer


async def test_other_tasks_do_not_join(database: Database) -> None:
    inside, done = asyncio.Event(), asyncio.Event()

    async def joining() -> Connection:
        async with database.transaction() as outer:
            with database.joined(outer):
                inside.set()
                await done.wait()
            return outer

    task = asyncio.create_task(joining())
    await inside.wait()
    async with database.connection() as lent:
        done.set()
        assert lent is not await task


async def test_another_database_is_not_joined(database: Database, database_url: str) -> None:
    async with Database(database_url, connections=2) as other, database.transaction() as outer:
        with database.joined(outer):
            async with other.connection() as lent:
                assert lent is not outer
