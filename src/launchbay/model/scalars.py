"""Scalars of YAML and JSON, and numbers that remember how they were written.

`1.10` may be a number or a version: only the place that knows the type can tell. Until then a number of a document is a
`WrittenInt` or `WrittenFloat` if its text isn't what Launchbay itself would write: a number to whoever computes with
it, with the author's text for a place that wants a string (`model/values.py`, `coerce`). Whoever stores or encodes
values takes `settled` ones first.

On its way through JSON, to the API and in what is stored for later, such a number is a `msgspec.Raw` with its text:
encoders write it as it is, and `coerce` reads it.
"""

import json
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any, NoReturn, TypeAlias

import msgspec

ScalarValue: TypeAlias = str | int | float | bool | None
INTEGER_MIN, INTEGER_MAX = -(2**63), 2**63 - 1
TAG_PREFIX = "tag:yaml.org,2002:"
SCALAR_TAGS = frozenset(TAG_PREFIX + name for name in ("str", "int", "float", "bool", "null"))


class WrittenInt(int):
    """An integer with a text that isn't its decimal form, such as `0x1F`."""

    text: str


class WrittenFloat(float):
    """A double whose text isn't its shortest form, such as `1.10`."""

    __slots__ = ("text",)
    text: str


class NumberTooLarge(str):
    """The text of a plain number that JSON doesn't have, such as `508e1234`, with what to say where no text is meant.

    Only `reader.read` with `keeps_numbers` gives it.
    """

    __slots__ = ("problem",)
    problem: str

    def refuse(self) -> NoReturn:
        """Raise `ValueError`: here no string is meant."""
        raise ValueError(self.problem)


def too_large(text: str, problem: str) -> NumberTooLarge:
    """Return the text of a number that is refused with `problem` unless a string is wanted."""
    number = NumberTooLarge(text)
    number.problem = problem
    return number


def written(value: ScalarValue, text: str) -> ScalarValue:
    """Return the value; a number remembers a text that `text_of` would not give."""
    if isinstance(value, float):
        if repr(value) == text:
            return value
        real = WrittenFloat(value)
        real.text = text
        return real
    if isinstance(value, int) and value.__class__ is not bool:
        if str(value) == text:
            return value
        whole = WrittenInt(value)
        whole.text = text
        return whole
    return value


_JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")


def for_json(value: Any) -> Any:
    """Return the value with its written numbers as JSON with the same text.

    Raises `ValueError` for a number that JSON doesn't have.
    """
    if isinstance(value, NumberTooLarge):
        value.refuse()
    if isinstance(value, WrittenInt | WrittenFloat):
        if not _JSON_NUMBER.fullmatch(value.text):
            text = value.text
            raise ValueError(f"JSON has no number {text}. Write {settled(value)}, or '{text}' in quotes for a string.")
        return msgspec.Raw(value.text.encode())
    if isinstance(value, Mapping):
        return {key: for_json(child) for key, child in value.items()}
    return [for_json(child) for child in value] if isinstance(value, list | tuple) else value


def kept_for_json(value: Any) -> Any:
    """Return `for_json` of the value, or plain numbers if that fails."""
    try:
        return for_json(value)
    except ValueError:
        return settled(value)


def json_real(digits: str) -> float | msgspec.Raw:
    """Return a number of a JSON text: a double, or its text.

    The text, if the double has another one. For `parse_float` of `json` and `float_hook` of msgspec. Raises
    `ValueError` beyond the range of a double.
    """
    value = _double(digits)
    return value if repr(value) == digits else msgspec.Raw(digits.encode())


NEGATIVE_ZERO = "-0"  # the one integer of JSON that Python writes otherwise
_HAS_NEGATIVE_ZERO = re.compile(rb"-0(?![.eE])")


def json_whole(digits: str) -> int | msgspec.Raw:
    """Return an integer of a JSON text: a number, or its text as in `json_real`."""
    return msgspec.Raw(digits.encode()) if digits == NEGATIVE_ZERO else int(digits)


_decode_all = json.JSONDecoder(parse_int=json_whole, parse_float=json_real).decode


def json_decoder(kind: Any) -> Callable[[str | bytes], Any]:
    """Return a reader of JSON texts of a type.

    Numbers of values without a type remember their texts."""
    decode_most = msgspec.json.Decoder(kind, float_hook=json_real).decode

    def decode(data: str | bytes) -> Any:
        # msgspec has no hook for integers, so the slower reader gets what may contain -0.
        encoded = data.encode() if isinstance(data, str) else bytes(data)
        if _HAS_NEGATIVE_ZERO.search(encoded) is None:
            return decode_most(encoded)
        return msgspec.convert(_decode_all(encoded.decode()), kind)

    return decode


decode_json = json_decoder(Any)


