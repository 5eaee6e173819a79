"""Object ids: 24 lower-case hex digits, time-ordered and unguessable (conformance.md, "Wire" 10)."""

import hashlib
import os
import re
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple

_ID = re.compile(r"[0-9a-f]{24}")
IN_TEXT = re.compile(r"(?<![0-9a-f])[0-9a-f]{24}(?![0-9a-f])")
PATTERN = "^[0-9a-fA-F]{24}$"  # of an ID that comes in; it is kept in lower case


class _Times:
    """The times of new IDs in a process, each greater than the last."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_us = 0

    def next_us(self) -> int:
        with self._lock:
            self._last_us = max(time.time_ns() // 1000, self._last_us + 1)
            return self._last_us


_times = _Times()


def new_id() -> str:
    """Return a new ID, greater than all earlier ones of this process.

    32 bits of seconds since the epoch, 20 bits of microseconds, 44 random bits.
    """
    seconds, microseconds = divmod(_times.next_us(), 1_000_000)
    return f"{seconds & 0xFFFFFFFF:08x}{microseconds:05x}{os.urandom(6).hex()[:11]}"


def id_of_turn(at_s: int, *turn: object) -> str:
    """Return the ID of what begins in a turn, the same each time.

    `at_s` is its time in seconds since the epoch.
    """
    return f"{at_s & 0xFFFFFFFF:08x}{hashlib.sha256(chr(10).join(map(str, turn)).encode()).hexdigest()[:16]}"


def first_id_of_last(seconds: int) -> str:
    """Return an ID not greater than those made in the last so many seconds."""
    return f"{(int(time.time()) - seconds) & 0xFFFFFFFF:08x}{0:016x}"


def seconds_of(id_: str) -> int:
    """Return when an ID was made, in seconds since the epoch; 0 for other texts."""
    return int(id_[:8], 16) if is_id(id_) else 0


def is_id(text: str) -> bool:
    """Return whether the text has the form of an ID; anything else addresses no object (404)."""
    return _ID.fullmatch(text) is not None


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return a text with names in the place of IDs that have one."""
    return IN_TEXT.sub(lambda found: names.get(found[0], found[0]), text)


def canonical_id(text: str) -> str:
    """Return an ID in lower case, and any other text unchanged."""
    lower = text.lower()
    return lower if is_id(lower) else text


class NamedRow(NamedTuple):
    """An ID with its name, as lists show it."""

    id: str
    name: str
