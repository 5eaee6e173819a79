"""The database's schema: `migrations/NNNN_*.sql`, applied in order (promise 13, decision 0085, 0090).

To change the schema, write `migrations/NNNN_what_changes.sql` with the next number. Never edit a released file.
Downgrades aren't supported; restore a backup instead.

Several servers can start at once: an advisory lock admits one at a time, and the others find the work done. Servers of
a compatible version keep running during and after an upgrade."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, LiteralString, NamedTuple

import psycopg
import structlog
from psycopg import AsyncConnection, sql
from psycopg.errors import DeadlockDetected, LockNotAvailable, QueryCanceled, UndefinedTable

from launchbay import __version__
from launchbay.errors import CannotStart
from launchbay.store.database import Database, connect_directly, conninfo, redacted_url, refused

log = structlog.get_logger(__name__)
CONNECTION_NAME = "launchbay migrate"  # in pg_stat_activity; connections of servers are called "launchbay"
# The oldest schema whose servers can run together with this version. Tests hold their statements to today's schema.
OLDEST_COMPATIBLE = "0058"
# A statement that waits for a table blocks all later users of it. Autovacuum gives a table away after a second.
LOCK_TIMEOUT_MS = 1500
PAUSE_S = 2.0  # between two attempts, so that the blocked users get their turn
ATTEMPTS = 150  # ten minutes; a backup of a large database holds its tables for about as long

_LOCK_KEY = 0x6C61_756E_6368_6261  # "launchba": any number that nothing else in the database locks
INDEXES_S = 60.0  # between two looks for indexes to make
_INDEXES_LOCK_KEY = _LOCK_KEY + 1
_STATEMENT_TIMEOUT_S = 3600  # migrating a large table is slow, and so is waiting for another server that does it
_FILE_NAME = re.compile(r"(\d{4})_\w+\.sql")
_AUTHOR = "Launchbay "  # in the comment of the record, before the version
# Alembic's table: Alembic ran the migrations up to 0021, and servers of those versions read it.
_RECORD = """
CREATE TABLE IF NOT EXISTS alembic_version (
    version_num varchar(32) NOT NULL CONSTRAINT alembic_version_pkc PRIMARY KEY
);
DELETE FROM alembic_version;
INSERT INTO alembic_version (version_num) VALUES ({revision});
COMMENT ON TABLE alembic_version IS {author}
"""
_CONDITION = """
SELECT
    current_setting('server_version'), current_setting('server_encoding'),
    has_schema_privilege('public', 'CREATE'),
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
    extract(epoch FROM clock_timestamp())
