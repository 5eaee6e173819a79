"""Applying and upgrading the queue's tables, and the claim's plan."""

import asyncio
import hashlib
import time
from importlib import resources
from typing import Any

import pytest
from psycopg import AsyncConnection

from launchbay.engine.queue_schema import apply_schema, own_version
from launchbay.errors import CannotStart, Conflict
from launchbay.store import schema

MIGRATIONS = resources.files("procrastinate.sql") / "migrations"
SHAPE = """
SELECT 'column', table_name || '.' || column_name || ' ' || udt_name || ' ' || coalesce(column_default, '')
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'trigger', pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', regexp_replace(pg_get_functiondef(oid), '\\s+', ' ', 'g')
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
ORDER BY 1, 2
"""


async def connect(url: str) -> AsyncConnection[Any]:
    return await AsyncConnection.connect(url, autocommit=True)


async def test_applying_twice_changes_nothing(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        assert await apply_schema(conn) == ["schema.sql"]
        before = await (await conn.execute(SHAPE)).fetchall()
        assert await apply_schema(conn) == []
        assert await (await conn.execute(SHAPE)).fetchall() == before


async def test_two_processes_may_apply_at_once(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as one, await connect(empty_database_url) as other:
        assert sorted(await asyncio.gather(apply_schema(one), apply_schema(other))) == [[], ["schema.sql"]]


async def test_it_works_inside_the_callers_transaction(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        async with conn.transaction(force_rollback=True):
            assert await apply_schema(conn) == ["schema.sql"]
        assert await (await conn.execute("SELECT to_regclass('procrastinate_jobs')")).fetchone() == (None,)


async def test_an_older_database_is_brought_to_the_shape_of_a_new_one(databases: Any) -> None:
    """Start from Procrastinate's first migrations, up to the one before heartbeats, as 3.0 left a database."""
    old_url, new_url = databases.create(empty=True), databases.create(empty=True)
    names = sorted(file.name for file in MIGRATIONS.iterdir() if file.name.endswith(".sql"))
    old = [name for name in names if name < "03.01"]
    async with await connect(old_url) as upgraded, await connect(new_url) as fresh:
        for name in old:
            await upgraded.execute((MIGRATIONS / name).read_bytes())
        await upgraded.execute(
            "CREATE TABLE launchbay_queue_migrations"
            " (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())"
        )
        await upgraded.execute("INSERT INTO launchbay_queue_migrations SELECT unnest(%s::text[])", [old])
        assert await apply_schema(upgraded) == names[len(old) :]
        await apply_schema(fresh)
        shape_of = [set(await (await conn.execute(SHAPE)).fetchall()) for conn in (upgraded, fresh)]
    databases.drop(old_url)
    databases.drop(new_url)
    assert shape_of[0] ^ shape_of[1] == set()


def test_every_change_of_our_own_file_has_its_version() -> None:
    """Databases get the file once for each version: after a change, raise the one in its first line, here too."""
    text = (resources.files("launchbay.engine") / "queue.sql").read_text("utf-8")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert {own_version(text): digest} == {2: "9f3f56294c2a29e8"}


async def test_an_older_version_leaves_the_functions_of_a_newer_one_alone(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        await apply_schema(conn)
        await conn.execute("INSERT INTO launchbay_queue_migrations (name) VALUES ('queue.sql 9')")
        await conn.execute("CREATE OR REPLACE FUNCTION launchbay_announce() RETURNS void LANGUAGE sql AS 'SELECT'")
        before = await (await conn.execute(SHAPE)).fetchall()
        assert await apply_schema(conn) == []
        assert await (await conn.execute(SHAPE)).fetchall() == before


async def test_a_start_that_finds_nothing_to_do_waits_for_no_table(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn, await connect(empty_database_url) as other:
        await apply_schema(conn)
        async with other.transaction():
            await other.execute("LOCK procrastinate_jobs")
            assert await apply_schema(conn) == []


async def test_tables_that_are_never_free_end_the_start_with_a_sentence(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "ATTEMPTS", 2)
    monkeypatch.setattr(schema, "LOCK_TIMEOUT_MS", 10)
    monkeypatch.setattr(schema, "PAUSE_S", 0.01)
    async with await connect(empty_database_url) as conn, await connect(empty_database_url) as other:
        await apply_schema(conn)
        await conn.execute("DELETE FROM launchbay_queue_migrations WHERE name LIKE 'queue.sql %'")
        async with other.transaction():
            await other.execute("LOCK procrastinate_jobs")
            with pytest.raises(CannotStart, match="other sessions keep them locked"):
                await apply_schema(conn)
        assert await apply_schema(conn) == []


async def test_tables_of_another_user_of_the_library_are_refused(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        await conn.execute((resources.files("procrastinate.sql") / "schema.sql").read_bytes())
        with pytest.raises(Conflict, match="didn't create"):
            await apply_schema(conn)


async def test_a_claim_stays_fast_when_the_queue_was_empty_at_the_last_vacuum(empty_database_url: str) -> None:
    async with await connect(empty_database_url) as conn:
        await apply_schema(conn)
        of_few = await fifty_claims_s(conn, more=500)
        await conn.execute("DELETE FROM procrastinate_jobs")
        await conn.execute("VACUUM ANALYZE procrastinate_jobs")
        await conn.execute("SELECT launchbay_claim(NULL, NULL, '{}', '{}', 100)")  # and the plan is made
        of_many = await fifty_claims_s(conn, more=3_000)
    assert of_many < 20 * of_few  # about 1; hundreds without the settings of `launchbay_claim`


async def fifty_claims_s(conn: AsyncConnection[Any], *, more: int) -> float:
    """Queue that many jobs more, and return how long fifty claims take."""
    await conn.execute("SELECT launchbay_defer('job', n::text, '{}') FROM generate_series(1, %s) n", [more])
    began = time.monotonic()
    for _ in range(50):
        await conn.execute("SELECT launchbay_claim(NULL, NULL, '{}', '{}', 100)")
    return time.monotonic() - began
