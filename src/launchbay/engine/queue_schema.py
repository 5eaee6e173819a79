"""The tables of the queue: Procrastinate's own SQL, applied once, upgraded file by file, then `queue.sql` beside this.

Docs: docs/decisions/0001-procrastinate-carries-the-engine.md, "Schema and upgrades".
"""

from importlib import resources
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import scalar_row

from launchbay.errors import Conflict

# Any key will do as long as nothing else in the database locks the same one.
_LOCK_KEY = 0x6C62_7175_6575_65  # "lbqueue"

# Procrastinate keeps no record of the migrations that a database has seen, so we keep it.
_RECORD = """
CREATE TABLE IF NOT EXISTS launchbay_queue_migrations (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def apply_schema(conn: AsyncConnection[Any]) -> list[str]:
    """Create the queue's tables, or bring them to the installed version of Procrastinate; return the names applied.

    Idempotent, and safe when several processes start at once. On an idle connection each file is a transaction of its
    own, which a migration that adds a value to an enumeration and then uses it needs; inside a caller's transaction
    the files are savepoints. A database that a *newer* version has migrated is left as it is.
    Raises Conflict when Procrastinate's tables are there but were not made by this product.
    """
    await conn.execute("SELECT pg_advisory_lock(%s)", [_LOCK_KEY])
    try:
        return await _apply(conn)
    finally:
        await conn.execute("SELECT pg_advisory_unlock(%s)", [_LOCK_KEY])


async def _apply(conn: AsyncConnection[Any]) -> list[str]:
    shipped = _shipped()
    async with conn.cursor(row_factory=scalar_row) as cursor:
        await cursor.execute("SELECT to_regclass('procrastinate_jobs') IS NOT NULL")
        has_tables = await cursor.fetchone()
        await cursor.execute(_RECORD)
        await cursor.execute("SELECT name FROM launchbay_queue_migrations")
        applied = set(await cursor.fetchall())
    if has_tables and not applied:
        raise Conflict(
            "This database has Procrastinate tables that Launchbay did not create, so their version is unknown.",
            "Give Launchbay a database (or a schema, through search_path) of its own.",
        )
    if not has_tables:
        wanted = {"schema.sql": (resources.files("procrastinate.sql") / "schema.sql").read_text(encoding="utf-8")}
        records = ["schema.sql", *shipped]
    else:
        wanted = {name: text for name, text in shipped.items() if name not in applied}
        records = list(wanted)
    for name, text in wanted.items():
        async with conn.transaction():
            await conn.execute(text.encode())
            await _record(conn, records if name == "schema.sql" else [name])
    async with conn.transaction():
        await conn.execute((resources.files("launchbay.engine") / "queue.sql").read_bytes())
    return list(wanted)


async def _record(conn: AsyncConnection[Any], names: list[str]) -> None:
    await conn.execute("INSERT INTO launchbay_queue_migrations (name) SELECT unnest(%s::text[])", [names])


def _shipped() -> dict[str, str]:
    """Return the migration files of the installed Procrastinate, in the order they are to be applied."""
    folder = resources.files("procrastinate.sql") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}
