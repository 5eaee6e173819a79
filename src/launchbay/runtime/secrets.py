"""The secrets that a job knows, masked in its texts and encrypted in its documents.

Code that decrypts a secret for a job (a service's parameter, a command's result, a private key) registers it here.
After that, no text that the job writes contains it in any encoding (`model/redaction.py`), and stored documents contain
an encrypted token instead. A job that reads such a document decrypts the token and so registers the secret too.
"""

from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from threading import Lock
from typing import Any

import msgspec

from launchbay.auth.secret_key import TextSeal
from launchbay.concurrency import computed
from launchbay.limits import INLINE_BYTES
from launchbay.model import redaction
from launchbay.model.redaction import SHORTEST_CHARS, MaskedValues, RedactionStream, Redactor, SecretEncodings
from launchbay.model.values import size_of

# Of attempts of a job that have ended. A step may hand what it got to the next one, in a file.
_TOKENS_KEPT = 8  # each takes half a megabyte, and is valid for minutes
_SECRETS_KEPT = 500


class Secrets:
    """The secrets of one job.

    `given` makes a redactor of the secrets in the job's inputs.

    Without a seal, documents stay unchanged: nothing is stored then.
    """

    def __init__(self, seal: TextSeal | None = None, given: Callable[[], Redactor] = Redactor) -> None:
        self._seal = seal
        self._given = given
        self._registered = SecretEncodings()
        self._tokens: dict[str, str] = {}
        self._passing = SecretEncodings()
        self._held: dict[str, set[str]] = {}  # by the path of the step
        self._ended_tokens: deque[set[str]] = deque()
        self._ended_secrets: deque[set[str]] = deque()
        self._uses: Counter[str] = Counter()
        self._only_passing: set[str] = set()
        self._changing = Lock()  # threads open documents, and so register secrets

    def register_passing(self, value: Any, path: str) -> None:
        """Register strings of a JSON value, which no document has, not even sealed.

        They are masked until some time after `release_passing` of the step's path.
        """
        held = self._held.setdefault(path, set())
        for text in _strings(value):
            if text in held:
                continue
            if text in self._registered:
                continue  # a command has recorded it, sealed, and a replay needs the same value
            held.add(text)
            self._uses[text] += 1
            with self._changing:
                self._passing.add(text)
                if not self._redactor.knows(text):
                    self._only_passing.add(text)
                    self._redactor.register_secret(text)

    def release_passing(self, path: str) -> None:
        """Say that an attempt has ended, and all that it said is masked.

        Secrets of many later attempts stay masked, signed tokens only of some.
        """
        held = self._held.pop(path, set())
        tokens = set(filter(redaction.is_signed_token, held))
        self._end(self._ended_tokens, tokens, _TOKENS_KEPT)
        self._end(self._ended_secrets, held - tokens, _SECRETS_KEPT)

    def _end(self, ended: deque[set[str]], texts: set[str], kept: int) -> None:
        if texts:
            ended.append(texts)
        while len(ended) > kept:
            for text in ended.popleft():
                self._uses[text] -= 1
                if not self._uses[text]:
                    self._forget_passing(text)

    def _forget_passing(self, text: str) -> None:
        del self._uses[text]
        with self._changing:
            self._passing.discard(text)
            if text in self._only_passing:
                self._only_passing.remove(text)
                self._redactor.forget_secret(text)

    def without_passing(self, value: Any) -> Any:
        """Return a JSON value in which secrets of single steps are masked."""
        if not self._passing:
            return value
        return redaction.map_strings(value, self._masked_text, self._masked_number)

    def _masked_text(self, text: str) -> str:
        return self._passing.replace(text, lambda _: redaction.REDACTED)

    def _masked_number(self, number: Any) -> Any:
        text = str(number)
        return redaction.REDACTED if self._passing.spans(text) == [(0, len(text))] else number

    def register_secret(self, value: Any) -> None:
        """Register every string in a JSON value, and every number with at least SHORTEST_CHARS."""
        for text in _strings(value):
            with self._changing:
                self._registered.add(text)
                self._passing.discard(text)
                self._only_passing.discard(text)
                self._redactor.register_secret(text)

    def redact(self, text: str, longest_chars: int | None = None) -> str:
        """Mask the secrets in a text.

        With `longest_chars`, that many characters of the result are enough.
        """
        if longest_chars is None or len(text) <= INLINE_BYTES:
            return self._redactor.text(text)
        stream, shown = self.stream(), ""
        for start in range(0, len(text), INLINE_BYTES):
            shown += stream.feed(text[start : start + INLINE_BYTES])
            if len(shown) > longest_chars:
                return shown
        return shown + stream.finish()

    def shown(self, values: Mapping[str, Any], most_bytes: int) -> MaskedValues:
        """Return JSON values for display, as `Redactor.bounded` does."""
        return self._redactor.bounded(values, most_bytes)

    def stream(self) -> RedactionStream:
        return self._redactor.stream()

    def sealed(self, value: Any) -> Any:
        """Replace registered secrets in a JSON value by encrypted tokens, for storage."""
        value = self.without_passing(value)
        if self._seal is None or not self._registered:
            return value
        return redaction.map_strings(value, self._sealed_text, self._sealed_number)

    def opened(self, value: Any) -> Any:
        """Decrypt the tokens in a stored JSON value and register their secrets."""
        return value if self._seal is None else redaction.map_strings(value, self._opened_text)

    async def stored(self, value: Any) -> str:
        """Return a JSON value as text, with its secrets sealed."""
        return await computed(size_of(value, INLINE_BYTES), partial(self._stored, value))

    async def read(self, text: str) -> Any:
        """Return the value of a stored JSON text, with its tokens opened."""
        return await computed(len(text), partial(self._read, text))

    async def sealed_json(self, text: str) -> str:
        if not self._passing and (self._seal is None or not self._registered):
            return text
        return await computed(len(text), partial(self._sealed_json, text))

    def opened_json(self, text: str) -> str:
        if redaction.TOKEN_PREFIX not in text:
            return text
        return msgspec.json.encode(self._read(text)).decode()

    def _stored(self, value: Any) -> str:
        return msgspec.json.encode(self.sealed(value)).decode()

    def _sealed_json(self, text: str) -> str:
        return self._stored(msgspec.json.decode(text))

    def _read(self, text: str) -> Any:
        value = msgspec.json.decode(text)
        return self.opened(value) if redaction.TOKEN_PREFIX in text else value

    @cached_property
    def _redactor(self) -> Redactor:
        return self._given()  # lazily: most jobs write no text to mask

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


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, int | float) and not isinstance(value, bool) and len(str(value)) >= SHORTEST_CHARS:
        yield str(value)
