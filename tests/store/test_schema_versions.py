"""Servers of an older version go on beside this one on the newest schema (decision 0085)."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from aiosql.adapters.ageneric import AsyncGenericAdapter
from aiosql.query_loader import QueryLoader

from launchbay.store import schema
from launchbay.store.schema import OLDEST_COMPATIBLE, revisions
from tests.support import versions
from tests.support.databases import Databases, migrate_to, numbered, upgrade

Rows = set[tuple[Any, ...]]

ARCHIVE = Path(__file__).parent / "old_versions" / f"{OLDEST_COMPATIBLE}.tar.gz"

# New indexes and rules of tables that servers of the oldest version know. Each holds up writers while it is made, and
# may refuse what they write: say here why it does neither.
ACCEPTED: Rows = {
    # Made at once only in a new database; otherwise beside the work of everybody, by `change_indexes`.
    ("instances", "instances_word_groups"),
    ("fleet_jobs", "fleet_jobs_owner"),
    ("fleet_jobs", "fleet_jobs_duration"),
    ("fleet_jobs", "fleet_jobs_failures"),
    ("fleet", "fleet_failed_jobs"),
    ("fleet", "fleet_last_workflow"),
    ("fleet_jobs", "fleet_jobs_unsuccessful"),
    ("fleet", "fleet_lacking"),
    *(
        (table, f"{table}_{name}")
        for table in ("audit_entries", "audit_entries_0", "audit_entries_1")
        for name in ("actor", "operation")
    ),
    # A server has few organizations; the index is made in no time.
    ("organizations", "organizations_creator"),
    # The column is new, so the index has no entries yet.
    ("webhook_deliveries", "webhook_deliveries_joined"),
}

COLUMNS = """
SELECT table_name::text, column_name::text, data_type::text FROM information_schema.columns
WHERE table_schema = 'public'
"""
DEMANDING = """
SELECT table_name::text, column_name::text FROM information_schema.columns
WHERE table_schema = 'public' AND is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO'
"""
FILES = """
SELECT relfilenode::bigint FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
"""
RULES = """
SELECT conrelid::regclass::text, conname::text, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'public'::regnamespace AND conrelid <> 0 AND contype <> 'n' -- DEMANDING tells those
UNION ALL SELECT tablename::text, indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'public'
"""
FUNCTIONS = """
SELECT proname::text, pg_get_function_identity_arguments(oid), pg_get_function_result(oid) FROM pg_proc
WHERE pronamespace = 'public'::regnamespace
"""
# The strongest lock of each table that the session keeps from writers.
STRONG_LOCKS = """
SELECT DISTINCT ON (relname) relname::text,
    CASE mode WHEN 'AccessExclusiveLock' THEN 'ACCESS EXCLUSIVE' WHEN 'ShareLock' THEN 'SHARE'
    ELSE 'SHARE ROW EXCLUSIVE' END
FROM pg_locks JOIN pg_class ON relation = pg_class.oid
WHERE pid = pg_backend_pid() AND relkind IN ('r', 'p')
    AND mode NOT IN ('AccessShareLock', 'RowShareLock', 'RowExclusiveLock')
