"""`launchbay doctor` finds what would keep a server from working, says where, and what to do about it."""

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nats
import psycopg
import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from launchbay.app.doctor import Finding, Level, check_machine, check_services, judge_encryption, judge_upkeep
from launchbay.auth.secret_key import read_secret_key
from launchbay.cli.main import main
from launchbay.engine.jetstream import wanted_stream
from launchbay.limits import MIB
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.settings import Settings
from launchbay.store import schema
from launchbay.store.schema import revisions, upgrade
from launchbay.store.upkeep import TableState, Upkeep
from tests.support.external_services import made_certificate
from tests.support.nats_server import nats_servers, url_of
from tests.support.outgoing_proxies import outgoing_proxy, squid
from tests.support.pooler import pooler
from tests.support.servers import free_ports, remove_postgres
from tests.support.versions import postgres_with_tls

MEMORY = "proc/meminfo"
CONTAINER = "sys/fs/cgroup/memory.max"
MOUNTS = "proc/mounts"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data"


def settings(directory: Path, **others: Any) -> Settings:
    return Settings(**{"data_dir": directory, "port": 0, **others})


def of(check: str, findings: list[Finding]) -> list[Finding]:
    return [each for each in findings if each.check == check]


def machine(wanted: Settings, check: str, root: Path = Path("/")) -> list[Finding]:
    return of(check, list(check_machine(wanted, root)))


