"""What a job must not tell: the one place that everything feeds which opens a secret, and that all asks which writes.

Whoever opens a secret for a job (a parameter of a service, the result of a command, a private key) lets the job learn
it here. From then on no text that the job writes shows it, in no encoding (`model/redaction.py`), and in the documents
that it leaves behind a sealed token stands in its place. Who reads such a document for another job opens the token, and
so that job knows the secret too.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from launchbay.auth.secret_key import TextSeal
from launchbay.model import redaction
from launchbay.model.redaction import SHORTEST_CHARS, RedactionStream, Redactor, SecretEncodings


class Secrets:
    """The secrets of one job. `given` covers what the job was given under secret names.

    Without a seal, as where nothing is stored, documents stay as they are.
    """

    def __init__(self, seal: TextSeal | None = None, given: Callable[[], Redactor] = Redactor) -> None:
        self._seal = seal
        self._given = given
        self._registered = SecretEncodings()
        self._tokens: dict[str, str] = {}

    def register_secret(self, value: Any) -> None:
        """Keep secret from now on every text in a JSON value, and every number that is long enough."""
        for text in _texts(value):
            self._registered.add(text)
            self._redactor.register_secret(text)

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return self._redactor.text(text)

    def stream(self) -> RedactionStream:
        """Return what covers secrets in a text that comes in chunks."""
        return self._redactor.stream()

    def sealed(self, value: Any) -> Any:
        """Return a JSON value in the form that may be stored: with tokens in place of what was learned."""
        if self._seal is None or not self._registered:
            return value
        return redaction.map_strings(value, self._sealed_text, self._sealed_number)

    def opened(self, value: Any) -> Any:
        """Return a stored JSON value as it was, and learn what it held."""
        return value if self._seal is None else redaction.map_strings(value, self._opened_text)

    def sealed_json(self, text: str) -> str:
        """Do the same as `sealed` with a JSON text."""
        if self._seal is None or not self._registered:
            return text
        return msgspec.json.encode(self.sealed(msgspec.json.decode(text))).decode()

    def opened_json(self, text: str) -> str:
        """Do the same as `opened` with a JSON text."""
        if redaction.TOKEN_PREFIX not in text:
            return text
        return msgspec.json.encode(self.opened(msgspec.json.decode(text))).decode()

    @cached_property
    def _redactor(self) -> Redactor:
        return self._given()  # late: most jobs say nothing that could hold a secret

    def _sealed_text(self, text: str) -> str:
        return self._registered.replace(text, lambda secret: self._token(redaction.TEXT, secret))

    def _sealed_number(self, number: Any) -> Any:
        text = str(number)
        is_secret = self._registered.spans(text) == [(0, len(text))]
        return self._token(redaction.NUMBER, text) if is_secret else number

    def _token(self, kind: str, text: str) -> str:
        assert self._seal is not None
        known = self._tokens.get(kind + text)
        if known is None:
            known = self._tokens[kind + text] = self._seal.token(kind, text)
        return known

    def _opened_text(self, text: str) -> Any:
        if redaction.is_token(text):
            kind, opened = self._open(text)
            return msgspec.json.decode(opened) if kind == redaction.NUMBER else opened
        return redaction.replace_tokens(text, lambda token: self._open(token)[1])

    def _open(self, token: str) -> tuple[str, str]:
        assert self._seal is not None
        opened = self._seal.open(token)
        if opened is None:
            return redaction.TEXT, token
        kind, secret = opened
        self.register_secret(secret)
        self._tokens[kind + secret] = token
        return kind, secret


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, int | float) and not isinstance(value, bool) and len(str(value)) >= SHORTEST_CHARS:
        yield str(value)
