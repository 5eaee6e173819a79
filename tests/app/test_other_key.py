"""A process whose secret key is not that of the database does not start; where the key is lost there is a way."""

import asyncio
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from launchbay.app.build import lifespan
from launchbay.auth.secret_key import read_secret_key
from launchbay.cli.main import main
from launchbay.errors import CannotStart
from launchbay.settings import Settings
from tests.support.servers import Process


def look(url: str, directory: Path, password: str = "one for tests") -> None:
    """Start all parts with the key in this directory, as the commands do, and end them."""

    async def run() -> None:
        settings = Settings(database_url=url, data_dir=directory, admin_password=password)
        async with lifespan(settings):
            pass

    asyncio.run(run())


def test_a_first_start_refuses_a_weak_password_and_a_later_one_ignores_it(database_url: str, tmp_path: Path) -> None:
    told = r"LAUNCHBAY_ADMIN_PASSWORD \(admin_password in the settings file\): This password is easy to guess\."
    with pytest.raises(CannotStart, match=told):
        look(database_url, tmp_path, "password12")
    look(database_url, tmp_path)
    look(database_url, tmp_path, "password12")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["serve", "worker"])
def test_a_process_with_another_key_does_not_start(command: str, database_url: str, tmp_path: Path) -> None:
    look(database_url, tmp_path / "one")
    look(database_url, tmp_path / "one")
    read_secret_key(tmp_path / "two" / "secret.key")
    arguments = ["--port", "0", "--data-dir", str(tmp_path / "two"), "--database-url", database_url]
    with pytest.raises(AssertionError, match=r"encrypted with another secret key than .*two/secret\.key") as refusal:
        Process([command, *arguments], tmp_path).start()
    assert "Copy the key file of another server" in str(refusal.value)


def test_a_missing_key_of_a_database_with_secrets_is_not_replaced(database_url: str, tmp_path: Path) -> None:
    look(database_url, tmp_path / "one")
    with pytest.raises(CannotStart) as refusal:
        look(database_url, tmp_path / "two")
    assert f"{tmp_path / 'two' / 'secret.key'} is missing" in str(refusal.value)
    assert "Copy the file of another server or of the backup" in str(refusal.value)
    assert not (tmp_path / "two").exists()


@pytest.mark.slow
def test_where_the_key_is_lost_a_rotation_gives_the_database_a_new_one(database_url: str, tmp_path: Path) -> None:
    look(database_url, tmp_path / "one")
    read_secret_key(tmp_path / "two" / "secret.key")
    with pytest.raises(CannotStart, match="is encrypted with another secret key"):
        look(database_url, tmp_path / "two")
    where = ["--data-dir", str(tmp_path / "two"), "--database-url", database_url]
    assert CliRunner().invoke(main, ["rotate-secret-key", *where]).exit_code == 0
    look(database_url, tmp_path / "two")
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM session_keys").fetchone() == (1,)
