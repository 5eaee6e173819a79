"""Launchbay behind PgBouncer, in both of its pool modes (decision 0099)."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from launchbay.errors import CannotStart, Unavailable
from launchbay.store.database import Database
from launchbay.store.schema import upgrade
from tests.support.databases import Databases
from tests.support.documentation import DOCS, blocks
from tests.support.eventually import eventually, eventually_blocking
from tests.support.external_services import made_certificate
from tests.support.manifests import waits_in_a_row
from tests.support.pooler import PATH, WITHIN_S, Pooler, pooler, set_for_sessions
from tests.support.servers import free_ports
from tests.support.service import accepted, running_api
from tests.support.versions import postgres_with_tls

SESSIONS = 4
STATE = """
SELECT pg_backend_pid(), current_setting('synchronous_commit'), current_setting('statement_timeout'),
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_listening_channels()),
    (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture
def url(databases: Databases) -> Iterator[str]:
    """A database with the settings that a pooler needs."""
    made = databases.create()
    set_for_sessions(made)
    yield made
    databases.drop(made)


async def states(url: str, sessions: int) -> list[tuple[Any, ...]]:
    """Return what is left in each of the pooler's sessions."""
    found = []
    async with AsyncExitStack() as stack:
        for _ in range(sessions):  # each holds one, because its transaction is open
            connection = await stack.enter_async_context(
                await psycopg.AsyncConnection.connect(url, prepare_threshold=None)
            )
            found.append(await (await connection.execute(STATE)).fetchone() or ())
    assert len({state[0] for state in found}) == sessions
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["transaction", "session"])
async def test_everything_works_through_a_pooler_and_leaves_nothing_in_its_sessions(url: str, mode: str) -> None:
    with pooler(url, mode, sessions=SESSIONS) as through:
        connections = SESSIONS if mode == "session" else 3 * SESSIONS  # in session mode, each needs a session
        async with running_api(through.url, database_direct_url=url, database_connections=connections) as api:
            name = {"name": "pooled"}
            application = accepted(await api.post(f"organizations/{api.organization}/applications", name))["id"]
            accepted(await api.put_yaml(f"applications/{application}/manifest", waits_in_a_row(0, 0.1, 0)))

            async def launch() -> Any:
                instance = accepted(await api.post(f"applications/{application}/launch", {}))["id"]
                return accepted(await api.get(f"instances/{instance}", wait=30))["status"]

            assert await asyncio.gather(*(launch() for _ in range(40))) == ["Running"] * 40
            assert len(accepted(await api.get(f"applications/{application}/instances"))) == 40  # through a cursor
            assert (await api.client.get("http://launchbay/health/ready")).status_code == 200
        for _, synchronous_commit, statement_timeout, *left in await states(through.url, SESSIONS):
            assert (synchronous_commit, statement_timeout, left) == ("on", "30s", [0, 0, 0])


async def test_statements_that_others_prepared_in_the_pool_are_not_run(url: str) -> None:
    with pooler(url, "transaction", sessions=1) as through:
        async with await psycopg.AsyncConnection.connect(through.url, autocommit=True) as foreign:
            for number in range(20):
                for form in ("lb_{}", "_lb_{}", "_pg3_{}", "s{}", "s_{}", "launchbay_{}"):
                    await foreign.execute(f"PREPARE {form.format(number)} AS SELECT 'foreign'".encode(), prepare=False)
        async with Database(through.url, direct_url=url, connections=2) as database:
            for expected in range(50):
                async with database.connection() as connection:
                    row = await (await connection.execute("SELECT %s::integer", [expected])).fetchone()
                    assert row == (expected,)
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO organizations (id, name) VALUES ('a', 'Acme')")
        [state] = await states(through.url, 1)
        assert state[3] == 20 * 6  # theirs, and none of ours


@pytest.mark.parametrize("ignores_options", [False, True])
async def test_a_pooler_without_a_direct_url_is_refused_before_anything_is_done(
    url: str, *, ignores_options: bool
) -> None:
    with pooler(url, "transaction", ignores_options=ignores_options) as through:
        for start in (upgrade(through.url), Database(through.url).open()):
            with pytest.raises(CannotStart, match="LAUNCHBAY_DATABASE_URL leads to a connection pooler") as refused:
                await start
            assert "Set LAUNCHBAY_DATABASE_DIRECT_URL to the address of PostgreSQL itself" in str(refused.value)
        with pytest.raises(CannotStart, match="LAUNCHBAY_DATABASE_DIRECT_URL leads to a connection pooler"):
            await Database(through.url, direct_url=through.url).open()


async def test_another_database_behind_the_direct_url_is_refused(url: str, databases: Databases) -> None:
    other = databases.create()
    with pooler(url, "transaction") as through, pytest.raises(CannotStart, match="lead to different databases"):
        await Database(through.url, direct_url=other).open()
    databases.drop(other)


