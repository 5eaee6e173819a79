import asyncio
import gzip
import itertools
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection

from launchbay import __version__
from launchbay.errors import CannotStart
from launchbay.ids import is_id, new_id
from launchbay.store import schema
from launchbay.store.schema import OLDEST_COMPATIBLE, revisions
from tests.support.databases import Databases, migrate_to, upgrade
from tests.support.eventually import eventually_blocking

CHANGES_JOBS = "0021"  # the migration after this one changes the table of jobs
_SERVERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'launchbay'"
_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'launchbay migrate' AND wait_event_type = 'Lock'
"""
_SHAPE = """
SELECT 'column', table_name || '.' || column_name, udt_name || is_nullable, coalesce(column_default, '')
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace
UNION ALL SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(oid)
FROM pg_trigger WHERE NOT tgisinternal
UNION ALL SELECT 'function', proname, pg_get_function_identity_arguments(oid), pg_get_functiondef(oid)
FROM pg_proc WHERE pronamespace = 'public'::regnamespace
UNION ALL SELECT 'version', '', obj_description('alembic_version'::regclass), version_num FROM alembic_version
"""
MIGRATIONS = Path(__file__).parents[2] / "src" / "launchbay" / "store" / "migrations"


def _ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return None if row is None else row[0]


def _do(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _shape(url: str) -> set[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return set(connection.execute(_SHAPE).fetchall())


def test_an_empty_database_gets_the_schema_once(empty_database_url: str) -> None:
    assert upgrade(empty_database_url) is True
    assert _ask(empty_database_url, "SELECT version_num FROM alembic_version") == revisions()[-1]
    assert _ask(empty_database_url, "SELECT count(*) FROM instances") == 0
    assert upgrade(empty_database_url) is False


@pytest.mark.slow
def test_four_servers_starting_at_once_migrate_once(empty_database_url: str) -> None:
    code = "import asyncio, sys; from launchbay.store.schema import upgrade; print(asyncio.run(upgrade(sys.argv[1])))"
    command = [sys.executable, "-c", code, empty_database_url]
    servers = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [server.communicate() for server in servers]
    assert [server.returncode for server in servers] == [0, 0, 0, 0], outputs
    assert sorted(output for output, _ in outputs) == ["False\n", "False\n", "False\n", "True\n"]
    assert _ask(empty_database_url, "SELECT string_agg(version_num, ',') FROM alembic_version") == revisions()[-1]


def test_a_database_that_a_newer_version_upgraded_is_refused_and_left_alone(database_url: str) -> None:
    _do(database_url, "UPDATE alembic_version SET version_num = '9999'")
    _do(database_url, "COMMENT ON TABLE alembic_version IS NULL")
    with pytest.raises(CannotStart, match=r"has schema 9999, written by a newer version"):
        upgrade(database_url)
    assert _ask(database_url, "SELECT version_num FROM alembic_version") == "9999"


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_an_empty_database_of_another_encoding_is_refused_and_left_alone(
    empty_database_url: str, encoding: str
) -> None:
    name = f"encoding_{encoding.lower()}_{new_id()[-8:]}"
    _do(
        empty_database_url,
        f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LOCALE_PROVIDER libc LOCALE 'C'",
    )
    url = psycopg.conninfo.make_conninfo(empty_database_url, dbname=name)
    try:
        for look in (schema.upgrade, schema.inspect):
            with pytest.raises(CannotStart, match=f"has the encoding {encoding}. Launchbay needs UTF8"):
                asyncio.run(look(url))
        assert _ask(url, "SELECT count(*) FROM pg_class WHERE relname = 'alembic_version'") == 0
    finally:
        _do(empty_database_url, f"DROP DATABASE {name}")


def test_a_migration_that_fails_leaves_the_database_as_it_was(empty_database_url: str) -> None:
    _do(empty_database_url, "CREATE TABLE manifests (mine int)")
    with pytest.raises(CannotStart, match=r"Can't upgrade .*manifests"):
        upgrade(empty_database_url)
    assert _ask(empty_database_url, "SELECT to_regclass('organizations')") is None
    assert _ask(empty_database_url, "SELECT to_regclass('alembic_version')") is None
    _do(empty_database_url, "DROP TABLE manifests")
    assert upgrade(empty_database_url) is True


@pytest.mark.slow
def test_a_table_in_use_keeps_an_upgrade_waiting_and_nobody_else(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, CHANGES_JOBS)
    with ThreadPoolExecutor() as threads:
        with psycopg.connect(url) as reader:  # such as a backup, which reads every table until its end
            reader.execute("SELECT count(*) FROM jobs")
            upgrading = threads.submit(upgrade, url)
            eventually_blocking(lambda: _ask(url, _WAITING) == 1)
            # In the queue behind the upgrade, and through it before the reader is done.
            assert _ask(url, "SELECT count(*) FROM jobs") == 0
            assert not upgrading.done()
            assert _ask(url, "SELECT version_num FROM alembic_version") == CHANGES_JOBS
        assert upgrading.result() is True


def test_servers_that_are_too_old_to_run_beside_are_to_be_stopped_first(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, f"{int(OLDEST_COMPATIBLE) - 1:04d}")
    with (
        psycopg.connect(url, application_name="launchbay"),
        pytest.raises(CannotStart, match=r"1 connections of older servers .* Stop"),
    ):
        upgrade(url)
    eventually_blocking(lambda: _ask(url, _SERVERS) == 0)
    assert upgrade(url) is True


def test_servers_that_may_run_beside_go_on(empty_database_url: str) -> None:
    migrate_to(empty_database_url, OLDEST_COMPATIBLE)
    with psycopg.connect(empty_database_url, application_name="launchbay"):
        assert upgrade(empty_database_url) is True


def test_an_upgrade_says_which_version_it_was(database_url: str) -> None:
    said = _ask(database_url, "SELECT obj_description('alembic_version'::regclass)")
    assert said == f"Launchbay {__version__}"


def test_a_database_that_does_not_answer_is_a_sentence_without_the_password() -> None:
    with pytest.raises(CannotStart) as caught:
        upgrade("postgresql://ann:s3cret@127.0.0.1:1/db")
    assert "refused the connection" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_a_database_that_is_missing_is_answered_with_the_page_about_making_one(database_url: str) -> None:
    missing = psycopg.conninfo.make_conninfo(database_url, dbname="nowhere")
    with pytest.raises(CannotStart, match="create-a-database-of-your-own"):
        upgrade(missing)


def test_the_check_that_nothing_is_to_be_done_waits_for_nobody(database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("SELECT pg_advisory_lock(%s)", [schema._LOCK_KEY])
        other.execute("LOCK TABLE instances")
        assert upgrade(database_url) is False


def test_a_newer_version_that_upgrades_while_one_waits_for_the_lock_is_respected(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, OLDEST_COMPATIBLE)
    with ThreadPoolExecutor() as threads:
        with psycopg.connect(url, autocommit=True) as newer:
            newer.execute("SELECT pg_advisory_lock(%s)", [schema._LOCK_KEY])
            upgrading = threads.submit(upgrade, url)
            eventually_blocking(lambda: _ask(url, _WAITING) == 1)
            _do(url, "UPDATE alembic_version SET version_num = '9999'")
            _do(url, "COMMENT ON TABLE alembic_version IS 'Launchbay 9.1.0'")
        with pytest.raises(CannotStart, match=r"has schema 9999, written by Launchbay 9.1.0"):
            upgrading.result()
    assert _ask(url, "SELECT version_num FROM alembic_version") == "9999"


@pytest.mark.slow
def test_a_table_that_is_never_free_ends_the_upgrade_with_a_sentence(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = empty_database_url
    migrate_to(url, CHANGES_JOBS)
    monkeypatch.setattr(schema, "ATTEMPTS", 10)
    monkeypatch.setattr(schema, "LOCK_TIMEOUT_MS", 10)
    monkeypatch.setattr(schema, "PAUSE_S", 0.01)
    with psycopg.connect(url) as reader:
        reader.execute("SELECT count(*) FROM jobs")
        with pytest.raises(CannotStart, match=r"Can't upgrade .* transactions use jobs. The database is unchanged"):
            upgrade(url)
    assert _ask(url, "SELECT version_num FROM alembic_version") == CHANGES_JOBS
    assert upgrade(url) is True


async def test_an_upgrade_never_ends_a_transaction_that_needs_its_tables_in_another_order(
    empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = empty_database_url
    _do(url, "CREATE TABLE one (); CREATE TABLE two ()")
    monkeypatch.setattr(schema, "PAUSE_S", 0.01)
    # While the first one sleeps, a transaction that has table two waits for table one; it would look for a deadlock
    # after a second, and fail.
    scripts = [b"ALTER TABLE one ADD a int; SELECT pg_sleep(0.7)", b"ALTER TABLE two ADD a int"]
    is_upgraded = threading.Event()

    def use() -> int:
        with psycopg.connect(url) as server:
            for used in itertools.count(1):
                server.execute("LOCK two IN ROW EXCLUSIVE MODE")
                server.execute("SELECT pg_sleep(0.002)")
                server.execute("LOCK one IN ROW EXCLUSIVE MODE")
                server.commit()
                if is_upgraded.is_set():
                    return used
        raise AssertionError("it counts without end")

    using = asyncio.create_task(asyncio.to_thread(use))
    async with await AsyncConnection.connect(url, autocommit=True) as connection:
        try:
            await schema.execute_when_free(connection, scripts)
        finally:
            is_upgraded.set()
    assert await using > 1
    assert _ask(url, "SELECT count(one.a + two.a) FROM one, two") == 0


def test_a_database_that_alembic_made_is_taken_over(databases: Databases, empty_database_url: str) -> None:
    """The file is `pg_dump` of a database that the Alembic of this product's older versions brought to 0013."""
    url = empty_database_url
    made_by_alembic = Path(__file__).parent / "old_versions" / "alembic_0013.sql.gz"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(gzip.decompress(made_by_alembic.read_bytes()))
    assert _ask(url, "SELECT version_num FROM alembic_version") == "0013"
    assert upgrade(url) is True
    assert _ask(url, "SELECT name FROM organizations") == "Acme"
    fresh = databases.create(empty=True)
    assert upgrade(fresh) is True
    assert _shape(url) == _shape(fresh)
    databases.drop(fresh)


