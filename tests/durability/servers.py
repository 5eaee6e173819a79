"""Real `launchbay` processes: started, killed, stopped and continued, and never left behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from launchbay.postgres.server import EmbeddedPostgres

ROOT = Path(__file__).parents[2]
EMAIL = "admin@launchbay.local"
PASSWORD = "correct horse battery staple"
START_S = 60.0
GRACE_S = 20.0


@dataclass
class Process:
    """One `launchbay serve` or `worker` that can be started again and again.

    `seed` puts a defect into it; `source` is the source tree that it runs, today's unless said otherwise. Processes of
    one command in one directory need different names, for their logs.
    """

    command: list[str]
    directory: Path
    seed: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    name: str = ""
    failpoint: Path | None = None  # the file that arms one of failpoints.py
    port: int | None = None
    source: Path = ROOT / "src"
    _child: subprocess.Popen[bytes] | None = None
    _starts: int = 0

    def start(self) -> float:
        """Start it and wait until it is ready; return how long that took."""
        begun = time.monotonic()
        self._starts += 1
        log = self.directory / f"{self.name or self.command[0]}-{self._starts}.log"
        with log.open("wb") as output:
            self._child = subprocess.Popen(
                [sys.executable, "-m", *self._program(), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=self.directory,
                env=self._environment(),
            )
        while time.monotonic() - begun < START_S:
            text = log.read_text("utf-8", "replace")
            if "answers at http://" in text:
                self.port = int(text.split("answers at http://", 1)[1].split()[0].rpartition(":")[2])
                return time.monotonic() - begun
            if "runs jobs" in text:
                return time.monotonic() - begun
            if self._child.poll() is not None:
                raise AssertionError(f"it ended at its start:\n{text}")
            time.sleep(0.02)
        raise AssertionError(f"it is not ready after {START_S} s:\n{log.read_text('utf-8', 'replace')}")

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    def lives(self) -> bool:
        """Tell whether the process that was started last is there."""
        return self._child is not None and self._child.poll() is None

    def kill(self) -> None:
        """SIGKILL, and wait for the death."""
        assert self._child is not None
        self._child.kill()
        self._child.wait(10)

    def freeze(self) -> None:
        """SIGSTOP: it does nothing any more and does not know it."""
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """SIGTERM and wait; SIGKILL if that takes too long. Harmless when it does not run."""
        if self._child is None or not self.lives():
            return
        self.thaw()
        self._child.terminate()
        try:
            self._child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _program(self) -> list[str]:
        if self.failpoint is not None:
            return ["tests.durability.failpoints", self.seed or "none"]
        return ["launchbay.cli.main"] if self.seed is None else ["tests.durability.seeded", self.seed]

    def _environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("LAUNCHBAY_")},
            "PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT), str(ROOT / "tests" / "durability" / "probe")]),
            "LAUNCHBAY_ADMIN_PASSWORD": PASSWORD,
            "LAUNCHBAY_PROBE_LEDGER": str(self.directory / "ledger"),
            "LAUNCHBAY_STEP_RETRY_FIRST_S": "0.2",
            **({} if self.failpoint is None else {"LAUNCHBAY_FAILPOINT": str(self.failpoint)}),
            **self.settings,
        }


def remove_postgres(data_dir: Path) -> None:
    """Stop the embedded PostgreSQL of a data directory, whoever left it behind."""
    with suppress(OSError, ValueError, IndexError):
        pid = int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGINT)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until:
            os.kill(pid, 0)
            time.sleep(0.05)


def cut_power_of_postgres(data_dir: Path) -> None:
    """End PostgreSQL at once, without a checkpoint: it recovers from its log."""
    with suppress(OSError, ValueError, IndexError):
        os.kill(int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)


def join_postgres(data_dir: Path) -> EmbeddedPostgres:
    """Use the embedded PostgreSQL of a data directory beside its server."""
    return EmbeddedPostgres.start(data_dir, serving=False)


async def healthy(port: int | None) -> bool:
    """Tell whether a server says that it can answer."""
    try:
        async with httpx.AsyncClient(timeout=3.0) as client:
            return (await client.get(f"http://127.0.0.1:{port}/health/ready")).status_code == 200
    except httpx.HTTPError:
        return False