async def test_sessions_without_the_settings_are_refused_with_the_statements_that_set_them(
    databases: Databases,
) -> None:
    url = databases.create()
    name = conninfo_to_dict(url)["dbname"]
    set_for_sessions(url, {"timezone": "Europe/Berlin", "synchronous_commit": "off", "statement_timeout": "10s"})
    with pooler(url, "transaction") as through:
        with pytest.raises(CannotStart) as refused:
            await Database(through.url, direct_url=url).open()
        assert f"""
ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = '60s';
ALTER DATABASE "{name}" SET timezone = 'UTC';
ALTER DATABASE "{name}" SET synchronous_commit = 'on';
Then""" in "\n".join(refused.value.messages)
        with psycopg.connect(url, autocommit=True) as owner:
            for message in refused.value.messages:
                if message.startswith("ALTER"):
                    owner.execute(message.encode())
        through.stop()
        through.start()  # new sessions
        async with Database(through.url, direct_url=url) as database:
            await database.ping()
    databases.drop(url)


@pytest.fixture
async def behind(url: str) -> AsyncIterator[tuple[Pooler, Any]]:
    with pooler(url, "transaction") as through:
        async with running_api(through.url, database_direct_url=url, engine=False) as api:
            yield through, api


@pytest.mark.slow
async def test_readiness_tells_when_the_pooler_is_gone_or_hangs_and_when_it_is_back(
    behind: tuple[Pooler, Any],
) -> None:
    through, api = behind

    async def status() -> int:
        return int((await api.client.get("http://launchbay/health/ready")).status_code)

    async def until(expected: int) -> None:
        await eventually(status, lambda found: found == expected)

    assert await status() == 200
    through.freeze()
    try:
        assert await status() == 503
    finally:
        through.thaw()
    await until(200)
    through.stop()
    assert await status() == 503
    with pytest.raises(Unavailable):
        await api.database.ping()
    through.start()
    await until(200)


@pytest.mark.slow  # starts PostgreSQL and PgBouncer
def test_the_configuration_of_the_page_verifies_postgresql_and_encrypts_clients(tmp_path: Path) -> None:
    program = shutil.which("pgbouncer", path=PATH)
    if program is None:
        pytest.skip("pgbouncer isn't installed")
    [text] = [block.text for block in blocks(DOCS / "howto" / "connection-pooler.md") if block.language == "ini"]
    [port] = free_ports(1)
    with postgres_with_tls() as url, tempfile.TemporaryDirectory(prefix="launchbay-pooler-") as made:
        database, directory = conninfo_to_dict(url), Path(made)
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("CREATE ROLE launchbay LOGIN")
            owner.execute("CREATE DATABASE launchbay OWNER launchbay")
        shutil.copy(str(database["sslrootcert"]), directory / "database-ca.crt")
        certificate, key = made_certificate(tmp_path)
        shutil.copy(certificate, directory / "server.crt")
        shutil.copy(key, directory / "server.key")
        (directory / "userlist.txt").write_text('"launchbay" "secret"\n"pooler_admin" "other secret"\n')
        for former, now in (
            ("host=db.example.org port=5432", f"host=127.0.0.1 port={database['port']}"),
            ("listen_addr = 0.0.0.0", "listen_addr = 127.0.0.1"),
            ("listen_port = 6432", f"listen_port = {port}"),
            ("/etc/pgbouncer/", f"{directory}/"),
        ):
            assert former in text
            text = text.replace(former, now)
        (directory / "pgbouncer.ini").write_text(text)
        account = ["-u", "postgres"] if os.geteuid() == 0 else []  # it refuses to run as root
        for path in (directory, *directory.iterdir()) if account else ():
            shutil.chown(path, "postgres")
        process = subprocess.Popen([program, "-q", *account, directory / "pgbouncer.ini"], stderr=subprocess.DEVNULL)
        try:
            through = f"host=127.0.0.1 port={port} connect_timeout=10"
            launchbay = f"{through} user=launchbay password=secret dbname=launchbay"
            with _answering(f"{launchbay} sslmode=require") as connection:
                row = connection.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()
                assert row == (True,)
            with pytest.raises(psycopg.OperationalError, match="SSL required"):
                psycopg.connect(f"{launchbay} sslmode=disable")
            # Another authority than that of PostgreSQL: new sessions must fail.
            shutil.copy(certificate, directory / "database-ca.crt")
            admin = f"{through} user=pooler_admin password='other secret' dbname=pgbouncer sslmode=require"
            with psycopg.connect(admin, autocommit=True) as connection:
                connection.execute("RELOAD")
                connection.execute("RECONNECT")
            with pytest.raises(psycopg.Error), psycopg.connect(f"{launchbay} sslmode=require") as connection:
                connection.execute("SELECT 1")
        finally:
            process.kill()
            process.wait(WITHIN_S)


def _answering(url: str) -> psycopg.Connection:
    connect = partial(psycopg.connect, url, autocommit=True)
    return eventually_blocking(connect, lambda _: True, within_s=WITHIN_S, despite=psycopg.OperationalError)
