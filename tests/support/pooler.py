"""PgBouncer in front of the tests' PostgreSQL."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.eventually import until_listening

PATH = f"{os.environ['PATH']}:/usr/sbin"
WITHIN_S = 30.0
# What Launchbay asks of sessions, which a pooler can't pass on.
NEEDED = MappingProxyType(
    {
        "statement_timeout": "30s",
        "idle_in_transaction_session_timeout": "60s",
        "timezone": "UTC",
        "synchronous_commit": "on",
    }
)


def set_for_sessions(url: str, settings: Mapping[str, str] = NEEDED) -> None:
    """Set the defaults of a database's new sessions."""
    name = conninfo_to_dict(url)["dbname"]
    with psycopg.connect(url, autocommit=True) as connection:
        for setting, value in settings.items():
            connection.execute(f"ALTER DATABASE \"{name}\" SET {setting} = '{value}'".encode())


@dataclass
class Pooler:
    """A running PgBouncer; `url` leads through it."""

    database_url: str
    mode: str
    sessions: int
    ignores_options: bool
    port: int = 0
    _process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)
    _directory: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="launchbay-pooler-")))

    @property
    def url(self) -> str:
        return f"postgresql://launchbay@127.0.0.1:{self.port}/{conninfo_to_dict(self.database_url)['dbname']}"

    def start(self) -> None:
        """Start it, on the same port as before, and wait until it answers."""
        given = conninfo_to_dict(self.database_url)
        if not self.port:
            with socket.create_server(("127.0.0.1", 0)) as free:
                self.port = free.getsockname()[1]
        configuration = self._directory / "pgbouncer.ini"
        configuration.write_text(
            f"""
[databases]
{given["dbname"]} = host={given["host"]} port={given.get("port", 5432)} user={given["user"]}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = {self.mode}
default_pool_size = {self.sessions}
{"ignore_startup_parameters = options" if self.ignores_options else ""}
"""
        )
        # It refuses to run as root. PostgreSQL's own account reaches the socket.
        owner = Path(str(given["host"])).stat().st_uid
        account = ["-u", pwd.getpwuid(owner).pw_name] if os.geteuid() == 0 else []
        self._directory.chmod(0o755)
        program = shutil.which("pgbouncer", path=PATH)
        assert program is not None, "the fixture skips without it"
        self._process = subprocess.Popen(
            [program, "-q", *account, str(configuration)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until_listening(self.port, self._process)

    def stop(self) -> None:
        """End it. Harmless if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(WITHIN_S)
            self._process = None

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


@contextmanager
def pooler(database_url: str, mode: str, *, sessions: int = 4, ignores_options: bool = False) -> Iterator[Pooler]:
    """Run PgBouncer for a database in a pool mode, with so many sessions; skip the test if it isn't installed."""
    if shutil.which("pgbouncer", path=PATH) is None:
        pytest.skip("pgbouncer isn't installed")
    running = Pooler(database_url, mode, sessions, ignores_options)
    running.start()
    try:
        yield running
    finally:
        running.stop()
        shutil.rmtree(running._directory, ignore_errors=True)
