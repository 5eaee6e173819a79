"""A server whose copy of the secret key is old stores nothing that the others can't read."""

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from launchbay.auth.secret_key import FILE_NAME, KeyFile, SecretKey, read_secret_key
from launchbay.cli.main import main
from launchbay.errors import CannotStart, SecretKeyOutdated
from launchbay.store import keys
from launchbay.usecases import sealing
from launchbay.usecases.sealing import SEALED
from tests.support.databases import Databases
from tests.support.eventually import eventually
from tests.support.service import Api, Caller, running_api
from tests.support.services import made_vault, told


class TwoServers:
    """Servers of one database with a copy of the key file each."""

    def __init__(self, first: Api, second: Api, vault: str) -> None:
        self.first = first
        self.second = second
        self.vault = vault

    def copy_key(self) -> None:
        """Copy the file of the first server to the second one."""
        shutil.copy(self.first.settings.key_file(), self.second.settings.key_file())

    async def rotate(self, *options: str, on: Api | None = None) -> Result:
        settings = (on or self.first).settings
        where = ["--data-dir", str(settings.data_dir), "--database-url", settings.database_url]
        return await asyncio.to_thread(CliRunner().invoke, main, ["rotate-secret-key", *where, *options])

    async def store(self, caller: Caller, name: str) -> int:
        body = {"arguments": {"name": name, "value": f"value of {name}"}}
        return (await caller.post(f"services/{self.vault}/set-secret", body)).status_code

    async def until_ready_is(self, status: int) -> None:
        await eventually(self.ready, lambda found: found == status)

    async def ready(self) -> int:
        return (await self.second.client.get("http://launchbay/health/ready")).status_code


@pytest.fixture
async def servers(databases: Databases, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> AsyncIterator[TwoServers]:
    monkeypatch.setattr(sealing, "LOOK_S", 0.1)
    url = databases.create()
    async with running_api(url, secret_key_file="") as first:
        copy = tmp_path / FILE_NAME
        shutil.copy(first.settings.key_file(), copy)
        vault = await made_vault(first)
        async with running_api(url, engine=False, secret_key_file="", data_dir=tmp_path) as second:
            yield TwoServers(first, second, vault)
    databases.drop(url)


@pytest.mark.slow  # two servers
async def test_a_server_with_a_forgotten_copy_stores_nothing_and_the_rotation_does_not_end(
    servers: TwoServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "WAIT_S", 0.5)
    with capture_logs() as lines:
        assert (await servers.rotate()).exit_code == 0
        await servers.until_ready_is(503)
        assert await servers.store(servers.second, "lost") == 503
        answer = await servers.second.get(f"services/{servers.vault}")
        assert answer.status_code < 500
        finished = await servers.rotate("--finish")
    assert [line["event"] for line in lines if line["log_level"] == "error"] == ["secret_key.outdated"]
    assert (finished.exit_code, "don't have the newest secret key: " in finished.output) == (1, True)
    assert f"process {os.getpid()}" in finished.output
    assert [word for word, _ in KeyFile(servers.first.settings.key_file()).lines()] == ["", "former"]
    servers.copy_key()
    await servers.until_ready_is(200)
    assert (await servers.rotate("--finish")).exit_code == 0
    assert await servers.store(servers.second, "kept") == 200
    assert await told(servers.first, servers.vault, "get-secret", name="kept") == {"value": "value of kept"}


@pytest.mark.slow  # two servers
async def test_the_database_refuses_what_a_process_that_missed_the_rotation_encrypts(servers: TwoServers) -> None:
    former = SecretKey(KeyFile(servers.first.settings.key_file()).lines()[0][1])
    assert await servers.store(servers.first, "db") == 200
    assert (await servers.rotate("--prepare")).exit_code == 0
    servers.copy_key()
    assert (await servers.rotate()).exit_code == 0
    column, purpose = keys.vault, SEALED[keys.vault]

    async def write() -> None:
        async with servers.first.database.transaction() as connection:
            [row] = await column.rows(connection, id="", part="", mark=b"-----", count=9)
            sealed = former.seal(b"value of db", purpose(row.id, row.part))
            assert await column.put(connection, id=row.id, part=row.part, sealed=sealed, before=row.sealed)

    await write()  # the end of the rotation encrypts it again
    assert (await servers.rotate("--finish")).exit_code == 0
    with pytest.raises(SecretKeyOutdated):
        await write()
    assert await told(servers.first, servers.vault, "get-secret", name="db") == {"value": "value of db"}


@pytest.mark.slow  # two servers, and a rotation in four steps
async def test_no_stored_secret_is_lost_while_two_servers_store_and_the_key_rotates(servers: TwoServers) -> None:
    stored: list[str] = []
    stop = asyncio.Event()

    async def store(caller: Caller, prefix: str) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            status = await servers.store(caller, f"{prefix}{number}")
            assert status in {200, 503}
            if status == 200:
                stored.append(f"{prefix}{number}")

    storing = [asyncio.create_task(store(servers.first, "a")), asyncio.create_task(store(servers.second, "b"))]
    for prepares in (True, False):
        if prepares:
            assert (await servers.rotate("--prepare")).exit_code == 0
            servers.copy_key()
        assert (await servers.rotate()).exit_code == 0
        finishing = asyncio.create_task(servers.rotate("--finish"))
        if not prepares:
            await servers.until_ready_is(503)
            assert not finishing.done()
            servers.copy_key()
        assert (await finishing).exit_code == 0
        servers.copy_key()
    stop.set()
    await asyncio.gather(*storing)
    assert {name[0] for name in stored} == {"a", "b"}
    for name in stored:
        for server in (servers.first, servers.second):
            assert await told(server, servers.vault, "get-secret", name=name) == {"value": f"value of {name}"}


@pytest.mark.slow  # two servers
async def test_a_rotation_with_an_old_copy_of_the_file_is_refused(servers: TwoServers) -> None:
    assert (await servers.rotate()).exit_code == 0
    await servers.until_ready_is(503)
    before = servers.second.settings.key_file().read_bytes()
    refused = await servers.rotate(on=servers.second)
    assert (refused.exit_code, "This key file is old." in refused.output) == (1, True)
    assert servers.second.settings.key_file().read_bytes() == before


def test_a_replaced_file_keeps_its_owner_its_group_and_its_mode(tmp_path: Path) -> None:
    file = tmp_path / FILE_NAME
    read_secret_key(file)
    file.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(file, 4321, 1234)
    before = file.stat()
    KeyFile(file).write([("", b"n" * 32)])
    after = file.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, 0o640)
    assert after.st_ino != before.st_ino


