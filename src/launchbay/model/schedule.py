"""Due times of Quartz cron expressions (manifest-language §5, `configuration.schedule`). Pure.

Times are UTC, except those of recurring schedules, which follow the clock of a zone (`zoned_due_times`).

Quartz has a seconds field first, counts weekdays from 1 (Sunday), has an optional year at the end, and has days that
other dialects lack: `L-3` (days before the month's last), `15W` and `LW` (the weekday nearest to a day). cronsim
finds the times; what it doesn't support is translated, or checked day by day.
"""

import calendar
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

_WEEKDAY = re.compile(r"(?<![#\d])([1-7])(?=[-,/#L]|$)")
_UNIX_WEEKDAY = re.compile(r"(?<![#/\d])([0-7])(?=[-,/#]|$)")
_MOST_SET = timedelta(hours=3)  # that a clock is set by
_BEFORE_LAST = re.compile(r"L(?:-(\d{1,2}))?(W?)")
_NEAREST = re.compile(r"(\d{1,2})W")
_LAST_YEAR = 2199
_ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC)
_DAYS_TRIED = 366 * 8  # a leap day that must also be a weekday occurs within this


_RANGES = {
    "second": "0 to 59",
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day-of-month": "1 to 31 or L",
    "month": "1 to 12 or JAN to DEC",
    "day-of-week": "SUN to SAT, or 1 (Sunday) to 7",
}


def due_times(text: str, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after`, soonest first, until the expression has no more.

    Raises ValueError at the call if the text isn't a Quartz cron expression.
    """
    fields = text.upper().split()
    if len(fields) not in {6, 7}:
        raise ValueError(
            f"Invalid schedule {text!r}: expected 6 or 7 fields, found {len(fields)}: second, minute, hour, day of "
            "month, month, day of week, and perhaps the year."
        )
    second, minute, hour, day, month, weekday = fields[:6]
    is_day = _special_day(day)
    translated = " ".join((second, minute, hour, "*" if is_day or day == "?" else day, month, _weekday(weekday)))
    try:
        _parse(translated)
    except CronSimError as error:
        raise ValueError(f"Invalid schedule {text!r}: {_problem(error, fields)}") from error
    return _times(translated, after.astimezone(UTC), is_day, _years(fields[6] if len(fields) == 7 else "*"))


def _problem(error: CronSimError, fields: Sequence[str]) -> str:
    """Return the library's sentence, which names a field, with what the field may be."""
    name = str(error).removeprefix("Bad ")
    if name not in _RANGES:
        return f"{error}."
    with suppress(CronSimError):  # raised for a day that no month has
        if name == "day-of-month" and CronSim(f"0 0 0 {fields[3]} * *", _ANY_TIME):
            months = sorted(CronSim(f"0 0 0 1 {fields[4]} *", _ANY_TIME).months)
            return f"There is no day {fields[3]!r} in {' or '.join(calendar.month_name[each] for each in months)}."
    field, form = fields[list(_RANGES).index(name)], "a list (1,15), a range (1-5) or steps (*/15)"
    return f"{error} {field!r}. Use {_RANGES[name]}, or {form}."


def zone_of(name: str) -> ZoneInfo:
    """Return an IANA time zone, such as Europe/Berlin. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"Unknown time zone {name[:80]!r}: expected a name such as Europe/Berlin or UTC.") from None


def quartz(text: str) -> str:
    """Return a cron expression in Quartz's form: one of five fields, as of Unix, gets seconds and its weekdays."""
    fields = text.upper().split()
    if len(fields) != 5:
        return text
    weekday = _UNIX_WEEKDAY.sub(lambda match: str(int(match[1]) % 7 + 1), fields[4])
    return " ".join(("0", *fields[:4], weekday))


def zoned_due_times(text: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after` of an expression on the clock of a zone, soonest first, in UTC.

    Where the clock is set forth, a time that doesn't exist is as much later as the clock was set. Where it is set back,
    a fixed hour fires once, the first time; an expression for every hour continues as real time does. Raises ValueError
    at the call if the text isn't an expression.
    """
    _refuse_unless_cron(text, after)
    is_continuous = quartz(text).split()[2].startswith("*")
    return (_continuous if is_continuous else _fixed)(quartz(text), zone, after.astimezone(UTC))


def _refuse_unless_cron(text: str, after: datetime) -> None:
    """Raise ValueError that shows the text as it was written."""
    count = len(text.split())
    if count not in {5, 6, 7}:
        raise ValueError(
            f"Invalid schedule {text!r}: expected 5 fields, found {count}: minute, hour, day of month, month and day "
            "of week, such as '30 7 * * MON-FRI'. Six or seven fields begin with the seconds."
        )
    try:
        due_times(quartz(text), after)
    except ValueError as error:
        shown = str(error).replace(repr(quartz(text)), repr(text), 1)
        if count == 5:
            shown = shown.replace(repr(quartz(text).split()[5]), repr(text.split()[4]))
        raise ValueError(shown.replace("1 (Sunday) to 7", "0 (Sunday) to 6") if count == 5 else shown) from None


def _fixed(text: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    last, since = after, after - _MOST_SET
    if _clock(since, zone) - since == _clock(after, zone) - after:
        since = after
    # Otherwise the clock may have been set forth since a time that is still due.
    for local in due_times(text, _clock(since, zone)):
        found = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found > last:
            last = found
            yield found


def _continuous(text: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    while True:
        clock = _clock(after, zone)
        ahead = clock - after
        local = next(due_times(text, clock), None)
        if local is None:
            return
        found = local - ahead
        if _clock(found, zone) != local:
            # The clock is set in between: look again from there, with what it shows then.
            after = _change(zone, after, found) - timedelta(seconds=1)
            clock = _clock(after + timedelta(seconds=1), zone)
            local = next(due_times(text, clock - timedelta(seconds=1)), None)
            if local is None:
                return
            found = local - (clock - (after + timedelta(seconds=1)))
        yield found
        after = found


def _clock(moment: datetime, zone: ZoneInfo) -> datetime:
    """Return what the clock shows, as if it were UTC."""
    return moment.astimezone(zone).replace(tzinfo=UTC, fold=0)


def _change(zone: ZoneInfo, before: datetime, after: datetime) -> datetime:
    """Return the first second after the clock was set, between two moments."""
    ahead = _clock(before, zone) - before
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        moment = before + timedelta(seconds=middle)
        if _clock(moment, zone) - moment == ahead:
            low = middle
        else:
            high = middle
    return (before + timedelta(seconds=high)).replace(microsecond=0)


def next_due(text: str, after: datetime) -> datetime | None:
    """Return the first time after `after`, or None. Raises ValueError."""
    return next(due_times(text, after), None)


@lru_cache(maxsize=256)  # of at most a few kilobytes each; a calendar asks for each day of each schedule
def _parse(translated: str) -> CronSim:
    """Return a parsed expression to copy, never to iterate: callers share it. Raises CronSimError."""
    return CronSim(translated, _ANY_TIME)


def _times(
    translated: str, after: datetime, is_day: Callable[[date], bool] | None, is_year: Callable[[int], bool]
) -> Iterator[datetime]:
    start, tried = after, 0
    while tried < _DAYS_TRIED:
        cron = copy(_parse(translated))
        cron.dt = start.replace(microsecond=0)
        found = next(cron, None)
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
