"""Password hashes: Argon2id with 19 MiB, two passes, one lane, never more than two at once."""

import asyncio
import secrets
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from launchbay.errors import BadRequest, Unavailable
from launchbay.limits import PASSWORD_BYTES, PASSWORD_VERIFICATIONS, PASSWORD_VERIFICATIONS_WAITING

_T = TypeVar("_T")

PARAMETERS = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class Passwords:
    """Hashes and verifies in a pool of two threads; beyond a bounded queue it refuses instead of falling behind."""

    def __init__(self, hasher: PasswordHasher = PARAMETERS) -> None:
        self._hasher = hasher
        self._threads = ThreadPoolExecutor(PASSWORD_VERIFICATIONS, thread_name_prefix="password")
        self._under_way = 0
        # What an unknown account is verified against, so that it costs the same as a wrong password.
        self._nobody = hasher.hash(secrets.token_hex(16))

    async def hash(self, password: str) -> str:
        """Return the text to store. Raises BadRequest for an empty or oversize password, Unavailable under overload."""
        encoded = _encoded(password)
        if not 0 < len(encoded) <= PASSWORD_BYTES:
            raise BadRequest(f"A password has 1 to {PASSWORD_BYTES} bytes in UTF-8; this one has {len(encoded)}.")
        return await self._run(lambda: self._hasher.hash(encoded))

    async def verify(self, stored: str | None, password: str) -> bool:
        """Tell whether the password belongs to the stored text.

        None, for an unknown account, takes as long and is False. Raises Unavailable under overload.
        """
        encoded = _encoded(password)
        if len(encoded) > PASSWORD_BYTES:
            return False  # no stored password is so long, whosever it is
        matches = await self._run(lambda: self._matches(stored or self._nobody, encoded))
        return matches and stored is not None

    def outdated(self, stored: str) -> bool:
        """Tell whether the text was made with other parameters than today's; the next sign-in replaces it then."""
        return self._hasher.check_needs_rehash(stored)

    def close(self) -> None:
        """Let the threads end."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _matches(self, stored: str, encoded: bytes) -> bool:
        try:
            return self._hasher.verify(stored, encoded)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], _T]) -> _T:
        if self._under_way >= PASSWORD_VERIFICATIONS + PASSWORD_VERIFICATIONS_WAITING:
            raise Unavailable("Too many sign-ins are being verified.", "Try again in a moment.")
        self._under_way += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._under_way -= 1


def _encoded(password: str) -> bytes:
    """Return the bytes that are hashed: the same for every way in which systems compose accented letters (RFC 8265)."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
