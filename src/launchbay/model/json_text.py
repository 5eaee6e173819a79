"""JSON inside a text, as strict as a request's body (quality.md §3): no NaN, no equal keys, bounded depth, integers."""

import json
import math
from typing import Any, NoReturn

from launchbay.limits import JSON_DEPTH

INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
_INTEGER_CHARS = 20  # "-" and 19 digits


class JsonBound(ValueError):
    """The text is JSON, but not such as can be kept."""


def parse_json(text: str) -> Any:
    """Return the value of a JSON text.

    Raises `JsonBound` for JSON beyond the bounds and another `ValueError` for what is none; both with a phrase.
    """
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos + 1})") from None
    except RecursionError:
        raise JsonBound(f"JSON that is nested deeper than {JSON_DEPTH} levels") from None
    _check(value, JSON_DEPTH)
    return value


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise JsonBound("JSON with a NUL character")
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise JsonBound("JSON with half of a surrogate pair")
    elif isinstance(value, list | dict):
        if depth == 0:
            raise JsonBound(f"JSON that is nested deeper than {JSON_DEPTH} levels")
        if isinstance(value, dict):
            for key in value:
                _check(key, depth)
        for item in value.values() if isinstance(value, dict) else value:
            _check(item, depth - 1)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise JsonBound("JSON with the same key twice in one object")
    return value


def _integer(digits: str) -> int:
    if len(digits) > _INTEGER_CHARS or not INTEGER_MIN <= (value := int(digits)) <= INTEGER_MAX:
        raise JsonBound("JSON with an integer beyond 64 bits")
    return value


def _real(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise JsonBound("JSON with a number beyond a double")
    return value


def _constant(name: str) -> NoReturn:
    raise ValueError(f"not JSON ({name} is no JSON value)")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_real, parse_constant=_constant, strict=True
)
