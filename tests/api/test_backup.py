"""A service's whole database in a file, taken while it works, and brought back elsewhere (docs/howto/back-up.md)."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from launchbay.errors import CannotStart
from launchbay.postgres.backup import back_up, restore
from launchbay.store.schema import revisions, upgrade
from tests.support.databases import Databases
from tests.support.service import accepted, basic, running_api
from tests.support.versions import older_postgres, postgres_with_tls

MANIFEST = """
launch:
  steps: [{slow: {action: wait, parameters: {delay: 1 sec}}}]
  return: {done: {value: "yes"}}
go: {steps: []}
"""


async def pending(url: str) -> list[str]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        rows = await (await connection.execute("SELECT workflow FROM schedules WHERE kind = 'workflow'")).fetchall()
    return [workflow for (workflow,) in rows]


@pytest.mark.slow
def test_a_backup_taken_amid_changes_holds_one_moment_of_everything(databases: Databases, tmp_path: Path) -> None:
    url, copy = databases.create(), databases.create(empty=True)

    async def before() -> tuple[str, list[str], str]:
        async with running_api(url, secret_key_file=str(tmp_path / "secret.key")) as api:
            application = await api.application(MANIFEST)
            instances = [await api.launch(application) for _ in range(3)]
            later = {"interval": "999999"}
            accepted(await api.post(f"instances/{await api.running(MANIFEST)}/go/schedule", later))
            body = {"email": "ann@example.org", "name": "Ann", "password": "one of hers"}
            accepted(await api.post(f"organizations/{api.organization}/users", body))
            await asyncio.to_thread(back_up, url, tmp_path / "b.dump")
            return application, instances, api.organization

    async def after(application: str, instances: list[str], organization: str) -> None:
        async with running_api(copy, secret_key_file=str(tmp_path / "secret.key")) as api:
            for instance in instances:  # the jobs were under way in the backup, and go on here
                document = await api.settled(instance)
                assert (document["status"], document["returnValues"]) == ("Running", {"done": "yes"})
            assert len(accepted(await api.get(f"applications/{application}/instances"))) == 3
            assert api.organization == organization
            assert await pending(api.database.url) == ["go"]
            accepted(await api.caller(basic("ann@example.org", "one of hers")).get("organizations"))

    known = asyncio.run(before())
    assert restore(copy, tmp_path / "b.dump") == revisions()[-1]
    asyncio.run(after(*known))


def test_a_backup_is_for_its_owner_alone_and_overwrites_nothing(databases: Databases, tmp_path: Path) -> None:
    file = tmp_path / "b.dump"
    size = back_up(databases.create(), file)
    assert (file.stat().st_size, file.stat().st_mode & 0o777) == (size, 0o600)
    with pytest.raises(CannotStart, match="is there already"):
        back_up(databases.create(), file)
    assert file.stat().st_size == size
    assert [path.name for path in tmp_path.iterdir()] == ["b.dump"]


def test_a_backup_that_fails_leaves_no_file(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    databases.drop(url)
    with pytest.raises(CannotStart, match="could not be made"):
        back_up(url, tmp_path / "b.dump")
    assert list(tmp_path.iterdir()) == []


def test_only_an_empty_database_is_restored_into(databases: Databases, tmp_path: Path) -> None:
    back_up(databases.create(), tmp_path / "b.dump")
    used = databases.create()
    with pytest.raises(CannotStart, match="not empty"):
        restore(used, tmp_path / "b.dump")


@pytest.mark.parametrize("content", [b"", b"PGDMP", b"not a backup", b"\0" * 5000])
def test_what_is_no_backup_is_refused(databases: Databases, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "b.dump").write_bytes(content)
    empty = databases.create(empty=True)
    with pytest.raises(CannotStart, match="cannot be read as a backup"):
        restore(empty, tmp_path / "b.dump")


@pytest.mark.parametrize("missing_bytes", [1, 100, 10_000, 100_000])
def test_a_truncated_backup_restores_nothing(databases: Databases, tmp_path: Path, missing_bytes: int) -> None:
    file = tmp_path / "b.dump"
    back_up(databases.create(), file)
    file.write_bytes(file.read_bytes()[:-missing_bytes])
    empty = databases.create(empty=True)
    with pytest.raises(CannotStart):
        restore(empty, file)
    with psycopg.connect(empty) as connection:
        tables = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'").fetchone()
    assert tables == (0,)


@pytest.mark.slow
def test_a_backup_goes_to_an_older_postgresql_and_back(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO organizations (id, name) VALUES ('6b00261c4ba4eb76fa93ae77', 'SET x = 0;')")
    back_up(url, tmp_path / "there.dump")
    with older_postgres() as older:
        assert restore(older, tmp_path / "there.dump") == revisions()[-1]
        with psycopg.connect(older, autocommit=True) as connection:
            # What servers since 15.20 and its kin write by themselves.
            connection.execute(
                "UPDATE pg_attribute SET attoptions = '{pg_attver=26499424}'"
                " WHERE attrelid = 'organizations'::regclass AND attnum > 0"
            )
        back_up(older, tmp_path / "back.dump")
    again = databases.create(empty=True)
    restore(again, tmp_path / "back.dump")
    with psycopg.connect(again) as connection:
        assert connection.execute("SELECT name FROM organizations").fetchall() == [("SET x = 0;",)]


@pytest.mark.slow
def test_a_backup_of_a_database_with_tls_takes_programs_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "b.dump"
    with postgres_with_tls() as url:
        asyncio.run(upgrade(url))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("INSERT INTO organizations (id, name) VALUES ('6b00261c4ba4eb76fa93ae77', 'Ann')")
        assert back_up(url, file) == file.stat().st_size
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        assert restore(url, file) == revisions()[-1]
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT name FROM organizations").fetchall() == [("Ann",)]
            major = connection.info.server_version // 10_000

        monkeypatch.setenv("PATH", str(tmp_path))
        missing = "sslmode=verify-full, and no pg_dump that can use TLS is in PATH."
        with pytest.raises(CannotStart, match=f"{missing}[^$]*postgresql-client-{major} "):
            back_up(url, tmp_path / "c.dump")
        older = tmp_path / "pg_dump"
        older.write_text("#!/bin/sh\necho 'pg_dump (PostgreSQL) 9.6.24'\n")
        older.chmod(0o755)
        with pytest.raises(CannotStart, match=f"PostgreSQL {major}, and {older} is older: pg_dump .* 9.6.24"):
            back_up(url, tmp_path / "c.dump")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.dump", "pg_dump"]


def test_a_backup_of_a_newer_version_is_refused(databases: Databases, tmp_path: Path) -> None:
    url = databases.create()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    back_up(url, tmp_path / "b.dump")
    with pytest.raises(CannotStart, match="a newer version") as refusal:
        restore(databases.create(empty=True), tmp_path / "b.dump")
    assert "9999" in str(refusal.value)


def test_a_dump_of_something_else_is_refused(databases: Databases, tmp_path: Path) -> None:
    url = databases.create(empty=True)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE other (id int)")
    back_up(url, tmp_path / "b.dump")
    with pytest.raises(CannotStart, match="no database of Launchbay"):
        restore(databases.create(empty=True), tmp_path / "b.dump")
