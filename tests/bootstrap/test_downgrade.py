"""A version that is older than its database ends at once, and says which one to start (docs/howto/back-up.md)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from launchbay.app.build import lifespan
from launchbay.auth.secret_key import read_secret_key
from launchbay.cli.main import main
from launchbay.errors import CannotStart
from launchbay.postgres.backup import back_up
from launchbay.settings import Settings
from tests.databases import Databases


@pytest.fixture
def newer_url(database_url: str) -> str:
    """A database that version 9.1.0 has upgraded."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute("COMMENT ON TABLE alembic_version IS 'Launchbay 9.1.0'")
    return database_url


def launchbay(*arguments: str) -> tuple[int, str, str]:
    """Run a command in this process and return its exit status and what it printed."""
    result = CliRunner().invoke(main, arguments)
    return result.exit_code, result.stdout, result.stderr


def launchbay_process(*arguments: str) -> tuple[int, str, str]:
    """Run a command as a process, which may go on and serve."""
    command = [sys.executable, "-m", "launchbay.cli.main", *arguments]
    given = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    run = subprocess.run(command, check=False, capture_output=True, text=True, env=given, timeout=120)
    return run.returncode, run.stdout, run.stderr


def test_a_process_of_an_older_version_starts_no_part(newer_url: str, tmp_path: Path) -> None:
    async def start() -> None:
        async with lifespan(Settings(database_url=newer_url, data_dir=tmp_path)):
            raise AssertionError("It started.")

    with pytest.raises(CannotStart, match="has schema 9999"):
        asyncio.run(start())


@pytest.mark.parametrize(
    ("launchbay", "command"),
    [
        (launchbay, "migrate"),
        (launchbay, "rotate-secret-key"),
        pytest.param(launchbay_process, "serve", marks=pytest.mark.slow),
        pytest.param(launchbay_process, "worker", marks=pytest.mark.slow),
    ],
)
def test_commands_refuse_a_newer_database_and_leave_it_alone(
    launchbay: Callable[..., tuple[int, str, str]], command: str, newer_url: str, tmp_path: Path
) -> None:
    read_secret_key(tmp_path / "secret.key")  # which makes it
    key = (tmp_path / "secret.key").read_bytes()
    status, printed, error = launchbay(command, "--data-dir", str(tmp_path), "--database-url", newer_url)
    assert (status, printed) == (1, "")
    assert "has schema 9999" in error
    assert "Launchbay 9.1.0 has upgraded it.\nStart 9.1.0 or a later one, or restore the backup" in error
    with psycopg.connect(newer_url) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == ("9999",)
        assert connection.execute("SELECT count(*) FROM users").fetchone() == (0,)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("secret.key", key)]


def test_a_newer_backup_is_refused(databases: Databases, newer_url: str, tmp_path: Path) -> None:
    back_up(newer_url, tmp_path / "b.dump")
    empty = databases.create(empty=True)
    dump = str(tmp_path / "b.dump")
    status, printed, error = launchbay("restore", dump, "--data-dir", str(tmp_path), "--database-url", empty)
    assert (status, printed) == (1, "")
    assert "has schema 9999" in error
    assert "Start 9.1.0 or a later one" in error
    databases.drop(empty)
