"""The queue's tables: Procrastinate's SQL, applied once and upgraded file by file, then our `queue.sql`.

A start that has nothing to upgrade locks no table. An older version never replaces the functions of a newer one.
See docs/decisions/0001-procrastinate-carries-the-engine.md, "Schema and upgrades".
"""

import re
from importlib import resources
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.rows import scalar_row

from launchbay.errors import CannotStart, Conflict
from launchbay.store.schema import advisory_lock, execute_when_free

# Any key that nothing else in the database locks.
_LOCK_KEY = 0x6C62_7175_6575_65  # "lbqueue"

_OWN = "queue.sql "  # followed by the version of our own file

# Procrastinate doesn't record which migrations a database has seen, so we do.
_RECORD = """
CREATE TABLE IF NOT EXISTS launchbay_queue_migrations (
    name text PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
)
"""


async def apply_schema(conn: AsyncConnection[Any]) -> list[str]:
    """Create or upgrade the queue's tables to the installed version of Procrastinate; return the names applied.

    Idempotent, and safe if several processes start at the same time. On an idle connection each file is its own
    transaction: a migration that adds a value to an enumeration and then uses it needs that. Inside a caller's
    transaction the files are savepoints. A database that a *newer* version has migrated stays unchanged.
    Raises CannotStart if the tables are in use for ten minutes, Conflict if Launchbay didn't create them.
    """
    async with advisory_lock(conn, _LOCK_KEY):
        return await _apply(conn)


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
            "This database has Procrastinate tables of unknown version: Launchbay didn't create them.",
            "Use a dedicated database, or a dedicated schema through search_path.",
        )
    if not has_tables:
        wanted = {"schema.sql": (resources.files("procrastinate.sql") / "schema.sql").read_text(encoding="utf-8")}
        records = ["schema.sql", *shipped]
    else:
        wanted = {name: text for name, text in shipped.items() if name not in applied}
        records = list(wanted)
    for name, text in wanted.items():
        await _execute(conn, text, records if name == "schema.sql" else [name])
    own = (resources.files("launchbay.engine") / "queue.sql").read_text(encoding="utf-8")
    if max((int(each.removeprefix(_OWN)) for each in applied if each.startswith(_OWN)), default=0) < own_version(own):
        await _execute(conn, own, [f"{_OWN}{own_version(own)}"])
    return list(wanted)


def own_version(text: str) -> int:
    """Return the version in the first line of `queue.sql`."""
    found = re.match(r"-- Version (\d+)\.", text)
    assert found is not None, "queue.sql starts with its version"
    return int(found[1])


async def _execute(conn: AsyncConnection[Any], text: str, records: list[str]) -> None:
    """Execute a file and record the names, in one transaction."""
    record = sql.SQL("INSERT INTO launchbay_queue_migrations (name) SELECT unnest({}::text[])").format(records)
    try:
        await execute_when_free(conn, [text.encode(), record])
    except (LockNotAvailable, DeadlockDetected):
        raise CannotStart(
            "Can't upgrade the queue's tables: other sessions keep them locked.",
            "Find the sessions in pg_locks, end them, and start again.",
        ) from None


def _shipped() -> dict[str, str]:
    """Return the migration files of the installed Procrastinate, in order."""
    folder = resources.files("procrastinate.sql") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}
