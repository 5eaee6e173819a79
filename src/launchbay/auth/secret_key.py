"""The server's secret key, which seals what must not be readable from a copy of the database (setting SECRET_KEY_FILE).

The key is a file, made at the first start and readable by its owner alone. Every server of one database needs the same
file, and a backup of the database is of little use without it. After a rotation the file holds the former key too,
which opens and does not seal any more; a running server notices a changed file by itself.

The database says which of the keys seals. A process without that key seals nothing: once a rotation has ended, nobody
could open it.
"""

import hmac
import os
import secrets
import stat
import tempfile
import time
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from launchbay.errors import CannotStart, LaunchbayError, SecretKeyOutdated
from launchbay.model import redaction

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

    def create(self) -> None:
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
        """Return word and key of each line.

        Raises CannotStart if the file is missing, malformed, or readable by other users.
        """
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
        """Replace the whole file at once. Owner, group and mode stay. Raises CannotStart."""
        text = "".join(f"{word} {b64encode(key).decode()}".strip() + "\n" for word, key in lines)
        with self._replacement(text) as draft:
            draft.replace(self.path)
            _sync(self.path.parent)

    def check_writable(self) -> None:
        """Raise CannotStart if `write` would."""
        with self._replacement(""):
            pass

    @contextmanager
    def _replacement(self, text: str) -> Iterator[Path]:
        try:
            found = self.path.stat()
            draft = _draft(self.path, text)
            try:
                made = draft.stat()
                if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
                    os.chown(draft, found.st_uid, found.st_gid)
                draft.chmod(stat.S_IMODE(found.st_mode) & 0o770)
                yield draft
            finally:
                draft.unlink(missing_ok=True)
        except FileNotFoundError as error:
            raise _unreadable(self.path, error) from error
        except OSError as error:
            raise CannotStart(
                f"The secret key file {self.path} can't be replaced: {error}",
                "Run the command as root, or as the account of the server, which must own the file and may write to"
                f" {self.path.parent}.",
            ) from error

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError as error:
            raise _unreadable(self.path, error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size


def new_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def _read_line(line: str) -> tuple[str, bytes] | None:
    word, _, text = line.strip().rpartition(" ")
    try:
        key = b64decode(text, validate=True)
    except ValueError:
        return None
    return (word, key) if word in {"", NEXT, FORMER} and len(key) == KEY_BYTES else None


def _unreadable(file: Path, error: Exception) -> CannotStart:
    if isinstance(error, FileNotFoundError):
        return CannotStart(
            f"The secret key file {file} is missing. Nothing else can decrypt the secrets in the database.",
            f"Copy the file of another server or of the backup to {file}, or set LAUNCHBAY_SECRET_KEY_FILE to its path."
            " If the key is lost, run: launchbay docs --print howto/restore#restore-without-the-key",
        )
    return CannotStart(
        f"The secret key file {file} can't be read or created: {error}",
        "Set LAUNCHBAY_SECRET_KEY_FILE to a file that the server may read.",
    )


def _create(file: Path) -> None:
    """Write the key to a draft, then link it into place: no one sees half a key, and only one server wins."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


_NONCE_BYTES = 12
_FINGERPRINT_BYTES = 8
_ID_BYTES = 4
_FORMAT = b"\x02"  # AES-256-GCM: this byte, the key's id, the nonce, then the ciphertext with its tag
_FORMAT_WITHOUT_ID = b"\x01"
MARK_BYTES = len(_FORMAT) + _ID_BYTES
# How long a process seals after the database has last said with which key: less than it counts as live without a word.
CONFIRMED_S = 30.0


class UnsealFailed(LaunchbayError):
    """Sealed data cannot be opened: it was changed, or sealed with another key or for another purpose."""

    code = "SealBroken"


class _Key:
    """One key. Uses other than encryption have derived keys, so that they reveal nothing about each other."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "a secret key has 256 bits"
        self.id = hmac.digest(key, b"launchbay key id", "sha256")[:_ID_BYTES]
        self.mark = _FORMAT + self.id  # what everything begins with that it seals
        self.cipher = AESGCM(key)
        self._fingerprint_key = hmac.digest(key, b"launchbay fingerprints", "sha256")
        self._nonce_key = hmac.digest(key, b"launchbay nonces", "sha256")

    def seal(self, plain: bytes, purpose: str, nonce: bytes) -> bytes:
        return self.mark + nonce + self.cipher.encrypt(nonce, plain, purpose.encode())

    def nonce_of(self, plain: bytes, purpose: str) -> bytes:
        message = purpose.encode() + b"\0" + plain
        return hmac.digest(self._nonce_key, message, "sha256")[:_NONCE_BYTES]

    def fingerprint(self, plain: bytes, purpose: str) -> str:
        message = purpose.encode() + b"\0" + plain
        return "fingerprint:" + hmac.digest(self._fingerprint_key, message, "sha256")[:_FINGERPRINT_BYTES].hex()


class SecretKey:
    """Seals and opens bytes with authenticated encryption; what is sealed for one purpose opens for no other.

    `others` open too. `look` is asked before a seal, and when nothing opens: it returns the keys if they have changed.
    """

    def __init__(
        self, key: bytes, others: Sequence[bytes] = (), reload: Callable[[], tuple[bytes, ...] | None] = lambda: None
    ) -> None:
        self._keys = (_Key(key), *map(_Key, others))
        self._reload = reload
        self._newest: bytes | None = None
        self._confirmed_at_s = 0.0

    def follow(self, newest: bytes) -> None:
        """Seal with the key that the database has just named, or with none."""
        self._newest = newest
        self._confirmed_at_s = time.monotonic()

    @property
    def sealing_mark(self) -> bytes | None:
        """The mark of the key that seals now, if this process has it."""
        self._refreshed()
        key = self._sealing()
        return None if key is None else key.mark

    def check_newest(self) -> None:
        """Raise SecretKeyOutdated if this process lacks the newest key."""
        if self.sealing_mark is None:
            raise SecretKeyOutdated

    @property
    def marks(self) -> list[bytes]:
        """The mark of each key, that of the file's first one first."""
        self._refreshed()
        return [key.mark for key in self._keys]

    def seal(self, plain: bytes, purpose: str) -> bytes:
        """Return the sealed form of the bytes; `purpose` names what they are and where they belong.

        Raises SecretKeyOutdated, as `seal_deterministic` does.
        """
        return self._current().seal(plain, purpose, secrets.token_bytes(_NONCE_BYTES))

    def seal_deterministic(self, plain: bytes, purpose: str) -> bytes:
        """Return an encrypted form that is equal for equal bytes, and reveals only that."""
        key = self._current()
        return key.seal(plain, purpose, key.nonce_of(plain, purpose))

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Return the bytes that were sealed for the purpose. Raises UnsealFailed."""
        plain = self._opened(sealed, purpose)
        if plain is None and self._refreshed():
            plain = self._opened(sealed, purpose)
        if plain is None and self._newest is not None and self._sealing() is None:
            raise SecretKeyOutdated
        if plain is None:
            raise UnsealFailed(
                f"Sealed data ({purpose}) cannot be opened with this server's secret key.",
                "Start the server with the key file that was in use when the data was written.",
            )
        return plain

    @property
    def current_prefix(self) -> bytes:
        """What everything begins with that is sealed with the key that seals now."""
        return self._current().mark

    def is_current(self, sealed: bytes) -> bool:
        """Tell whether the bytes were sealed with the key that seals now."""
        return sealed.startswith(self.current_prefix)

    def fingerprint(self, plain: bytes, purpose: str) -> str:
        """Return a short text that is equal for equal bytes, and tells nobody without the key what they are."""
        self._refreshed()
        return (self._sealing() or self._keys[0]).fingerprint(plain, purpose)

    def is_fingerprint(self, text: str, plain: bytes, purpose: str) -> bool:
        """Tell whether the text is the fingerprint of these bytes, though it be of a former key."""
        return any(hmac.compare_digest(text, key.fingerprint(plain, purpose)) for key in self._keys)

    def _current(self) -> _Key:
        self._refreshed()
        key = self._sealing()
        if key is None or (self._newest is not None and time.monotonic() - self._confirmed_at_s > CONFIRMED_S):
            raise SecretKeyOutdated
        return key

    def _sealing(self) -> _Key | None:
        if self._newest is None:
            return self._keys[0]
        return next((key for key in self._keys if key.mark == self._newest), None)

    def _refreshed(self) -> bool:
        keys = self._reload()
        if keys is None:
            return False
        self._keys = tuple(map(_Key, keys))
        return True

    def _opened(self, sealed: bytes, purpose: str) -> bytes | None:
        if sealed[:1] == _FORMAT:
            key_id, rest = sealed[1 : 1 + _ID_BYTES], sealed[1 + _ID_BYTES :]
            keys = [key for key in self._keys if key.id == key_id]
        elif sealed[:1] == _FORMAT_WITHOUT_ID:
            rest, keys = sealed[1:], list(self._keys)
        else:
            return None
        nonce, ciphertext = rest[:_NONCE_BYTES], rest[_NONCE_BYTES:]
        if len(nonce) < _NONCE_BYTES:
            return None
        for key in keys:
            with suppress(InvalidTag):
                return key.cipher.decrypt(nonce, ciphertext, purpose.encode())
        return None


def read_secret_key(file: Path, *, creates: bool = True) -> SecretKey:
    """Return the key in the file; without a file, make one with a new key, readable by its owner alone.

    With `creates` False, a missing file is an error. Raises CannotStart when the file cannot be read or written, others
    may read it, or it holds no key.
    """
    key_file = KeyFile(file)
    if creates:
        key_file.create()
    key, *others = key_file.read()
    return SecretKey(key, others, key_file.changed)


# Seals secrets inside of stored texts (`model/redaction.py`), for one organization.
#
# The same secret becomes the same token, so that documents can be compared without opening them.


class TextSeal:
    """Makes tokens and opens them."""

    def __init__(self, key: SecretKey, organization_id: str) -> None:
        self._key = key
        self._purpose = text_purpose(organization_id)

    def token(self, kind: str, text: str) -> str:
        """Return the token for a text; `kind` is one of `sealed_text`."""
        sealed = self._key.seal_deterministic(f"{kind}{text}".encode("utf-8", "surrogatepass"), self._purpose)
        return redaction.token(urlsafe_b64encode(sealed).decode("ascii").rstrip("="))

    def open(self, token: str) -> tuple[str, str] | None:
        """Return kind and text of a token, None for what only looks like one."""
        held = redaction.token_content(token)
        try:
            sealed = urlsafe_b64decode(held + "=" * (-len(held) % 4))
            opened = self._key.open(sealed, self._purpose).decode("utf-8", "surrogatepass")
        except (ValueError, UnsealFailed):
            return None
        return opened[:1], opened[1:]


def text_purpose(organization_id: str) -> str:
    return f"texts of {organization_id}"
