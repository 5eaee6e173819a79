"""A version that is older than its database ends at once, and says which one to start (docs/howto/back-up.md)."""

import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psycopg
import pytest
from click.testing import CliRunner

from launchbay import __version__
from launchbay.actions import registry
from launchbay.app.build import lifespan
from launchbay.app.features import FEATURES
from launchbay.auth.secret_key import FILE_NAME, KeyFile, SecretKey, read_secret_key
from launchbay.cli.main import main
from launchbay.errors import CannotStart
from launchbay.postgres.backup import back_up
from launchbay.settings import Settings
from launchbay.store import keys
from launchbay.usecases.sealing import SEALED
from tests.support.databases import Databases
from tests.support.eventually import eventually_blocking
from tests.support.servers import EMAIL, PASSWORD, Process, prepare
from tests.support.service import Api, accepted, running_api
from tests.support.services import LEAK, SECRET, USER, assert_covered, everything_stored, made_vault, told


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
        (launchbay, "rotate-identity-key"),
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
    assert "\nStart 9.1.0 or a later one, or restore a backup" in error
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


def test_a_file_that_is_no_backup_leaves_no_data_directory(tmp_path: Path) -> None:
    file = tmp_path / "b.yaml"
    file.write_text("a: 1\n")
    status, printed, error = launchbay("restore", str(file), "--data-dir", str(tmp_path / "data"))
    assert (status, printed) == (1, "")
    assert "cannot be read as a backup" in error
    assert [path.name for path in tmp_path.iterdir()] == ["b.yaml"]


@pytest.mark.slow
def test_a_server_loads_no_library_of_what_it_may_never_do() -> None:
    check = "import sys, launchbay.app.commands; print(*{name.split('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True).stdout.split()
    assert "psycopg" in loaded
    for name in ("asyncssh", "libcloud", "nats", "opentelemetry", "segno", "webauthn", "zxcvbn"):
        assert name not in loaded


