"""Data that came from outside, made fit to be kept.

The database takes no NUL and no lone surrogate, and depth has a bound (quality.md §3, "Bounds that evidence forces").
"""

import codecs
import json
from typing import Any

from launchbay import limits

# Python knows these as charsets, and takes quadratic time for them.
_CHARSETS_OF_NAMES = frozenset(("idna", "punycode"))
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def storable_text(data: bytes, charset: str = "utf-8") -> str:
    """Return the text; what is no text in that charset, or cannot be kept, becomes U+FFFD."""
    try:
        known = codecs.lookup(charset).name not in _CHARSETS_OF_NAMES
        text = data.decode(charset if known else "utf-8", errors="replace")
    except (LookupError, ValueError):  # an unknown charset, or a codec that is none of text
        text = data.decode("utf-8", errors="replace")
    return _storable_scalar(text)


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text. Raises `ValueError` when it is none, or deeper than may be kept."""
    try:
        value = json.loads(text, parse_constant=_refused_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return _storable(value, limits.JSON_DEPTH)


def _storable(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return _storable_scalar(value)
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        raise ValueError(f"it is nested deeper than {limits.JSON_DEPTH} levels")
    if isinstance(value, list):
        return [_storable(element, depth - 1) for element in value]
    return {_storable_scalar(key): _storable(element, depth - 1) for key, element in value.items()}


def _storable_scalar(text: str) -> str:
    if "\x00" in text:
        text = text.replace("\x00", _REPLACEMENT)
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
