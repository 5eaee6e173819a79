"""A version that is older than its database ends at once, and says which one to start (docs/howto/back-up.md)."""

import os
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from launchbay.access.secret_key import read_secret_key
from launchbay.store.backup import back_up
from tests.databases import Databases


@pytest.fixture
def newer_url(database_url: str) -> str:
    """A database that version 9.1.0 has upgraded."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("COMMENT ON TABLE alembic_version IS 'Launchbay 9.1.0'")
    return database_url


def launchbay(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "launchbay.bootstrap.main", *arguments]
    given = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    return subprocess.run(command, check=False, capture_output=True, text=True, env=given, timeout=120)


@pytest.mark.parametrize("command", ["serve", "worker", "migrate", "rotate-secret-key"])
def test_commands_refuse_a_newer_database_and_leave_it_alone(command: str, newer_url: str, tmp_path: Path) -> None:
    read_secret_key(tmp_path / "secret.key")  # which makes it
    key = (tmp_path / "secret.key").read_bytes()
    run = launchbay(command, "--data-dir", str(tmp_path), "--database-url", newer_url)
    assert (run.returncode, run.stdout) == (1, "")
    assert "has schema 9999" in run.stderr
    assert "Launchbay 9.1.0 has upgraded it.\nStart 9.1.0 or a later one, or restore the backup" in run.stderr
    with psycopg.connect(newer_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (0,)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("secret.key", key)]


def test_a_newer_backup_is_refused(databases: Databases, newer_url: str, tmp_path: Path) -> None:
    back_up(newer_url, tmp_path / "b.dump")
    empty = databases.create(empty=True)
    run = launchbay("restore", str(tmp_path / "b.dump"), "--data-dir", str(tmp_path), "--database-url", empty)
    assert (run.returncode, run.stdout) == (1, "")
    assert "has schema 9999" in run.stderr
    assert "Start 9.1.0 or a later one" in run.stderr
    databases.drop(empty)
