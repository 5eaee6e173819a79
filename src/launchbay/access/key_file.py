"""The file of the server's secret key (setting SECRET_KEY_FILE)."""

import os
import secrets
import stat
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from launchbay.errors import CannotStart

KEY_BYTES = 32
FILE_NAME = "secret.key"
NEXT = "next"
FORMER = "former"


class KeyFile:
    """The file of the key: a line for each, in base64, after a word unless it is the key that seals.

    `next` is a key that opens already and is to seal after the next rotation; `former` ones only open.
    """

    def __init__(self, file: Path) -> None:
        self.path = file
        self._seen: tuple[int, ...] = ()

    def make(self) -> None:
        """Write a file with a new key, readable by its owner alone, unless there is one. Raises CannotStart."""
        try:
            if not self.path.exists():
                _create(self.path)
        except OSError as error:
            raise _unreadable(self.path, error) from error

    def read(self) -> tuple[bytes, ...]:
        """Return the keys, that which seals first. Raises CannotStart."""
        seen = self._stamp()
        keys = self.lines()
        self._seen = seen
        return (*(key for word, key in keys if not word), *(key for word, key in keys if word))

    def changed(self) -> tuple[bytes, ...] | None:
        """Return the keys when the file has changed and can be read; a file that cannot be is no reason to stop."""
        with suppress(CannotStart):
            if self._stamp() != self._seen:
                return self.read()
        return None

    def lines(self) -> list[tuple[str, bytes]]:
        """Return the lines, word and key of each. Raises CannotStart for a file that is none, or that all may read."""
        try:
            mode = self.path.stat().st_mode
            text = self.path.read_text("ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise _unreadable(self.path, error) from error
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            raise CannotStart(
                f"Everybody on this machine may read the secret key file {self.path}.", f"Run: chmod 600 {self.path}"
            )
        found = [_read_line(line) for line in text.splitlines() if line.strip()]
        lines = [line for line in found if line is not None]
        if len(lines) < len(found) or [word for word, _ in lines].count("") != 1:
            raise CannotStart(
                f"The secret key file {self.path} holds no key: it must be the base64 of {KEY_BYTES} bytes, with more"
                " lines only where each has the word `next` or `former` before its key.",
                "Restore the file from the backup that belongs to the database.",
            )
        return lines

    def write(self, lines: Sequence[tuple[str, bytes]]) -> None:
        """Replace the whole file at once, readable by its owner alone. Raises OSError."""
        text = "".join(f"{word} {b64encode(key).decode()}".strip() + "\n" for word, key in lines)
        draft = _draft(self.path, text)
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode) & 0o770
            draft.chmod(mode)
            draft.replace(self.path)
            _sync(self.path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size


def new_key() -> bytes:
    """Return a new key."""
    return secrets.token_bytes(KEY_BYTES)


def _read_line(line: str) -> tuple[str, bytes] | None:
    word, _, text = line.strip().rpartition(" ")
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        return None
    return (word, key) if word in {"", NEXT, FORMER} and len(key) == KEY_BYTES else None


def _unreadable(file: Path, error: Exception) -> CannotStart:
    return CannotStart(
        f"The secret key file {file} cannot be read or made: {error}",
        "Set LAUNCHBAY_SECRET_KEY_FILE to a file that the server may read.",
    )


def _create(file: Path) -> None:
    """Write the whole key beside its place, then link it there: nobody sees half a key, and only one server wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = _draft(file, b64encode(new_key()).decode() + "\n")
    try:
        try:
            os.link(draft, file)
        except FileExistsError:
            return  # another server was first; its key counts
        _sync(file.parent)
    finally:
        draft.unlink()


def _draft(file: Path, text: str) -> Path:
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    return Path(name)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
