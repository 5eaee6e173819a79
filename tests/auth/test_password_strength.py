"""Which passwords may be set."""

from typing import Any

import pytest

from launchbay.auth.authentication import Passwords
from launchbay.auth.password_strength import require_strong
from launchbay.errors import BadRequest
from launchbay.limits import PASSWORD_BYTES, PASSWORD_CHARS_RATED

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


def test_only_the_beginning_of_a_long_password_is_rated(monkeypatch: pytest.MonkeyPatch) -> None:
    """72 characters such as these take zxcvbn 15 s."""
    rated: list[int] = []
    real = __import__("zxcvbn").zxcvbn

    def noted(password: str, **more: Any) -> Any:
        rated.append(len(password))
        return real(password, **more)

    monkeypatch.setattr("zxcvbn.zxcvbn", noted)
    require_strong("4@8({[<369&#!1/|0$5+7%2" * 40, EMAIL)
    assert rated == [PASSWORD_CHARS_RATED]


@pytest.mark.anyio
async def test_a_new_password_is_checked_and_an_old_one_is_not() -> None:
    passwords = Passwords()
    stored = await passwords.hash("pa55")
    assert await passwords.verify(stored, "pa55")
    with pytest.raises(BadRequest):
        await passwords.hash_new("pa55", EMAIL)