@pytest.mark.slow
def test_with_json_a_start_prints_nothing_but_json(directory: Path) -> None:
    prepare(directory / "data")
    command = [
        sys.executable,
        "-m",
        "launchbay.cli.main",
        "serve",
        "--port",
        "0",
        "--data-dir",
        str(directory / "data"),
    ]
    given = {name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")}
    out, log = directory / "out", directory / "log"
    with out.open("wb") as printed, log.open("wb") as logged:
        process = subprocess.Popen(
            command, stdout=printed, stderr=logged, env={**given, "LAUNCHBAY_LOG_FORMAT": "json"}
        )
    try:
        eventually_blocking(lambda: b"server.started" in log.read_bytes() or process.poll() is not None, within_s=60)
        assert process.poll() is None, log.read_text("utf-8")
    finally:
        process.terminate()
        process.wait(30)
    [created] = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert (created["event"], created["email"]) == ("administrator.created", EMAIL)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    [started] = [line for line in lines if line["event"] == "server.started"]
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+", started["address"])
    assert (started["version"], started["processes"]) == (__version__, 1)
    assert created["password"] not in log.read_text("utf-8")


SHOWN_ONCE = re.compile(r"Password \(shown only once\): (\S+)")


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory outside of pytest's own: every pytest that starts closes that to PostgreSQL's account."""
    made = Path(tempfile.mkdtemp(prefix="launchbay-first-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made, ignore_errors=True)


def organizations(server: Process, password: str) -> httpx.Response:
    return httpx.get(
        f"http://127.0.0.1:{server.port}/api/1/organizations", auth=(EMAIL, password), trust_env=False, timeout=30
    )


@pytest.mark.slow
def test_the_first_start_makes_the_administrator_and_shows_a_random_password_this_once(directory: Path) -> None:
    settings = {"LAUNCHBAY_ADMIN_PASSWORD": "", "LAUNCHBAY_ORGANIZATION": "Acme"}
    server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory, settings=settings)
    try:
        server.start()
        [password] = SHOWN_ONCE.findall((directory / "serve-1.log").read_text("utf-8"))
        assert len(password) >= 16
        answer = organizations(server, password)
        assert (answer.status_code, [each["name"] for each in answer.json()]) == (200, ["Acme"])
        for guess in ("admin", "password", "launchbay", ""):
            assert organizations(server, guess).status_code in {401, 429}
        server.end()
        server.start()
        again = (directory / "serve-2.log").read_text("utf-8")
        assert not SHOWN_ONCE.search(again)
        assert password not in again
        assert organizations(server, password).status_code == 200
    finally:
        server.end()


@pytest.mark.slow
def test_a_forgotten_password_is_replaced_in_the_embedded_database_with_and_without_its_server(directory: Path) -> None:
    prepare(directory / "data")
    server = Process(["serve", "--port", "0", "--data-dir", str(directory / "data")], directory)
    reset = [sys.executable, "-m", "launchbay.cli.main", "reset-password", EMAIL, "--password-stdin"]

    def replace(password: str) -> None:
        subprocess.run(
            [*reset, "--data-dir", str(directory / "data")], input=f"{password}\n", text=True, check=True, timeout=120
        )

    try:
        server.start()
        replace("seven patient lighthouses")
        assert organizations(server, PASSWORD).status_code == 401
        assert organizations(server, "seven patient lighthouses").status_code == 200
        server.end()
        replace("thirteen quiet ferries")
        server.start()
        assert organizations(server, "thirteen quiet ferries").status_code == 200
    finally:
        server.end()


def resident_mib(process: Process) -> int:
    [line] = [each for each in Path(f"/proc/{process.pid}/status").read_text().splitlines() if "VmRSS" in each]
    return int(line.split()[1]) // 1024


@pytest.mark.slow
def test_a_server_gives_the_memory_of_sign_ins_back(database_url: str, tmp_path: Path) -> None:
    server = Process(["serve", "--port", "0", "--data-dir", str(tmp_path), "--database-url", database_url], tmp_path)
    try:
        server.start()
        assert organizations(server, "wrong").status_code == 401
        before = resident_mib(server)
        with ThreadPoolExecutor(4) as callers:  # each in a thread of the server, with 19 MiB
            found = list(callers.map(lambda number: organizations(server, f"wrong {number}").status_code, range(4)))
        assert 401 in found
        assert resident_mib(server) < before + 15
    finally:
        server.end()


ALL_SEALED = {**SEALED, **FEATURES.sealed()}
# Columns of bytes that are no sealed secrets.
HASHED = "token_hash"
NOT_SEALED = {
    ("git_sources", "files"),
    ("git_events", "digest"),
    ("server_keys", "value"),
    ("key_users", "mark"),
    *((table, HASHED) for table in ("refresh_tokens", "invitations", "console_sessions", "pending_memberships")),
    ("access_tokens", HASHED),
    ("second_steps", HASHED),
    ("second_factors", "credential_id"),
    ("second_factors", "public_key"),
    ("recovery_codes", "code_hash"),
}


@pytest.fixture
async def api(databases: Databases) -> AsyncIterator[Api]:
    url = databases.create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, LEAK))
        async with running_api(url, secret_key_file="") as api:  # the one in its data directory
            vault = await made_vault(api, offered_by=api.environment)
            await told(api, vault, "set-secret", name="db", value=SECRET)
            await told(api, vault, "generate-keypair", name="web")
            yield api
    databases.drop(url)


async def rotate(api: Api, *options: str, command: str = "rotate-secret-key") -> str:
    """Run the command, beside the server."""
    where = ["--data-dir", str(api.settings.data_dir), "--database-url", api.settings.database_url]
    result = await asyncio.to_thread(CliRunner().invoke, main, [command, *where, *options])
    assert result.exit_code == 0, result.output
    return result.output


def file_of(api: Api) -> KeyFile:
    return KeyFile(api.settings.data_dir / FILE_NAME)


async def sealed_marks(api: Api) -> set[bytes]:
    """Return what everything begins with that is sealed in the database."""
    nothing = b"nothing begins so"
    async with api.database.connection() as connection:
        read = [await each.rows(connection, id="", part="", mark=nothing, count=999) for each in ALL_SEALED]
    return {bytes(row.sealed[:5]) for rows in read for row in rows}


async def use_all(api: Api, instance: str) -> None:
    """Check that everything sealed opens."""
    services = accepted(await api.get(f"environments/{api.environment}/services"))["services"]
    [vault] = [row["id"] for row in services if row["typeId"] == "builtin:cobalt_secure_store"]
    assert await told(api, vault, "get-secret", name="db") == {"value": SECRET}
    assert "PRIVATE KEY" in (await told(api, vault, "get-keypair", id="web"))["privateKey"]
    document = await api.run(instance, "actions.again")
    assert document["workflowHistory"][0]["status"] == "Succeeded", document["errorMessage"]
    assert LEAK.used[0] == SECRET


async def test_a_new_key_of_tokens_joins_the_published_ones(api: Api) -> None:
    published = (await api.client.get("http://launchbay/.well-known/jwks.json")).json()["keys"]
    assert "sign with it in 60 minutes" in await rotate(api, command="rotate-identity-key")
    async with api.database.connection() as connection:
        rows = await keys.IDENTITY_KEYS.list(connection)
    assert {each["kid"] for each in published} < {row.id for row in rows}
    assert {bytes(row.sealed[:5]) for row in rows} == {read_secret_key(file_of(api).path).current_prefix}


@pytest.mark.slow
async def test_everything_is_sealed_with_the_new_key_while_the_server_works(api: Api) -> None:
    instance = await api.running(USER)
    await api.run(instance, "actions.use")
    body = {"url": "https://hooks.example/x", "events": ["job"]}
    accepted(await api.post(f"organizations/{api.organization}/webhooks", body))
    account = {"configuration.provider": "aws-ec2", "configuration.identity": "A", "configuration.credential": "secret"}
    parameters = {"name": "Cloud", "typeId": "builtin:cloud_account", "parameters": account}
    accepted(await api.post(f"organizations/{api.organization}/services", parameters))
    bulk = {"act": "label", "ids": [instance], "labels": {"team": "web"}}
    accepted(await api.post(f"organizations/{api.organization}/bulk", bulk))
    old = read_secret_key(file_of(api).path).current_prefix
    assert await sealed_marks(api) == {old}

    output = await rotate(api)
    new = read_secret_key(file_of(api).path).current_prefix
    assert new != old
    assert "values again" in output
    assert await sealed_marks(api) == {new}
    assert [word for word, _ in file_of(api).lines()] == ["", "former"]
    await use_all(api, instance)  # by the server that runs all the time

    await rotate(api, "--finish")
    assert [word for word, _ in file_of(api).lines()] == [""]
    await use_all(api, instance)
    assert await sealed_marks(api) == {new}
    assert_covered(await everything_stored(api))


async def test_what_a_server_with_the_former_key_sealed_meanwhile_is_sealed_anew_at_the_end(api: Api) -> None:
    instance = await api.running(USER)
    await api.run(instance, "actions.use")
    former = file_of(api).lines()[0][1]
    await rotate(api)
    # Another server, whose copy of the file is still the old one.
    async with api.database.transaction() as connection:
        column, purpose = keys.vault, SEALED[keys.vault]
        key = read_secret_key(file_of(api).path)
        for row in await column.rows(connection, id="", part="", mark=b"-----", count=99):
            sealed = SecretKey(former).seal(key.open(row.sealed, purpose(row.id, row.part)), purpose(row.id, row.part))
            assert await column.put(connection, id=row.id, part=row.part, sealed=sealed, before=row.sealed)
    assert SecretKey(former).current_prefix in await sealed_marks(api)
    await rotate(api, "--finish")
    assert await sealed_marks(api) == {read_secret_key(file_of(api).path).current_prefix}
    await use_all(api, instance)


async def test_a_prepared_key_opens_everywhere_before_anybody_seals_with_it(api: Api, tmp_path: Path) -> None:
    await rotate(api, "--prepare")
    assert [word for word, _ in file_of(api).lines()] == ["", "next"]
    before = file_of(api).lines()
    copy = tmp_path / "copy.key"
    copy.write_text(file_of(api).path.read_text())
    copy.chmod(0o600)
    other = read_secret_key(copy)
    await rotate(api)
    assert file_of(api).lines() == [("", before[1][1]), ("former", before[0][1])]
    assert other.open(read_secret_key(file_of(api).path).seal(b"x", "p"), "p") == b"x"


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    runner = CliRunner()
    missing = runner.invoke(main, ["rotate-secret-key", "--data-dir", str(tmp_path)])
    assert (missing.exit_code, "secret.key is missing" in missing.output) == (1, True)
    read_secret_key(tmp_path / FILE_NAME)
    nothing = runner.invoke(main, ["rotate-secret-key", "--data-dir", str(tmp_path), "--finish"])
    assert (nothing.exit_code, "no former key" in nothing.output) == (1, True)
    empty = runner.invoke(main, ["rotate-secret-key", "--data-dir", str(tmp_path)])
    assert (empty.exit_code, "has no database" in empty.output) == (1, True)
    both = runner.invoke(main, ["rotate-secret-key", "--data-dir", str(tmp_path), "--prepare", "--finish"])
    assert both.exit_code == 2
    assert len(KeyFile(tmp_path / FILE_NAME).lines()) == 1


@pytest.mark.parametrize(
    "url", ["foo", "postgresql://[a", "postgresql://u:hunter2@h/d?nonsense=1", "postgresql://u:1/hunter2@h/d"]
)
@pytest.mark.parametrize(
    "command", ["serve", "worker", "migrate", "backup FILE", "restore FILE", "rotate-secret-key", "reset-password a@b"]
)
def test_a_malformed_database_url_is_one_line(command: str, url: str, tmp_path: Path) -> None:
    status, printed, error = launchbay(*command.split(), "--database-url", url, "--data-dir", str(tmp_path / "data"))
    expected = "Error: --database-url is invalid. Expected: postgresql://user:password@host:5432/database. "
    assert (status, printed, error.count("\n")) == (1, "", 1)
    assert error.startswith(expected)
    assert "hunter2" not in error


def test_a_database_url_from_elsewhere_is_over_a_data_directory_on_the_command_line_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "postgresql://nobody@127.0.0.1:1/elsewhere"
    unused = f"not the embedded database in {tmp_path}: unset it to use that one."
    monkeypatch.setenv("LAUNCHBAY_DATABASE_URL", url)
    status, _, error = launchbay("backup", str(tmp_path / "b"), "--data-dir", str(tmp_path))
    assert (status, error.splitlines()[0]) == (1, f"Using LAUNCHBAY_DATABASE_URL, {unused}")
    assert "refused" in error
    monkeypatch.setenv("LAUNCHBAY_DATABASE_URL", "")
    config = tmp_path / "launchbay.toml"
    config.write_text(f'database_url = "{url}"\n')
    status, _, error = launchbay("migrate", "--config", str(config), "--data-dir", str(tmp_path))
    assert (status, error.splitlines()[0]) == (1, f"Using database_url of {config}, {unused}")
    assert "refused" in error


@pytest.mark.parametrize("command", ["backup FILE", "worker"])
def test_a_database_url_on_the_command_line_leaves_the_key_to_the_data_directory(command: str, tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/elsewhere"
    status, _, error = launchbay(*command.split(), "--data-dir", str(tmp_path / "data"), "--database-url", url)
    assert status == 1
    assert "refused" in error
    assert "embedded" not in error


def test_a_worker_takes_the_directory_of_its_key_with_a_database_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAUNCHBAY_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/elsewhere")
    status, _, error = launchbay("worker", "--data-dir", str(tmp_path / "data"))
    assert status == 1
    assert "127.0.0.1:1/elsewhere refused the connection" in error


def test_a_wrong_option_is_named_as_it_was_written() -> None:
    assert "--port is 99999; it must be a port, 0 to 65535." in launchbay("serve", "--port", "99999")[2]


@pytest.mark.slow
def test_a_busy_port_is_reported_before_anything_is_created(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = str(busy.getsockname()[1])
        status, printed, error = launchbay_process("serve", "--port", port, "--data-dir", str(tmp_path / "data"))
    assert (status, printed) == (1, "")
    assert f"Can't listen on 127.0.0.1:{port}" in error
    assert "Stop the program that uses it (ss -ltnp), or select another port with --port" in error
    assert not (tmp_path / "data").exists()


async def test_every_sealed_column_is_among_those_that_are_sealed_anew(api: Api) -> None:
    """A new column of bytes must be sealed anew too, or be named above as one that is not sealed."""
    statement = "SELECT table_name, column_name FROM information_schema.columns WHERE data_type = 'bytea'"
    async with api.database.connection() as connection:
        found = await (await connection.execute(f"{statement} AND table_schema = 'public'".encode())).fetchall()
    [*written] = (re.match(r"UPDATE (\w+) SET (\w+) =", column.put.text.decode()) for column in ALL_SEALED)
    sealed = {(put[1], put[2]) for put in written if put is not None}
    assert {tuple(row) for row in found} - NOT_SEALED == sealed
    assert len(ALL_SEALED) == len(sealed)
    statement = "SELECT tgname FROM pg_trigger WHERE tgfoid = 'launchbay_check_key'::regproc"
    async with api.database.connection() as connection:
        checked = await (await connection.execute(statement.encode())).fetchall()
    assert {row[0] for row in checked} == {f"{table}_{column}_key" for table, column in sealed}


@pytest.mark.parametrize(
    ("given", "is_warned"),
    [
        (["--host", "0.0.0.0"], True),
        (["--host", "127.0.0.1"], False),
        (["--host", "localhost"], False),
    ],
)
def test_a_server_that_others_reach_without_tls_warns_at_its_start(
    given: list[str], is_warned: bool, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, said = launchbay("serve", *given, "--port", port, "--data-dir", str(tmp_path))
    assert code == 1, said
    assert ("passwords and tokens cross the network unencrypted" in said) == is_warned


def test_a_trusted_proxy_or_a_certificate_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAUNCHBAY_TRUSTED_PROXIES", "192.0.2.1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        code, _, said = launchbay("serve", "--host", "0.0.0.0", "--port", port, "--data-dir", str(tmp_path))
    assert code == 1
    assert "unencrypted" not in said
