"""The tables of the queue: Procrastinate's own SQL, applied once, upgraded file by file, then `queue.sql` beside this.

A start that finds nothing to do takes no lock of a table, and an older version that starts beside a newer one leaves
the newer one's functions as they are.
Docs: docs/decisions/0001-procrastinate-carries-the-engine.md, "Schema and upgrades".
"""

import re
from importlib import resources
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.errors import DeadlockDetected, LockNotAvailable
from psycopg.rows import scalar_row

from launchbay.errors import CannotStart, Conflict
from launchbay.store.schema import advisory_lock, execute_when_free

# Any key will do as long as nothing else in the database locks the same one.
_LOCK_KEY = 0x6C62_7175_6575_65  # "lbqueue"

_OWN = "queue.sql "  # before the version of our own file in the record

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
    Raises CannotStart when somebody uses the tables for ten minutes on end, Conflict when Procrastinate's tables are
    there but were not made by this product.
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
        await _execute(conn, text, records if name == "schema.sql" else [name])
    own = (resources.files("launchbay.engine") / "queue.sql").read_text(encoding="utf-8")
    if max((int(each.removeprefix(_OWN)) for each in applied if each.startswith(_OWN)), default=0) < own_version(own):
        await _execute(conn, own, [f"{_OWN}{own_version(own)}"])
    return list(wanted)


def own_version(text: str) -> int:
    """Return the version of `queue.sql`, which stands in its first line."""
    found = re.match(r"-- Version (\d+)\.", text)
    assert found is not None, "queue.sql begins with its version"
    return int(found[1])


async def _execute(conn: AsyncConnection[Any], text: str, records: list[str]) -> None:
    """Execute a file as a whole, and record that."""
    record = sql.SQL("INSERT INTO launchbay_queue_migrations (name) SELECT unnest({}::text[])").format(records)
    try:
        await execute_when_free(conn, [text.encode(), record])
    except (LockNotAvailable, DeadlockDetected):
        raise CannotStart(
            "The tables of the queue could not be upgraded: somebody else uses them all the time.",
            "Look in pg_locks who does, end that, and start again.",
        ) from None


def _shipped() -> dict[str, str]:
    """Return the migration files of the installed Procrastinate, in the order they are to be applied."""
    folder = resources.files("procrastinate.sql") / "migrations"
    files = sorted((file for file in folder.iterdir() if file.name.endswith(".sql")), key=lambda file: file.name)
    return {file.name: file.read_text(encoding="utf-8") for file in files}
