"""A shell and files on a machine, over one SSH connection."""

import asyncio
import posixpath
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncssh

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.shell import ShellLost, Taker

_READ_BYTES = 64 * limits.KIB
_CHUNK_BYTES = 32 * limits.KIB


class SshShell:
    """Implements `shell.Shell`."""

    def __init__(self, connection: asyncssh.SSHClientConnection, host: str) -> None:
        self._connection = connection
        self._host = host

    async def script(self, text: str, stdout: Taker, stderr: Taker) -> int:
        """Have `sh` read the text from its standard input: no shell of the login gets to see it."""
        try:
            process = await self._connection.create_process("exec sh -s", encoding=None)
            try:
                await asyncio.gather(
                    _send(process.stdin, text.encode("utf-8", "replace")),
                    _receive(process.stdout, stdout),
                    _receive(process.stderr, stderr),
                )
                await process.wait_closed()
            finally:
                process.close()  # and no waiting: a script that is cancelled does not know of it
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_described(error)) from error
        if self._connection.is_closed() and process.exit_status is None:
            raise ShellLost("the connection was closed")
        return -1 if process.exit_status is None else process.exit_status

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there: nobody sees half of it."""
        directory, base = posixpath.split(name)
        draft = posixpath.join(directory, f".{base}.launchbay")
        async with self._files(name) as files:
            try:
                async with files.open(draft, "wb") as file:
                    await file.write(content)
                await files.posix_rename(draft, name)
            except asyncssh.SFTPOpUnsupported:
                await files.rename(draft, name)

    async def get(self, name: str, most_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed for one that is too large."""
        async with self._files(name) as files, files.open(name, "rb") as file:
            content: bytes = await file.read(most_bytes + 1)
        if len(content) > most_bytes:
            raise ActionFailed(
                f"The file {name} on {self._host} has more than {most_bytes} bytes; that is the most.", retryable=False
            )
        return content

    @asynccontextmanager
    async def _files(self, name: str) -> AsyncIterator[asyncssh.SFTPClient]:
        try:
            async with self._connection.start_sftp_client() as files:
                yield files
        except (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection) as error:
            raise ShellLost(_described(error)) from error
        except asyncssh.SFTPError as error:
            raise ActionFailed(f"The file {name} on {self._host} cannot be used: {error.reason}.") from error
        except (OSError, asyncssh.Error) as error:
            raise ShellLost(_described(error)) from error


async def _send(stdin: asyncssh.SSHWriter[bytes], data: bytes) -> None:
    for begin in range(0, len(data), _CHUNK_BYTES):
        stdin.write(data[begin : begin + _CHUNK_BYTES])
        await stdin.drain()
    stdin.write_eof()


async def _receive(stream: asyncssh.SSHReader[bytes], taker: Taker) -> None:
    while data := await stream.read(_READ_BYTES):
        taker(data)


def _described(error: Exception) -> str:
    return str(error) or type(error).__name__
