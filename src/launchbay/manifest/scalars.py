"""Scalars of the YAML 1.2 core schema (manifest-language §1): what a plain text means, and what a tag makes of a text.

Where the core schema would change what the author wrote, or JSON could not carry it, this one is stricter: numbers with
a leading zero (`012`) are strings; `.inf`, `.nan`, floats beyond a double and integers beyond 64 bits are errors.
"""

import math
import re

from launchbay.manifest.tree import ScalarValue

_CONSTANTS: dict[str, ScalarValue] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = re.compile(r"0o[0-7]+")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER_DIGITS = 20  # sign and digits of the longest 64-bit integer

TAG_PREFIX = "tag:yaml.org,2002:"
SCALAR_TAGS = frozenset(TAG_PREFIX + name for name in ("str", "int", "float", "bool", "null"))


def resolve(text: str) -> ScalarValue:
    """Return the value of a plain scalar. Raises `ValueError` with a sentence for a number that JSON cannot carry."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _NUMBER_STARTS:
        return text
    number = _number(text)
    return text if number is None else number


def resolve_tagged(text: str, tag: str) -> ScalarValue:
    """Return the value of a scalar with one of `SCALAR_TAGS`. Raises `ValueError` where the text does not fit it."""
    name = tag.removeprefix(TAG_PREFIX)
    if name == "str":
        return text
    value = resolve(text)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, (int, float)) and not isinstance(value, bool),
    }[name]
    if not fits:
        raise ValueError(f"The text {text[:40]!r} is no value of the tag '!!{name}'.")
    return float(value) if name == "float" and isinstance(value, int) else value


def _number(text: str) -> int | float | None:
    """Return the number that the text is, None where it is none."""
    if _INTEGER.fullmatch(text):
        return _bounded(int(text) if len(text) <= _INTEGER_DIGITS else None, text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        return value if math.isfinite(value) else _beyond(text, "is beyond the range of a double")
    if _OCTAL.fullmatch(text):
        return _bounded(int(text, 0), text)
    if _HEXADECIMAL.fullmatch(text):
        return _bounded(int(text, 0), text)
    if _NOT_FINITE.fullmatch(text):
        return _beyond(text, "is not a number that JSON can carry")
    return None


def _bounded(value: int | None, text: str) -> int:
    if value is None or not -(2**63) <= value < 2**63:
        return _beyond(text, "does not fit in 64 bits")
    return value


def _beyond(text: str, why: str) -> int:
    shown = text if len(text) <= 40 else f"{text[:40]}…"
    raise ValueError(f"The number {shown} {why}. Put it in quotes if it is meant as text.")