def is_below_double(digits: str) -> bool:
    """Return whether a number such as `1e-400` isn't zero, but its double is."""
    return float(digits) == 0 and re.search("[1-9]", re.split("[eE]", digits)[0]) is not None


def _double(digits: str) -> float:
    value = float(digits)
    if math.isinf(value) or (value == 0 and is_below_double(digits)):
        _out_of_range(digits, "exceeds the range of a double")
    return value


def number_of(raw: msgspec.Raw) -> ScalarValue:
    """Return the number that a JSON text stands for."""
    text = bytes(raw).decode()
    return written(0 if text == NEGATIVE_ZERO else float(text), text)


def is_stored_as(given: Any, stored: Any) -> bool:
    """Return whether storing a given value results in the stored one."""
    if isinstance(given, Mapping) and isinstance(stored, Mapping):
        return given.keys() == stored.keys() and all(is_stored_as(given[key], stored[key]) for key in given)
    if isinstance(given, list | tuple) and isinstance(stored, list | tuple):
        return len(given) == len(stored) and all(map(is_stored_as, given, stored))
    if isinstance(given, msgspec.Raw):
        return text_of(given) == stored if isinstance(stored, str) else same(settled(given), settled(stored))
    return same(given, settled(stored))


def text_of(value: Any) -> str | None:
    """Return a scalar as its author wrote it, else as manifests write it.

    That is `true` or `1.5`. None for anything but a scalar.
    """
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, msgspec.Raw):
        return bytes(value).decode()
    return str(value) if isinstance(value, int | float) else None


def name_of(field: str, value: Any) -> str:
    """Return the text of a field that names something; a number is what its author wrote.

    Raises `ValueError` with a sentence for anything else.
    """
    text = None if isinstance(value, bool) else text_of(value)
    if text is None:
        raise ValueError(f"{field} must be a string.")
    return text


_REMEMBERING = frozenset({WrittenInt, WrittenFloat, NumberTooLarge, msgspec.Raw})


def levels(value: Any) -> Iterator[tuple[set[type], list[Any]]]:
    """Yield the values at each depth, with their types.

    Functions in C go through them: visiting one by one takes ten times as long, which counts on the event loop.
    """
    level = [value]
    while level:
        kinds = set(map(type, level))
        yield kinds, level
        inner: list[Any] = []
        for kind in kinds:
            if issubclass(kind, list | tuple):
                inner += chain.from_iterable(of_kind(level, kind))
            elif issubclass(kind, Mapping):  # one view at a time: thousands of them would wake the garbage collector
                inner += chain.from_iterable(map(kind.values, of_kind(level, kind)))
        level = inner


def of_kind(level: list[Any], kind: type) -> list[Any]:
    """Return the values of one depth that are of exactly this type."""
    return [part for part in level if type(part) is kind]


def settled(value: Any) -> Any:
    """Return the value with plain numbers and share the rest. Raises `ValueError` for a `NumberTooLarge`."""
    return value if all(map(_REMEMBERING.isdisjoint, (kinds for kinds, _ in levels(value)))) else _settled(value)


def _settled(value: Any) -> Any:
    if isinstance(value, NumberTooLarge):
        value.refuse()
    if isinstance(value, WrittenInt | WrittenFloat):
        return int(value) if isinstance(value, int) else float(value)
    if isinstance(value, msgspec.Raw):
        return _settled(number_of(value))
    if isinstance(value, Mapping):
        new = {key: _settled(child) for key, child in value.items()}
        return value if all(new[key] is value[key] for key in new) else new
    if isinstance(value, list | tuple):
        items = [_settled(child) for child in value]
        return value if all(map(_is, items, value)) else items
    return value


def with_texts(value: Any) -> Any:
    """Return the value with its written numbers as texts."""
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.text
    if isinstance(value, NumberTooLarge):
        return str(value)
    if isinstance(value, Mapping):
        return {key: with_texts(child) for key, child in value.items()}
    return [with_texts(child) for child in value] if isinstance(value, list | tuple) else value


