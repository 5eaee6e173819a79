"""Lossless coercion of values to types, and JSON in strings (manifest-language §3, "Types").

Values are JSON values; the result is always a new copy.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from itertools import chain
from typing import Any, NoReturn

import msgspec

from launchbay.errors import LaunchbayError
from launchbay.limits import JSON_DEPTH, VALUE_BYTES
from launchbay.model.scalars import (
    INTEGER_MAX,
    INTEGER_MIN,
    NumberTooLarge,
    WrittenFloat,
    WrittenInt,
    is_below_double,
    levels,
    number_of,
    of_kind,
    settled,
    text_of,
    written,
)
from launchbay.model.types import BOOL, BYTES, DOUBLE, INT, OBJECT, STRING, UNIT, ListType, MapType, Primitive, Type

_INTEGER_CHARS = 20  # "-" and 19 digits


class JsonLimitExceeded(ValueError):
    """The string is JSON beyond a limit; the message is a phrase for the end of a sentence."""


def size_of(value: Any, most: int) -> int:
    """Return how many bytes a JSON value counts for.

    Each value in it counts for VALUE_BYTES and its characters. Beyond `most` it stops, and returns a larger number.
    """
    size = VALUE_BYTES
    for kinds, level in levels(value):
        for kind in kinds:
            if issubclass(kind, str):
                size += sum(map(len, of_kind(level, kind)))
            elif issubclass(kind, list | tuple):
                size += VALUE_BYTES * sum(map(len, of_kind(level, kind)))
            elif issubclass(kind, Mapping):
                maps = of_kind(level, kind)
                size += VALUE_BYTES * sum(map(len, maps)) + sum(map(len, map(str, chain.from_iterable(maps))))
        if size > most:
            break
    return size


def parse_json(text: str, *, is_written: bool = False) -> Any:
    """Return the value of a JSON string.

    With `is_written`, its numbers remember their text (`model/scalars.py`). Raises `JsonLimitExceeded` beyond a
    limit, another `ValueError` if the string isn't JSON; both with a phrase.
    """
    try:
        value = (_WRITTEN_DECODER if is_written else _DECODER).decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise JsonLimitExceeded(f"JSON with more than {JSON_DEPTH} levels") from None
    _check(value, JSON_DEPTH)
    return value


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise JsonLimitExceeded("JSON with a NUL character")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise JsonLimitExceeded("JSON with half of a surrogate pair")
    elif isinstance(value, list | dict):
        if depth == 0:
            raise JsonLimitExceeded(f"JSON with more than {JSON_DEPTH} levels")
        if isinstance(value, dict):
            for key in value:
                _check(key, depth)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth - 1)


def _object_from_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonLimitExceeded("JSON with a duplicate key")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _INTEGER_CHARS or not INTEGER_MIN <= (value := int(digits)) <= INTEGER_MAX:
        raise JsonLimitExceeded("JSON with an integer beyond 64 bits")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value) or (value == 0 and is_below_double(digits)):
        raise JsonLimitExceeded("JSON with a number beyond a double")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"not JSON ({name} isn't a JSON value)")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_from_pairs, parse_int=_integer, parse_float=_real, parse_constant=_constant, strict=True
)

_WRITTEN_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_from_pairs,
    parse_int=lambda digits: written(_integer(digits), digits),
    parse_float=lambda digits: written(_real(digits), digits),
    parse_constant=_constant,
    strict=True,
)

_INTEGER = re.compile(r"\s*([-+]?[0-9]+)(?:\.0*)?\s*")
_NUMBER = re.compile(r"\s*[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\s*")
_NUMBER_CHARS = 400  # more than any double needs
_JSON_SPACE = " \t\r\n"
_TRUTH = {"true": True, "false": False}
_PLAIN_KEY = re.compile(r"[\w-]{1,40}")


class CoercionError(LaunchbayError):
    """A value can't become the expected type without loss.

    The message has the type, the place inside the value (`path`, such as `[2].key`) and the kind of the given value,
    but never the value itself, which may be a secret.
    """

    def __init__(self, expected: Type, given: str, path: str = "") -> None:
        place = f" at {path}" if path else ""
        super().__init__(f"Expected {_described(expected)}{place}, not {given}.")
        self.expected = expected
        self.given = given
        self.path = path

    def inside(self, step: str) -> "CoercionError":
        """Return the same error as seen from the list or map around it; `step` leads from there to the value."""
        return CoercionError(self.expected, self.given, step + self.path)


def coerce(type_: Type, value: Any) -> Any:
    """Return a new copy of the value as the type. Raises `CoercionError` if that loses something.

    Strings become numbers, booleans and back; whole doubles become integers; null is a value of `object` and `unit`
    only. Numbers that remember their text become it where a string is wanted, and plain numbers anywhere else.
    """
    if type_ == OBJECT and isinstance(value, dict | list) and _is_plain(value):
        try:
            return msgspec.msgpack.decode(msgspec.msgpack.encode(value))  # copied in C
        except UnicodeEncodeError:  # a lone surrogate
            pass
    return _coerce(type_, value, JSON_DEPTH)


def coerced_if_possible(type_: Type | None, value: Any) -> Any:
    """Return the value as the type, or as it is if it doesn't match."""
    try:
        return settled(value) if type_ is None else coerce(type_, value)
    except CoercionError:
        return settled(value)


