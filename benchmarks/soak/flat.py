"""Whether a series is flat: a robust slope over its later part, against what it may move.

The slope is Theil and Sen's, the median of the slopes between all pairs of samples: a burst, a vacuum or a collection
of garbage in between does not tilt it. What counts is slope × length of the part looked at, that is, by how much the
series has risen; falling is no leak.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Allowed:
    """By how much a series may rise over the part looked at: so much, or this share of its median if that is more."""

    amount: float
    share: float = 0.0


@dataclass(frozen=True)
class Judged:
    """What was found of one series; the medians are those of the first and the last quarter of the part looked at."""

    name: str
    unit: str
    at_first: float
    at_last: float
    most: float
    risen: float
    allowed: float

    @property
    def is_flat(self) -> bool:
        return self.risen <= self.allowed

    def row(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {**{name: _short(value) for name, value in asdict(self).items()}, "flat": self.is_flat}


def slope(at: Sequence[float], values: Sequence[float]) -> float:
    """Return the median of the slopes between all pairs of points; 0 with fewer than two."""
    points = list(zip(at, values, strict=True))
    slopes = [(y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x2 > x1]
    return median(slopes) if slopes else 0.0


def judge(name: str, unit: str, at: Sequence[float], values: Sequence[float], allowed: Allowed) -> Judged:
    """Judge a whole series, which must have a sample at least."""
    quarter = max(1, len(values) // 4)
    length = at[-1] - at[0]
    return Judged(
        name,
        unit,
        at_first=median(values[:quarter]),
        at_last=median(values[-quarter:]),
        most=max(values),
        risen=slope(at, values) * length,
        allowed=max(allowed.amount, allowed.share * median(values)),
    )


def _short(value: Any) -> Any:
    return round(value, 2) if isinstance(value, float) else value
