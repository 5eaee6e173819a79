"""Durations as people write them: `90`, "2 minutes", "1 hour 30 minutes"."""

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
_SHOWN_UNITS_S = (("d", 86_400), ("h", 3_600), ("min", 60))
_EXPECTED = 'a number of seconds or a string such as "2 minutes", "1 hour 30 minutes", "500 ms" or "5m"'


def parse_duration_s(value: Any, *, longest_s: float = limits.WAIT_LONGEST_S) -> float:
    """Return a duration in seconds. Raises `ValueError` if it is invalid, negative, or longer than `longest_s`."""
    seconds = _seconds(value)
    if seconds is None or not math.isfinite(seconds):
        raise ValueError(f"{_shown(value)} is not a duration. Expected {_EXPECTED}.")
    if seconds < 0:
        raise ValueError(f"{_shown(value)} is negative. Expected {_EXPECTED}.")
    if seconds > longest_s:
        raise ValueError(f"{_shown(value)} is longer than the maximum of {longest_s:g} seconds.")
    return seconds


def _seconds(value: Any) -> float | None:
    if isinstance(value, bool):  # an int to Python, but not a duration
        return None
    if isinstance(value, int) and abs(value) > 2**53:  # beyond the precision of a float, and every limit
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


def duration_words(milliseconds: float) -> str:
    """Return the length of a duration for people.

    It has the two largest units: `1 d 2 h`, `1.5 s`, `20 ms`. Parts of a millisecond, as in medians, are rounded.
    """
    if abs(milliseconds) < 100:
        return f"{abs(round(milliseconds))} ms"
    seconds = abs(milliseconds) / 1000
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    parts: list[str] = []
    left = int(seconds)
    for unit, size in _SHOWN_UNITS_S:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts)
