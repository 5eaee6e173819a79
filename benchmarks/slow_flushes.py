"""An embedded PostgreSQL whose disk flushes are counted, and take longer when asked: a disk slower than this one.

It is the PostgreSQL of the product, in the place and with the settings that the product gives it. A library of some
lines, compiled here with the C compiler in `CC` (`cc` by default), goes before the C library's `fdatasync` and `fsync`.
"""

import mmap
import os
import shlex
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from launchbay.postgres import cluster

READY_WITHIN_S = 60.0
RELOADED_WITHIN_S = 0.5
SHARED = struct.Struct("qq")  # delay_us, flushes, as in slow_flushes.c
SOURCE = Path(__file__).with_suffix(".c")


@dataclass
class SlowPostgres:
    """A running PostgreSQL; `flushes` and `delay` work where a C compiler was found, which `can_delay` says."""

    url: str
    log: Path
    _directory: Path
    _process: "subprocess.Popen[bytes]"
    _shared: mmap.mmap | None

    @property
    def can_delay(self) -> bool:
        return self._shared is not None

    def delay(self, ms: float) -> None:
        """Let each flush take so much longer from now on."""
        assert self._shared is not None, "there is no C compiler"
        self._shared[:8] = struct.pack("q", int(ms * 1000))

    def flushes(self) -> int | None:
        """Return how many flushes there were, or None where nobody counts them."""
        return None if self._shared is None else int(SHARED.unpack_from(self._shared)[1])

    @contextmanager
    def statements_logged(self) -> Iterator[None]:
        """Write each statement into the log, until the end of the block. It costs much: measure no time meanwhile."""
        self._settings({"log_statement": "all"})
        yield
        self._settings({})

    def _settings(self, overrides: dict[str, str]) -> None:
        cluster.write_settings(self._directory, cluster.account_for(self._directory), overrides)
        self._process.send_signal(signal.SIGHUP)
        time.sleep(RELOADED_WITHIN_S)  # every process reads them when it next waits for a statement


@contextmanager
def slow_postgres(data_dir: Path) -> Iterator[SlowPostgres]:
    """Start PostgreSQL on a data directory, and stop it at the end."""
    directory, programs = data_dir.resolve() / "postgres", cluster.binaries()
    account = cluster.account_for(directory)
    if account is not None:
        cluster.make_traversable(account, [programs / "postgres", directory])
    cluster.create(directory, programs, account)
    cluster.write_settings(directory, account, {})
    sockets, log = cluster.socket_dir(directory, account), data_dir / "postgres.log"
    run = cluster.run_as(account, directory)
    shared, preloaded = _preloaded(data_dir.resolve())
    run["env"] |= preloaded
    command = cluster.command(directory, programs, sockets)
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True, **run)
    try:
        port = _await_ready(directory, process)
        url = f"postgresql://{cluster.ROLE}@/{cluster.DATABASE}?host={quote(str(sockets), safe='')}&port={port}"
        yield SlowPostgres(url, log, directory, process, shared)
    finally:
        if shared is not None:
            shared[:8] = struct.pack("q", 0)
        process.send_signal(signal.SIGINT)
        process.wait(READY_WITHIN_S)


def _await_ready(directory: Path, process: "subprocess.Popen[bytes]") -> int:
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        found = cluster.running(directory)
        if found is not None and found.ready:
            return found.port
        time.sleep(0.02)
    raise AssertionError("PostgreSQL did not start")


def _preloaded(directory: Path) -> tuple[mmap.mmap | None, dict[str, str]]:
    """Return what is shared with PostgreSQL, and the variables that it needs for that; nothing without a compiler."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if shutil.which(compiler[0]) is None:
        return None, {}
    library, file = directory / "slow_flushes.so", directory / "slow_flushes.shared"
    subprocess.run([*compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(SOURCE)], check=True)
    file.write_bytes(SHARED.pack(0, 0))
    # PostgreSQL may run under another account.
    library.chmod(0o755)
    file.chmod(0o666)
    with file.open("r+b") as opened:
        shared = mmap.mmap(opened.fileno(), SHARED.size)
    return shared, {"LD_PRELOAD": str(library), "SLOW_FLUSHES_FILE": str(file)}
