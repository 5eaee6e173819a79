"""Reading the parameters of a step: each function takes the kind it names, or says what was expected.

All raise `ActionFailed` with `retryable=False`: the same parameters would be as wrong the next time.
"""

import math
import re
from collections.abc import Mapping
from typing import Any

from launchbay import limits
from launchbay.errors import ActionFailed

_TEXT_CHARS = 100
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_PART = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)\s*(?:,|and\b)?", re.IGNORECASE | re.ASCII)
_UNITS_S = {
    0.001: ("ms", "milli", "millis", "millisecond", "milliseconds"),
    1.0: ("s", "sec", "secs", "second", "seconds"),
    60.0: ("m", "min", "mins", "minute", "minutes"),
    3600.0: ("h", "hr", "hrs", "hour", "hours"),
    86400.0: ("d", "day", "days"),
}
_SECONDS_OF_UNIT = {spelling: seconds for seconds, spellings in _UNITS_S.items() for spelling in spellings}
_EXPECTED = 'a number of seconds or a text like "2 minutes", "1 hour 30 minutes", "500 ms" or "5m"'


def parse_duration_s(value: Any, *, longest_s: float = limits.WAIT_LONGEST_S) -> float:
    """Return the seconds that the value stands for.

    Raises `ValueError` with a sentence when it is no duration, negative, or longer than `longest_s`.
    """
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds):
        raise ValueError(f"{_shown(value)} is not a duration; expected {_EXPECTED}.")
    if seconds < 0:
        raise ValueError(f"{_shown(value)} is negative; expected {_EXPECTED}.")
    if seconds > longest_s:
        raise ValueError(f"{_shown(value)} is longer than the {longest_s:g} seconds that are allowed here.")
    return seconds


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool):  # a bool is an int to Python, and no duration to anybody else
        return None
    if isinstance(value, int) and abs(value) > 2**53:  # beyond what a float tells apart, and far beyond every bound
        return math.copysign(2.0**53, value)
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and len(value) <= _TEXT_CHARS:
        return _seconds_of_text(value.strip())
    return None


def _seconds_of_text(text: str) -> float | None:
    if _NUMBER.fullmatch(text.removeprefix("-")):
        return float(text)
    total, position = 0.0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2].lower() not in _SECONDS_OF_UNIT:
            return None
        total += float(part[1]) * _SECONDS_OF_UNIT[part[2].lower()]
        position = part.end()
    return total if text and not text.lower().endswith((",", "and")) else None


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _TEXT_CHARS else text[:_TEXT_CHARS] + "…"


_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_FLAGS = {"true": True, "false": False}


def wrong_parameter(name: str, expected: str) -> ActionFailed:
    """Return the error for a parameter of another kind; it does not repeat the value, which may be secret."""
    return ActionFailed(f"The parameter '{name}' is wrong: expected {expected}.", retryable=False)


def required(parameters: Mapping[str, Any], name: str, expected: str) -> Any:
    """Return a parameter that must be there and not null."""
    value = parameters.get(name)
    if value is None:
        raise ActionFailed(f"The parameter '{name}' is missing: expected {expected}.", retryable=False)
    return value


def required_text(parameters: Mapping[str, Any], name: str, expected: str) -> str:
    """Return a text that must be there and not empty; numbers and booleans are written as text."""
    value = text_of(required(parameters, name, expected))
    if not value:
        raise wrong_parameter(name, expected)
    return value


def optional_text(parameters: Mapping[str, Any], name: str, expected: str) -> str | None:
    """Return a text, or None where it is left out or null."""
    if parameters.get(name) is None:
        return None
    return required_text(parameters, name, expected)


def text_of(value: Any) -> str | None:
    """Return a scalar as manifests write it, `true` for a boolean; None for a map, a list or null."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return None


def flag(parameters: Mapping[str, Any], name: str, *, default: bool) -> bool:
    """Return a boolean; the texts "true" and "false" are taken too."""
    value = parameters.get(name)
    if value is None:
        return default
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _FLAGS:
        return _FLAGS[value.strip().lower()]
    raise wrong_parameter(name, "true or false")


def whole_number(value: Any, name: str, *, minimum: int, maximum: int) -> int:
    """Return an integer within bounds; "3" and 3.0 are taken too."""
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif (isinstance(value, float) and value.is_integer()) or (
        isinstance(value, str) and _INTEGER.fullmatch(value.strip())
    ):
        number = int(value)
    if number is None or not minimum <= number <= maximum:
        raise wrong_parameter(name, f"a whole number from {minimum} to {maximum}")
    return number


def optional_texts(parameters: Mapping[str, Any], name: str, expected: str) -> list[str] | None:
    """Return a list of texts, or None where it is left out or null; a single text is a list of one."""
    value = parameters.get(name)
    if value is None:
        return None
    texts = [text_of(each) for each in (value if isinstance(value, list | tuple) else [value])]
    found = [text for text in texts if text]
    if len(found) < len(texts):
        raise wrong_parameter(name, expected)
    return found


def optional_mapping(parameters: Mapping[str, Any], name: str, expected: str) -> Mapping[str, Any]:
    """Return a map with text keys, empty where it is left out or null."""
    value = parameters.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong_parameter(name, expected)
    return value


def optional_duration_s(
    parameters: Mapping[str, Any], name: str, *, longest_s: float = limits.WAIT_LONGEST_S
) -> float | None:
    """Return seconds, or None where the duration is left out or null."""
    value = parameters.get(name)
    if value is None:
        return None
    try:
        return parse_duration_s(value, longest_s=longest_s)
    except ValueError as error:
        raise ActionFailed(f"The parameter '{name}' is wrong: {error}", retryable=False) from error


def required_duration_s(parameters: Mapping[str, Any], name: str, *, longest_s: float = limits.WAIT_LONGEST_S) -> float:
    """Return the seconds of a duration that must be there."""
    required(parameters, name, 'a duration, such as 90 or "2 minutes"')
    return optional_duration_s(parameters, name, longest_s=longest_s) or 0.0