def services(wanted: Settings, check: str) -> list[Finding]:
    return of(check, asyncio.run(check_services(wanted)))


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@contextmanager
def listening(*lines: bytes) -> Iterator[int]:
    """Listen on a port, send each connection these lines, and close it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"".join(lines))

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


def run(*arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    result = CliRunner(env=environment).invoke(main, ["doctor", *arguments])
    return result.exit_code, result.output


def test_a_machine_without_problems_gets_code_0_and_json(directory: Path) -> None:
    code, printed = run("--data-dir", str(directory), "--port", "0", "--json")
    told = json.loads(printed)
    checks = {each["check"] for each in told["findings"]}
    assert code == 0, printed
    assert checks >= {"python", "locale", "memory", "ulimits", "clock", "port", "disk", "programs", "postgresql"}
    assert not directory.exists(), "a check changes nothing"
    for each in told["findings"]:
        assert each["where"]
        assert each["found"]
        assert each["fix"] or each["level"] in {"ok", "note"}, each


def test_it_names_the_version_of_the_time_zones(directory: Path) -> None:
    _, printed = run("--data-dir", str(directory), "--port", "0", "--json")
    [found] = [each for each in json.loads(printed)["findings"] if each["check"] == "time zones"]
    assert re.search(r"IANA's version \d{4}[a-z]+\.$|don't say of which version", found["found"]), found


def test_a_problem_is_code_1_and_has_a_fix(directory: Path) -> None:
    with listening() as port:
        code, printed = run("--data-dir", str(directory), "--port", str(port))
    assert code == 1
    assert f"problem  port: 127.0.0.1:{port}: A server can't listen here: Address already in use." in printed
    assert "→ Stop the program that uses it" in printed


def test_strict_fails_on_warnings(directory: Path, tmp_path: Path) -> None:
    file = made(tmp_path, {"bay.toml": 'host = "0.0.0.0"\n'}) / "bay.toml"
    given = ("--data-dir", str(directory), "--port", "0", "--config", str(file))
    assert run(*given)[0] == 0
    assert run(*given, "--strict")[0] == 1


def test_invalid_settings_are_a_finding(directory: Path) -> None:
    code, printed = run("--data-dir", str(directory), environment={"LAUNCHBAY_PROCESSES": "many"})
    assert code == 1
    assert "problem  settings: LAUNCHBAY_*: LAUNCHBAY_PROCESSES is 'many'" in printed


@pytest.mark.parametrize(
    ("text", "mode", "is_warning"),
    [
        ('admin_password = "a good password"', 0o644, True),
        ('admin_password = "a good password"', 0o640, False),
        ("retention_days = 7", 0o644, False),
    ],
)
def test_a_file_with_passwords_that_everybody_can_read_is_a_warning(
    text: str, mode: int, is_warning: bool, directory: Path, tmp_path: Path
) -> None:
    file = made(tmp_path, {"bay.toml": text}) / "bay.toml"
    file.chmod(mode)
    _, printed = run("--data-dir", str(directory), "--port", "0", "--config", str(file))
    assert (f"warning  settings: {file}: Its mode is 644: everybody" in printed) is is_warning
    assert (f"→ Run: chmod 600 {file}" in printed) is is_warning


def test_a_port_where_launchbay_listens_is_fine(directory: Path) -> None:
    answer = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n\r\n{"status":"live"}'
    with listening(answer) as port:
        [found] = machine(settings(directory, port=port), "port")
    assert found.level is Level.OK


@pytest.mark.parametrize(
    ("files", "level", "found"),
    [
        ({MEMORY: "MemTotal: 16000000 kB\n"}, Level.OK, "15625 MiB"),
        ({MEMORY: "MemTotal: 700000 kB\n"}, Level.WARNING, "683 MiB"),
        ({MEMORY: "MemTotal: 16000000 kB\n", CONTAINER: "268435456\n"}, Level.PROBLEM, "256 MiB"),
        ({MEMORY: "MemTotal: 16000000 kB\n", CONTAINER: "max\n"}, Level.OK, "15625 MiB"),
        ({}, Level.NOTE, "unknown"),
    ],
)
def test_memory_is_that_of_the_machine_or_container(
    files: dict[str, str], level: Level, found: str, directory: Path, tmp_path: Path
) -> None:
    [memory] = machine(settings(directory), "memory", made(tmp_path / "root", files))
    assert memory.level is level
    assert found in memory.found


@pytest.mark.parametrize(("system", "warnings"), [("ext4", 0), ("tmpfs", 1), ("nfs4", 1)])
def test_data_on_a_file_system_that_does_not_last_is_a_warning(
    system: str, warnings: int, directory: Path, tmp_path: Path
) -> None:
    mounts = f"none / overlay rw 0 0\nnone {tmp_path} {system} rw 0 0\n"
    found = machine(settings(directory), "disk", made(tmp_path / "root", {MOUNTS: mounts}))
    assert [each.level for each in found if system in each.found] == [Level.WARNING] * warnings


def test_a_data_directory_that_is_a_file_is_a_problem(tmp_path: Path) -> None:
    made(tmp_path, {"data": "x"})
    [found] = machine(settings(tmp_path / "data"), "disk")
    assert found.level is Level.PROBLEM
    assert "install -d" in found.fix


@pytest.mark.parametrize(("mode", "level"), [(0o600, Level.OK), (0o640, Level.WARNING), (0o644, Level.PROBLEM)])
def test_the_mode_of_the_secret_key_counts(mode: int, level: Level, directory: Path) -> None:
    directory.mkdir()
    wanted = settings(directory)
    read_secret_key(wanted.key_file())
    wanted.key_file().chmod(mode)
    [found] = machine(wanted, "secret key")
    assert found.level is level
    assert level is Level.OK or "chmod 600" in found.fix


def test_a_broken_secret_key_is_a_problem(directory: Path) -> None:
    directory.mkdir()
    wanted = settings(directory)
    wanted.key_file().write_text("nonsense")
    wanted.key_file().chmod(0o600)
    [found] = machine(wanted, "secret key")
    assert found.level is Level.PROBLEM
    assert "backup" in found.fix


def certificate(directory: Path, days: int) -> dict[str, str]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bay.example.org")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=90))
        .not_valid_after(now + timedelta(days=days, hours=1))
        .sign(key, hashes.SHA256())
    )
    form, encryption = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (directory / "tls.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (directory / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM, form, encryption))
    (directory / "tls.key").chmod(0o600)
    return {"tls_certificate": str(directory / "tls.crt"), "tls_key": str(directory / "tls.key")}


@pytest.mark.parametrize(("days", "level"), [(60, Level.OK), (3, Level.WARNING), (-2, Level.PROBLEM)])
def test_a_certificate_is_judged_by_its_end(days: int, level: Level, directory: Path, tmp_path: Path) -> None:
    [found] = machine(settings(directory, **certificate(tmp_path, days)), "tls")
    assert found.level is level


def test_a_certificate_without_its_key_is_a_problem(directory: Path, tmp_path: Path) -> None:
    first = certificate(tmp_path, 60)
    (tmp_path / "tls.crt").rename(tmp_path / "other.crt")
    certificate(tmp_path, 60)
    [found] = machine(settings(directory, **first | {"tls_certificate": str(tmp_path / "other.crt")}), "tls")
    assert found.level is Level.PROBLEM


def test_a_program_matters_only_if_actions_may_start_it(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {each.level for each in machine(settings(directory), "programs") if each.where == "helm"} == {Level.NOTE}
    allowed = settings(directory, server_programs="helm")
    [missing] = [each for each in machine(allowed, "programs") if each.where == "helm"]
    assert missing.level is Level.PROBLEM
    assert "Install Helm" in missing.fix
    (tmp_path / "helm").touch(mode=0o755)
    [found] = [each for each in machine(allowed, "programs") if each.where == str(tmp_path / "helm")]
    assert found.level is Level.OK


def test_an_account_without_a_name_can_not_run_the_embedded_postgresql(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 4_000_000)
    [found] = services(settings(directory), "postgresql")
    assert found.level is Level.PROBLEM
    assert "4000000 has none" in found.found
    assert machine(settings(directory), "programs"), "the other checks go on"


def test_an_empty_database_is_upgraded_at_the_start(empty_database_url: str, directory: Path) -> None:
    [found] = services(settings(directory, database_url=empty_database_url), "postgresql")
    assert found.level is Level.NOTE
    assert "launchbay migrate" in found.fix


def test_a_key_of_another_database_is_a_problem(database_url: str, directory: Path) -> None:
    wanted = settings(directory, database_url=database_url)
    mark = read_secret_key(wanted.key_file()).marks[0]
    with psycopg.connect(database_url) as connection:
        connection.execute("INSERT INTO server_keys (name, value) VALUES ('secret key', %s)", [mark])
    assert services(wanted, "secret key") == []
    wanted.key_file().unlink()
    read_secret_key(wanted.key_file())
    [found] = services(wanted, "secret key")
    assert found.level is Level.PROBLEM
    assert "encrypted with another secret key" in found.found


def test_a_key_that_cannot_be_created_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    [found] = machine(Settings(secret_key_file=str(tmp_path / "file" / "secret.key")), "secret key")
    assert found.level is Level.PROBLEM
    assert f"can't create one in {tmp_path / 'file'}" in found.found


@pytest.mark.parametrize(("ahead_s", "levels"), [(1.0, []), (-5.0, [Level.WARNING]), (3600.0, [Level.PROBLEM])])
def test_a_clock_far_from_that_of_the_database_is_a_problem(
    ahead_s: float, levels: list[Level], database_url: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    monkeypatch.setattr(schema, "time", SimpleNamespace(time=lambda: now_s - ahead_s))
    assert [found.level for found in services(settings(directory, database_url=database_url), "clock")] == levels


def test_a_pooler_whose_sessions_lack_settings_is_a_problem(database_url: str, directory: Path) -> None:
    with pooler(database_url, "transaction", ignores_options=True) as running:
        wanted = settings(directory, database_url=running.url, database_direct_url=database_url)
        [found] = services(wanted, "postgresql")
    assert found.level is Level.PROBLEM
    assert "sessions of the database pooler lack settings" in found.found
    assert "ALTER DATABASE" in found.fix


def test_a_database_with_data_needs_its_key(database_url: str, directory: Path) -> None:
    wanted = settings(directory, database_url=database_url)
    [key] = services(wanted, "secret key")
    assert key.level is Level.PROBLEM
    read_secret_key(wanted.key_file())
    assert services(wanted, "secret key") == []
    [database] = services(wanted, "postgresql")
    assert database.level is Level.OK
    assert f"schema {revisions()[-1]}" in database.found


def test_a_database_of_a_newer_version_or_with_too_few_connections_is_a_problem(
    database_url: str, directory: Path
) -> None:
    wanted = settings(directory, database_url=database_url, processes=256, database_connections=1000)
    [_, few] = services(wanted, "postgresql")
    assert few.level is Level.PROBLEM
    assert "needs 256512 connections" in few.found
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    [newer] = services(wanted, "postgresql")
    assert newer.level is Level.PROBLEM
    assert "has schema 9999" in newer.found


def test_a_database_that_is_away_is_a_problem_without_its_password(directory: Path) -> None:
    with listening() as port:
        pass
    url = f"postgresql://bay:quartz-heron@127.0.0.1:{port}/bay"
    code, printed = run("--data-dir", str(directory), "--port", "0", "--database-url", url)
    assert code == 1
    assert f"problem  postgresql: 127.0.0.1:{port}/bay: The database at" in printed
    assert "quartz-heron" not in printed


@pytest.mark.slow
def test_a_connection_to_the_database_is_judged_by_its_encryption(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_with_tls() as url:
        secure, _, _ = url.partition("&sslrootcert")
        monkeypatch.setenv("HOME", str(tmp_path))
        [no_authority] = services(settings(directory, database_url=secure), "postgresql")
        other, _ = made_certificate(tmp_path)
        [wrong] = services(settings(directory, database_url=f"{secure}&sslrootcert={other}"), "postgresql")
        [plain] = services(settings(directory, database_url=secure.replace("verify-full", "disable")), "postgresql")
        for found, fix in ((no_authority, "Set sslrootcert"), (wrong, "right authority"), (plain, "only TLS")):
            assert found.level is Level.PROBLEM
            assert fix in found.fix
        assert [each.level for each in services(settings(directory, database_url=url), "postgresql")] == [Level.NOTE]
        assert services(settings(directory, database_url=url), "programs") == []
        monkeypatch.setenv("PATH", str(tmp_path))
        [missing] = services(settings(directory, database_url=url), "programs")
        assert (missing.level, missing.where) == (Level.NOTE, "pg_dump")
        assert "postgresql-client" in missing.fix


@pytest.mark.parametrize(("mode", "level"), [("prefer", Level.WARNING), ("require", Level.NOTE)])
def test_a_database_on_the_network_is_to_be_verified(mode: str, level: Level) -> None:
    [found] = judge_encryption(f"postgresql://bay@db.example.org/bay?sslmode={mode}")
    assert (found.level, f"sslmode={mode}" in found.found, "sslmode=verify-full" in found.fix) == (level, True, True)


INFO = b'INFO {"version":"2.9.10","jetstream":true}\r\n'


@pytest.mark.parametrize(
    ("line", "level"),
    [
        (INFO.replace(b"true", b"false"), Level.PROBLEM),
        (b"220 mail.example.org ESMTP\r\n", Level.PROBLEM),
    ],
)
def test_nats_needs_jetstream(line: bytes, level: Level, directory: Path) -> None:
    with listening(line) as port:
        [found] = services(settings(directory, dispatch_url=f"nats://127.0.0.1:{port}"), "nats")
    assert found.level is level


@pytest.mark.slow
def test_a_stream_that_differs_from_the_settings_is_found_with_what_to_do(directory: Path) -> None:
    with nats_servers() as [server]:

        def found(stream: str) -> list[Finding]:
            url = url_of([server])
            return services(settings(directory, dispatch_url=url, dispatch_stream=stream, dispatch_replicas=3), "nats")

        async def make(**config: Any) -> None:
            client = await nats.connect(server.address)
            await client.jetstream().add_stream(**config)
            await client.close()

        asyncio.run(make(config=wanted_stream("bay", 1)))
        asyncio.run(make(name="orders", subjects=["orders.>"]))
        [_, differs] = found("bay")
        assert (differs.level, differs.where) == (Level.WARNING, "bay")
        assert "num_replicas: 1 instead of 3" in differs.found
        assert "nats stream rm bay" in differs.fix
        [_, foreign] = found("orders")
        assert (foreign.level, foreign.found) == (Level.PROBLEM, "The stream orders belongs to something else.")
        assert [each.level for each in found("new")] == [Level.OK]


def test_each_server_that_does_not_answer_is_found(directory: Path) -> None:
    with listening() as port:
        pass
    address = f"127.0.0.1:{port}"
    wanted = settings(
        directory,
        dispatch_url=f"nats://{address}",
        otlp_endpoint=f"http://{address}",
        smtp_host="127.0.0.1",
        smtp_port=port,
        smtp_sender="bay@example.org",
        oidc_issuer=f"http://{address}",
        oidc_client_id="bay",
        base_url="https://bay.example.org",
    )
    found = {each.check: each.level for each in asyncio.run(check_services(wanted)) if each.level is not Level.OK}
    assert found == {
        "nats": Level.WARNING,
        "telemetry": Level.WARNING,
        "mail": Level.WARNING,
        "openid": Level.PROBLEM,
    }


@pytest.mark.parametrize(("named", "level"), [("", Level.OK), ("/other", Level.PROBLEM)])
def test_the_issuer_calls_itself_what_the_setting_says(named: str, level: Level, directory: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    with listening() as free:
        pass
    issuer = f"http://127.0.0.1:{free}"
    with socket.create_server(("127.0.0.1", free)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(head + json.dumps({"issuer": issuer + named}).encode())

        threading.Thread(target=serve, daemon=True).start()
        [found] = services(
            settings(directory, oidc_issuer=issuer, oidc_client_id="bay", base_url="https://bay.example.org"), "openid"
        )
    assert found.level is level


def test_a_proxy_that_answers_is_fine(directory: Path, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("ops:pass-w0rd\n")
    credentials.chmod(0o600)
    with outgoing_proxy(squid, credentials="ops:pass-w0rd") as proxy:
        chosen = {"outgoing_proxy": proxy.url, "outgoing_proxy_credentials_file": str(credentials)}
        [fine] = services(settings(directory, **chosen), "proxy")
        assert (fine.level, fine.where) == (Level.OK, proxy.url)
        assert "CONNECT launchbay.invalid:443 ops" in proxy.carried()

        [refused] = services(settings(directory, outgoing_proxy=proxy.url), "proxy")
        assert refused.level is Level.PROBLEM
        assert "asks for credentials (407)" in refused.found
        assert "outgoing_proxy_credentials_file" in refused.fix

        credentials.chmod(0o644)
        warned, fine = services(settings(directory, **chosen), "proxy")
        assert (warned.level, warned.fix) == (Level.WARNING, f"Run: chmod 600 {credentials}")
        assert fine.level is Level.OK


def test_servers_of_the_settings_are_reached_through_the_proxy(directory: Path) -> None:
    issuer = "https://login.launchbay.test"
    with outgoing_proxy(squid, refused=["login.launchbay.test", "collector.launchbay.test"]) as proxy:
        chosen = settings(
            directory,
            outgoing_proxy=proxy.url,
            oidc_issuer=issuer,
            oidc_client_id="bay",
            base_url="https://bay.example.org",
            otlp_endpoint="https://collector.launchbay.test",
        )
        found = asyncio.run(check_services(chosen))
    [openid], [collector] = of("openid", found), of("telemetry", found)
    assert "refuses login.launchbay.test:443 (403 Forbidden)" in openid.found
    assert "refuses collector.launchbay.test:443 (403 Forbidden)" in collector.found
    assert all("outgoing_no_proxy" in each.fix for each in (openid, collector))


def test_a_wrong_or_unreachable_proxy_is_a_problem(directory: Path, tmp_path: Path) -> None:
    [port] = free_ports(1)
    for chosen, named in (
        ({"outgoing_proxy": f"http://127.0.0.1:{port}"}, "Connection refused"),
        ({"outgoing_proxy": "http://ops:hunter2@proxy.example:3128"}, "has a user or password"),
        ({"outgoing_proxy": "http://proxy.example:3128", "outgoing_no_proxy": "10.*"}, "'10.*'"),
        ({"outgoing_proxy": "http://proxy.example:1", "outgoing_proxy_credentials_file": "/none"}, "can't read /none"),
    ):
        [found] = services(settings(directory, **chosen), "proxy")
        assert found.level is Level.PROBLEM
        assert named in found.found
        assert found.fix
        assert "hunter2" not in str(found)


def test_a_proxy_of_the_environment_is_named_as_unused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    assert services(settings(directory), "proxy") == []
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    [found] = services(settings(directory), "proxy")
    assert (found.level, found.where) == (Level.NOTE, "https_proxy")
    assert "LAUNCHBAY_OUTGOING_PROXY" in found.fix


def leave_session(url: str, job: str = "j1", provider: str = "vault", year: int = 2031) -> None:
    """Leave a session of an ended job that couldn't be revoked."""
    columns = "id, organization_id, environment_id, job_id, provider, type_id, sealed, lease_s, renew_at, expires_at"
    with psycopg.connect(url) as connection:
        connection.execute(
            f"INSERT INTO secret_sessions ({columns}, next_at, failures, message) VALUES (%s, 'acme', 'e1', %s,"
            " %s, 'builtin:openbao', 'x', 60, now(), %s, now(), 3, 'Vault is sealed.')",
            (f"s-{job}", job, provider, f"{year}-01-02 03:04+00"),
        )


