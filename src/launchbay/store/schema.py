"""The database's schema: `migrations/NNNN_*.sql`, applied in order (promise 13, docs/decisions/0085, 0090).

To change the schema, write `migrations/NNNN_what_changes.sql` with the next number. A file that was released is never
edited. There is no way down: a backup is.

Any number of servers may start at once: an advisory lock lets them through one by one, and the later find it done.
Servers of the version before continue to work meanwhile and afterwards. The queue's tables belong to the engine
(`engine/queue_schema.py`), which applies them after these, with the same lock and the same retries.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, sql
from psycopg.errors import DeadlockDetected, LockNotAvailable

from launchbay import __version__
from launchbay.errors import CannotStart
from launchbay.store.database import check_version, conninfo, redacted_url

CONNECTION_NAME = "launchbay migrate"  # in pg_stat_activity; connections of servers are called "launchbay"
# The oldest schema whose servers may run on next to this version. Tests hold their statements to today's schema.
OLDEST_COMPATIBLE = "0013"
LOCK_TIMEOUT_MS = 1500  # a statement that waits for a table holds up everybody who comes after it
PAUSE_S = 2.0  # between two attempts those have their turn who stood behind the first
ATTEMPTS = 150  # ten minutes; a backup of a large database holds its tables for about as long

_LOCK_KEY = 0x6C61_756E_6368_6261  # "launchba": any number that nothing else in the database locks
_STATEMENT_TIMEOUT_S = 3600  # a migration of a large table may take its time, and so may the wait for the lock
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")
_AUTHOR = "Launchbay "  # in the comment of the record, before the version
# The record is Alembic's table: Alembic ran the migrations up to 0021, and servers of those versions read it.
_RECORD = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY
);
DELETE FROM alembic_version;
INSERT INTO alembic_version (version_num) VALUES ({revision});
COMMENT ON TABLE alembic_version IS {author}
"""
_SERVERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'launchbay'"


async def upgrade(database_url: str, *, to: str | None = None) -> bool:
    """Apply the migrations that are missing, all in one transaction; return whether there were any.

    `to` names the revision to stop at; tests make databases of older versions so.
    Raises CannotStart when the database does not answer, is older than PostgreSQL 15, was upgraded by a newer version
    of the product, or a migration fails (which leaves the database as it was).
    """
    where = f"database at {redacted_url(database_url)}"
    target = to or revisions()[-1]
    try:
        async with await AsyncConnection.connect(
            conninfo(database_url), autocommit=True, application_name=CONNECTION_NAME
        ) as connection:
            check_version(connection.info.server_version)
            if not await _missing(connection, where, target):
                return False
            try:
                return await _upgrade(connection, where, target)
            except psycopg.Error as error:
                raise CannotStart(
                    f"The {where} could not be brought to schema {target}:",
                    error.diag.message_primary or str(error).strip(),
                    "It is as it was before. Mend the cause and start again.",
                ) from error
    except psycopg.Error as error:
        raise CannotStart(
            f"The {where} does not let us in: {str(error).strip()}",
            "Check LAUNCHBAY_DATABASE_URL, and that the server runs and knows the user.",
        ) from error


def check_known(revision: str, what: str, version: str | None) -> None:
    """Raise CannotStart for a schema that only a newer version of the product can have written.

    `version` is the one that did, where it is known.
    """
    known = revisions()
    if revision not in known:
        if version == __version__:
            version = None  # a later state of the source under the same number
        who = f"Launchbay {version}" if version else "a newer version"
        raise CannotStart(
            f"{what} has schema {revision}, and this version of the product, {__version__}, knows {known[-1]} as the"
            f" newest: {who} has upgraded it.",
            f"Start {'that version' if version is None else version} or a later one, or restore the backup made before"
            " the upgrade.",
        )


def revisions() -> list[str]:
    """Return the schema revisions that this version of the product knows, oldest first."""
    return sorted(_files())


@asynccontextmanager
async def advisory_lock(connection: AsyncConnection[Any], key: int) -> AsyncIterator[None]:
    """Hold a session's advisory lock; who comes second waits for it, up to the connection's `statement_timeout`."""
    await connection.execute("SELECT pg_advisory_lock(%s)", [key])
    try:
        yield
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [key])


async def execute_when_free(connection: AsyncConnection[Any], scripts: Iterable[bytes | sql.Composed]) -> None:
    """Execute scripts in one transaction, when nobody uses the tables that they change.

    A script that finds a table in use waits LOCK_TIMEOUT_MS for it. Then the transaction is rolled back, and begins
    again after PAUSE_S. Raises LockNotAvailable or DeadlockDetected when that happens ATTEMPTS times.
    """
    scripts = list(scripts)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            async with connection.transaction():
                await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
                for script in scripts:
                    await connection.execute(script)
        except (LockNotAvailable, DeadlockDetected):  # PostgreSQL looks for deadlocks after 1 s, before our time is up
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(PAUSE_S)
        else:
            return


async def _upgrade(connection: AsyncConnection[Any], where: str, target: str) -> bool:
    await connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT_S}s'".encode())
    async with advisory_lock(connection, _LOCK_KEY):
        missing = await _missing(connection, where, target)  # again: somebody else may have applied them meanwhile
        if missing:
            files = _files()
            record = sql.SQL(_RECORD).format(revision=target, author=f"{_AUTHOR}{__version__}")
            await execute_when_free(connection, [*(files[revision].read_bytes() for revision in missing), record])
    return bool(missing)


async def _missing(connection: AsyncConnection[Any], where: str, target: str) -> list[str]:
    """Return the revisions to apply. Raises CannotStart for a database that this version must not upgrade."""
    servers = await _value(connection, _SERVERS)  # counted first: they are of the schema that is found after them
    found = version = None
    if await _value(connection, "SELECT to_regclass('alembic_version')") is not None:
        author = str(await _value(connection, "SELECT obj_description('alembic_version'::regclass)") or "")
        version = author.removeprefix(_AUTHOR) if author.startswith(_AUTHOR) else None
        found = await _value(connection, "SELECT version_num FROM alembic_version")
    if found is not None:
        check_known(found, f"The {where}", version)
    missing = [revision for revision in revisions() if (found or "") < revision <= target]
    if missing and found is not None and found < OLDEST_COMPATIBLE and servers:
        raise CannotStart(
            f"{servers} connections of servers and workers of an older version are open to the {where}, whose"
            f" schema {found} is older than {OLDEST_COMPATIBLE}: they would not work correctly after the upgrade.",
            "Stop them all, then start this version.",
        )
    return missing


async def _value(connection: AsyncConnection[Any], statement: LiteralString) -> Any:
    row = await (await connection.execute(statement)).fetchone()
    return None if row is None else row[0]


def _files() -> dict[str, Traversable]:
    folder = resources.files("launchbay.store") / "migrations"
    return {found[1]: file for file in folder.iterdir() if (found := _FILE_NAME.fullmatch(file.name))}
