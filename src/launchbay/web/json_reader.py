"""Strict JSON: depth, integer range, duplicate keys, no NaN, no NUL, no lone surrogates.

The standard library's C scanner reads it, because its hook sees the pairs of an object before a duplicate key is lost.
Everything else is checked by one search over the text where possible; values are walked only if the text has a
suspicious escape.
"""

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple, NoReturn

import msgspec

from launchbay.errors import MalformedBody
from launchbay.limits import JSON_CONTAINERS, JSON_DEPTH, KIB
from launchbay.model.scalars import is_below_double, json_real, json_whole

# Finding a position is a loop in Python; further into the text the message goes without it.
_SEARCHED_CHARS = 64 * KIB
_TOKEN = re.compile(r'("(?:[^"\\]++|\\.)*+")(\s*+:)?|[{}\[\]]|[-+.\w]++', re.DOTALL)


class Position(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


def position_of_offset(text: str, offset: int) -> Position:
    return Position(text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))


def position_of_number(text: str, digits: str) -> Position | None:
    """Return the first position of a number with this spelling, or None if it is too far into the text."""
    return next((position_of_offset(text, token.start()) for token in _tokens(text) if token.group() == digits), None)


def position_of_string(text: str, is_wanted: Callable[[str], bool]) -> Position | None:
    """Return the position of the first matching key or string, or None if it is too far into the text."""
    for token in _tokens(text):
        string = token.group(1)
        if string is not None and is_wanted(json.loads(string)):
            return position_of_offset(text, token.start())
    return None


def position_of_duplicate(text: str) -> Position | None:
    """Return the position of the first duplicate key, or None if it is too far into the text."""
    objects: list[set[str]] = []
    for token in _tokens(text):
        string, colon = token.groups()
        if string is None:
            _move(token.group(), objects)
        elif colon is not None and objects:
            key = json.loads(string)
            if key in objects[-1]:
                return position_of_offset(text, token.start())
            objects[-1].add(key)
    return None


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return _TOKEN.finditer(text, 0, _SEARCHED_CHARS)


def _move(token: str, objects: list[set[str]]) -> None:
    if token in {"{", "["}:
        objects.append(set())
    elif token in {"}", "]"} and objects:
        objects.pop()


_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
_INTEGER_CHARS = 20  # "-" and 19 digits
# An unterminated string reaches to the end: a search that began anew at each quote in it would take quadratic time.
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
# Some tokens, or a long string: one search over megabytes would keep the interpreter from other threads.
_PIECE = re.compile(
    rf"""(?:[^"]{{1,1024}}+|"(?:[^"\\]{{1,256}}+|\\.){{0,64}}+"){{1,100}}+|{_STRING.pattern}""", re.DOTALL
)
_NOT_BRACKETS = dict.fromkeys(i for i in range(128) if chr(i) not in "[]{}")
_STEP = {"[": 1, "{": 1, "]": -1, "}": -1}
_SURROGATE = re.compile("[\ud800-\udfff]")
_SUSPICIOUS_ESCAPE = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")


class _Duplicate(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _Number(ValueError):
    pass


def read_json(data: bytes, *, is_written: bool = False) -> Any:
    """Return the value of a JSON text.

    With `is_written`, its numbers remember their text (`model/scalars.py`). Raises MalformedBody with line and
    column if they can be found."""
    text = _text(data)
    _check_depth(text)
    try:
        value = (_WRITTEN_DECODER if is_written else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        raise _malformed(f"The body is not valid JSON: {error.msg}", position_of_offset(text, error.pos)) from None
    except _Duplicate as error:
        sentence = f"Duplicate key {json.dumps(error.key)} in a JSON object; remove one of them"
        raise _malformed(sentence, position_of_duplicate(text)) from None
    except _Number as error:
        digits = str(error)
        sentence = f"The JSON number {_shortened(digits)} is out of range; use at most 64 bits"
        raise _malformed(sentence, position_of_number(text, digits)) from None
    if "\\u" in text and _SUSPICIOUS_ESCAPE.search(text) is not None:
        _check_strings(value, text)
    return value


def _text(data: bytes) -> str:
    try:
        return data.removeprefix(BOM_UTF8).decode()  # RFC 8259 §8.1 lets readers ignore it
    except UnicodeDecodeError as error:
        raise MalformedBody(f"The body isn't UTF-8 (byte {error.start}). Send JSON encoded as UTF-8.") from None


def _check_depth(text: str) -> None:
    """Check the depth before the scanner, which is recursive."""
    if text.count("[") + text.count("{") <= JSON_DEPTH:
        return
    depth = count = 0
    for piece in (text,) if len(text) <= _SEARCHED_CHARS else (found[0] for found in _PIECE.finditer(text)):
        brackets = _STRING.sub("", piece).translate(_NOT_BRACKETS)
        count += len(brackets)
        if count > 2 * JSON_CONTAINERS:
            raise MalformedBody(f"The JSON has more than {JSON_CONTAINERS} arrays and objects.")
        depths = list(accumulate(map(_STEP.get, brackets, [0] * len(brackets)), initial=depth))
        if max(depths) > JSON_DEPTH:
            raise MalformedBody(f"The JSON is nested more than {JSON_DEPTH} levels deep.")
        depth = depths[-1]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Duplicate(key)
            seen.add(key)
    return value


def _integer(digits: str) -> int:
    # The length first: converting a megabyte of digits costs more than the whole request may.
    if len(digits) > _INTEGER_CHARS or not _INTEGER_MIN <= (value := int(digits)) <= _INTEGER_MAX:
        raise _Number(digits)
    return value


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value) or (value == 0 and is_below_double(digits)):
        raise _Number(digits)
    return value


def _written_integer(digits: str) -> int | msgspec.Raw:
    _integer(digits)
    return json_whole(digits)


def _written(digits: str) -> float | msgspec.Raw:
    _real(digits)
    return json_real(digits)


def _constant(name: str) -> NoReturn:
    raise _Number(name)


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant, strict=True
)

_WRITTEN_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_written_integer, parse_float=_written, parse_constant=_constant, strict=True
)


def _check_strings(value: Any, text: str) -> None:
    """Raise for NUL, which PostgreSQL can't store, and lone surrogates, which UTF-8 can't encode."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item)
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        elif isinstance(item, str):
            if _holds_nul(item):
                sentence = "A JSON string contains a NUL character; remove it"
                raise _malformed(sentence, position_of_string(text, _holds_nul))
            if _holds_surrogate(item):
                sentence = "A JSON string contains half of a surrogate pair; send complete characters"
                raise _malformed(sentence, position_of_string(text, _holds_surrogate))


def _holds_nul(text: str) -> bool:
    return "\0" in text


def _holds_surrogate(text: str) -> bool:
    return not text.isascii() and _SURROGATE.search(text) is not None


def _malformed(message: str, position: Position | None) -> MalformedBody:
    return MalformedBody(f"{message} (line {position.line}, column {position.column})." if position else f"{message}.")


def _shortened(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:20]}… ({len(digits)} characters)"