def assert_names_the_session(found: list[Finding]) -> None:
    [session] = found
    assert (session.level, session.where) == (Level.WARNING, "acme/vault")
    assert session.found == "A session of job j1 is still open, because it can't be revoked: Vault is sealed."
    assert "2031-01-02 03:04 UTC" in session.fix


def test_sessions_of_a_provider_are_one_warning(database_url: str, directory: Path) -> None:
    for number, provider in enumerate(("vault", "vault", "other", "vault"), 1):
        leave_session(database_url, f"j{number}", provider, year=2032 - number)
    other, vault = services(settings(directory, database_url=database_url), "secret sessions")
    assert (other.where, vault.where) == ("acme/other", "acme/vault")
    assert vault.found == ("3 sessions are still open, because they can't be revoked. That of job j1: Vault is sealed.")
    assert "2031-01-02 03:04 UTC" in vault.fix


def test_a_session_that_could_not_be_revoked_is_a_warning(database_url: str, directory: Path) -> None:
    wanted = settings(directory, database_url=database_url)
    assert services(wanted, "secret sessions") == []
    leave_session(database_url)
    assert_names_the_session(services(wanted, "secret sessions"))


@pytest.mark.slow  # an embedded PostgreSQL of its own
def test_it_looks_into_the_embedded_database_of_a_running_server(directory: Path) -> None:
    assert services(settings(directory), "secret sessions") == []
    with EmbeddedPostgres.start(directory) as embedded:
        assert services(settings(directory), "secret sessions") == [], "a server that has just begun"
        asyncio.run(upgrade(embedded.url))
        leave_session(embedded.url)
        assert_names_the_session(services(settings(directory), "secret sessions"))
    remove_postgres(directory)


