"""A shell on this server, in a directory of its own and with nothing of the server's environment."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.shell import Taker
from launchbay.processes.run import least_environment

_READ_BYTES = 64 * limits.KIB


class LocalShell:
    """Implements `shell.Shell`. The directory is the home of what runs in it, and files are put and got inside of it.

    The environment is PATH, HOME, SHELL, LANG and nothing else: no secret of the server is in it.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    async def script(self, text: str, stdout: Taker, stderr: Taker) -> int:
        """Have `sh` read the text from its standard input, in a process group of its own."""
        process = await asyncio.create_subprocess_exec(
            "/bin/sh",
            "-s",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self._directory,
            env=least_environment(self._directory, SHELL="/bin/sh"),
            start_new_session=True,
            close_fds=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await asyncio.gather(
                _send(process.stdin, text.encode("utf-8", "replace")),
                _receive(process.stdout, stdout),
                _receive(process.stderr, stderr),
            )
            return await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there."""
        await asyncio.to_thread(self._put, self._place(name), content)

    async def get(self, name: str, most_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed for one that is too large, or not there."""
        place = self._place(name)
        try:
            content = await asyncio.to_thread(_read, place, most_bytes + 1)
        except OSError as error:
            raise ActionFailed(f"The file {name} cannot be used: {error.strerror}.") from error
        if len(content) > most_bytes:
            raise ActionFailed(f"The file {name} has more than {most_bytes} bytes; that is the most.", retryable=False)
        return content

    def _place(self, name: str) -> Path:
        """Return where a file is. Raises ActionFailed for one outside of the directory, links included."""
        directory = self._directory.resolve()
        place = (directory / name).resolve()
        if not place.is_relative_to(directory) or place == directory:
            raise ActionFailed(f"The file {name} is not in the directory of the machine.", retryable=False)
        return place

    @staticmethod
    def _put(place: Path, content: bytes) -> None:
        draft = place.with_name(f".{place.name}.launchbay")
        try:
            draft.write_bytes(content)
            draft.replace(place)
        except OSError as error:
            raise ActionFailed(f"The file {place.name} cannot be used: {error.strerror}.") from error


async def _send(stdin: asyncio.StreamWriter, data: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended before it read everything; its exit code tells
        stdin.write(data)
        await stdin.drain()
    stdin.close()


async def _receive(stream: asyncio.StreamReader, taker: Taker) -> None:
    while data := await stream.read(_READ_BYTES):
        taker(data)


def _read(place: Path, most_bytes: int) -> bytes:
    with place.open("rb") as file:
        return file.read(most_bytes)
