"""Two PostgreSQL servers, of which one copies the other: real programs on addresses of their own, port 5432 on both.

pair = Pair.start(directory, seed)   # `a` is the primary, `b` its synchronous replica
pair.end_primary("kill")             # all of its processes at once
pair.promote()                       # the replica is the primary now, with nobody behind it
pair.rebuild()                       # the one that ended is made anew, as the replica of the other
"""

import os
import random
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import psycopg

from launchbay.postgres import cluster
from tests.support.eventually import eventually_blocking

READY_S = 60.0
Death = Literal["quit", "kill", "hang"]
# Whoever may reach these loopback addresses is let in; they are of one test run.
_ACCESS = "local all all trust\nhost all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n"


@dataclass
class PostgresServer:
    """One PostgreSQL, on the TCP port 5432 of its own loopback address."""

    name: str
    directory: Path
    address: str
    program: tuple[str, ...] = ()  # what to run PostgreSQL under
    environment: dict[str, str] = field(default_factory=dict)
    _child: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.directory / "postgres"

    @property
    def url(self) -> str:
        """The database, reached at this server alone, whatever it is."""
        return f"postgresql://{cluster.ROLE}@{self.address}/{cluster.DATABASE}?target_session_attrs=any"

    def create(self, settings: dict[str, str]) -> None:
        """Make an empty cluster and start it."""
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        account = cluster.account_for(self.data)
        cluster.create(self.data, cluster.binaries(), account)
        self.start(settings)

    def start(self, settings: dict[str, str]) -> None:
        """Start PostgreSQL and wait until it answers, be it only to reading."""
        account, programs = cluster.account_for(self.data), cluster.binaries()
        if account is not None:
            cluster.make_traversable(account, [programs / "postgres", self.data])
        own = {"listen_addresses": f"'{self.address}'", "wal_keep_size": "64MB", "wal_receiver_timeout": "5s"}
        cluster.write_settings(self.data, account, {**own, **settings})
        (self.data / "pg_hba.conf").write_text(_ACCESS, "utf-8")  # the settings of the product let nobody in by TCP
        sockets = cluster.socket_dir(self.data, account)
        cluster.clear_stale_locks(self.data, sockets)
        run = cluster.run_as(account, self.data)
        run["env"] = {**run["env"], **self.environment}
        with (self.directory / "postgres.log").open("ab") as log:
            self._child = subprocess.Popen(
                [*self.program, *cluster.command(self.data, programs, sockets)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **run,
            )
        self.await_answer()

    def await_answer(self) -> None:
        """Wait until it lets somebody in."""

        def lets_in() -> object:
            assert self._child is not None
            assert self._child.poll() is None, (self.directory / "postgres.log").read_text("utf-8")[-2000:]
            return self.rows("SELECT 1")

        eventually_blocking(lets_in, within_s=READY_S, despite=psycopg.OperationalError)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Run a statement as PostgreSQL's superuser and return its rows."""
        url = f"postgresql://postgres@{self.address}/postgres?connect_timeout=5"
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def set(self, **settings: str) -> None:
        """Change settings for good, without a restart."""
        for name, value in settings.items():
            self.rows(f"ALTER SYSTEM SET {name} = '{value}'")
        self.rows("SELECT pg_reload_conf()")

    def processes(self, titled: str = "") -> list[int]:
        """Return the ids of its processes, or of those with this in their title."""
        if self._child is None or self._child.poll() is not None:
            return []
        listed = subprocess.run(["ps", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
        found = [(line.split(maxsplit=2)) for line in listed.splitlines()]
        mine = str(self._child.pid)
        return [int(pid) for pid, parent, title in found if mine in {pid, parent} and titled in title]

    def signal_all(self, order: signal.Signals, titled: str = "") -> None:
        """Send a signal to all of its processes, or to those with this in their title."""
        for pid in self.processes(titled):
            with suppress(ProcessLookupError):
                os.kill(pid, order)

    def end(self, death: Death = "quit") -> None:
        """End it at once: SIGQUIT lets it say goodbye to its clients, SIGKILL does not. It recovers from its log.

        A machine that hangs ends nothing: connections stay open, new ones are taken, and no answer comes any more.
        """
        if self._child is None or self._child.poll() is not None:
            return
        if death == "hang":
            self.signal_all(signal.SIGSTOP)
            return
        if death == "kill":
            self.signal_all(signal.SIGKILL)
        else:
            self.signal_all(signal.SIGCONT)
            self._child.send_signal(signal.SIGQUIT)
        self._child.wait(READY_S)


def own_address(seed: int, number: int) -> str:
    """Return a loopback address that no other run uses."""
    chance = random.Random(f"{seed} {os.getpid()}")
    return f"127.{chance.randrange(1, 255)}.{chance.randrange(1, 255)}.{number}"


@dataclass
class Pair:
    """A primary and its replica. Commits wait for the replica, unless `asynchronous`."""

    primary: PostgresServer
    replica: PostgresServer | None
    asynchronous: bool = False
    _other: PostgresServer | None = None

    @classmethod
    def start(cls, directory: Path, seed: int, *, asynchronous: bool = False) -> "Pair":
        """Start both, on addresses that no other run has."""
        a, b = (PostgresServer(name, directory / name, own_address(seed, n)) for n, name in ((1, "a"), (2, "b")))
        pair = cls(a, None, asynchronous, b)
        try:
            a.create({})
            pair.rebuild()
        except BaseException:
            pair.stop()
            raise
        return pair

    @property
    def url(self) -> str:
        """The URL for Launchbay: both hosts, always in the same order."""
        servers = [server for server in (self.primary, self.replica, self._other) if server is not None]
        hosts = ",".join(sorted(server.address for server in servers))
        return f"postgresql://{cluster.ROLE}@{hosts}/{cluster.DATABASE}?target_session_attrs=read-write"

    def rebuild(self) -> None:
        """Make the missing server anew from a copy of the primary, and let commits wait for it."""
        server, self._other = self._other, None
        assert server is not None
        server.end("kill")
        shutil.rmtree(server.data, ignore_errors=True)
        server.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        account = cluster.account_for(self.primary.data)
        server.data.mkdir(mode=0o700)
        if account is not None:
            os.chown(server.data, account.uid, account.gid)
        copy: list[str | Path] = [
            cluster.binaries() / "pg_basebackup",
            "--checkpoint",
            "fast",
            "--wal-method",
            "stream",
        ]
        subprocess.run(
            [*copy, "--pgdata", server.data, "--host", self.primary.address, "--username", "postgres"],
            check=True,
            capture_output=True,
            **cluster.run_as(account, server.data),
        )
        (server.data / "standby.signal").touch()
        source = f"host={self.primary.address} user=postgres application_name={server.name}"
        server.start({"primary_conninfo": f"'{source}'"})
        self.replica = server
        if not self.asynchronous:
            self.primary.set(synchronous_standby_names=server.name)
        self._await("sync" if not self.asynchronous else "async")

    def _await(self, state: str) -> None:
        follows = "SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'"
        eventually_blocking(lambda: self.primary.rows(follows), lambda found: found == [(state,)], within_s=READY_S)

    def end_primary(self, death: Death) -> None:
        """End the primary at once, or let it hang until `rebuild`."""
        self.primary.end(death)

    def promote(self) -> None:
        """Make the replica the primary; there is nobody for whom its commits could wait."""
        assert self.replica is not None
        self.primary, self._other, self.replica = self.replica, self.primary, None
        # With the copy came the settings of the one that it was copied from.
        self.primary.set(synchronous_standby_names="")
        self.primary.rows("SELECT pg_promote(true, 60)")

    def stop(self) -> None:
        """End both. Harmless when called twice."""
        for server in (self.replica, self.primary, self._other):
            if server is not None:
                server.end("kill")
