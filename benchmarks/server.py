"""The product as a process of its own, as operators run it, for the length of a benchmark."""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from benchmarks.http_client import Client, basic

PASSWORD = "benchmark-password"
EMAIL = "admin@launchbay.local"


@dataclass(frozen=True)
class Server:
    """A running server."""

    pid: int
    port: int
    data_dir: Path
    start_s: float

    def client(self) -> Client:
        return Client("127.0.0.1", self.port, basic(EMAIL, PASSWORD))

    def refresh_token(self) -> str:
        """Generate a refresh token as a person would, on the page."""
        origin = f"http://127.0.0.1:{self.port}"
        with httpx.Client(base_url=origin, trust_env=False, headers={"Origin": origin}) as browser:
            browser.get("/refreshToken")
            page = browser.post("/refreshToken", data={"email": EMAIL, "password": PASSWORD}, follow_redirects=True)
        found = re.search(r"lbr_[\w-]+", page.text)
        assert found, page.text
        return found[0]

    def bearer(self) -> Client:
        """Return a client with a session token."""
        token = httpx.post(
            f"http://127.0.0.1:{self.port}/refreshToken/jwtBearer",
            json={"refreshToken": self.refresh_token()},
            trust_env=False,
        ).json()["jwtBearer"]
        return Client("127.0.0.1", self.port, f"Bearer {token}")

    def cpu_s(self) -> float:
        """Return the CPU time of the server and of its PostgreSQL, in seconds."""
        return sum(process_cpu_s(pid) for pid in (self.pid, *postgres_pids(self.data_dir)))

    def own_cpu_s(self) -> float:
        """Return the CPU time of the server without PostgreSQL, in seconds."""
        return process_cpu_s(self.pid)

    def own_run_ms(self) -> float:
        """Return how long the server's threads ran, in ms, as the scheduler counts it: exactly."""
        return run_ms(self.pid)

    def database_run_ms(self) -> float:
        """Return how long the processes of PostgreSQL ran, in ms. Those that have ended don't count."""
        return sum(run_ms(pid) for pid in postgres_pids(self.data_dir))

    def memory_mb(self) -> float:
        """Return the resident memory of the server process, in MB."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
        return 0.0


@contextmanager
def running(
    data_dir: Path | None = None, *options: str, python: str = sys.executable, **settings: str
) -> Iterator[Server]:
    """Start the server on a data directory (a fresh one by default), and stop it at the end.

    `python` is the interpreter that finds the product to measure.
    """
    directory = data_dir or Path(tempfile.mkdtemp(prefix="launchbay-bench-"))
    began = time.perf_counter()
    process = _launchbay(python, "serve", "--data-dir", str(directory), "--port", "0", *options, **settings)
    try:
        port = int(_told(process, r"http://127\.0\.0\.1:(\d+)"))
        asyncio.run(_first_answer(port))
        yield Server(process.pid, port, directory, time.perf_counter() - began)
    finally:
        _end(process)
        if data_dir is None:
            shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def working(server: Server, url: str, count: int, **settings: str) -> Iterator[list[int]]:
    """Start so many workers beside a server, on its database, and stop them at the end; yields their processes."""
    workers: list[subprocess.Popen[str]] = []
    try:
        workers.extend(start_worker(server, url, **settings) for _ in range(count))
        yield [worker.pid for worker in workers]
    finally:
        for worker in workers:
            _end(worker)


def start_worker(server: Server, url: str, python: str = sys.executable, **settings: str) -> "subprocess.Popen[str]":
    """Start a worker and wait until it says that it is there."""
    worker = _launchbay(python, "worker", "--data-dir", str(server.data_dir), "--database-url", url, **settings)
    _told(worker, "(Launchbay worker)")
    return worker


def _launchbay(python: str, *command: str, **settings: str) -> "subprocess.Popen[str]":
    environment = {
        **os.environ,
        "LAUNCHBAY_ADMIN_PASSWORD": PASSWORD,
        "LAUNCHBAY_LOG_LEVEL": "warning",
        **{f"LAUNCHBAY_{name.upper()}": value for name, value in settings.items()},
    }
    program = [python, "-m", "launchbay.cli.main", *command]
    return subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment)


def _told(process: "subprocess.Popen[str]", pattern: str) -> str:
    """Return what a process says when it is ready."""
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.search(pattern, line):
            return found[1]
    raise AssertionError(f"{process.args!r} did not start")


def _end(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()


async def _first_answer(port: int) -> None:
    client = Client("127.0.0.1", port, "")
    status, _ = await client.request("GET", "/health/ready")
    client.close()
    assert status == 200


def process_cpu_s(pid: int) -> float:
    """Return the CPU time of a process and of its children that have ended, in seconds; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    # utime, stime and those of children that have ended: PostgreSQL's back ends come and go.
    return sum(int(fields[index]) for index in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def run_ms(pid: int) -> float:
    """Return how long the threads of a process ran, in ms, as the scheduler counts it: exactly."""
    found = 0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        try:
            found += int((thread / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return found / 1_000_000


def postgres_pids(data_dir: Path) -> list[int]:
    """Return the processes of the PostgreSQL in a data directory."""
    directory = (data_dir / "postgres").resolve()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cwd").readlink() == directory:
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