def test_revisions_have_one_number_after_the_other_and_a_file_of_statements_each() -> None:
    numbers = revisions()
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    assert sorted(path.name[:4] for path in MIGRATIONS.glob("*.sql")) == numbers


def test_the_audit_log_says_who_created_an_older_organization(empty_database_url: str) -> None:
    """What migration 0090 finds out about organizations that were there before it."""
    made, imported, first = new_id(), new_id(), new_id()
    old = revisions()[: revisions().index("0090")]
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for path in sorted(MIGRATIONS.glob("*.sql"))[: len(old)]:
            connection.execute(path.read_bytes())
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES (%s)", [old[-1]])
        for organization in (made, imported, first):
            connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", [organization])
        for organization, operation, actor in (
            (made, "create_organization", "ann"),
            (made, "rename_organization", "bob"),
            (imported, "import_organization", "eve"),
        ):
            connection.execute(
                "INSERT INTO audit_entries (organization_id, actor_id, actor_email, method, address, operation, object,"
                " object_id) VALUES (%s, %s, '', '', '', %s, %s, %s)",
                [organization, actor, operation, f"/organizations/{organization}", organization],
            )
    assert upgrade(empty_database_url) is True
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        rows = connection.execute("SELECT id, creator_id FROM organizations").fetchall()
    assert dict(rows) == {made: "ann", imported: "eve", first: None}


