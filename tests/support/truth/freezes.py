"""What freezes an environment or application by its row alone: a switch, and days. It imports nothing of the product.

The windows of the population are days. Times that return have tests of their own (tests/features/freezes).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Frozen:
    """A freeze that is, or that begins. Without an end, it lasts until somebody lifts it."""

    reason: str
    until: datetime | None = None
    begins_at: datetime | None = None
    by_id: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True)
class Days:
    """A window."""

    begin: datetime
    end: datetime
    reason: str


def windows_of(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the windows as they are stored."""
    return list(json.loads(row["freeze_windows"] or "[]"))


def _days(row: dict[str, Any]) -> Iterator[Days]:
    for each in windows_of(row):
        zone = ZoneInfo(each.get("zone", "UTC"))
        first, last = (date.fromisoformat(each[name]) for name in ("first_day", "last_day"))
        begin, end = (datetime.combine(day, time(), zone).astimezone(UTC) for day in (first, last + DAY))
        yield Days(begin, end, each["reason"])


def _by_windows(row: dict[str, Any], at: datetime) -> Frozen | None:
    """Return the freeze by windows at a time, which lasts until no window holds any more."""
    days = [*_days(row)]
    reasons = dict.fromkeys(each.reason for each in days if each.begin <= at < each.end)
    if not reasons:
        return None
    while held := [each.end for each in days if each.begin <= at < each.end]:
        at = max(held)
    return Frozen(" · ".join(reasons), until=at)


def frozen_now(row: dict[str, Any], now: datetime) -> Frozen | None:
    """Return what freezes an environment or application now: the switch before its windows."""
    if row["frozen"] is not None:
        switch = json.loads(row["frozen"])
        return Frozen(switch["reason"], by_id=switch["by_id"], at_ms=switch["at_ms"])
    return _by_windows(row, now)


def frozen_next(row: dict[str, Any], now: datetime) -> Frozen | None:
    """Return the window that freezes it next. The switch hides them: nobody knows until when it lasts."""
    if row["frozen"] is not None:
        return None
    current = _by_windows(row, now)
    free = now if current is None or current.until is None else current.until
    begins = [each.begin for each in _days(row) if each.begin > free]
    if not begins:
        return None
    found = _by_windows(row, min(begins))
    assert found is not None
    return Frozen(found.reason, until=found.until, begins_at=min(begins))


def frozen_shown(row: dict[str, Any], now: datetime) -> Frozen | None:
    """Return what pages say: the freeze that is, or one that begins within a day."""
    current, following = frozen_now(row, now), frozen_next(row, now)
    is_soon = following is not None and following.begins_at is not None and following.begins_at <= now + DAY
    return current or (following if is_soon else None)