"""
# The tables that statements of migrations keep from everybody, and those that they keep from writers.
_ALTERED = re.compile(r"\b(?:ALTER|DROP) TABLE (?:IF EXISTS )?(\w+)|\bDROP TRIGGER (?:IF EXISTS )?\w+ ON (\w+)")
_REFERRED = re.compile(
    r"\bREFERENCES (\w+)|\bINDEX (?:IF NOT EXISTS )?\w+ ON (?:ONLY )?(\w+)"
    r"|\bTRIGGER \w+\s+(?:BEFORE|AFTER)\b[^;]*?\sON (\w+)"
)
_KEY_MARK = "SELECT substring(value FROM 1 FOR 5) FROM server_keys WHERE name = 'secret key'"
_EXISTING = """
SELECT relname FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND relname = ANY(%s) ORDER BY relname
"""
# How long a transaction waits for a lock before PostgreSQL ends it if it waits in a circle.
_DEADLOCK_MS = "SELECT setting::integer FROM pg_settings WHERE name = 'deadlock_timeout'"
_HALF_MADE = "SELECT 1 FROM pg_index WHERE indexrelid = to_regclass(%s) AND NOT indisvalid"
# Statistics of an index of expressions come from the next ANALYZE of its table.
_ANALYZE = "SELECT format('ANALYZE %%s', indrelid::regclass) FROM pg_index WHERE indexrelid = to_regclass(%s)"
# Searches go by their index in any case. For statistics, each ANALYZE would take the words of 30,000 instances apart.
_COUNTS_NO_WORDS = "SELECT format('ALTER INDEX %%I ALTER COLUMN 1 SET STATISTICS 0', %s::text)"
_TABLES = "SELECT 1 FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LIMIT 1"
_SERVERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'launchbay'"


async def upgrade(database_url: str, *, to: str | None = None) -> bool:
    """Apply the missing migrations in one transaction; return whether there were any.

    `to` is the last revision to apply; tests create databases of older versions with it.
    Raises CannotStart if the database refuses the connection, is older than PostgreSQL 15 or was upgraded by a newer
    version, or if a migration fails, which leaves the database unchanged.
    """
    where = f"database at {redacted_url(database_url)}"
    target = to or revisions()[-1]
    try:
        async with await connect_directly(database_url, name=CONNECTION_NAME) as connection:
            if not await _missing(connection, where, target):
                return False
            try:
                return await _upgrade(connection, where, target)
            except psycopg.Error as error:
                raise CannotStart(
                    f"Can't upgrade the {where} to schema {target}: {error.diag.message_primary or str(error).strip()}",
                    "The database is unchanged. Fix the cause, then start again.",
                ) from error
    except psycopg.Error as error:
        raise refused(database_url, error) from error


class Inspection(NamedTuple):
    """What a database is like.

    `connections` is how many it takes, and `clock_ahead_s` is measured from our clock. `key_mark` begins what the
    newest secret key encrypts, if a server has named it.
    """

    version: str
    revision: str | None
    encoding: str
    may_create: bool
    connections: int
    clock_ahead_s: float
    key_mark: bytes | None


async def inspect(database_url: str) -> Inspection:
    """Look at a database, and change nothing. Raises CannotStart where `upgrade` would refuse it."""
    where = f"database at {redacted_url(database_url)}"
    try:
        async with await connect_directly(database_url, name="launchbay doctor") as connection:
            await _missing(connection, where, revisions()[-1])
            revision, _ = await _recorded(connection)
            row = await (await connection.execute(_CONDITION)).fetchone()
            now_s = time.time()
            has_keys = await _value(connection, "SELECT to_regclass('server_keys') IS NOT NULL")
            mark = await _value(connection, _KEY_MARK) if has_keys else None
    except psycopg.Error as error:
        raise refused(database_url, error) from error
    assert row is not None, "it reads no table"
    version, encoding, may_create, connections, clock_s = row
    return Inspection(version, revision, encoding, may_create, connections, float(clock_s) - now_s, mark)


async def change_indexes(database: Database) -> None:
    """Make and drop the indexes in `index_changes`, while everybody works.

    One process at a time does it, on a connection of its own. An index that a process left half made is made again.
    Raises CannotStart if the database refuses a direct connection.
    """
    async with database.connection() as pooled:
        if not await (await pooled.execute("SELECT FROM index_changes LIMIT 1")).fetchall():
            return
    async with await connect_directly(database.direct_url, name=CONNECTION_NAME) as connection:
        await connection.execute("SET statement_timeout = 0")
        if not await _value(connection, "SELECT pg_try_advisory_lock(%s)", _INDEXES_LOCK_KEY):
            return
        found = await connection.execute("SELECT name, definition FROM index_changes ORDER BY number")
        for name, definition in await found.fetchall():  # of our own migrations
            if definition is None or await _value(connection, _HALF_MADE, name):
                await connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {name}".encode())
            if definition is not None:
                with suppress(UndefinedTable):  # a partition that retention has dropped meanwhile
                    await connection.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} {definition}".encode())
                    counts = _ANALYZE if "USING gin" not in definition else _COUNTS_NO_WORDS
                    await connection.execute(await _value(connection, counts, name))
            await connection.execute("DELETE FROM index_changes WHERE name = %s", [name])
            log.info("schema.index_changed", index=name)


def has_tables(database_url: str) -> bool:
    """Return whether the database has any tables. Raises CannotStart if it refuses the connection."""
    with _connected(database_url) as connection:
        return connection.execute(_TABLES).fetchone() is not None


def major_version(database_url: str) -> int:
    """Return the major version of PostgreSQL, such as 17.

    Raises CannotStart if it refuses the connection.
    """
    with _connected(database_url) as connection:
        return connection.info.server_version // 10_000


@contextmanager
def _connected(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    try:
        with psycopg.connect(conninfo(database_url), autocommit=True) as connection:
            yield connection
    except psycopg.Error as error:
        raise refused(database_url, error) from error


def check_known(revision: str, what: str, version: str | None) -> None:
    """Raise CannotStart for a schema of a newer version of Launchbay; `version` is that version, if known."""
    known = revisions()
    if revision not in known:
        if version == __version__:
            version = None  # a later state of the source under the same number
        who = f"Launchbay {version}" if version else "a newer version"
        raise CannotStart(
            f"{what} has schema {revision}, written by {who}. This is Launchbay {__version__}, whose newest schema is"
            f" {known[-1]}.",
            f"Start {'that version' if version is None else version} or a later one, or restore a backup from before"
            " the upgrade.",
        )


def revisions() -> list[str]:
    """Return the schema revisions of this version, oldest first."""
    return sorted(_files())


@asynccontextmanager
async def advisory_lock(connection: AsyncConnection[Any], key: int) -> AsyncIterator[None]:
    """Hold a session's advisory lock, waiting for it up to the connection's `statement_timeout`."""
    await connection.execute("SELECT pg_advisory_lock(%s)", [key])
    try:
        yield
    finally:
        await connection.execute("SELECT pg_advisory_unlock(%s)", [key])


async def execute_when_free(connection: AsyncConnection[Any], scripts: Iterable[bytes | sql.Composed]) -> None:
    """Execute scripts in one transaction, once the tables that they change are free.

    The transaction locks all these tables first, within half the time after which PostgreSQL looks for deadlocks.
    Otherwise it is rolled back, and starts again after PAUSE_S. So no transaction of others fails because this one has
    what it waits for. Raises LockNotAvailable or DeadlockDetected after ATTEMPTS attempts.
    """
    scripts = list(scripts)
    locks = await _locks(connection, scripts)
    together_ms = int(await _value(connection, _DEADLOCK_MS)) // 2
    for attempt in range(1, ATTEMPTS + 1):
        try:
            for lock in locks:  # autovacuum makes way only for those who wait longer
                async with connection.transaction():
                    await _lock(connection, [lock], LOCK_TIMEOUT_MS)
            async with connection.transaction():
                await _lock(connection, locks, together_ms)
                await connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}".encode())
                for script in scripts:
                    await connection.execute(script)
        except (LockNotAvailable, DeadlockDetected):
            if attempt == ATTEMPTS:
                raise
            await asyncio.sleep(PAUSE_S)
            locks = locks[1:] + locks[:1]  # another order may suit what others do
        else:
            return


async def _locks(
    connection: AsyncConnection[Any], scripts: Iterable[bytes | sql.Composed]
) -> list[tuple[str, LiteralString]]:
    """Return the existing tables that scripts lock, with the mode."""
    modes: dict[str, LiteralString] = {}
    for script in scripts:
        text = script.decode() if isinstance(script, bytes) else script.as_string(connection)
        for pattern, mode in ((_REFERRED, "SHARE ROW EXCLUSIVE"), (_ALTERED, "ACCESS EXCLUSIVE")):
            for found in pattern.finditer(text):
                if modes.get(found[found.lastindex or 0]) != "ACCESS EXCLUSIVE":
                    modes[found[found.lastindex or 0]] = mode
    existing = await (await connection.execute(_EXISTING, [list(modes)])).fetchall()
    return [(table, modes[table]) for (table,) in existing]


async def _lock(connection: AsyncConnection[Any], locks: list[tuple[str, LiteralString]], within_ms: int) -> None:
    """Lock tables in a transaction. Raises LockNotAvailable."""
    if not locks:
        return
    each = sql.SQL(" ").join(
        sql.SQL("LOCK TABLE {} IN {} MODE;").format(sql.Identifier(table), sql.SQL(mode)) for table, mode in locks
    )
    limit = await _value(connection, "SELECT current_setting('statement_timeout')")
    await connection.execute(f"SET LOCAL statement_timeout = {within_ms}".encode())
    try:
        await connection.execute(sql.SQL("DO $$ BEGIN {} END $$").format(each))  # one statement: the limit is for all
        await connection.execute("SELECT set_config('statement_timeout', %s, true)", [limit])
    except QueryCanceled as error:
        tables = ", ".join(table for table, _ in locks)
        raise LockNotAvailable(f"other transactions use {tables}.") from error


async def _upgrade(connection: AsyncConnection[Any], where: str, target: str) -> bool:
    await connection.execute(f"SET statement_timeout = '{_STATEMENT_TIMEOUT_S}s'".encode())
    async with advisory_lock(connection, _LOCK_KEY):
        missing = await _missing(connection, where, target)  # again: another server may have applied them meanwhile
        if missing:
            files = _files()
            record = sql.SQL(_RECORD).format(revision=target, author=f"{_AUTHOR}{__version__}")
            await execute_when_free(connection, [*(files[revision].read_bytes() for revision in missing), record])
    return bool(missing)


async def _missing(connection: AsyncConnection[Any], where: str, target: str) -> list[str]:
    """Return the revisions to apply.

    Raises CannotStart if this version must not upgrade the database.
    """
    # Counted before the schema is read, so none of them is newer than that.
    servers = await _value(connection, _SERVERS)
    found, version = await _recorded(connection)
    # As bytes, because psycopg doesn't decode texts of a database with SQL_ASCII, which nothing can work with.
    encoding = (await _value(connection, "SELECT current_setting('server_encoding')::bytea")).decode()
    if encoding != "UTF8" and (found is None or encoding == "SQL_ASCII"):
        raise CannotStart(
            f"The {where} has the encoding {encoding}. Launchbay needs UTF8.",
            "Create the database again with: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0",
        )
    if found is not None:
        check_known(found, f"The {where}", version)
    missing = [revision for revision in revisions() if (found or "") < revision <= target]
    if missing and found is not None and found < OLDEST_COMPATIBLE and servers:
        raise CannotStart(
            f"The {where} has schema {found} and {servers} connections of older servers and workers, which would fail"
            f" after the upgrade: it needs schema {OLDEST_COMPATIBLE} or later to run next to them.",
            "Stop all of them, then start this version.",
        )
    return missing


async def _recorded(connection: AsyncConnection[Any]) -> tuple[str | None, str | None]:
    """Return the schema's revision and the version that wrote it, if known."""
    if await _value(connection, "SELECT to_regclass('alembic_version')") is None:
        return None, None
    author = str(await _value(connection, "SELECT obj_description('alembic_version'::regclass)") or "")
    version = author.removeprefix(_AUTHOR) if author.startswith(_AUTHOR) else None
    return await _value(connection, "SELECT version_num FROM alembic_version"), version


async def _value(connection: AsyncConnection[Any], statement: LiteralString, *parameters: object) -> Any:
    row = await (await connection.execute(statement, parameters or None)).fetchone()
    return None if row is None else row[0]


def _files() -> dict[str, Traversable]:
    folder = resources.files("launchbay.store") / "migrations"
    return {found[1]: file for file in folder.iterdir() if (found := _FILE_NAME.fullmatch(file.name))}
