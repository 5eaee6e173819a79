import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict
from structlog.testing import capture_logs

from launchbay.errors import CannotStart, Unavailable
from launchbay.postgres import cluster, server
from launchbay.postgres.server import EmbeddedPostgres
from launchbay.store.database import Database
from tests.support.eventually import eventually, eventually_blocking

# Holds the server of a data directory until it is killed; tells when it answers.
HOLDER = """
import sys, time
from pathlib import Path
from launchbay.postgres.server import EmbeddedPostgres
held = EmbeddedPostgres.start(Path(sys.argv[1]), serving=sys.argv[2] == "serving")
print(held.pid, flush=True)
sys.stdin.read()
held.stop()
"""


@pytest.fixture(scope="module")
def created(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stopped cluster, made once: copying is quicker than creating."""
    data_dir = tmp_path_factory.mktemp("created")
    EmbeddedPostgres.start(data_dir).stop()
    return data_dir


@pytest.fixture
def data_dir(created: Path, tmp_path: Path) -> Iterator[Path]:
    """A data directory with a cluster that does not run; whatever a test leaves running in it is killed."""
    copy = tmp_path / "data"
    subprocess.run(["cp", "-a", created, copy], check=True)
    yield copy
    postmaster = cluster.running(copy / "postgres")
    if postmaster is not None:
        os.kill(postmaster.pid, signal.SIGQUIT)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of the server that runs."""
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def running(served: Path) -> Iterator[EmbeddedPostgres]:
    """A server for tests that only ask it."""
    with EmbeddedPostgres.start(served) as embedded:
        yield embedded


def _hold(data_dir: Path, how: str = "serving") -> tuple[subprocess.Popen[str], int]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(data_dir), how], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def _ask(url: str, statement: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(statement.encode()).fetchone()
        return None if row is None else row[0]


def _socket_dir(embedded: EmbeddedPostgres) -> Path:
    """Return the directory of the socket; for a short path that is the cluster itself, in the data directory."""
    return Path(str(conninfo_to_dict(embedded.url)["host"]))


def _wait_until_gone(data_dir: Path) -> None:
    eventually_blocking(lambda: not cluster._has_processes(data_dir / "postgres"))


def _cpu_s() -> float:
    """Return the processor time of this process and its ended children. Unlike a clock, it ignores other load."""
    return sum(os.times()[:4])


@pytest.mark.slow
def test_an_empty_data_directory_answers_within_the_time_promised_and_keeps_what_it_is_given(tmp_path: Path) -> None:
    began_s = _cpu_s()
    with EmbeddedPostgres.start(tmp_path / "new" / "data") as embedded:
        assert _cpu_s() - began_s < 6
        with psycopg.connect(embedded.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
    assert embedded.pid is None
    began_s = _cpu_s()
    with EmbeddedPostgres.start(tmp_path / "new" / "data") as again:
        assert _cpu_s() - began_s < 2
        assert _ask(again.url, "SELECT number FROM kept") == 7


@pytest.mark.slow
def test_a_commit_waits_for_the_disk_and_nothing_listens_on_the_network(running: EmbeddedPostgres) -> None:
    for name, value in {
        "fsync": "on",
        "synchronous_commit": "on",
        "full_page_writes": "on",
        "data_checksums": "on",
        "listen_addresses": "",
        "max_connections": "150",
    }.items():
        assert _ask(running.url, f"SHOW {name}") == value


def test_other_accounts_neither_read_the_directory_nor_hold_its_locks(running: EmbeddedPostgres, served: Path) -> None:
    assert running.pid is not None
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in served.glob("*.lock")}
    assert modes.keys() >= {"server.lock", "postgres.lock", "postgres.start.lock"}
    assert set(modes.values()) == {0o600}
    assert served.stat().st_mode & (stat.S_IRWXO | stat.S_IRGRP | stat.S_IWGRP) == 0


@pytest.mark.slow
def test_a_directory_of_an_earlier_version_is_closed_to_others(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o755)
    (data_dir / "server.lock").touch(mode=0o644)
    with EmbeddedPostgres.start(data_dir):
        hba = data_dir / "postgres" / "pg_hba.conf"
        rules = hba.read_text("utf-8")
    hba.write_text(rules.replace(" scram-sha-256\n", " trust\n"), "utf-8")
    data_dir.chmod(0o755)
    with EmbeddedPostgres.start(data_dir, overrides={"listen_addresses": "'127.0.0.1'"}) as embedded:
        assert hba.read_text("utf-8") == rules
        assert (data_dir / "server.lock").stat().st_mode & 0o077 == 0
        assert data_dir.stat().st_mode & 0o066 == 0
        assert _ask(embedded.url, "SELECT 1") == 1
        local = conninfo_to_dict(embedded.url)
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(host="127.0.0.1", port=str(local["port"]), user="postgres", dbname="postgres")


def test_a_directory_with_files_of_others_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").touch()
    tmp_path.chmod(0o755)
    server._make_private(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_the_product_is_no_superuser_in_its_own_database(running: EmbeddedPostgres) -> None:
    assert _ask(running.url, "SHOW is_superuser") == "off"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")
def test_another_user_of_the_machine_cannot_connect(running: EmbeddedPostgres) -> None:
    path = str(_socket_dir(running) / ".s.PGSQL.5432")
    assert Path(path).exists()
    connect = f"import socket; socket.socket(socket.AF_UNIX).connect({path!r})"
    asked = subprocess.run(
        ["/usr/bin/python3", "-c", connect], user=65534, group=65534, extra_groups=[], cwd="/", env={},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert "PermissionError" in asked.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL under another account")
def test_started_as_root_it_passes_through_closed_directories_without_opening_them(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres.start(closed / "data") as embedded:
        assert _ask(embedded.url, "SELECT 1") == 1
        assert (data := closed.stat()).st_mode & stat.S_IRWXO == 0
        assert data.st_uid == 0
        assert (closed / "data" / "postgres").stat().st_uid != 0


@pytest.mark.slow
def test_a_data_directory_with_a_name_too_long_for_a_socket_works(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30) / "data, with 'odd' \"names\" %41"
    with EmbeddedPostgres.start(data_dir) as embedded:
        assert _ask(embedded.url, "SELECT 1") == 1
        socket_dir = _socket_dir(embedded)
        assert socket_dir.stat().st_mode & 0o077 == 0
    with EmbeddedPostgres.start(data_dir) as again:
        assert _ask(again.url, "SELECT 1") == 1
    shutil.rmtree(socket_dir)


@pytest.mark.slow
def test_a_socket_directory_that_somebody_else_prepared_is_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / ("long" * 30)
    with EmbeddedPostgres.start(data_dir) as embedded:
        socket_dir = _socket_dir(embedded)
    socket_dir.chmod(0o777)
    with pytest.raises(CannotStart, match="should be a directory of account"):
        EmbeddedPostgres.start(data_dir)
    shutil.rmtree(socket_dir)


@pytest.mark.slow
def test_after_kill_9_of_the_server_the_next_start_finds_its_database_running(data_dir: Path) -> None:
    holder, pid = _hold(data_dir)
    holder.kill()
    holder.wait()
    with EmbeddedPostgres.start(data_dir) as embedded:
        assert embedded.pid == pid
        assert _ask(embedded.url, "SELECT 1") == 1
    assert embedded.pid is None, "and stops it at its end, although it did not start it"


@pytest.mark.slow
def test_after_kill_9_of_everything_the_next_start_recovers_what_was_committed(data_dir: Path) -> None:
    holder, pid = _hold(data_dir)
    with EmbeddedPostgres.start(data_dir, serving=False) as beside:
        with psycopg.connect(beside.url, autocommit=True) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS number")
        holder.kill()
        holder.wait()
        os.kill(pid, signal.SIGKILL)
        _wait_until_gone(data_dir)
    with EmbeddedPostgres.start(data_dir) as embedded:
        assert embedded.pid != pid
        assert _ask(embedded.url, "SELECT number FROM kept") == 7


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="told apart through /proc")
def test_a_pid_file_left_by_a_power_loss_whose_number_another_process_has_now_is_no_hindrance(data_dir: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"], user=(data_dir / "postgres").stat().st_uid)
    stale = [
        str(bystander.pid),
        str(data_dir / "postgres"),
        "1",
        "5432",
        str(data_dir / "postgres"),
        "",
        "1 1",
        "ready",
    ]
    (data_dir / "postgres" / "postmaster.pid").write_text("\n".join(stale) + "\n")
    with EmbeddedPostgres.start(data_dir) as embedded:
        assert embedded.pid != bystander.pid
        assert _ask(embedded.url, "SELECT 1") == 1
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.slow
def test_a_creation_that_was_cut_short_is_begun_anew(tmp_path: Path) -> None:
    unfinished = tmp_path / "postgres.new"
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with EmbeddedPostgres.start(tmp_path) as embedded:
        assert _ask(embedded.url, "SELECT 1") == 1


def test_a_second_server_on_a_data_directory_is_refused_with_the_way_out(
    running: EmbeddedPostgres, served: Path
) -> None:
    with pytest.raises(CannotStart, match=r"Another server already uses .* LAUNCHBAY_DATABASE_URL"):
        EmbeddedPostgres.start(served)
    assert _ask(running.url, "SELECT 1") == 1


def test_a_command_joins_the_server_of_the_directory_and_leaves_it_running(
    running: EmbeddedPostgres, served: Path
) -> None:
    with EmbeddedPostgres.start(served, serving=False) as joined:
        assert joined.pid == running.pid
        assert _ask(joined.url, "SELECT 1") == 1
    assert _ask(running.url, "SELECT 1") == 1


@pytest.mark.slow
def test_a_directory_that_a_server_has_left_is_free(data_dir: Path) -> None:
    with EmbeddedPostgres.start(data_dir) as embedded, pytest.raises(CannotStart):
        EmbeddedPostgres.start(data_dir)
    assert embedded.pid is None
    with EmbeddedPostgres.start(data_dir) as after:
        assert _ask(after.url, "SELECT 1") == 1


@pytest.mark.slow
def test_who_leaves_last_stops_the_database(data_dir: Path) -> None:
    holder, pid = _hold(data_dir)
    beside = EmbeddedPostgres.start(data_dir, serving=False)
    assert beside.pid == pid
    holder.communicate("")
    assert holder.returncode == 0
    assert _ask(beside.url, "SELECT 1") == 1
    beside.stop()
    assert beside.pid is None
    beside.stop()


@pytest.mark.slow
def test_many_commands_starting_at_once_share_one_database(data_dir: Path) -> None:
    holders = [_hold(data_dir, "beside") for _ in range(4)]
    assert len({pid for _, pid in holders}) == 1
    for process, _ in holders:
        process.communicate("")
    assert cluster.running(data_dir / "postgres") is None


def test_an_interrupt_from_the_terminal_does_not_reach_the_database(running: EmbeddedPostgres) -> None:
    assert running.pid is not None
    assert os.getsid(running.pid) != os.getsid(0)


def test_a_cluster_of_another_major_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("17\n")
    with pytest.raises(CannotStart, match="is of PostgreSQL 17; this version of Launchbay contains 18"):
        EmbeddedPostgres.start(tmp_path)


@pytest.mark.slow
def test_a_start_that_fails_shows_what_postgresql_said_and_frees_the_directory(data_dir: Path) -> None:
    with pytest.raises(CannotStart, match="shared_buffers"):
        EmbeddedPostgres.start(data_dir, overrides={"shared_buffers": "nonsense"})
    with EmbeddedPostgres.start(data_dir) as embedded:
        assert _ask(embedded.url, "SELECT 1") == 1


def test_a_data_directory_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotStart, match="writable"):
        EmbeddedPostgres.start(tmp_path / "file" / "data")


def test_what_users_send_is_not_in_the_log(running: EmbeddedPostgres, served: Path) -> None:
    with psycopg.connect(running.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (secret text PRIMARY KEY)")
        connection.execute("INSERT INTO t VALUES ('hunter2')")
        with pytest.raises(psycopg.errors.UniqueViolation):
            connection.execute("INSERT INTO t VALUES ('hunter2')")
    log = (served / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "hunter2" not in log


@pytest.mark.slow
async def test_a_killed_database_is_unavailable_and_comes_back_without_a_restart_of_ours(
    data_dir: Path,
) -> None:
    with EmbeddedPostgres.start(data_dir) as embedded:
        async with Database(embedded.url, connections=10) as database:

            async def ask() -> int:
                async with database.connection() as connection:
                    row = await (await connection.execute("SELECT 1")).fetchone()
                    assert row is not None
                    return int(row[0])

            await asyncio.gather(*(ask() for _ in range(20)))
            assert embedded.pid is not None
            with capture_logs() as logs:
                os.kill(embedded.pid, signal.SIGQUIT)  # what `pg_ctl stop -m immediate` sends
                await eventually(lambda: embedded.pid is None)
                began = time.monotonic()
                for _ in range(3):
                    with pytest.raises(Unavailable):
                        await ask()
                assert time.monotonic() - began < 4, "who asks while it is away hears so soon"
                watch = asyncio.create_task(embedded.keep_running())
                began = time.monotonic()
                while True:
                    try:
                        await ask()
                        break
                    except Unavailable:
                        assert time.monotonic() - began < 10
            of_database = [each["event"] for each in logs if each["event"].startswith("database.")]
            assert of_database == ["database.away", "database.returned"]
            assert await asyncio.gather(*(ask() for _ in range(20))) == [1] * 20
            watch.cancel()


@pytest.mark.slow
async def test_a_database_that_runs_but_refuses_connections_is_restarted(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_READY_WITHIN_S", 1.0)
    monkeypatch.setattr(server, "_STUCK_AFTER_S", 0.5)
    monkeypatch.setattr(server, "_PING_EVERY_S", 0.5)
    with EmbeddedPostgres.start(data_dir) as embedded:
        refusing = embedded.pid
        assert refusing is not None
        with psycopg.connect(embedded.url):
            os.kill(refusing, signal.SIGTERM)  # it accepts no one, and waits for the end of this session
            watch = asyncio.create_task(embedded.keep_running())
            async with asyncio.timeout(60):
                await eventually(lambda: embedded.pid not in {refusing, None}, within_s=60)
                await eventually(lambda: pq.PGconn.ping(embedded.url.encode()) == pq.Ping.OK, within_s=60)
            watch.cancel()
        assert _ask(embedded.url, "SELECT 1") == 1


@pytest.mark.slow
def test_a_stop_does_not_wait_for_a_database_that_refuses_connections(data_dir: Path) -> None:
    embedded = EmbeddedPostgres.start(data_dir)
    assert embedded.pid is not None
    with psycopg.connect(embedded.url), ThreadPoolExecutor(1) as threads:
        os.kill(embedded.pid, signal.SIGTERM)
        eventually_blocking(lambda: not embedded._alive())
        waiting = threads.submit(embedded.ensure_running)
        eventually_blocking(embedded._in_use.locked)
        began = time.monotonic()
        embedded.stop()
        assert time.monotonic() - began < 20, "not the time that PostgreSQL has to become ready"
        assert isinstance(waiting.exception(), CannotStart)
    assert cluster.running(data_dir / "postgres") is None


@pytest.mark.slow
def test_many_users_who_find_the_database_dead_start_it_once(data_dir: Path) -> None:
    users = [EmbeddedPostgres.start(data_dir, serving=False) for _ in range(4)]
    first = users[0].pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    _wait_until_gone(data_dir)
    with ThreadPoolExecutor(4) as threads:
        started = list(threads.map(EmbeddedPostgres.ensure_running, users))
    assert sorted(started) == [False, False, False, True]
    assert _ask(users[0].url, "SELECT 1") == 1
    for user in users:
        user.stop()
    assert cluster.running(data_dir / "postgres") is None
    assert users[0].ensure_running() is False, "who has left starts nothing"


def test_a_cluster_with_a_process_that_outlived_its_postmaster_keeps_its_lock_files(tmp_path: Path) -> None:
    cluster_dir = tmp_path / "postgres"
    cluster_dir.mkdir()
    title = f"postgres: {cluster._command_marker(cluster_dir)}: background writer"
    pid_file = cluster_dir / "postmaster.pid"
    pid_file.write_text("1\n")
    process = subprocess.Popen(["bash", "-c", f"exec -a {title!r} sleep 60"])
    eventually_blocking(lambda: cluster._has_processes(cluster_dir))
    cluster.clear_stale_locks(cluster_dir, cluster_dir)
    assert pid_file.exists()
    process.kill()
    process.wait()
    cluster.clear_stale_locks(cluster_dir, cluster_dir)
    assert not pid_file.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize(
    ("process", "recovers"), [("startup recovering 000000010000000000000001", True), ("checkpointer", False)]
)
def test_only_a_startup_process_is_a_recovery(process: str, recovers: bool, tmp_path: Path) -> None:
    title = f"postgres: {cluster._command_marker(tmp_path)}: {process}"
    running = subprocess.Popen(["bash", "-c", f"exec -a {title!r} sleep 60"])
    eventually_blocking(lambda: cluster._has_processes(tmp_path))
    assert cluster.is_recovering(tmp_path) == recovers
    running.kill()
    running.wait()
    assert not cluster.is_recovering(tmp_path)
