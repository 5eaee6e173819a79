"""Log lines, events and audit entries lie in partitions by time (decision 0094)."""

import asyncio

import psycopg
import pytest

from launchbay.store import audit
from launchbay.store.database import Database
from launchbay.store.schema import change_indexes
from tests.support.databases import Databases, migrate_to, upgrade

BEFORE = "0025"
LINE = "INSERT INTO log_lines (instance_id, job_id, level, text, at) SELECT %s, 'j', 'info', 'line ' || n, now()"
EVENT = "INSERT INTO instance_events (instance_id, kind, subject) SELECT %s, 'status', 'Running'"
ENTRY = (
    "INSERT INTO audit_entries (organization_id, actor_id, actor_email, method, address, operation, object, object_id)"
    " SELECT %s, 'u', 'u@example.org', 'Basic', '', 'o', '/o', 'o'"
)
WRITES = {"log_lines": LINE, "instance_events": EVENT, "audit_entries": ENTRY}
INSTANCE = "0123456789abcdef01234567"
# What lists ask: `{column}` is the instance or the organization.
PAGE = "SELECT id FROM {table} WHERE {column} = %s AND id > %s ORDER BY id LIMIT 100"
PAGE_BACK = "SELECT id FROM {table} WHERE {column} = %s AND id < %s ORDER BY id DESC LIMIT 100"


def write(connection: psycopg.Connection, count: int = 3) -> None:
    for statement in WRITES.values():
        connection.execute(f"{statement} FROM generate_series(1, {count}) AS n".encode(), [INSTANCE])


def without_references(connection: psycopg.Connection) -> None:
    connection.execute("ALTER TABLE log_lines DROP CONSTRAINT log_lines_instance_id_fkey")
    connection.execute("ALTER TABLE log_lines ADD CONSTRAINT log_lines_instance_id_fkey CHECK (true)")


def test_the_upgrade_keeps_every_row_and_numbers_go_on(databases: Databases) -> None:
    url = databases.create(empty=True)
    migrate_to(url, BEFORE)
    with psycopg.connect(url, autocommit=True) as connection:
        without_references(connection)  # a row of its own for each table it refers to would say nothing more
        write(connection)
        before = {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall() for table in WRITES
        }
    assert upgrade(url) is True
    with psycopg.connect(url, autocommit=True) as connection:
        for table, rows in before.items():
            found = connection.execute(f"SELECT * FROM {table} ORDER BY id".encode()).fetchall()
            assert [row[: len(rows[0])] for row in found] == rows  # later migrations add columns
        write(connection)
        for table, rows in before.items():
            ids = [row[0] for row in connection.execute(f"SELECT id FROM {table} ORDER BY id".encode())]
            assert len(ids) == len(set(ids)) == 6
            assert connection.execute(f"SELECT count(*) FROM {table}_0".encode()).fetchone() == (6,)
            assert ids[:3] == sorted(row[0] for row in rows)
    databases.drop(url)


def block_after_block(connection: psycopg.Connection, blocks: int, rows: int = 3) -> None:
    for _ in range(blocks):
        write(connection, rows)
        connection.execute("UPDATE number_blocks SET began_at = began_at - interval '2 hours'")
        connection.execute(
            "SELECT launchbay_begin_block('instance_changes', 3600, '{log_lines,instance_events}', '{1,1}'),"
            " launchbay_begin_block('audit_numbers', 3600, '{audit_entries}', '{1}')"
        )
    for table in WRITES:
        connection.execute(f"ANALYZE {table}".encode())


@pytest.mark.parametrize("table", WRITES)
def test_a_page_reads_no_partition_before_its_place(databases: Databases, table: str) -> None:
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        block_after_block(connection, 12, rows=200)
        column = "organization_id" if table == "audit_entries" else "instance_id"
        place = connection.execute(f"SELECT id FROM {table} ORDER BY id DESC OFFSET 250 LIMIT 1".encode()).fetchone()
        assert place is not None
        for statement in (PAGE, PAGE_BACK):
            text = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {statement.format(table=table, column=column)}"
            plan = [line for [line] in connection.execute(text.encode(), [INSTANCE, place[0]])]
            started = [line for line in plan if " on " in line and "never executed" not in line]
            assert 1 <= len(started) <= 2, plan
            assert not any("Sort" in line for line in plan), plan
        named = [line for line in plan if " on " in line]
        assert len(named) <= 12, "those after the place aren't even planned"
    databases.drop(url)


def test_a_list_calls_no_function_that_the_planner_would_call_for_each_partition() -> None:
    assert b"launchbay_" not in audit.list_entries.text


def test_partitions_have_the_indexes_and_rules_of_their_parent(databases: Databases) -> None:
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        block_after_block(connection, 3)
        for table in WRITES:
            kinds = connection.execute(
                "SELECT child.relname, ARRAY (SELECT indkey::text FROM pg_index WHERE indrelid = child.oid ORDER BY 1),"
                " ARRAY (SELECT conname::text FROM pg_constraint WHERE conrelid = child.oid AND contype = 'c')"
                " FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid WHERE inhparent = %s::regclass",
                [table],
            ).fetchall()
            assert len(kinds) == 5, kinds
            assert len({(str(indexes), str(rules)) for _, indexes, rules in kinds}) == 1, kinds
            if table != "log_lines":  # no index is unique, for a launch writes many lines
                with pytest.raises(psycopg.errors.UniqueViolation):
                    connection.execute(f"INSERT INTO {table} SELECT * FROM {table} ORDER BY id DESC LIMIT 1".encode())
    databases.drop(url)


async def _change_indexes(url: str) -> None:
    async with Database(url, connections=2) as opened:
        await change_indexes(opened)


BY_ACTOR = "0102"  # the schema before audit entries had indexes by actor and operation
NEW_INDEXES = 2


def test_entries_of_before_get_their_new_indexes_beside_work_and_later_ones_at_once(databases: Databases) -> None:
    url = databases.create(empty=True)
    migrate_to(url, BY_ACTOR)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"{ENTRY} FROM generate_series(1, 3) AS n".encode(), [INSTANCE])
        count = "SELECT count(*) FROM pg_index WHERE indrelid = %s::regclass AND indisvalid"
        before = connection.execute(count, ["audit_entries_0"]).fetchone()
        assert before is not None
        upgrade(url)
        assert connection.execute(count, ["audit_entries_0"]).fetchone() == before
        connection.execute("SELECT launchbay_begin_block('audit_numbers', 0, '{audit_entries}', '{1}')")
        assert connection.execute(count, ["audit_entries_2"]).fetchone() == (before[0] + NEW_INDEXES,)
        connection.execute("INSERT INTO index_changes VALUES (99, 'of_a_dropped_one', 'ON audit_entries_99 (id)')")
        asyncio.run(_change_indexes(url))
        assert connection.execute(count, ["audit_entries_0"]).fetchone() == (before[0] + NEW_INDEXES,)
        assert connection.execute("SELECT count(*) FROM index_changes").fetchone() == (0,)
    databases.drop(url)
