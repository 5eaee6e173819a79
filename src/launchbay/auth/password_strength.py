"""Which passwords may be set.

Existing passwords keep working: only a new one is checked (ASVS 5.0, 6.2.1 to 6.2.4).
"""

import threading
import unicodedata
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from launchbay.errors import BadRequest
from launchbay.limits import PASSWORD_BYTES, PASSWORD_CHARS, PASSWORD_CHARS_RATED

_GOOD = 3  # zxcvbn's scale is 0 to 4; less means that about 10^8 guesses find it
_REMEDY = "Use four or more unrelated words, or a generated password."
_one_at_a_time = threading.Lock()  # zxcvbn keeps the words of the last call in a module


def require_strong(password: str, email: str) -> None:
    """Raise BadRequest for a new password that is short, common or easy to guess.

    It may take a third of a second of computing time, so call it from a thread.
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
    rating = _rating(password[:PASSWORD_CHARS_RATED], _words_of(email))
    if rating["score"] < _GOOD:
        feedback = rating["feedback"]
        raise _weak("This password is easy to guess.", *filter(None, [feedback["warning"], _REMEDY]))


def _rating(password: str, words: Iterable[str]) -> Any:
    # By name and late: 14 MiB of word lists, which a process in which nobody sets a password does not need.
    zxcvbn = import_module("zxcvbn").zxcvbn
    with _one_at_a_time:
        return zxcvbn(password, user_inputs=list(words))


def _words_of(email: str) -> list[str]:
    """Return what guessers try first for this account (ASVS 5.0, 6.2.11)."""
    name, _, domain = email.partition("@")
    parts = email.replace("@", ".").replace("-", ".").replace("_", ".").replace("+", ".").split(".")
    return ["launchbay", email, name, domain, *(part for part in parts if len(part) > 2)]


def _weak(problem: str, *remedies: str) -> BadRequest:
    return BadRequest(problem, *remedies, code="WeakPassword")
