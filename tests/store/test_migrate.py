import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from launchbay import __version__
from launchbay.errors import CannotStart
from launchbay.store.migrate import OLDEST_BESIDE, revisions, upgrade
from tests.databases import migrate_to

_SERVERS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'launchbay'"
_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'launchbay migrate' AND wait_event_type = 'Lock'
"""
MIGRATIONS = Path(__file__).parents[2] / "src" / "launchbay" / "store" / "migrations"


def _ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return None if row is None else row[0]


def _do(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def _until(is_so: Callable[[], bool]) -> None:
    for _ in range(3_000):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it has not come about in 30 s")


def test_an_empty_database_gets_the_schema_once(empty_database_url: str) -> None:
    assert upgrade(empty_database_url) is True
    assert _ask(empty_database_url, "SELECT version_num FROM alembic_version") == revisions()[-1]
    assert _ask(empty_database_url, "SELECT count(*) FROM instances") == 0
    assert upgrade(empty_database_url) is False


def test_four_servers_starting_at_once_migrate_once(empty_database_url: str) -> None:
    code = "import sys; from launchbay.store.migrate import upgrade; upgrade(sys.argv[1])"
    servers = [
        subprocess.Popen([sys.executable, "-c", code, empty_database_url], stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    errors = [server.communicate()[1] for server in servers]
    assert [server.returncode for server in servers] == [0, 0, 0, 0], errors
    assert _ask(empty_database_url, "SELECT string_agg(version_num, ',') FROM alembic_version") == revisions()[-1]


def test_a_database_that_a_newer_version_upgraded_is_refused_and_left_alone(database_url: str) -> None:
    _do(database_url, "UPDATE alembic_version SET version_num = '9999'")
    _do(database_url, "COMMENT ON TABLE alembic_version IS NULL")
    with pytest.raises(CannotStart, match=r"has schema 9999, .* a newer version has upgraded it"):
        upgrade(database_url)
    assert _ask(database_url, "SELECT version_num FROM alembic_version") == "9999"


def test_a_migration_that_fails_leaves_the_database_as_it_was(empty_database_url: str) -> None:
    _do(empty_database_url, "CREATE TABLE manifests (mine int)")
    with pytest.raises(CannotStart, match=r"could not be brought to schema .*manifests"):
        upgrade(empty_database_url)
    assert _ask(empty_database_url, "SELECT to_regclass('organizations')") is None
    assert _ask(empty_database_url, "SELECT to_regclass('alembic_version')") is None
    _do(empty_database_url, "DROP TABLE manifests")
    assert upgrade(empty_database_url) is True


def test_a_table_in_use_keeps_an_upgrade_waiting_and_nobody_else(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, OLDEST_BESIDE)
    with ThreadPoolExecutor() as threads:
        with psycopg.connect(url) as reader:  # such as a backup, which reads every table until its end
            reader.execute("SELECT count(*) FROM instance_events")
            upgrading = threads.submit(upgrade, url)
            _until(lambda: _ask(url, _WAITING) == 1)
            # In the queue behind the upgrade, and through it before the reader is done.
            assert _ask(url, "SELECT count(*) FROM instance_events") == 0
            assert not upgrading.done()
            assert _ask(url, "SELECT version_num FROM alembic_version") == OLDEST_BESIDE
        assert upgrading.result() is True


def test_servers_that_are_too_old_to_run_beside_are_to_be_stopped_first(empty_database_url: str) -> None:
    url = empty_database_url
    migrate_to(url, f"{int(OLDEST_BESIDE) - 1:04d}")
    with (
        psycopg.connect(url, application_name="launchbay"),
        pytest.raises(CannotStart, match=r"1 connections of .* older version .* Stop them all"),
    ):
        upgrade(url)
    _until(lambda: _ask(url, _SERVERS) == 0)
    assert upgrade(url) is True


def test_servers_that_may_run_beside_go_on(empty_database_url: str) -> None:
    migrate_to(empty_database_url, OLDEST_BESIDE)
    with psycopg.connect(empty_database_url, application_name="launchbay"):
        assert upgrade(empty_database_url) is True


def test_an_upgrade_says_which_version_it_was(database_url: str) -> None:
    said = _ask(database_url, "SELECT obj_description('alembic_version'::regclass)")
    assert said == f"Launchbay {__version__}"


def test_a_database_that_does_not_answer_is_a_sentence_without_the_password() -> None:
    with pytest.raises(CannotStart) as caught:
        upgrade("postgresql://ann:s3cret@127.0.0.1:1/db")
    assert "does not let us in" in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_the_check_that_nothing_is_to_be_done_loads_neither_alembic_nor_sqlalchemy(database_url: str) -> None:
    code = (
        "import sys; from launchbay.store.migrate import upgrade; assert upgrade(sys.argv[1]) is False;"
        "print([name for name in sys.modules if name in ('alembic', 'sqlalchemy')])"
    )
    run = subprocess.run([sys.executable, "-c", code, database_url], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def test_revisions_have_one_number_after_the_other_and_a_file_of_statements_each() -> None:
    numbers = revisions()
    assert numbers == [f"{number:04d}" for number in range(1, len(numbers) + 1)]
    assert sorted(path.name[:4] for path in MIGRATIONS.glob("*.sql")) == numbers
