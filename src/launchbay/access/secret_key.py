"""The server's secret key, which seals what must not be readable from a copy of the database (setting SECRET_KEY_FILE).

The key is a file, made at the first start and readable by its owner alone. Every server of one database needs the same
file, and a backup of the database is of little use without it.
"""

import hmac
import os
import secrets
import stat
import tempfile
from base64 import b64decode, b64encode
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from launchbay.errors import CannotStart, LaunchbayError

KEY_BYTES = 32
FILE_NAME = "secret.key"

_NONCE_BYTES = 12
_FINGERPRINT_BYTES = 8
_FORMAT = b"\x01"  # AES-256-GCM: this byte, the nonce, then the ciphertext with its tag


class SealBroken(LaunchbayError):
    """Sealed data cannot be opened: it was changed, or sealed with another key or for another purpose."""

    code = "SealBroken"


class SecretKey:
    """Seals and opens bytes with authenticated encryption; what is sealed for one purpose opens for no other."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "a secret key has 256 bits"
        self._cipher = AESGCM(key)
        # A key of its own, so that the two uses can tell nothing about each other.
        self._fingerprint_key = hmac.digest(key, b"launchbay fingerprints", "sha256")

    def seal(self, plain: bytes, purpose: str) -> bytes:
        """Return the sealed form of the bytes; `purpose` names what they are and where they belong."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return _FORMAT + nonce + self._cipher.encrypt(nonce, plain, purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Return the bytes that were sealed for the purpose. Raises SealBroken."""
        broken = SealBroken(
            f"Sealed data ({purpose}) cannot be opened with this server's secret key.",
            "Start the server with the key file that was in use when the data was written.",
        )
        nonce, ciphertext = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        if sealed[:1] != _FORMAT or len(nonce) < _NONCE_BYTES:
            raise broken
        try:
            return self._cipher.decrypt(nonce, ciphertext, purpose.encode())
        except InvalidTag:
            raise broken from None

    def fingerprint(self, plain: bytes, purpose: str) -> str:
        """Return a short text that is equal for equal bytes, and tells nobody without the key what they are."""
        message = purpose.encode() + b"\0" + plain
        return "fingerprint:" + hmac.digest(self._fingerprint_key, message, "sha256")[:_FINGERPRINT_BYTES].hex()


def read_secret_key(file: Path) -> SecretKey:
    """Return the key in the file; without a file, make one with a new key, readable by its owner alone.

    Raises CannotStart when the file cannot be read or written, others may read it, or it holds no key.
    """
    try:
        if not file.exists():
            _create(file)
        mode = file.stat().st_mode
        text = file.read_text("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise CannotStart(
            f"The secret key file {file} cannot be read or made: {error}",
            "Set LAUNCHBAY_SECRET_KEY_FILE to a file that the server may read.",
        ) from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise CannotStart(f"Everybody on this machine may read the secret key file {file}.", f"Run: chmod 600 {file}")
    try:
        key = b64decode(text.strip(), validate=True)
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise CannotStart(
            f"The secret key file {file} holds no key: it must be the base64 of {KEY_BYTES} bytes.",
            "Restore the file from the backup that belongs to the database.",
        )
    return SecretKey(key)


def _create(file: Path) -> None:
    """Write the whole key beside its place, then link it there: nobody sees half a key, and only one server wins."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # mode 0600
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        try:
            os.link(draft, file)
        except FileExistsError:
            return  # another server was first; its key counts
        directory = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    finally:
        draft.unlink()
