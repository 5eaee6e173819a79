"""Starts a program on this server and reads what it writes.

It gets an argv array and no shell, an environment with nothing in it but what is given and what every program needs, a
private directory as its home, and a guard that ends it with everything that it started (`guard.py`).
"""

import asyncio
import os
import shutil
import sys
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.processes import guard

# What a process that is started here sees of the server's environment: nothing that could hold a secret.
#
# The server's own environment has its settings in it, such as LAUNCHBAY_ADMIN_PASSWORD, and whatever the operator's
# shell had. Everything that starts a process makes the environment for it here.

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LANGUAGE = "C.UTF-8"


def minimal_environment(home: Path | str | None = None, *, path: str = SYSTEM_PATH, **given: str) -> dict[str, str]:
    """Return PATH and LANG, HOME where there is one, and what is given."""
    at_home = {} if home is None else {"HOME": str(home)}
    return {"PATH": path, "LANG": LANGUAGE, **at_home, **given}


_GUARD = str(Path(guard.__file__))
_READ_BYTES = 64 * limits.KIB
_GRACE_S = 3.0
_KILL_MARGIN_S = 5.0  # a guard that runs longer than its grace time and this margin is killed too
OnLine = Callable[[str, str], None]
"""Takes what a program writes: `stdout` or `stderr`, and a line of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What to run. `directory` is the program's home and private to it; `work` is where it starts, if elsewhere.

    `line_chars` bounds a line: what is longer is cut there, and the rest of the line is dropped. `grace_s` is the time
    that the program has to end by itself when it is cancelled or takes too long.
    """

    argv: Sequence[str]
    directory: Path
    work: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float = limits.PROGRAM_S
    line_chars: int = limits.LOG_LINE_CHARS
    keep_bytes: int = limits.PROGRAM_OUTPUT_BYTES
    grace_s: float = _GRACE_S


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How a program ended. Of its output, the last bytes are kept, cut at `Command.keep_bytes`."""

    exit_code: int
    stdout: str
    stderr: str


async def run_program(command: Command, on_line: OnLine) -> ProcessResult:
    """Run a program to its end. Cancellation and time-out end it with everything that it started.

    Raises ActionFailed when it takes too long.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", _GUARD, str(command.directory), str(command.grace_s)),
        *command.argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=command.work or command.directory,
        env=_environment(command),
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(command.timeout_s):
            out, err = _Reading("stdout", command, on_line), _Reading("stderr", command, on_line)
            await asyncio.gather(out.read(process.stdout), err.read(process.stderr))
            return ProcessResult(await process.wait(), out.kept(), err.kept())
    except TimeoutError:
        raise ActionFailed(
            f"{Path(command.argv[0]).name} took longer than {command.timeout_s:g} s and was ended."
        ) from None
    finally:
        await asyncio.shield(_stop(process, command.grace_s + _KILL_MARGIN_S))


def search_path() -> str:
    """Return the search path for programs: the directory of the server's own programs, then its PATH."""
    return os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH") or SYSTEM_PATH))


def _environment(command: Command) -> dict[str, str]:
    home = command.directory
    return {**minimal_environment(home, path=search_path(), TMPDIR=str(home)), **command.environment}


async def _stop(process: Process, timeout_s: float) -> None:
    """End the program, if it has not ended: its guard does that when its standard input ends."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.write(b"end")
            process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await process.wait()
    if process.returncode is None:
        process.kill()
        await process.wait()


class _Reading:
    """Reads one stream: hands over lines and keeps the end, in bounded memory."""

    def __init__(self, name: str, command: Command, on_line: OnLine) -> None:
        self._name = name
        self._on_line = on_line
        self._line_bytes = command.line_chars * 4
        self._line_chars = command.line_chars
        self._keep = command.keep_bytes
        self._kept = bytearray()
        self._rest = bytearray()

    async def read(self, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None, "it was asked for"
        while data := await stream.read(_READ_BYTES):
            self._kept += data
            del self._kept[: -self._keep or None]
            *lines, rest = data.split(b"\n")
            for line in lines:
                self._add(line)
                self._end_line()
            self._add(rest)
        if self._rest:
            self._end_line()

    def kept(self) -> str:
        """Return the end of what was read."""
        return self._kept.decode("utf-8", "replace")

    def _add(self, part: bytes) -> None:
        self._rest += part[: max(0, self._line_bytes - len(self._rest))]

    def _end_line(self) -> None:
        line = self._rest.decode("utf-8", "replace")
        self._rest.clear()
        self._on_line(self._name, line.rstrip("\r")[: self._line_chars])


class Programs:
    """The operator's choice (setting `server_programs`)."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(allowed)

    def require(self, name: str, *files: str, remedy: str) -> str:
        """Return the path of the first of a program's files that is there.

        Raises ActionFailed where the operator does not allow the program, and with the remedy where it is missing.
        """
        if name not in self._allowed:
            raise ActionFailed(
                f"This server isn't allowed to start {name}, which could do what the server's account can.",
                f"The operator allows it with LAUNCHBAY_SERVER_PROGRAMS={name} and restarts the server.",
                retryable=False,
            )
        for file in files:
            found = shutil.which(file, path=search_path())
            if found is not None:
                return found
        raise ActionFailed(f"There is no {' or '.join(files)} on this server.", remedy, retryable=False)


@asynccontextmanager
async def private_directory() -> AsyncIterator[Path]:
    """Give a directory that nobody but the server's account can enter, and remove it with all that is in it.

    When the server dies meanwhile, the guard of the program that runs in it does that.
    """
    directory = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="launchbay-"))  # mode 0700
    try:
        yield directory
    finally:
        await asyncio.shield(asyncio.to_thread(shutil.rmtree, directory, ignore_errors=True))


def write_private(file: Path, content: str | bytes) -> None:
    """Write a file that only the server's account can read, making the directories around it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch(mode=0o600)
    file.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