def coerce_text(type_: Type, value: Any) -> Any:
    """Return a workflow parameter of the API as the type: a string, containing JSON if the type has structure.

    For `object`, a string is a JSON object or array, or a number, boolean or null exactly as JSON writes it (reference
    §4: every value is sent as a string), and else the value itself. Other values are coerced directly. Raises
    `CoercionError` (conformance.md, "States").
    """
    if not isinstance(value, str):
        return coerce(type_, value)
    if type_ == OBJECT and value.lstrip(_JSON_SPACE)[:1] not in ("{", "["):
        return coerce(type_, _written_scalar(value))
    if isinstance(type_, Primitive) and type_ != OBJECT:
        return None if type_ == UNIT and value.strip() == "null" else coerce(type_, value)
    try:
        parsed = parse_json(value, is_written=True)
    except JsonLimitExceeded as error:
        raise CoercionError(type_, str(error)) from None
    except ValueError as error:
        if type_ != OBJECT:
            raise CoercionError(type_, f"a string that is {error}") from None
        return value
    return coerce(type_, parsed)


def _written_scalar(text: str) -> Any:
    """Return the number, boolean or null whose only JSON text this is, or the text: `1.10` and `1e3` lose nothing."""
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return value if not isinstance(value, str) and json.dumps(value) == text else text


def _coerce(type_: Type, value: Any, depth: int) -> Any:
    if isinstance(value, msgspec.Raw):
        value = number_of(value)
    if isinstance(type_, ListType):
        if not isinstance(value, list | tuple):
            raise CoercionError(type_, _kind(value))
        return _list(type_, value, depth)
    if isinstance(type_, MapType):
        if not isinstance(value, Mapping):
            raise CoercionError(type_, _kind(value))
        return _map(type_, value, depth)
    return _object(value, depth) if type_ == OBJECT else _SCALARS[type_.name](value)


