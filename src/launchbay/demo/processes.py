"""The background processes of the demo: Launchbay itself, and the platform that the sample application calls."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

EMAIL = "admin@launchbay.local"
START_WITHIN_S = 90.0
STOP_WITHIN_S = 20.0


class DemoFailed(Exception):
    """The demo cannot go on; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Running:
    """What runs, and how to sign in."""

    server_pid: int
    platform_pid: int
    url: str
    platform_url: str
    password: str
    log: str


def find(directory: Path) -> Running | None:
    """Return the demo that runs on this directory already, or None."""
    try:
        running = Running(**json.loads((directory / "demo.json").read_text("utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return running if _lives(running.server_pid) and _lives(running.platform_pid) else None


def start(directory: Path, port: int) -> Running:
    """Start both processes, detached from the terminal, and return when Launchbay answers. Raises DemoFailed."""
    directory.mkdir(parents=True, exist_ok=True)
    password = _password(directory)
    platform = _spawn([sys.executable, "-m", "launchbay.demo.platform"], directory / "platform.log", {})
    platform_url = _first_line(directory / "platform.log", platform, "http://")
    settings = {
        "LAUNCHBAY_ADMIN_EMAIL": EMAIL,
        "LAUNCHBAY_ADMIN_PASSWORD": password,
        "LAUNCHBAY_OUTGOING_ALLOW": "127.0.0.1",
    }
    log = directory / "launchbay.log"
    command = [sys.executable, "-m", "launchbay.bootstrap.main", "serve"]
    server = _spawn([*command, "--data-dir", str(directory), "--port", str(port)], log, settings)
    try:
        url = _first_line(log, server, "Launchbay answers at ").removeprefix("Launchbay answers at ")
        _await_ready(url, server, log)
    except DemoFailed:
        _end(platform.pid)
        raise
    running = Running(server.pid, platform.pid, url, platform_url, password, str(log))
    (directory / "demo.json").write_text(json.dumps(asdict(running)), "utf-8")
    (directory / "demo.json").chmod(0o600)
    return running


def stop(directory: Path) -> bool:
    """Stop the demo on this directory; tell whether there was one."""
    running = find(directory)
    if running is None:
        return False
    _end(running.server_pid)
    _end(running.platform_pid)
    (directory / "demo.json").unlink(missing_ok=True)
    return True


def _password(directory: Path) -> str:
    """Return the administrator's password: the one that the data directory was made with, or a new one."""
    file = directory / "demo-password"
    if not file.exists():
        file.touch(0o600)
        file.write_text(secrets.token_urlsafe(12), "utf-8")
    return file.read_text("utf-8")


def _spawn(command: list[str], log: Path, settings: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    with log.open("wb") as output:
        return subprocess.Popen(  # noqa: S603 - our own modules
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **settings},
            start_new_session=True,
        )


def _first_line(log: Path, process: "subprocess.Popen[bytes]", prefix: str) -> str:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline:
        lines = log.read_text("utf-8", "replace").splitlines()
        for line in lines:
            if line.startswith(prefix):
                return line.strip()
        if process.poll() is not None:
            raise DemoFailed("\n".join(lines[-10:]) or f"{process.args!r} ended at once; see {log}.")
        time.sleep(0.05)
    raise DemoFailed(f"Nothing started within {START_WITHIN_S:.0f} s; see {log}.")


def _await_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/ready", timeout=5, trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise DemoFailed(f"Launchbay does not answer at {url}; see {log}.")


def _end(pid: int) -> None:
    deadline = time.monotonic() + STOP_WITHIN_S
    order = signal.SIGTERM
    while _lives(pid):
        try:
            os.kill(pid, order)
        except ProcessLookupError:
            return
        time.sleep(0.1)
        if time.monotonic() > deadline:
            order = signal.SIGKILL


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    try:  # a child of ours that has ended stays as a zombie until it is waited for
        return os.waitpid(pid, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return True
