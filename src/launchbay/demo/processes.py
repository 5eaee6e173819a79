"""The two background processes of the demo: the server, and the platform that the sample application calls."""

import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from launchbay.errors import LaunchbayError

# The process inherits the lock on its pid file, and the kernel releases the lock when the process ends, even if it is
# killed. So a stale pid never refers to another process that got the same pid later. The launcher writes its own pid
# before it executes the program, so an interrupt of the command can't come in between.

_POLL_S = 0.05
_LAUNCHER = "import os, sys; os.write(int(sys.argv[1]), b'%d' % os.getpid()); os.execv(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class BackgroundProcess:
    """A process that outlives the command that started it, identified by a locked pid file."""

    pid_file: Path
    log: Path

    def is_running(self) -> bool:
        try:
            with self.pid_file.open("rb") as file:
                return not _locked(file.fileno())
        except FileNotFoundError:
            return False

    def start(self, command: Sequence[str], settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start the process, detached from the terminal. It sees `settings` and no other `LAUNCHBAY_*` variable.

        The command starts with the path of its program. Raises RuntimeError if the process is already running.
        """
        # The server of the demo has its own settings.
        inherited = {name: text for name, text in os.environ.items() if not name.startswith("LAUNCHBAY_")}
        with self.pid_file.open("ab") as file, self.log.open("wb") as output:
            if not _locked(file.fileno()):
                raise RuntimeError(f"The process of {self.pid_file} is already running.")
            file.truncate(0)
            return subprocess.Popen(  # noqa: S603 - our own modules
                [sys.executable, "-c", _LAUNCHER, str(file.fileno()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**inherited, "PYTHONUNBUFFERED": "1", **settings},
                start_new_session=True,
                pass_fds=(file.fileno(),),
            )

    def stop(self, within_s: float) -> bool:
        """Stop the process, with SIGKILL after `within_s` seconds. Return whether it was running."""
        if not self.is_running():
            return False
        deadline = time.monotonic() + within_s
        sent = None
        while self.is_running():
            order = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
            number = self.pid_file.read_text("utf-8")
            if number and order is not sent:  # a new process has no pid for a moment
                with suppress(ProcessLookupError):
                    os.kill(int(number), order)
                sent = order
            time.sleep(_POLL_S)
        self.pid_file.unlink(missing_ok=True)
        return True


def _locked(descriptor: int) -> bool:
    """Lock an open file, and return whether that succeeded. Closing every copy of the descriptor unlocks it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


HOST = "127.0.0.1"
EMAIL = "admin@launchbay.local"
START_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0
_ANSWERS_AT = "Launchbay is listening at "
_LINES_SHOWN = 10


class DemoFailed(LaunchbayError):
    """The demo failed; the message names the cause and the fix."""


@dataclass(frozen=True, slots=True)
class RunningDemo:
    """Addresses of the two processes, and the administrator's password."""

    url: str
    platform_url: str
    password: str
    log: str


class Processes:
    """The demo's processes on one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._notes = directory / "demo.json"
        self._server = BackgroundProcess(directory / "launchbay.pid", directory / "launchbay.log")
        self._platform = BackgroundProcess(directory / "platform.pid", directory / "platform.log")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Block other demo commands on this directory. Raises DemoFailed if the directory isn't usable."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = (self._directory / "demo.lock").open("ab")
        except OSError as error:
            raise DemoFailed(
                f"Can't use the directory {self._directory}: {error.strerror}. Choose another one with --data-dir."
            ) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def find(self) -> RunningDemo | None:
        if not (self._server.is_running() and self._platform.is_running()):
            return None
        return self._last_run()

    def start(self, port: int) -> RunningDemo:
        """Start both processes, and return when Launchbay is ready. Raises DemoFailed.

        After a failure or an interrupt, neither process runs.
        """
        before = self._last_run()
        self.stop()
        try:
            platform_url = self._start_platform(before)
            running = RunningDemo(
                self._start_server(port, password := self._password()), platform_url, password, str(self._server.log)
            )
            self._notes.touch(0o600)
            self._notes.write_text(json.dumps(asdict(running)), "utf-8")
        except BaseException:
            self.stop()
            raise
        return running

    def stop(self) -> bool:
        """Stop both processes, and return whether any was running."""
        stopped = [process.stop(STOP_WITHIN_S) for process in (self._server, self._platform)]
        return any(stopped)

    def _last_run(self) -> RunningDemo | None:
        try:
            return RunningDemo(**json.loads(self._notes.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _start_platform(self, before: RunningDemo | None) -> str:
        # Use the last port again if it is free: older instances have stored it.
        port = "0" if before is None else before.platform_url.rpartition(":")[2]
        process = self._platform.start([sys.executable, "-m", "launchbay.demo.platform", port], {})
        return _first_line(self._platform.log, process, "http://")

    def _start_server(self, port: int, password: str) -> str:
        command = [sys.executable, "-m", "launchbay.cli.main", "serve", "--host", HOST, "--port", str(port)]
        settings = {
            "LAUNCHBAY_ADMIN_EMAIL": EMAIL,
            "LAUNCHBAY_ADMIN_PASSWORD": password,
            "LAUNCHBAY_OUTGOING_ALLOW": HOST,
        }
        process = self._server.start([*command, "--data-dir", str(self._directory)], settings)
        url = _first_line(self._server.log, process, _ANSWERS_AT).removeprefix(_ANSWERS_AT)
        _await_ready(url, process, self._server.log)
        return url

    def _password(self) -> str:
        """Return the administrator's password, which a new data directory creates."""
        file = self._directory / "demo-password"
        if not file.exists():
            file.touch(0o600)
            file.write_text(secrets.token_urlsafe(12), "utf-8")
        return file.read_text("utf-8")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _first_line(log: Path, process: "subprocess.Popen[bytes]", prefix: str) -> str:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        has_ended = process.poll() is not None
        lines = log.read_text("utf-8", "replace").splitlines()
        for line in lines:
            if line.startswith(prefix):
                return line.strip()
        if has_ended:
            last = "\n".join(lines[-_LINES_SHOWN:])
            raise DemoFailed(f"The process didn't start. End of {log}:\n{last}")
        time.sleep(0.05)
    raise DemoFailed(f"The process didn't start within {START_WITHIN_S:.0f} s. See its log, {log}.")


def _await_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise DemoFailed(f"Launchbay isn't ready at {url}. See its log, {log}.")