QUIET = Upkeep(
    size=8_000 * MIB,
    pages_hit=99_000_000,
    pages_read=1_000_000,
    cache=128 * MIB,
    tables=(TableState("jobs", 1_000_000, 60_000, 900 * MIB),),
    oldest_transaction_s=2.0,
    miscounted=(),
)


def test_a_database_in_good_order_has_its_size_and_cache_told() -> None:
    [found] = judge_upkeep(QUIET, is_embedded=True)
    assert (found.level, found.fix) == (Level.OK, "")
    assert found.found == "8000 MiB, with a cache of 128 MiB that has 99.0% of what is read."


@pytest.mark.parametrize(
    ("is_embedded", "named"), [(True, "LAUNCHBAY_POSTGRES_SHARED_BUFFERS_MIB"), (False, "of Post")]
)
def test_a_cache_that_is_too_small_is_named_with_its_setting(is_embedded: bool, named: str) -> None:
    reading = QUIET._replace(pages_read=20_000_000)
    [found] = judge_upkeep(reading, is_embedded=is_embedded)
    assert found.level is Level.WARNING
    assert named in found.fix
    for fine in (reading._replace(size=100 * MIB), QUIET._replace(pages_hit=100, pages_read=900)):
        [found] = judge_upkeep(fine, is_embedded=is_embedded)
        assert found.level is Level.OK