def test_an_older_organization_gets_its_zone_and_its_two_services(empty_database_url: str) -> None:
    """What migration 0003 gives to organizations that were there before it."""
    organization, environment, old_service = new_id(), new_id(), new_id()
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for name in ("0001_initial.sql", "0002_access.sql"):
            connection.execute((MIGRATIONS / name).read_bytes())
        connection.execute("CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)")
        connection.execute("INSERT INTO alembic_version VALUES ('0002')")
        connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", [organization])
        connection.execute(
            "INSERT INTO environments (id, organization_id, name, is_default) VALUES (%s, %s, 'default', true)",
            [environment, organization],
        )
        connection.execute(
            "INSERT INTO services (id, organization_id, zone_id, name, type_id) VALUES (%s, %s, 'x', 'mine', 'mine')",
            [old_service, organization],
        )
    assert upgrade(empty_database_url) is True
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        zones = connection.execute("SELECT id, organization_id, name FROM zones").fetchall()
        services = connection.execute("SELECT id, name, type_id, zone_id FROM services ORDER BY name").fetchall()
        offered = connection.execute("SELECT environment_id, service_id FROM environment_services").fetchall()
    assert [(row[1], row[2]) for row in zones] == [(organization, "Default")]
    zone = zones[0][0]
    assert [row[1:] for row in services] == [
        ("Default credentials service", "builtin:cobalt_secure_store", zone),
        ("Default workflow service", "builtin:workflow_service", zone),
        ("mine", "mine", zone),
    ]
    assert all(is_id(row[0]) for row in (*zones, *services))
    assert {row[1] for row in offered} == {row[0] for row in services if row[1] != "mine"}
    assert {row[0] for row in offered} == {environment}


def make_application(connection: psycopg.Connection) -> None:
    """Make an application whose instances an old schema takes."""
    connection.execute("INSERT INTO organizations (id, name) VALUES ('o', 'Acme')")
    connection.execute("INSERT INTO environments (id, organization_id, name) VALUES ('e', 'o', 'default')")
    connection.execute("INSERT INTO applications (id, organization_id, name, latest_version) VALUES ('a', 'o', 'x', 1)")
    connection.execute("INSERT INTO manifests (application_id, version, content, author_id) VALUES ('a', 1, '', 'u')")


