"""Durations as people write them in manifests: `90`, `"2 minutes"`, `"1 hour 30 minutes"`, `"500 ms"`, `"5m"`."""

import math
import re
from typing import Any

from launchbay import limits

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
