"""Ends of instances: how long, in words, and second launches of a name."""

from typing import Literal

NEVER = -1
IfExists = Literal["allow", "fail", "return"]
_UNITS = ((86_400_000, "days"), (3_600_000, "hours"), (60_000, "minutes"), (1_000, "seconds"))


def duration(ms: int) -> str:
    """Return a length of time for people, such as "36 hours"."""
    unit_ms, name = next(((unit_ms, name) for unit_ms, name in _UNITS if ms % unit_ms == 0), (1_000, "seconds"))
    count = ms // unit_ms
    return f"{count:,} {name[:-1] if count == 1 else name}"