def as_texts(value: Any) -> Any:
    """Return the value with each number as its author wrote it."""
    if isinstance(value, Mapping):
        return {key: as_texts(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [as_texts(child) for child in value]
    return value if value is None or isinstance(value, bool) else text_of(value)


def with_fields_as_texts(value: Any, fields: Collection[str]) -> Any:
    """Return the value with written numbers of these fields as texts.

    That holds for the fields of maps at any depth.
    """
    if not fields:
        return value
    if isinstance(value, Mapping):
        return {
            key: text_of(child)
            if key in fields and type(child) in _REMEMBERING
            else with_fields_as_texts(child, fields)
            for key, child in value.items()
        }
    return [with_fields_as_texts(child, fields) for child in value] if isinstance(value, list | tuple) else value


def _is(one: Any, other: Any) -> bool:
    return one is other


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are the same, unlike 1, 1.0 and true."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other) and text_of(one) == text_of(other)
    kinds: tuple[type, ...] = (bool, int, float)
    of_one, of_other = (next((kind for kind in kinds if isinstance(each, kind)), None) for each in (one, other))
    return of_one is of_other and bool(one == other) and text_of(one) == text_of(other)


# The core schema of YAML 1.2 (manifest-language §1), stricter where it would change what the author wrote or JSON has
# no such value: numbers with a leading zero (`012`) are strings; `.inf`, `.nan`, floats beyond a double and integers
# beyond 64 bits are errors.

CONSTANTS: dict[str, ScalarValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER_DIGITS = 20  # sign and digits of the longest 64-bit integer


def resolve(text: str) -> ScalarValue:
    """Return the value of a plain scalar of YAML 1.2.

    Raises `ValueError` for a number that JSON doesn't have.
    """
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in NUMBER_STARTS:
        return text
    number = _number(text)
    return text if number is None else number


def resolve_tagged(text: str, tag: str, resolver: Callable[[str], ScalarValue] = resolve) -> ScalarValue:
    """Return the value of a scalar with one of `SCALAR_TAGS`.

    Raises `ValueError` if it doesn't match the tag.
    """
    name = tag.removeprefix(TAG_PREFIX)
    if name == "str":
        return text
    value = resolver(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
    }[name]
    if not fits:
        raise ValueError(f"The string {text[:40]!r} doesn't match its tag '!!{name}'.")
    return float(value) if name == "float" and isinstance(value, int) else value


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return _bounded(int(text) if len(text) <= _INTEGER_DIGITS else None, text)
    if _FLOAT.fullmatch(text):
        return _double(text)
    if _OCTAL.fullmatch(text):
        return _bounded(int(text, 0), text)
    if _HEXADECIMAL.fullmatch(text):
        return _bounded(int(text, 0), text)
    if _NOT_FINITE.fullmatch(text):
        return _out_of_range(text, "doesn't exist in JSON")
    return None


def _bounded(value: int | None, text: str) -> int:
    if value is None or not INTEGER_MIN <= value <= INTEGER_MAX:
        return _out_of_range(text, "exceeds 64 bits")
    return value


def _out_of_range(text: str, why: str) -> NoReturn:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise ValueError(f"The number {shown} {why}. Quote it if it is meant as a string.")


# YAML 1.1 as kubectl and Helm read it: sigs.k8s.io/yaml, whose table of scalars is that of go-yaml 2. Both programs
# check it in tests/actions/test_kubernetes_scalars.py. Times and numbers of base 60 are strings there.

_KUBERNETES_CONSTANTS: dict[str, ScalarValue] = {
    **CONSTANTS,
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_KUBERNETES_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO]?[0-7]+|0|[1-9][0-9]*)")
_KUBERNETES_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_KUBERNETES_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WHOLE_BELOW = 2.0**63


def resolve_kubernetes(text: str) -> ScalarValue:
    """Return the value of a plain scalar in an object of Kubernetes.

    A whole number is an integer however it is written: `1e3` is 1000. Raises `ValueError` for a number that JSON or a
    field of 64 bits doesn't have.
    """
    if text in _KUBERNETES_CONSTANTS:
        return _KUBERNETES_CONSTANTS[text]
    if text[0] not in NUMBER_STARTS:
        return text
    number = _kubernetes_number(text)
    return text if number is None else number


def _kubernetes_number(text: str) -> int | float | None:
    digits = text if text[0] == "." else text.replace("_", "")
    if _KUBERNETES_INTEGER.fullmatch(digits):
        return _bounded(_based(digits), text)
    if _KUBERNETES_NOT_FINITE.fullmatch(text):
        return _out_of_range(text, "doesn't exist in JSON")
    if not _KUBERNETES_FLOAT.fullmatch(digits) or not math.isfinite(value := float(digits)):
        return None
    if digits.lstrip("+-").isdigit():  # such as 08, which isn't octal
        return _bounded(int(digits) if len(digits) <= _INTEGER_DIGITS else None, text)
    return int(value) if value.is_integer() and abs(value) < _WHOLE_BELOW else value


def _based(digits: str) -> int | None:
    sign, number = (digits[0], digits[1:]) if digits[0] in "+-" else ("", digits)
    prefix = number[:2].lower()
    base = {"0x": 16, "0b": 2, "0o": 8}.get(prefix, 8 if number[0] == "0" else 10)
    if len(number) > 2 + 64:
        return None
    return int(sign + (number[2:] if prefix in {"0x", "0b", "0o"} else number), base)