def _list(type_: ListType, value: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
    _enter(type_, depth)
    coerced: list[Any] = []
    try:
        for item in value:
            coerced.append(_coerce(type_.item, item, depth - 1))  # noqa: PERF401  # its length is the index of the failure
    except CoercionError as error:
        raise error.inside(f"[{len(coerced)}]") from None
    return coerced


def _map(type_: MapType, value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    _enter(type_, depth)
    coerced: dict[str, Any] = {}
    for key, item in value.items():
        try:
            coerced[_key(type_, key, coerced)] = _coerce(type_.value, item, depth - 1)
        except CoercionError as error:
            raise error.inside(_step(key)) from None
    return coerced


def _key(type_: MapType, key: Any, taken: Mapping[str, Any]) -> str:
    if not isinstance(key, str):
        raise CoercionError(type_, f"a key that is {_kind(key)}")
    name = key if type_.key in (STRING, OBJECT) else _string(_SCALARS[type_.key.name](key))
    if name in taken:
        raise CoercionError(type_, "a duplicate key in two spellings")
    return name


def _object(value: Any, depth: int) -> Any:
    """Return a copy of any JSON value."""
    if isinstance(value, NumberTooLarge):
        raise CoercionError(OBJECT, "a number that JSON doesn't have")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return _within_64_bits(OBJECT, value)
    if isinstance(value, float):
        return _finite(OBJECT, value)
    if isinstance(value, Mapping):
        return _map(_ANY_MAP, value, depth)
    if isinstance(value, list | tuple):
        return _list(_ANY_LIST, value, depth)
    raise CoercionError(OBJECT, _kind(value))


def _is_plain(value: Any) -> bool:
    """Return whether a value has only what `_object` would copy as it is."""
    depth = 0
    for kinds, level in levels(value):
        if not kinds <= _PLAIN:
            return False
        if not kinds.isdisjoint({dict, list}):
            depth += 1
        if depth > JSON_DEPTH or (dict in kinds and set(map(type, chain.from_iterable(of_kind(level, dict)))) - {str}):
            return False
        whole = of_kind(level, int) if int in kinds else [0]
        if min(whole) < INTEGER_MIN or max(whole) > INTEGER_MAX:
            return False
        if float in kinds and not all(map(math.isfinite, of_kind(level, float))):
            return False
    return True


def _string(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        _within_64_bits(STRING, value)
    elif isinstance(value, float):
        _finite(STRING, value)
    text = text_of(value)
    if text is None:
        raise CoercionError(STRING, _kind(value))
    return text


def _int(value: Any) -> int:
    if isinstance(value, str):
        match = _INTEGER.fullmatch(value) if len(value) <= _NUMBER_CHARS else None
        if match is None:
            raise CoercionError(INT, "other text")
        return _within_64_bits(INT, int(match[1]))
    if isinstance(value, float):
        if not _is_whole(exact := _exact(value)):
            raise CoercionError(INT, "a fraction")
        return _within_64_bits(INT, int(exact))
    if isinstance(value, int) and not isinstance(value, bool):
        return _within_64_bits(INT, value)
    raise CoercionError(INT, _kind(value))


def _double(value: Any) -> float:
    if isinstance(value, str):
        if len(value) > _NUMBER_CHARS or not _NUMBER.fullmatch(value):
            raise CoercionError(DOUBLE, "other text")
        digits = value.strip()
        number = _finite(DOUBLE, float(digits))
        if number == 0 and is_below_double(digits):
            raise CoercionError(DOUBLE, "a number beyond a double")
        return _exact_double(number, Decimal(digits))
    if isinstance(value, float):
        return _exact_double(_finite(DOUBLE, value), _exact(value))
    if isinstance(value, WrittenInt) and value == 0:
        return float(value.text)
    if isinstance(value, int) and not isinstance(value, bool):
        number = float(_within_64_bits(DOUBLE, value))
        if int(number) != value:  # beyond 2**53 not every integer is a double
            raise CoercionError(DOUBLE, "an integer that a double can't represent")
        return number
    raise CoercionError(DOUBLE, _kind(value))


def _exact_double(number: float, exact: Decimal) -> float:
    """Return the number. Raises `CoercionError` for an integer with more digits than it has."""
    if abs(number) >= _EXACT_MAX and _is_whole(exact) and exact != int(number):
        raise CoercionError(DOUBLE, "an integer that a double can't represent")
    return number


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise CoercionError(BOOL, _kind(value))
    truth = _TRUTH.get(value.strip().lower())
    if truth is None:
        raise CoercionError(BOOL, "another string")
    return truth


def _unit(value: Any) -> None:
    if value is not None and value not in ("", {}):
        raise CoercionError(UNIT, _kind(value))


def _bytes(value: Any) -> str:
    """Return a base64 string without the line breaks that many tools insert."""
    if not isinstance(value, str):
        raise CoercionError(BYTES, _kind(value))
    text = "".join(value.split())
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise CoercionError(BYTES, "another string") from None
    return text


_EXACT_MAX = 2**53  # up to here every integer is a double


def _exact(value: float) -> Decimal:
    """Return the number to its last written digit; a double has fewer."""
    return Decimal(value.text) if isinstance(value, WrittenFloat) else Decimal(value)


def _is_whole(number: Decimal) -> bool:
    return number.is_finite() and number == number.to_integral_value()


def _within_64_bits(type_: Type, value: int) -> int:
    if not INTEGER_MIN <= value <= INTEGER_MAX:
        raise CoercionError(type_, "an integer beyond 64 bits")
    return int(value)


def _finite(type_: Type, value: float) -> float:
    if not math.isfinite(value):
        raise CoercionError(type_, "a number that isn't finite")
    return float(value)


def _enter(type_: Type, depth: int) -> None:
    if depth == 0:
        raise CoercionError(type_, f"a value with more than {JSON_DEPTH} levels")


_PLAIN = frozenset({dict, list, str, int, float, bool, type(None)})
_ANY_MAP = MapType(STRING, OBJECT)
_ANY_LIST = ListType(OBJECT)
_SCALARS: dict[str, Callable[[Any], Any]] = {
    "string": _string,
    "int": _int,
    "bool": _bool,
    "double": _double,
    "unit": _unit,
    "bytes": _bytes,
}
_DESCRIPTIONS = {
    "string": "a string",
    "int": "an integer (int)",
    "bool": "true or false (bool)",
    "double": "a number (double)",
    "object": "a JSON value (object)",
    "unit": "nothing (unit)",
    "bytes": "a base64 string (bytes)",
}


def _described(type_: Type) -> str:
    return _DESCRIPTIONS[type_.name] if isinstance(type_, Primitive) else str(type_)


def _kind(value: Any) -> str:
    """Name the kind of a value, without the value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    for classes, name in ((str, "a string"), (int | float, "a number"), (Mapping, "a map"), (list | tuple, "a list")):
        if isinstance(value, classes):
            return name
    return f"a value of the Python type {type(value).__name__}"


def _step(key: Any) -> str:
    text = str(key)
    return f".{text}" if _PLAIN_KEY.fullmatch(text) else f"[{text[:40]!r}]"