@pytest.mark.parametrize("option", ["--prepare", "--finish", ""])
def test_a_file_that_cannot_be_replaced_stops_the_rotation_before_it_begins(tmp_path: Path, option: str) -> None:
    file = tmp_path / ("k" * 250)  # the name of a draft is longer than any file system takes
    file.write_text(f"{'a' * 43}=\nformer {'b' * 43}=\n")
    file.chmod(0o600)
    before = file.read_bytes()
    environment = {"LAUNCHBAY_SECRET_KEY_FILE": str(file)}
    unreachable = ["--database-url", "postgresql://nobody@127.0.0.1:1/none"]
    command = ["rotate-secret-key", *unreachable, *([option] if option else [])]
    result = CliRunner().invoke(main, command, env=environment)
    assert result.exit_code == 1
    assert f"The secret key file {file} can't be replaced:" in result.stderr
    assert "Run the command as root, or as the account of the server" in result.stderr
    assert (file.read_bytes(), [entry.name for entry in tmp_path.iterdir()]) == (before, [file.name])
    with pytest.raises(CannotStart, match="can't be replaced"):
        KeyFile(file).write([("", b"n" * 32)])


@pytest.mark.slow  # two servers
async def test_a_key_file_that_the_server_may_not_read_is_one_line_of_the_log(servers: TwoServers) -> None:
    with capture_logs() as lines:
        servers.second.settings.key_file().chmod(0o644)  # which the server refuses
        await eventually(lambda: lines)
        await asyncio.sleep(0.5)
        assert await servers.store(servers.second, "kept") == 200
    [line] = [line for line in lines if line["log_level"] == "error"]
    assert line["event"] == "secret_key.unreadable"
    assert "chmod 600" in line["error"]


@pytest.mark.slow  # two servers
async def test_a_server_looks_for_the_newest_key_again_after_a_look_that_failed_unexpectedly(
    servers: TwoServers,
) -> None:
    url = servers.first.settings.database_url
    with capture_logs() as lines, psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("DELETE FROM server_keys RETURNING name, value").fetchone()
        await eventually(lambda: "secret_key.look_failed" in [line["event"] for line in lines])
        connection.execute("INSERT INTO server_keys (name, value) VALUES (%s, %s)", row)
        assert (await servers.rotate()).exit_code == 0
        await servers.until_ready_is(503)
    servers.copy_key()
    await servers.until_ready_is(200)
