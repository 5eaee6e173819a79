import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from launchbay.errors import CannotStart
from launchbay.store.migrate import revisions, upgrade

MIGRATIONS = Path(__file__).parents[2] / "src" / "launchbay" / "store" / "migrations"


def _ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return None if row is None else row[0]


def _do(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


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