def test_jobs_under_way_wait_for_a_worker_after_the_queue_library_has_gone(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, "0021")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TYPE procrastinate_job_status AS ENUM ('todo')")
        connection.execute("CREATE TABLE procrastinate_jobs (id bigint, status procrastinate_job_status)")
        connection.execute("CREATE FUNCTION procrastinate_fetch(procrastinate_jobs) RETURNS int LANGUAGE sql RETURN 1")
        make_application(connection)
        for number, status in enumerate(("Executing", "Succeeded", "Executing")):
            connection.execute(
                "INSERT INTO instances"
                " (id, organization_id, application_id, environment_id, version, name, owner_id, status)"
                " VALUES (%s, 'o', 'a', 'e', 1, 'x', 'u', 'Executing')",
                [f"i{number}"],
            )
            connection.execute(
                "INSERT INTO jobs (id, instance_id, name, owner_id, status, plan, steps)"
                " VALUES (%s, %s, 'launch', 'u', %s, '{}', '[]')",
                [f"j{number}", f"i{number}", status],
            )
    assert upgrade(url) is True
    assert _ask(url, "SELECT string_agg(job_id, ',' ORDER BY number) FROM ready WHERE organization_id = 'o'") == "j0,j2"
    left = "SELECT count(*) FROM pg_class WHERE relname LIKE 'procrastinate%'"
    assert _ask(url, left) == 0
    assert _ask(url, left.replace("pg_class", "pg_type").replace("relname", "typname")) == 0
    assert _ask(url, left.replace("pg_class", "pg_proc").replace("relname", "proname")) == 0


def test_lists_tell_requested_instances_from_others_after_the_upgrade(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, "0077")
    with psycopg.connect(url, autocommit=True) as connection:
        make_application(connection)
        for status in ("Requested", "Executing", "Running"):
            connection.execute(
                "INSERT INTO instances"
                " (id, organization_id, application_id, environment_id, version, name, owner_id, status)"
                " VALUES (%s, 'o', 'a', 'e', 1, 'x', 'u', %s)",
                [status, status],
            )
        upgrade(url)
        listed = "SELECT instance_id, status, is_requested FROM fleet ORDER BY instance_id"
        assert connection.execute(listed.encode()).fetchall() == [
            ("Executing", "Executing", False),
            ("Requested", "Executing", True),
            ("Running", "Running", False),
        ]
        connection.execute("UPDATE instances SET status = 'Executing' WHERE id = 'Requested'")
        assert _ask(url, "SELECT count(*) FROM fleet WHERE is_requested") == 0


def test_searches_go_by_the_first_index_of_words_until_the_newest_is_made(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, "0068")
    with psycopg.connect(url, autocommit=True) as connection:
        make_application(connection)
        connection.execute(
            "INSERT INTO instances"
            " (id, organization_id, application_id, environment_id, version, name, owner_id, status)"
            " VALUES ('i', 'o', 'a', 'e', 1, 'old quokka', 'u', 'Running')"
        )
        upgrade(url)
        found = "SELECT launchbay_search('o', 'quokka', 10)"
        changes = "SELECT name, definition IS NULL FROM index_changes WHERE name LIKE 'instances%' ORDER BY number"
        expected = [("instances_word_groups", False), ("instances_words", True), ("instances_search", True)]
        assert connection.execute(changes.encode()).fetchall() == expected
        assert _ask(url, found) == "i"


def test_an_upgrade_brings_addresses_into_their_form(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, "0023")
    with psycopg.connect(url, autocommit=True) as connection:
        for id_, email in (("a", "Ann@Example.org"), ("b", "k@b.c"), ("c", "\u212a@b.c"), ("d", "\u0130@b.c")):
            connection.execute(
                "INSERT INTO users (id, email, name) VALUES (%s, %s, 'Name') ON CONFLICT DO NOTHING", (id_, email)
            )
        stored = connection.execute("SELECT id FROM users").fetchall()
        upgrade(url)
        rows = connection.execute("SELECT id, email, name FROM users ORDER BY id").fetchall()
        expected = [("a", "ann@example.org", "Name"), ("b", "k@b.c", "Name")]
        expected += [("c", "c@invalid", "\u212a@b.c Name"), ("d", "d@invalid", "\u0130@b.c Name")]
        assert rows == [row for row in expected if (row[0],) in stored]
        # As servers of older versions write.
        connection.execute("INSERT INTO users (id, email, name) VALUES ('e', 'Eve@B.C', 'Eve')")
        assert _ask(url, "SELECT email FROM users WHERE id = 'e'") == "eve@b.c"
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute("INSERT INTO users (id, email, name) VALUES ('f', '\u017f@b.c', 'Ful')")
