"""The two processes of the demo: Launchbay itself, and the platform that the sample application calls."""

import fcntl
import json
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from launchbay.demo.background import Background

HOST = "127.0.0.1"
EMAIL = "admin@launchbay.local"
START_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0
_ANSWERS_AT = "Launchbay answers at "
_LINES_SHOWN = 10


class DemoFailed(Exception):
    """The demo cannot go on; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Running:
    """Where the two processes answer, and how to sign in."""

    url: str
    platform_url: str
    password: str
    log: str


class Processes:
    """The demo's processes on one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._notes = directory / "demo.json"
        self._server = Background(directory / "launchbay.pid", directory / "launchbay.log")
        self._platform = Background(directory / "platform.pid", directory / "platform.log")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other demo commands on this directory waiting meanwhile. Raises DemoFailed if it cannot be used."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            file = (self._directory / "demo.lock").open("ab")
        except OSError as error:
            raise DemoFailed(
                f"The directory {self._directory} cannot be used: {error.strerror}. Name another one with --data-dir."
            ) from error
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def find(self) -> Running | None:
        """Return the demo that runs here already, or None."""
        if not (self._server.is_running() and self._platform.is_running()):
            return None
        return self._last_run()

    def start(self, port: int) -> Running:
        """Start both processes and return when Launchbay answers. Raises DemoFailed.

        Whatever ends this early, an interrupt too, leaves nothing running.
        """
        before = self._last_run()
        self.stop()
        try:
            platform_url = self._start_platform(before)
            running = Running(
                self._start_server(port, password := self._password()), platform_url, password, str(self._server.log)
            )
            self._notes.touch(0o600)
            self._notes.write_text(json.dumps(asdict(running)), "utf-8")
        except BaseException:
            self.stop()
            raise
        return running

    def stop(self) -> bool:
        """Stop what runs here and tell whether anything did."""
        stopped = [process.stop(STOP_WITHIN_S) for process in (self._server, self._platform)]
        return any(stopped)

    def _last_run(self) -> Running | None:
        try:
            return Running(**json.loads(self._notes.read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _start_platform(self, before: Running | None) -> str:
        # At the same port as the last time, where that is free: instances of that time know the platform by it.
        port = "0" if before is None else before.platform_url.rpartition(":")[2]
        process = self._platform.start([sys.executable, "-m", "launchbay.demo.platform", port], {})
        return _first_line(self._platform.log, process, "http://")

    def _start_server(self, port: int, password: str) -> str:
        command = [sys.executable, "-m", "launchbay.bootstrap.main", "serve", "--host", HOST, "--port", str(port)]
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
        """Return the administrator's password: the one that the data directory was made with, or a new one."""
        file = self._directory / "demo-password"
        if not file.exists():
            file.touch(0o600)
            file.write_text(secrets.token_urlsafe(12), "utf-8")
        return file.read_text("utf-8")


def is_free(port: int) -> bool:
    """Tell whether nobody listens on the port."""
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
            raise DemoFailed(f"It did not start. The end of {log}:\n{last}")
        time.sleep(0.05)
    raise DemoFailed(f"It did not start within {START_WITHIN_S:.0f} s; {log} may tell why.")


def _await_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise DemoFailed(f"Launchbay does not answer at {url}; {log} may tell why.")
