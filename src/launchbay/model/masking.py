"""What is shown in place of secrets (promise 10): the one place that decides what counts as one. Pure.

A value counts as a secret by the name that it goes under, and a text by what it looks like. What an instance was given
under such a name is covered in every text of its jobs as well, wherever an action wrote it and however it is encoded
there. What a job has learned from a vault is sealed in what it stores (`sealed_text.py`); the tokens are covered here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from launchbay.model import sealed_text
from launchbay.model.disguises import Disguises, Stream

MASK = "********"

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    (
        *("password", "passwords", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "tokens", "credential"),
        *("credentials", "authorization", "cookie", "cookies", "apikey", "privatekey", "accesskey", "secretkey"),
    )
)
_SECRET_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("pass", "word"), ("signing", "key")})
# `tokenId` names a token and `passwordLength` measures a password; neither is one.
_ABOUT_A_SECRET = frozenset(
    ("id", "ids", "name", "names", "type", "kind", "count", "length", "policy", "expiry", "expires", "lifetime", "at")
)

_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_PASSWORD_IN_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^\s/:@?#\"']{0,256}:)[^\s/@?#\"']{1,1024}(?=@)")
# `"password": "…"` of JSON in a text, and `password=…` of addresses and commands.
_NAMED = re.compile(
    r"""(?<![A-Za-z0-9_])(["']?)([A-Za-z][A-Za-z0-9_.-]{0,80})\1(\s{0,4}[:=]\s{0,4})"""
    r"""((?<=[:=\s])(?:"(?:[^"\\]|\\.)*"|'[^']*')|(?<==)[^\s"',;&(){}\[\]]+)"""
)
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)(\s+)[A-Za-z0-9._~+/=-]{8,}")


def is_secret_name(name: str) -> bool:
    """Tell whether what goes under this name is a secret: `db.password`, `apiKey`, `ACCESS_TOKEN`; not `tokenId`."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


class Masking:
    """Covers secrets in values and texts; `known` are documents whose secrets are covered wherever they turn up."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._known = Disguises(text for document in known for text in _secrets(document, under_secret=False))

    def learn(self, secret: str) -> None:
        """Cover this text too from now on, wherever it turns up."""
        self._known.add(secret)

    def stream(self) -> Stream:
        """Return what covers the known secrets in a text that comes in chunks."""
        return Stream(self._known, MASK)

    def value(self, value: Any) -> Any:
        """Return a JSON value with its secrets covered; its form stays, so that the reader sees that they are there."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, Mapping):
            return {self.text(name): self.named(name, item) for name, item in value.items()}
        return value

    def named(self, name: str, value: Any) -> Any:
        """Return what is shown of a value under a name."""
        return _covered(value) if is_secret_name(name) else self.value(value)

    def text(self, text: str) -> str:
        """Return a text with its secrets covered."""
        text = sealed_text.replaced(self._known.replaced(text, _mask), _mask)
        text = _PRIVATE_KEY.sub(MASK, text)
        text = _NAMED.sub(_named, text)
        text = _PASSWORD_IN_URL.sub(rf"\1{MASK}", text)
        return _AUTHORIZATION.sub(rf"\1\2{MASK}", text)


def _mask(_: str) -> str:
    return MASK


def _named(found: re.Match[str]) -> str:
    """Cover the value of a pair whose name says that it is a secret; keep its quotes."""
    quote, name, sign, value = found.groups()
    if not is_secret_name(name):
        return found[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{quote}{name}{quote}{sign}{mark}{MASK}{mark}"


def _covered(value: Any) -> Any:
    """Return what is shown of a value under a secret name. That it is null, true or empty tells nothing."""
    return value if value is None or isinstance(value, bool) or value in ("", [], {}) else MASK


def _secrets(value: Any, *, under_secret: bool) -> Iterator[str]:
    """Yield the texts, and the numbers as texts, that stand under secret names."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, under_secret=under_secret or is_secret_name(str(name)))
    elif isinstance(value, list):
        for item in value:
            yield from _secrets(item, under_secret=under_secret)
    elif under_secret and isinstance(value, str):
        yield value
    elif under_secret and isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)