def test_dead_rows_open_transactions_and_wrong_numbers_are_warnings() -> None:
    dead = TableState("fleet_jobs", 300_000, 200_000, 700 * MIB)
    few = TableState("ready", 10, 5_000, 3 * MIB)
    neglected = QUIET._replace(tables=(dead, few), oldest_transaction_s=7_300.0, miscounted=(("0" * 24, -2),))
    [_, rows, transaction, number] = judge_upkeep(neglected, is_embedded=True)
    assert rows.found == "fleet_jobs has 200000 dead rows and 300000 others, in 700 MiB."
    assert "2 h" in transaction.found
    assert number.found.endswith("is wrong by 2.")
    assert {each.level for each in (rows, transaction, number)} == {Level.WARNING}


def test_the_tables_of_a_database_are_looked_at(directory: Path, database_url: str) -> None:
    wanted = settings(directory, database_url=database_url)
    [found] = services(wanted, "database")
    assert found.level is Level.OK
    assert re.fullmatch(r"\d+ MiB, with a cache of \d+ MiB that has [\d.]+% of what is read.", found.found)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("INSERT INTO instance_counts VALUES ('0123456789abcdef01234567', 3)")
    [_, wrong] = services(wanted, "database")
    assert "0123456789abcdef01234567 is wrong by 3" in wrong.found


@pytest.mark.slow
def test_the_running_embedded_database_is_looked_at(directory: Path) -> None:
    wanted = settings(directory)
    with EmbeddedPostgres.start(directory) as embedded:
        assert services(wanted, "database") == []  # it has no tables yet
        asyncio.run(upgrade(embedded.url))
        [found] = services(wanted, "database")
        assert (found.level, found.where) == (Level.OK, str(directory / "postgres"))
    assert services(wanted, "database") == []
    remove_postgres(directory)
