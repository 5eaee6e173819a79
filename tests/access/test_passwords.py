import asyncio
import threading
from typing import Literal

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from launchbay.auth.authentication import PARAMETERS, Passwords
from launchbay.errors import BadRequest, Unavailable
from launchbay.limits import PASSWORD_VERIFICATIONS_WAITING


async def test_a_password_verifies_against_its_own_hash_only() -> None:
    passwords = Passwords()
    stored = await passwords.hash("pä:ss wörd")
    assert await passwords.verify(stored, "pä:ss wörd")
    assert not await passwords.verify(stored, "pä:ss wörd ")
    assert not await passwords.verify(stored, "")


def test_hashes_are_argon2id_with_the_parameters_of_the_design() -> None:
    assert PARAMETERS.hash("x").startswith("$argon2id$v=19$m=19456,t=2,p=1$")


async def test_an_unknown_account_is_verified_and_never_matches() -> None:
    assert not await Passwords().verify(None, "anything")


async def test_accented_letters_match_however_a_system_composes_them() -> None:
    passwords = Passwords()
    assert await passwords.verify(await passwords.hash("caf\u00e9"), "cafe\u0301")


async def test_a_stored_text_that_is_no_hash_matches_nothing() -> None:
    assert not await Passwords().verify("plain", "plain")


async def test_a_hash_of_other_parameters_is_outdated_but_verifies() -> None:
    passwords = Passwords()
    old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash("pw")
    assert passwords.needs_rehash(old)
    assert await passwords.verify(old, "pw")
    assert not passwords.needs_rehash(await passwords.hash("pw"))


@pytest.mark.anyio
@pytest.mark.parametrize("password", ["", "x" * 1025, "é" * 513])
async def test_a_password_beyond_its_bounds_is_refused(password: str) -> None:
    with pytest.raises(BadRequest, match="1 to 1024 bytes"):
        await Passwords().hash(password)


async def test_an_oversize_password_matches_nothing() -> None:
    passwords = Passwords()
    assert not await passwords.verify(await passwords.hash("x"), "x" * 100_000)


class _Counting(PasswordHasher):
    """Holds every verification until it is told to go on, and counts how many are under way."""

    def __init__(self) -> None:
        super().__init__(time_cost=1, memory_cost=8, parallelism=1)
        self.go_on = threading.Event()
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def verify(self, hash: str | bytes, password: str | bytes) -> Literal[True]:  # noqa: A002 - argon2-cffi's name
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self.go_on.wait(10)
        with self._lock:
            self._now -= 1
        raise VerifyMismatchError


async def test_two_verifications_at_once_the_rest_waits_and_a_longer_queue_is_refused() -> None:
    counting = _Counting()
    passwords = Passwords(counting)
    room = 2 + PASSWORD_VERIFICATIONS_WAITING
    waiting = [asyncio.ensure_future(passwords.verify(None, "x")) for _ in range(room)]
    await asyncio.sleep(0.05)
    with pytest.raises(Unavailable):
        await passwords.verify(None, "x")
    counting.go_on.set()
    assert await asyncio.gather(*waiting) == [False] * room
    assert counting.most == 2
    assert not await passwords.verify(None, "x")
