"""Secrets in texts: found in any common encoding, also in part, and replaced (promise 10). Pure.

Secrets appear encoded: a Basic header is base64 after a prefix, a URL escapes with percent signs, JSON with
backslashes, a dump is hexadecimal, and long ones are wrapped over lines. Each encoding is searched for. Long ones are
searched for by short pieces, and a match extends to both sides while the text is equal: a line that was cut or wrapped
anywhere reveals little more than two pieces.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import filterfalse, pairwise
from typing import Any
from urllib.parse import quote, quote_plus

import msgspec

from launchbay.model.scalars import settled
from launchbay.model.values import size_of

SHORTEST_CHARS = 4  # a shorter secret would redact parts of ordinary words
_SHORTEST_LINE_CHARS = 12  # of a secret with several lines, each of which is searched for
_SHORTEST_ENCODED_CHARS = 5
_PIECE_CHARS = 16
_PIECES = 256  # of one encoding; very long ones are sampled
_FEW = 200  # encodings that are found faster by a search for each
_STRIDE = 4  # between the searched positions of a text; each piece is indexed at as many offsets
_SIGNED = re.compile(r"eyJ[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{10,}+\.[A-Za-z0-9_-]{43,}+")  # a JWT
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")
Span = tuple[int, int]
_Place = tuple[str, int, bool]


class SecretEncodings:
    """Secrets in all their encodings. More can be added at any time."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._secrets: set[str] = set()
        # Text → the encodings that contain it, each with its offset there and whether that encoding is base64.
        self._whole: dict[str, list[_Place]] = {}
        self._pieces: dict[str, list[_Place]] = {}
        self._beginnings: set[str] = set()  # of the first, and their lengths
        self._lengths: tuple[int, ...] = ()
        self.longest_chars = 0
        for secret in secrets:
            self.add(secret)

    def __bool__(self) -> bool:
        return bool(self._whole or self._pieces)

    def __contains__(self, secret: str) -> bool:
        return secret in self._secrets

    def add(self, secret: str) -> None:
        """Add a secret, unless it is too short to be distinguished from other text."""
        if secret in self._secrets or len(secret) < SHORTEST_CHARS:
            return
        self._secrets.add(secret)
        for text, place in _places(secret):
            encoding = place[0]
            self.longest_chars = max(self.longest_chars, len(encoding))
            if text is not encoding:
                self._pieces.setdefault(text, []).append(place)
                continue
            self._beginnings.add(encoding[:SHORTEST_CHARS])
            if len(encoding) not in self._lengths:
                self._lengths = (*self._lengths, len(encoding))
            self._whole.setdefault(encoding, []).append(place)

    def discard(self, secret: str) -> None:
        """Find this secret no longer."""
        if secret not in self._secrets:
            return
        self._secrets.remove(secret)
        for text, place in _places(secret):
            index = self._whole if text is place[0] else self._pieces
            rest = list(index[text])  # a new list: a thread may read the other one
            rest.remove(place)  # one of several equal ones, if another secret has the same encoding
            if rest:
                index[text] = rest
            else:
                del index[text]

    def spans(self, text: str) -> list[Span]:
        """Return the spans of secrets in the text, from left to right; no two touch."""
        found = [
            _extend_match(text, start, len(each), place)
            for each, start in (self._found_by_place(text) if len(self._whole) > _FEW else self._found_one_by_one(text))
            for place in self._whole.get(each, ())  # a thread may change it meanwhile
        ]
        pieces, size = self._pieces, _PIECE_CHARS
        if pieces:
            # A long match contains many pieces of its encoding, and is extended once.
            ends: dict[tuple[str, int], int] = {}
            # Only every _STRIDE-th position: the pieces of each encoding are indexed at all offsets.
            for start in range(0, len(text) - size + 1, _STRIDE):
                for place in pieces.get(text[start : start + size], ()):
                    encoding, offset, _ = place
                    match = encoding, start - offset
                    if ends.get(match, 0) < start + size:
                        span = _extend_match(text, start, size, place)
                        ends[match] = span[1]
                        found.append(span)
        return _merge_spans(found)

    def _found_one_by_one(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the whole encodings in a text, with their places."""
        for each in tuple(self._whole):  # a thread may add to it meanwhile
            start = text.find(each)
            while start >= 0:
                yield each, start
                start = text.find(each, start + 1)

    def _found_by_place(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the same, in a time that doesn't grow with the number of encodings."""
        whole, beginnings, lengths = self._whole, self._beginnings, self._lengths
        for start in range(len(text) - SHORTEST_CHARS + 1):
            if text[start : start + SHORTEST_CHARS] in beginnings:
                for length in lengths:
                    if start + length <= len(text) and (each := text[start : start + length]) in whole:
                        yield each, start

    def replace(self, text: str, replacement: Callable[[str], str]) -> str:
        spans = self.spans(text)
        if not spans:
            return text
        parts: list[str] = []
        end = 0
        for start, stop in spans:
            parts += (text[end:start], replacement(text[start:stop]))
            end = stop
        return "".join((*parts, text[end:]))


class RedactionStream:
    """Redacts secrets in a text that arrives in chunks, holding back a possible start of one.

    It holds back at most the incomplete line: each line of a secret with several lines is searched for.
    """

    def __init__(self, encodings: SecretEncodings, mask: str) -> None:
        self._encodings = encodings
        self._mask = mask
        self._held = ""

    def feed(self, chunk: str) -> str:
        """Add the next chunk and return the text that can be shown now."""
        self._held += chunk
        last_line = self._held.rfind("\n") + 1
        cut = max(last_line, len(self._held) - max(0, self._encodings.longest_chars - 1))
        for start, stop in self._encodings.spans(self._held):
            if start < cut < stop:
                cut = start
        shown, self._held = self._held[:cut], self._held[cut:]
        return self._redact(shown)

    def finish(self) -> str:
        shown, self._held = self._held, ""
        return self._redact(shown)

    def _redact(self, text: str) -> str:
        return self._encodings.replace(text, lambda _: self._mask)


def _extend_match(text: str, start: int, length: int, encoding: _Place) -> Span:
    """Return the span of a match, extended while the text equals its encoding."""
    whole, place, is_base64 = encoding
    stop, end = start + length, place + length
    while start > 0 and place > 0 and text[start - 1] == whole[place - 1]:
        start, place = start - 1, place - 1
    while stop < len(text) and end < len(whole) and text[stop] == whole[end]:
        stop, end = stop + 1, end + 1
    if is_base64:
        # The adjacent characters contain some of its bits, together with bits of the adjacent text.
        if start > 0 and text[start - 1] in _BASE64:
            start -= 1
        while stop < len(text) and (text[stop] == "=" or (end == len(whole) and text[stop] in _BASE64)):
            stop, end = stop + 1, end + 1
    return start, stop


def _merge_spans(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
        else:
            joined.append((start, stop))
    return joined


def is_signed_token(text: str) -> bool:
    """Return whether a text is a JWT."""
    return _SIGNED.fullmatch(text) is not None


def _places(secret: str) -> Iterator[tuple[str, _Place]]:
    """Yield the texts to search for, each with its place.

    That is a short encoding itself, or a piece of a long one.
    """
    # Of a signed token, the signature is enough: without it, the rest opens nothing. A match extends to the whole.
    share = secret.rfind(".") / len(secret) if is_signed_token(secret) else 0
    for encoding, is_base64 in _encodings(secret):
        if len(encoding) < 2 * _PIECE_CHARS:
            yield encoding, (encoding, 0, is_base64)
            continue
        step = max(_PIECE_CHARS, -(-len(encoding) // _PIECES // _STRIDE) * _STRIDE)
        last = len(encoding) - _PIECE_CHARS
        for place in sorted({*range(int(len(encoding) * share), last, step), last}):
            for shifted in range(place, max(-1, place - _STRIDE), -1):
                yield encoding[shifted : shifted + _PIECE_CHARS], (encoding, shifted, is_base64)
    if "\n" in secret:
        # Longer lines are found by their pieces.
        for line in map(str.strip, secret.splitlines()):
            if _SHORTEST_LINE_CHARS <= len(line) < 2 * _PIECE_CHARS:
                yield line, (line, 0, False)


def _encodings(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the text and its common encodings, each once, with whether it is base64."""
    data = text.encode("utf-8", "surrogatepass")
    escaped = [json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]]
    doubly = [json.dumps(each)[1:-1] for each in escaped]
    quoted = [quote(data, safe=""), quote(data), quote_plus(data)]
    plain = [
        *(text, *escaped, *(each.replace("/", "\\/") for each in escaped), *doubly),
        *(*quoted, *(_lower_escapes(each) for each in quoted)),
        *(html.escape(text), html.escape(text, quote=False), text.replace("'", "'\\''"), text.replace("'", "'\"'\"'")),
        *(data.hex(), data.hex().upper()),
    ]
    yield from ((each, False) for each in dict.fromkeys(plain))
    encoded = [core for each in dict.fromkeys((text, *escaped)) for core in _base64_cores(each)]
    yield from ((each, True) for each in dict.fromkeys(encoded) if len(each) >= _SHORTEST_ENCODED_CHARS)


def _lower_escapes(text: str) -> str:
    parts = text.split("%")
    return "%".join((parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])))


def _base64_cores(text: str) -> Iterator[str]:
    """Yield, for each alignment and alphabet, the characters that only this text determines."""
    data = text.encode("utf-8", "surrogatepass")
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + data)
        core = encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield core.decode()
        yield core.translate(_URL_ALPHABET).decode()


_URL_ALPHABET = bytes.maketrans(b"+/", b"-_")

# Secrets in stored texts and documents are tokens: encrypted, and redacted wherever they are shown.
#
# A secret from a vault gets into outputs, signals, return values and arguments. The database stores a token instead. A
# worker decrypts it (`auth/secret_key.py`); a page needs no key to see that it must redact it.

TOKEN_PREFIX = "launchbay:sealed:"  # noqa: S105 - the prefix of an encrypted value, not a password
_TOKEN = re.compile(re.escape(TOKEN_PREFIX) + r"[A-Za-z0-9_-]+;")
TEXT = "s"
NUMBER = "n"  # a number, which decryption restores as a number


def token(sealed: str) -> str:
    """Return the token of an encrypted value, in base64 for URLs."""
    return f"{TOKEN_PREFIX}{sealed};"


def token_content(token_: str) -> str:
    """Return the encrypted value of a token."""
    return token_[len(TOKEN_PREFIX) : -1]


def is_token(text: str) -> bool:
    """Return whether the text is exactly one token."""
    return _TOKEN.fullmatch(text) is not None


def replace_tokens(text: str, replacement: Callable[[str], str]) -> str:
    """Return the text with every token replaced by the result of `replacement`; JSON has them unescaped, too."""
    return _TOKEN.sub(lambda found: replacement(found[0]), text) if TOKEN_PREFIX in text else text


def map_strings(value: Any, change: Callable[[str], Any], number: Callable[[Any], Any] = lambda number: number) -> Any:
    """Return a JSON value with every string, names included, and every number changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [map_strings(item, change, number) for item in value]
    if isinstance(value, Mapping):
        return {str(change(name)): map_strings(item, change, number) for name, item in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number(value)
    return value


# Redaction (promise 10): the only code that decides what is a secret.
#
# A value is a secret by its name, and a text by its form. A value that an instance got under such a name is redacted in
# every text of its jobs as well, in any encoding. Secrets from a vault are tokens, which are redacted here.

REDACTED = "********"
_CACHED_CHARS = 64  # of a name
_SCALARS = frozenset((str, int, float, bool, type(None)))
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    (
        *("password", "passwords", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "tokens", "credential"),
        *("credentials", "authorization", "cookie", "cookies", "apikey", "privatekey", "accesskey", "secretkey"),
    )
)
_SECRET_PAIRS = frozenset({("api", "key"), ("private", "key"), ("access", "key"), ("pass", "word"), ("signing", "key")})
# Each name of a secret has one of the first, and each other form one of the last, in lower case.
_IN_SECRETS = (
    *("pass", "pwd", "secret", "token", "credential", "authorization", "cookie", "key"),
    *("-----begin ", "://", "bearer", "basic"),
)
# `tokenId` names a token and `passwordLength` measures a password; neither is one.
_ABOUT_A_SECRET = frozenset(
    ("id", "ids", "name", "names", "type", "kind", "count", "length", "policy", "expiry", "expires", "lifetime", "at")
)
_PRIVATE_KEY = re.compile(r"-----BEGIN ([A-Z0-9 ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
# Quantifiers don't backtrack (`++`): what comes next can't follow a shorter match either. With backtracking, a text at
# the bound of a value takes seconds.
_PASSWORD_IN_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]{0,30}+://[^\s/:@?#\"']{0,256}+:)[^\s/@?#\"']{1,1024}+(?=@)")
# `"password": "…"` of JSON in a text, and `password=…` of addresses and commands.
_NAMED = re.compile(
    r"""(?<![A-Za-z0-9_])(["']?)([A-Za-z][A-Za-z0-9_.-]{0,80}+)\1(\s{0,4}+[:=]\s{0,4}+)"""
    r"""((?<=[:=\s])(?:"(?:[^"\\]++|\\.)*+"|'[^']*+')|(?<==)[^\s"',;&(){}\[\]]++)"""
)
_AUTHORIZATION = re.compile(r"\b(Bearer|Basic)(\s++)[A-Za-z0-9._~+/=-]{8,}+")


def is_secret_name(name: str) -> bool:
    """Return whether a name is that of a secret: `db.password`, `apiKey`, `ACCESS_TOKEN`; not `tokenId`."""
    return _is_secret_name(name) if len(name) <= _CACHED_CHARS else _is_secret_name.__wrapped__(name)


@lru_cache(maxsize=4_096)
def _is_secret_name(name: str) -> bool:
    words = [word.lower() for word in _WORDS.findall(name)]
    if not words or words[-1] in _ABOUT_A_SECRET:
        return False
    return not _SECRET_WORDS.isdisjoint(words) or not _SECRET_PAIRS.isdisjoint(pairwise(words))


class Redactor:
    """Redacts secrets in values and texts; secrets in the documents `known` are redacted everywhere."""

    def __init__(self, known: Iterable[Any] = ()) -> None:
        self._known = SecretEncodings(text for document in known for text in _secrets(document, under_secret=False))

    def register_secret(self, secret: str) -> None:
        """Redact this text everywhere from now on."""
        self._known.add(secret)

    def knows(self, secret: str) -> bool:
        return secret in self._known

    def forget_secret(self, secret: str) -> None:
        self._known.discard(secret)

    def stream(self) -> RedactionStream:
        """Return a stream that redacts the known secrets in a text that arrives in chunks."""
        return RedactionStream(self._known, REDACTED)

    def value(self, value: Any) -> Any:
        """Return a JSON value with its secrets redacted and its structure unchanged."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if value is None or isinstance(value, int | float):
            return value
        if isinstance(value, Mapping):
            return {self.text(name): self.named(name, item) for name, item in value.items()}
        return value

    def named(self, name: str, value: Any) -> Any:
        """Return a value, redacted by its name."""
        return _redact_value(value) if is_secret_name(name) else self.value(value)

    def bounded(self, values: Mapping[str, Any], most_bytes: int) -> "MaskedValues":
        """Return JSON values for display, with secrets redacted, in about `most_bytes` of JSON.

        Small values stay whole, and long ones share what is left. The result is plain JSON, whatever the values are.
        """
        return _Bounded(self, most_bytes).masked(values)

    def text(self, text: str) -> str:
        """Return a text with its secrets redacted."""
        if self._known:
            text = self._known.replace(text, _redacted_token)
        text = replace_tokens(text, _redacted_token)
        if _has_no_form_of_a_secret(text):
            return text
        text = _PRIVATE_KEY.sub(REDACTED, text)
        text = _NAMED.sub(_named, text)
        text = _PASSWORD_IN_URL.sub(rf"\1{REDACTED}", text)
        return _AUTHORIZATION.sub(rf"\1\2{REDACTED}", text)

    def leaves(self, texts: Sequence[str]) -> bool:
        """Return whether there is certainly nothing to redact in these texts.

        It takes much less time than `text`.
        """
        joined = "\n".join(texts)
        return not self._known and TOKEN_PREFIX not in joined and _has_no_form_of_a_secret(joined)


def _has_no_form_of_a_secret(text: str) -> bool:
    """Return whether no pattern of `Redactor.text` can match.

    Most texts have none of these parts, and a search for them is fast.
    """
    lowered = text.lower()
    for part in _IN_SECRETS:  # noqa: SIM110 - each log line asks; `any` takes twice as long
        if part in lowered:
            return False
    return True


CUT = "…"
_MASKED_CHARS = 8_192  # of one text; what is kept is at its beginning
_UNSURE_CHARS = 1_024  # at the end of a part: a secret that begins there isn't whole, so nothing may find it
_LEAST_BYTES = 24  # of a value; with less left over it is left out
_LEAST_SHARE_BYTES = 64


class MaskedValues(msgspec.Struct, frozen=True, array_like=True):
    """Values for display, by name, without secrets.

    `is_cut` says that they aren't whole: `…` is where that is so.
    """

    values: dict[str, Any]
    is_cut: bool = False


class _Bounded:
    """One call of `Redactor.bounded`. `_left` counts bytes of JSON."""

    def __init__(self, redactor: Redactor, most_bytes: int) -> None:
        self._redactor = redactor
        self._most = most_bytes
        self._left = 0
        self._is_cut = False

    def masked(self, values: Mapping[str, Any]) -> MaskedValues:
        self._left = self._most
        kept = self._map(values)
        return self._shared(values) if self._is_cut else MaskedValues(kept)

    def _shared(self, values: Mapping[str, Any]) -> MaskedValues:
        """Give each value an equal share of what those that are smaller have left."""
        names = list(values)[: self._most // _LEAST_SHARE_BYTES]
        kept: dict[str, dict[str, Any]] = {}
        unused = self._most - _LEAST_SHARE_BYTES
        smallest = sorted(names, key=lambda name: size_of(values[name], self._most))
        for number, name in enumerate(smallest):
            share = self._left = unused // (len(names) - number)
            kept[name] = {}
            self._entry(kept[name], name, values[name])
            unused -= share - self._left
        rest = {} if len(names) == len(values) else {CUT: f"{len(names)} of {len(values)}"}
        return MaskedValues({key: value for name in names for key, value in kept[name].items()} | rest, is_cut=True)

    def _entry(self, kept: dict[str, Any], name: object, value: Any) -> None:
        key = self._text(str(name))
        self._left -= 2  # colon and comma
        kept[key] = _redact_value(value) if is_secret_name(str(name)) else self._value(value)
        if kept[key] is REDACTED:
            self._left -= len(REDACTED) + 2

    def _value(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            return self._map(value)
        if isinstance(value, list | tuple):
            return self._list(value)
        if value is None or isinstance(value, bool):
            self._left -= 5
            return value
        value = value if type(value) in _SCALARS else settled(value)
        return self._number(value) if isinstance(value, int | float) else self._text(str(value))

    def _number(self, value: float) -> Any:
        text = str(value)
        self._left -= len(text) + 1
        if len(text) >= SHORTEST_CHARS and self._redactor.text(text) != text:
            return REDACTED
        return value if isinstance(value, float) or abs(value) < 2**63 else text

    def _map(self, value: Mapping[Any, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        self._left -= 2
        for number, (name, item) in enumerate(value.items()):
            if self._left < _LEAST_BYTES:
                self._is_cut = True
                kept[CUT] = f"{number} of {len(value)}"
                break
            self._entry(kept, name, item)
        return kept

    def _list(self, value: Sequence[Any]) -> list[Any]:
        kept: list[Any] = []
        self._left -= 2
        for number, item in enumerate(value):
            if self._left < _LEAST_BYTES:
                self._is_cut = True
                kept.append(f"{CUT} ({number} of {len(value)})")
                break
            kept.append(self._value(item))
            self._left -= 1
        return kept

    def _text(self, text: str) -> str:
        # Masked before it is cut: of a part of a secret nobody could tell what it is.
        masked = self._redactor.text(text[:_MASKED_CHARS])
        if len(text) > _MASKED_CHARS:
            masked = _whole_masks(masked, max(0, len(masked) - _UNSURE_CHARS))
        try:
            size = len(msgspec.json.encode(masked))
        except UnicodeEncodeError:
            masked = _encodable(masked)
            size = len(msgspec.json.encode(masked))
        if size <= self._left and len(text) <= _MASKED_CHARS:
            self._left -= size
            return masked
        self._is_cut = True
        kept = _whole_masks(masked, _chars_within(masked, self._left - 2 - len(CUT.encode()))) + CUT
        self._left -= len(msgspec.json.encode(kept))
        return kept


def _encodable(text: str) -> str:
    """Return the text without lone surrogates, which JSON in UTF-8 doesn't have."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _chars_within(text: str, most_bytes: int) -> int:
    """Return how many characters fit into so many bytes of a JSON string."""
    low, high = 0, max(0, min(len(text), most_bytes))
    while low < high:
        middle = (low + high + 1) // 2
        if len(msgspec.json.encode(text[:middle])) - 2 <= most_bytes:
            low = middle
        else:
            high = middle - 1
    return low


def _whole_masks(text: str, end: int) -> str:
    """Return the first `end` characters, without the mask that ends after them."""
    kept = text[:end]
    if text[end : end + 1] != REDACTED[0]:
        return kept
    return kept[: end - (end - len(kept.rstrip(REDACTED[0]))) % len(REDACTED)]


def _redacted_token(_: str) -> str:
    return REDACTED


def _named(found: re.Match[str]) -> str:
    """Redact the value of a pair with a secret's name; keep its quotes."""
    quote, name, sign, value = found.groups()
    if not is_secret_name(name):
        return found[0]
    mark = value[0] if value[0] in "\"'" else ""
    return f"{quote}{name}{quote}{sign}{mark}{REDACTED}{mark}"


def _redact_value(value: Any) -> Any:
    """Return a redacted value. Null, booleans and empty values reveal nothing and stay."""
    return value if value is None or isinstance(value, bool) or value in ("", [], {}) else REDACTED


def secrets_in(value: Any) -> list[str]:
    """Return the strings and numbers of a JSON value that have names of secrets."""
    return list(_secrets(value, under_secret=False))


def _secrets(value: Any, *, under_secret: bool) -> Iterator[str]:
    """Yield strings, and numbers as strings, with secret names."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            yield from _secrets(item, under_secret=under_secret or is_secret_name(str(name)))
    elif isinstance(value, list):
        for item in value if under_secret else filterfalse(_is_scalar, value):
            yield from _secrets(item, under_secret=under_secret)
    elif under_secret and isinstance(value, str):
        yield value
    elif under_secret and isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _is_scalar(value: Any) -> bool:
    return type(value) in _SCALARS


def masked_message(message: str | None, *documents: str | None) -> str | None:
    """Mask the secrets of an instance's JSON documents in the message of one of its jobs."""
    if message is None:
        return None
    return Redactor([json.loads(text) for text in documents if text is not None]).text(message)