ORDER BY relname, mode <> 'AccessExclusiveLock', mode = 'ShareLock'
"""
MIGRATIONS = Path(schema.__file__).parent / "migrations"


def rows(url: str, statement: str) -> Rows:
    with psycopg.connect(url, autocommit=True) as connection:
        return set(connection.execute(statement.encode()).fetchall())


@pytest.fixture(scope="module")
def old_url(databases: Databases) -> str:
    """A database as the oldest version that may run beside left it."""
    url = databases.create(empty=True)
    migrate_to(url, OLDEST_COMPATIBLE)
    return url


@pytest.fixture(scope="module")
def new_url(databases: Databases) -> str:
    """The same, brought to the newest schema."""
    return databases.create()


@pytest.mark.slow
def test_what_older_servers_know_is_there_with_its_type(old_url: str, new_url: str) -> None:
    assert rows(old_url, COLUMNS) - rows(new_url, COLUMNS) == set()
    assert rows(old_url, FUNCTIONS) - rows(new_url, FUNCTIONS) == set()


def test_older_servers_can_insert_without_knowing_the_new_columns(old_url: str, new_url: str) -> None:
    known = {table for table, *_ in rows(old_url, COLUMNS)}
    demanded = {row for row in rows(new_url, DEMANDING) if row[0] in known}
    assert demanded - rows(old_url, DEMANDING) == set()


def test_new_rules_and_indexes_of_tables_in_use_are_few_and_explained(old_url: str, new_url: str) -> None:
    known = {table for table, *_ in rows(old_url, COLUMNS)}
    added = {(table, name) for table, name, _ in rows(new_url, RULES) - rows(old_url, RULES) if table in known}
    assert added == ACCEPTED


def test_no_migration_writes_a_table_anew(databases: Databases) -> None:
    url = databases.create(empty=True)
    migrate_to(url, OLDEST_COMPATIBLE)
    before = rows(url, FILES)
    assert upgrade(url) is True
    assert before - rows(url, FILES) == set()
    databases.drop(url)


async def test_an_upgrade_begins_with_all_locks_that_it_needs(old_url: str) -> None:
    known = {table for table, *_ in rows(old_url, COLUMNS)}
    scripts = [path.read_bytes() for path in sorted(MIGRATIONS.glob("*.sql")) if path.name[:4] > OLDEST_COMPATIBLE]
    async with await psycopg.AsyncConnection.connect(old_url, autocommit=True) as connection:
        locked = set(await schema._locks(connection, scripts))
        async with connection.transaction(force_rollback=True):
            for script in scripts:
                await connection.execute(script)
            held = {row for row in await (await connection.execute(STRONG_LOCKS)).fetchall() if row[0] in known}
    assert ("jobs", "ACCESS EXCLUSIVE") in held
    # Locked with their parents.
    partitions = {row for row in held if row[0].startswith(("log_lines_", "audit_entries_"))}
    assert ("log_lines", "ACCESS EXCLUSIVE") in locked
    weaker = {(table, "SHARE") for table, _ in locked}  # of an index, which a stronger lock includes
    left = held - locked - weaker - partitions
    assert left == {("fleet_jobs", "ACCESS EXCLUSIVE")}, "only a new database changes its indexes at once"


@pytest.mark.slow
def test_every_statement_of_older_servers_answers_the_same_columns(old_url: str, new_url: str) -> None:
    with psycopg.connect(old_url) as old, psycopg.connect(new_url) as new:
        statements = dict(old_statements())
        assert len(statements) > 200
        for name, text in statements.items():
            assert _columns(new, name, text) == _columns(old, name, text), name


def test_the_kept_statements_are_those_of_that_version() -> None:
    archive = versions.git_archive(versions.OLDEST_BESIDE, "src/launchbay/store/queries")
    if archive is None:
        pytest.skip("the history of the repository is not here")
    assert _members(archive) == _members(gzip.decompress(ARCHIVE.read_bytes()))


def test_the_oldest_version_is_known_and_not_the_newest() -> None:
    assert OLDEST_COMPATIBLE in revisions()[:-1]


def old_statements() -> Iterator[tuple[str, str]]:
    """Yield name and text of each statement of the oldest version, with numbered parameters."""
    for path, content in _members(gzip.decompress(ARCHIVE.read_bytes())).items():
        loader = QueryLoader(AsyncGenericAdapter(), None, mandatory_parameters=False)
        for query in loader.load_query_data_from_sql(content.decode(), [], path):
            yield f"{Path(path).stem}.{query.query_name}", numbered(query.sql)


def _members(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        opened = ((member.name, files.extractfile(member)) for member in files.getmembers())
        return {name: content.read() for name, content in opened if content is not None}


def _columns(connection: psycopg.Connection, name: str, text: str) -> list[tuple[bytes | None, int]]:
    """Return names and types of what a statement answers, as PostgreSQL understands it."""
    statement = name.encode()
    prepared = connection.pgconn.prepare(statement, text.encode())
    assert prepared.error_message == b"", f"{name}: {prepared.error_message.decode()}"
    described = connection.pgconn.describe_prepared(statement)
    return [(described.fname(column), described.ftype(column)) for column in range(described.nfields)]
