"""Which passwords may be set, and how they are hashed and verified."""

import asyncio
import sys
import threading
from pathlib import Path
from typing import Literal

import pytest
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from launchbay.auth import passwords
from launchbay.auth.passwords import PARAMETERS, Passwords, require_strong
from launchbay.errors import BadRequest, Unavailable
from launchbay.limits import PASSWORD_BYTES, PASSWORD_CHARS_RATED, PASSWORD_VERIFICATIONS_WAITING

EMAIL = "ann.miller@example.org"


@pytest.mark.parametrize(
    ("password", "problem"),
    [
        ("", "at least 10 characters; this one has 0"),
        ("k7#Vq!2xR", "at least 10 characters; this one has 9"),
        ("e\u0301" * 9, "this one has 9"),
        ("k7#Vq!2xR\ud800" + "x" * PASSWORD_BYTES, "at most 1024 bytes"),
        (EMAIL, "is the email address"),
        (f" {EMAIL.upper()} ", "is the email address"),
        ("password12", "easy to guess"),
        ("qwertyuiop", "easy to guess"),
        ("1234567890", "easy to guess"),
        ("P@ssw0rd2026", "easy to guess"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "easy to guess"),
        ("annmiller12", "easy to guess"),
        ("launchbay1!", "easy to guess"),
        ("example.org1", "easy to guess"),
    ],
)
def test_a_weak_password_is_refused_with_what_to_do(password: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem) as refused:
        require_strong(password, EMAIL)
    assert refused.value.code == "WeakPassword"
    assert refused.value.messages[-1].startswith("Use ")


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery staple",
        "seven green bottles",
        "k7#Vq!2xRz",
        "пароль для одного теста",
        "r7 Kd!2 wn0 pQx" * 40,
    ],
)
def test_a_password_that_takes_long_to_guess_is_taken_whatever_its_characters(password: str) -> None:
    require_strong(password, EMAIL)


def test_the_words_of_one_account_do_not_count_for_the_next() -> None:
    with pytest.raises(BadRequest):
        require_strong("kvizoplumqbrannet", "kvizoplumq.brannet@example.org")
    require_strong("kvizoplumqbrannet", EMAIL)


def test_only_the_beginning_of_a_long_password_is_rated() -> None:
    """72 characters, all with substitutes, take zxcvbn 15 s."""
    strong = "4@8({[<369&#!1/|0$5+7%2"
    require_strong(strong * 40, EMAIL)
    with pytest.raises(BadRequest, match="easy to guess"):
        require_strong("a" * PASSWORD_CHARS_RATED + strong, EMAIL)


def test_the_word_lists_do_not_stay_in_memory() -> None:
    require_strong("correct horse battery staple", EMAIL)
    assert "zxcvbn" not in sys.modules


async def test_a_new_password_is_checked_and_an_old_one_is_not() -> None:
    passwords = Passwords()
    stored = await passwords.hash("pa55")
    assert await passwords.verify(stored, "pa55")
    with pytest.raises(BadRequest):
        await passwords.hash_new("pa55", EMAIL)


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
    await asyncio.sleep(0)
    with pytest.raises(Unavailable):
        await passwords.verify(None, "x")
    counting.go_on.set()
    assert await asyncio.gather(*waiting) == [False] * room
    assert counting.most == 2
    assert not await passwords.verify(None, "x")


_BROKEN = ["raise SystemExit(1)", "import time; time.sleep(600)", "def zxcvbn(*_): return 1 / 0"]


@pytest.mark.parametrize("program", _BROKEN)
def test_a_password_that_cannot_be_rated_is_refused_and_not_taken(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zxcvbn.py").write_text(program)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(passwords, "PASSWORD_RATING_S", 0.5)
    with pytest.raises(Unavailable, match="couldn't check how easy"):
        require_strong("correct horse battery staple", EMAIL)
