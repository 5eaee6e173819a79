"""Due times of Quartz cron expressions (manifest-language §5, `configuration.schedule`). Pure; times are UTC.

Quartz has a seconds field first, counts weekdays from 1 (Sunday), has an optional year at the end, and has days that
other dialects lack: `L-3` (days before the month's last), `15W` and `LW` (the weekday nearest to a day). cronsim
finds the times; what it doesn't support is translated, or checked day by day.
"""

import calendar
import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta

from cronsim import CronSim, CronSimError

_WEEKDAY = re.compile(r"(?<![#\d])([1-7])(?=[-,/#L]|$)")
_BEFORE_LAST = re.compile(r"L(?:-(\d{1,2}))?(W?)")
_NEAREST = re.compile(r"(\d{1,2})W")
_LAST_YEAR = 2199
_DAYS_TRIED = 366 * 8  # a leap day that must also be a weekday occurs within this


def due_times(text: str, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after`, soonest first, until the expression has no more.

    Raises ValueError at the call if the text isn't a Quartz cron expression.
    """
    fields = text.upper().split()
    if len(fields) not in {6, 7}:
        raise ValueError(f"Invalid schedule {text!r}: expected 6 or 7 fields, found {len(fields)}.")
    second, minute, hour, day, month, weekday = fields[:6]
    is_day = _special_day(day)
    translated = " ".join((second, minute, hour, "*" if is_day or day == "?" else day, month, _weekday(weekday)))
    try:
        CronSim(translated, after)
    except CronSimError as error:
        raise ValueError(f"Invalid schedule {text!r}: {error}.") from error
    return _times(translated, after.astimezone(UTC), is_day, _years(fields[6] if len(fields) == 7 else "*"))


def next_due(text: str, after: datetime) -> datetime | None:
    """Return the first time after `after`, or None. Raises ValueError."""
    return next(due_times(text, after), None)


def _times(
    translated: str, after: datetime, is_day: Callable[[date], bool] | None, is_year: Callable[[int], bool]
) -> Iterator[datetime]:
    start, tried = after, 0
    while tried < _DAYS_TRIED:
        found = next(CronSim(translated, start), None)
        if found is None or found.year > _LAST_YEAR:
            return
        if not is_year(found.year):
            start = datetime(found.year, 12, 31, 23, 59, 59, tzinfo=UTC)
        elif is_day is not None and not is_day(found.date()):
            start = datetime(found.year, found.month, found.day, 23, 59, 59, tzinfo=UTC)
            tried += 1
        else:
            tried = 0
            start = found
            yield found


def _weekday(field: str) -> str:
    """Translate weekdays counted from 1 for Sunday to those counted from 0; a single `L` is Saturday."""
    if field == "?":
        return "*"
    if field == "L":
        return "6"
    return _WEEKDAY.sub(lambda match: str(int(match[1]) - 1), field)


def _special_day(field: str) -> Callable[[date], bool] | None:
    """Return a test for the days of the month that cronsim doesn't support, None for the others."""
    nearest = _NEAREST.fullmatch(field)
    if nearest is not None:
        return lambda day: day == _nearest_weekday(day, int(nearest[1]))
    before_last = _BEFORE_LAST.fullmatch(field)
    if before_last is None or field == "L":
        return None
    back = int(before_last[1] or 0)
    if before_last[2]:
        return lambda day: day == _nearest_weekday(day, _last(day) - back)
    return lambda day: day.day == _last(day) - back


def _nearest_weekday(day: date, wanted: int) -> date | None:
    """Return the weekday nearest to the wanted day of the month of `day`, without leaving the month."""
    last = _last(day)
    if not 1 <= wanted <= last:
        return None
    target = day.replace(day=wanted)
    if target.weekday() == calendar.SATURDAY:
        return target - timedelta(days=1) if wanted > 1 else target + timedelta(days=2)
    if target.weekday() == calendar.SUNDAY:
        return target + timedelta(days=1) if wanted < last else target - timedelta(days=2)
    return target


def _last(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _years(field: str) -> Callable[[int], bool]:
    """Return a test for the year field: `*`, `2030`, `2026-2030`, `2026/2`, and lists of these."""
    if field == "*":
        return lambda year: True  # noqa: ARG005 - every year
    parts = [re.fullmatch(r"(\*|\d{4})(?:-(\d{4}))?(?:/(\d{1,4}))?", part) for part in field.split(",")]
    if not all(parts):
        raise ValueError(f"Invalid schedule: can't read the year {field!r}.")
    ranges = []
    for part in parts:
        assert part is not None
        first = 1970 if part[1] == "*" else int(part[1])
        last = int(part[2]) if part[2] else (_LAST_YEAR if part[3] or part[1] == "*" else first)
        ranges.append(range(first, last + 1, int(part[3] or 1) or 1))
    return lambda year: any(year in years for years in ranges)
