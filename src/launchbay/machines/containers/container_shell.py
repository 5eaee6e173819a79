"""A shell and files in a container, through its engine.

Files go through the shell as well: what the engine's own archives write and read, it writes and reads as the superuser,
wherever the login may not.
"""

import posixpath
from dataclasses import dataclass

from launchbay import limits
from launchbay.errors import ActionFailed
from launchbay.machines.containers.engine_api import EngineApi, EngineRefused
from launchbay.machines.live_output import Kept
from launchbay.machines.shell import ShellLost, Taker

_TOLD_BYTES = 4 * limits.KIB
_GONE = (404, 409)  # no such container, or it does not run
_NO_FILE = 66
_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /\n'
# The draft is moved into its place: nobody sees half of it.
_PUT = _HOME + 'head -c "$1" >"$2" && chmod 644 "$2" && mv -f "$2" "$3"'
_GET = _HOME + f'[ -f "$2" ] || exit {_NO_FILE}\nhead -c "$1" <"$2"'


@dataclass(frozen=True, slots=True)
class ContainerShell:
    """Implements `shell.Shell`. `login` is the user inside; the image's own where it is empty."""

    engine: EngineApi
    container: str
    host: str
    login: str = ""

    async def script(self, text: str, stdout: Taker, stderr: Taker) -> int:
        """Have `sh` read the text from its standard input, and return its exit code."""
        given = text.encode("utf-8", "replace")
        # An engine's connection cannot be closed on one side: `head` ends the input where the text ends.
        command = ("sh", "-c", f"head -c {len(given)} | sh -s")
        return await self._run(command, given, stdout, stderr)

    async def put(self, name: str, content: bytes) -> None:
        """Write a file beside its place, then move it there."""
        directory, base = posixpath.split(name)
        draft = posixpath.join(directory, f".{base}.launchbay")
        command = ("sh", "-c", _PUT, "sh", str(len(content)), draft, name)
        stderr = Kept(_TOLD_BYTES)
        if await self._run(command, content, Kept(0), stderr) != 0:
            raise ActionFailed(f"The file {name} on {self.host} cannot be written: {_text(stderr)}")

    async def get(self, name: str, most_bytes: int) -> bytes:
        """Read a file. Raises ActionFailed for one that is too large, and for what is none."""
        content, stderr = Kept(most_bytes + 1), Kept(_TOLD_BYTES)
        code = await self._run(("sh", "-c", _GET, "sh", str(most_bytes + 1), name), b"", content, stderr)
        if code == _NO_FILE:
            raise ActionFailed(f"There is no file {name} on {self.host}.")
        if code != 0:
            raise ActionFailed(f"The file {name} on {self.host} cannot be read: {_text(stderr)}")
        if len(content.data) > most_bytes:
            raise ActionFailed(
                f"The file {name} on {self.host} has more than {most_bytes} bytes; that is the most.", retryable=False
            )
        return content.data

    async def _run(self, command: tuple[str, ...], given: bytes, stdout: Taker, stderr: Taker) -> int:
        try:
            return await self.engine.execute(self.container, command, given, stdout, stderr, self.login)
        except EngineRefused as error:
            raise self._lost(error) from error

    def _lost(self, error: EngineRefused) -> Exception:
        if error.status in _GONE:
            return ActionFailed(f"The container {self.host} is gone or does not run: {error}")
        return ShellLost(str(error))


def _text(kept: Kept) -> str:
    return kept.data.decode("utf-8", "replace").strip()
