"""The server's secret key, which seals what must not be readable from a copy of the database (setting SECRET_KEY_FILE).

The key is a file, made at the first start and readable by its owner alone. Every server of one database needs the same
file, and a backup of the database is of little use without it. After a rotation the file holds the former key too,
which opens and does not seal any more; a running server notices a changed file by itself.
"""

import hmac
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from launchbay.access.key_file import KEY_BYTES, KeyFile
from launchbay.errors import LaunchbayError

_NONCE_BYTES = 12
_FINGERPRINT_BYTES = 8
_ID_BYTES = 4
_FORMAT = b"\x02"  # AES-256-GCM: this byte, the key's id, the nonce, then the ciphertext with its tag
_FORMAT_WITHOUT_ID = b"\x01"


class SealBroken(LaunchbayError):
    """Sealed data cannot be opened: it was changed, or sealed with another key or for another purpose."""

    code = "SealBroken"


class _Key:
    """One key. What it does beside sealing, it does with keys of their own: the uses tell nothing about each other."""

    def __init__(self, key: bytes) -> None:
        assert len(key) == KEY_BYTES, "a secret key has 256 bits"
        self.id = hmac.digest(key, b"launchbay key id", "sha256")[:_ID_BYTES]
        self.cipher = AESGCM(key)
        self._fingerprint_key = hmac.digest(key, b"launchbay fingerprints", "sha256")
        self._nonce_key = hmac.digest(key, b"launchbay nonces", "sha256")

    def seal(self, plain: bytes, purpose: str, nonce: bytes) -> bytes:
        return _FORMAT + self.id + nonce + self.cipher.encrypt(nonce, plain, purpose.encode())

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
        self, key: bytes, others: Sequence[bytes] = (), look: Callable[[], tuple[bytes, ...] | None] = lambda: None
    ) -> None:
        self._keys = (_Key(key), *map(_Key, others))
        self._look = look

    def seal(self, plain: bytes, purpose: str) -> bytes:
        """Return the sealed form of the bytes; `purpose` names what they are and where they belong."""
        return self._current().seal(plain, purpose, secrets.token_bytes(_NONCE_BYTES))

    def seal_alike(self, plain: bytes, purpose: str) -> bytes:
        """Return a sealed form that is the same for the same bytes, and so tells that they are the same, no more."""
        key = self._current()
        return key.seal(plain, purpose, key.nonce_of(plain, purpose))

    def open(self, sealed: bytes, purpose: str) -> bytes:
        """Return the bytes that were sealed for the purpose. Raises SealBroken."""
        plain = self._opened(sealed, purpose)
        if plain is None and self._refreshed():
            plain = self._opened(sealed, purpose)
        if plain is None:
            raise SealBroken(
                f"Sealed data ({purpose}) cannot be opened with this server's secret key.",
                "Start the server with the key file that was in use when the data was written.",
            )
        return plain

    @property
    def mark(self) -> bytes:
        """What everything begins with that is sealed with the key that seals now."""
        return _FORMAT + self._current().id

    def is_current(self, sealed: bytes) -> bool:
        """Tell whether the bytes were sealed with the key that seals now."""
        return sealed.startswith(self.mark)

    def fingerprint(self, plain: bytes, purpose: str) -> str:
        """Return a short text that is equal for equal bytes, and tells nobody without the key what they are."""
        return self._current().fingerprint(plain, purpose)

    def is_fingerprint(self, text: str, plain: bytes, purpose: str) -> bool:
        """Tell whether the text is the fingerprint of these bytes, though it be of a former key."""
        return any(hmac.compare_digest(text, key.fingerprint(plain, purpose)) for key in self._keys)

    def _current(self) -> _Key:
        self._refreshed()
        return self._keys[0]

    def _refreshed(self) -> bool:
        keys = self._look()
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


def read_secret_key(file: Path) -> SecretKey:
    """Return the key in the file; without a file, make one with a new key, readable by its owner alone.

    Raises CannotStart when the file cannot be read or written, others may read it, or it holds no key.
    """
    key_file = KeyFile(file)
    key_file.make()
    key, *others = key_file.read()
    return SecretKey(key, others, key_file.changed)
