"""Passwords: which ones may be set, and their hashes.

Existing passwords keep working: only a new one is checked (ASVS 5.0, 6.2.1 to 6.2.4).
"""

import asyncio
import json
import os
import secrets
import subprocess
import sys
import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import structlog
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from launchbay.errors import BadRequest, Unavailable
from launchbay.limits import (
    PASSWORD_BYTES,
    PASSWORD_CHARS,
    PASSWORD_CHARS_RATED,
    PASSWORD_RATING_S,
    PASSWORD_VERIFICATIONS,
    PASSWORD_VERIFICATIONS_WAITING,
)
from launchbay.processes.run import minimal_environment

log = structlog.get_logger(__name__)
_GOOD = 3  # zxcvbn's scale is 0 to 4; less means that about 10^8 guesses find it
_REMEDY = "Use four or more unrelated words, or a generated password."
_RATE = """
import json, sys, zxcvbn
password, words = json.load(sys.stdin)
json.dump(zxcvbn.zxcvbn(password, words), sys.stdout, default=str)
"""


def require_strong(password: str, email: str) -> None:
    """Raise BadRequest for a new password that is short, common or easy to guess.

    Raises Unavailable if the rating fails. It may take a third of a second, so call it from a thread.
    """
    length = len(unicodedata.normalize("NFC", password))
    if length < PASSWORD_CHARS:
        raise _weak(f"A password needs at least {PASSWORD_CHARS} characters; this one has {length}.", _REMEDY)
    if (size := len(password.encode("utf-8", "surrogatepass"))) > PASSWORD_BYTES:
        raise _weak(
            f"A password has at most {PASSWORD_BYTES} bytes in UTF-8; this one has {size}.", "Use a shorter one."
        )
    if password.strip().casefold() == email.casefold():
        raise _weak("The password is the email address of the account.", _REMEDY)
    score, warning = _rated(password[:PASSWORD_CHARS_RATED], _words_of(email))
    if score < _GOOD:
        raise _weak("This password is easy to guess.", *filter(None, [warning, _REMEDY]))


def _rated(password: str, words: Sequence[str]) -> tuple[int, str]:
    """Return zxcvbn's score and what it warns of, or an empty text.

    It runs in a process of its own: the server would never give its 14 MiB of word lists back.
    """
    try:
        run = subprocess.run(  # noqa: S603 - our own program; what a user wrote goes through its standard input
            [sys.executable, "-P", "-c", _RATE],
            input=json.dumps([password, words]),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            env=minimal_environment(PYTHONPATH=os.pathsep.join(sys.path)),
            timeout=PASSWORD_RATING_S,
        )
        rating = json.loads(run.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # Without the error, which may quote what the program was given.
        log.warning("password.rating_failed", reason=type(error).__name__)
        problem = "The server couldn't check how easy the password is to guess, so nothing was changed."
        raise Unavailable(problem, "Try again in a moment; if it persists, tell whoever runs the server.") from None
    return rating["score"], rating["feedback"]["warning"]


def _words_of(email: str) -> list[str]:
    """Return what guessers try first for this account (ASVS 5.0, 6.2.11)."""
    name, _, domain = email.partition("@")
    parts = email.replace("@", ".").replace("-", ".").replace("_", ".").replace("+", ".").split(".")
    return ["launchbay", email, name, domain, *(part for part in parts if len(part) > 2)]


def _weak(problem: str, *remedies: str) -> BadRequest:
    return BadRequest(problem, *remedies, code="WeakPassword", field="password")


_T = TypeVar("_T")
PARAMETERS = PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


class Passwords:
    """Hashes and verifies in a pool of two threads; beyond a bounded queue it refuses instead of falling behind."""

    def __init__(self, hasher: PasswordHasher = PARAMETERS) -> None:
        self._hasher = hasher
        self._threads = ThreadPoolExecutor(PASSWORD_VERIFICATIONS, thread_name_prefix="password")
        self._in_flight = 0
        # What an unknown account is verified against, so that it costs the same as a wrong password.
        self._dummy_hash = hasher.hash(secrets.token_hex(16))

    async def hash_new(self, password: str, email: str) -> str:
        """Return the text to store for a new password.

        Raises BadRequest for a weak one, Unavailable under overload.
        """
        await self._run(lambda: require_strong(password, email))
        return await self.hash(password)

    async def hash(self, password: str) -> str:
        """Return the text to store. Raises BadRequest for an empty or oversize password, Unavailable under overload."""
        encoded = _encoded(password)
        if not 0 < len(encoded) <= PASSWORD_BYTES:
            raise BadRequest(
                f"A password has 1 to {PASSWORD_BYTES} bytes in UTF-8; this one has {len(encoded)}.", field="password"
            )
        return await self._run(lambda: self._hasher.hash(encoded))

    async def verify(self, stored: str | None, password: str, *, yields: bool = False) -> bool:
        """Tell whether the password belongs to the stored text.

        None, for an unknown account, takes as long and is False. Raises Unavailable under overload; with `yields`
        already when the queue is half full, so that a flood leaves room for others.
        """
        encoded = _encoded(password)
        if len(encoded) > PASSWORD_BYTES:
            return False  # no stored password is so long, whosever it is
        matches = await self._run(lambda: self._matches(stored or self._dummy_hash, encoded), yields=yields)
        return matches and stored is not None

    def needs_rehash(self, stored: str) -> bool:
        """Tell whether the text was made with other parameters than today's; the next sign-in replaces it then."""
        return self._hasher.check_needs_rehash(stored)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _matches(self, stored: str, encoded: bytes) -> bool:
        try:
            return self._hasher.verify(stored, encoded)
        except (VerificationError, InvalidHashError):
            return False

    async def _run(self, work: Callable[[], _T], *, yields: bool = False) -> _T:
        waiting = PASSWORD_VERIFICATIONS_WAITING // 2 if yields else PASSWORD_VERIFICATIONS_WAITING
        if self._in_flight >= PASSWORD_VERIFICATIONS + waiting:
            raise Unavailable("Too many sign-ins are being verified.", "Try again in a moment.")
        self._in_flight += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._in_flight -= 1


def _encoded(password: str) -> bytes:
    """Return the bytes that are hashed: the same for every way in which systems compose accented letters (RFC 8265)."""
    return unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
