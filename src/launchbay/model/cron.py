"""Cron expressions: their grammar, and when they fire by a clock. Pure.

There are two dialects. An expression of five fields is of Unix (crontab(5)): minute, hour, day of month, month, day of
week, with weekdays 0 to 7 (0 and 7 are Sunday). One of six or seven fields is of Quartz: it begins with the second,
may end with the year, and counts weekdays from 1 (Sunday). Both take names, lists, steps, ranges that wrap (`FRI-MON`),
and days that depend on the month (`L`, `L-3`, `LW`, `15W`, `FRIL`, `6#3`). A macro such as `@daily` is short for five
fields.

Parsing turns each field into the numbers that it means, with ranges and steps expanded in the numbering of the dialect.
Nothing after that depends on the dialect: weekdays count from 0 (Sunday).
"""

import calendar
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Literal

Dialect = Literal["unix", "quartz"]

_FIRST_YEAR, _LAST_YEAR = 1970, 2199
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_LAST_DAY = re.compile(r"L(?:-(\d{1,2}))?(W?)")
_NEAREST_WEEKDAY = re.compile(r"(\d{1,2})W")
_FORMS = "a list (1,15), a range (1-5) or steps (*/15)"


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a dialect: its name in messages, its numbers, and their names."""

    name: str
    low: int
    high: int
    takes: str
    names: Mapping[str, int]
    also: int | None = None  # another number for `low`: 7 is Sunday in crontab(5)
    wraps: bool = True


_SECOND = _Field("second", 0, 59, "0 to 59", {})
_MINUTE = _Field("minute", 0, 59, "0 to 59", {})
_HOUR = _Field("hour", 0, 23, "0 to 23", {})
_DAY = _Field("day-of-month", 1, 31, "1 to 31 or L", {})
_MONTH = _Field("month", 1, 12, "1 to 12 or JAN to DEC", _MONTHS)
_YEAR = _Field("year", _FIRST_YEAR, _LAST_YEAR, f"{_FIRST_YEAR} to {_LAST_YEAR}", {}, wraps=False)
_WEEKDAY: Mapping[Dialect, _Field] = {
    "unix": _Field(
        "day-of-week", 0, 6, "SUN to SAT, or 0 (Sunday) to 6", {name: at for at, name in enumerate(_WEEKDAYS)}, also=7
    ),
    "quartz": _Field(
        "day-of-week", 1, 7, "SUN to SAT, or 1 (Sunday) to 7", {name: at for at, name in enumerate(_WEEKDAYS, 1)}
    ),
}


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What a field means. `is_star`: it begins with `*` or `?`."""

    values: frozenset[int]
    is_star: bool = False
    beyond: tuple[int, ...] = ()  # steps that are longer than the field


@dataclass(frozen=True, slots=True)
class _Days:
    """Days of a month.

    `before_last` has days back, and whether the nearest weekday is meant. `nearest` are the days with W.
    """

    numbers: _Numbers
    before_last: frozenset[tuple[int, bool]] = frozenset()
    nearest: frozenset[int] = frozenset()

    def of(self, year: int, month: int) -> set[int]:
        last = calendar.monthrange(year, month)[1]
        found = {day for day in self.numbers.values if day <= last}
        for back, is_weekday in self.before_last:
            if back < last:
                found.add(_nearest_weekday(year, month, last - back) if is_weekday else last - back)
        return found | {_nearest_weekday(year, month, day) for day in self.nearest if day <= last}


@dataclass(frozen=True, slots=True)
class _Weekdays:
    """Days of a week, from 0 (Sunday). `nth` has weekday and number."""

    numbers: _Numbers
    last: frozenset[int] = frozenset()
    nth: frozenset[tuple[int, int]] = frozenset()

    def of(self, year: int, month: int) -> set[int]:
        first, last = calendar.monthrange(year, month)
        found = set()
        for day in range(1, last + 1):
            weekday = (first + day) % 7  # monthrange counts from Monday
            if (
                weekday in self.numbers.values
                or (weekday in self.last and day + 7 > last)
                or (weekday, (day + 6) // 7) in self.nth
            ):
                found.add(day)
        return found


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed expression. Two are equal if they mean the same."""

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    months: tuple[int, ...]
    years: tuple[int, ...]
    days: _Days
    weekdays: _Weekdays
    is_every_hour: bool  # follows elapsed time where a clock is set, instead of the hours it shows
    warnings: tuple[str, ...] = field(compare=False)

    def times(self, after: datetime) -> Iterator[datetime]:
        """Yield the times after `after` on its clock, soonest first."""
        for year in self.years:
            if year < after.year:
                continue
            for month in self.months:
                if (year, month) < (after.year, after.month):
                    continue
                for day in self._days(year, month):
                    yield from self._times_of_day(after, year, month, day)

    def count(self, since: datetime, until: datetime) -> int:
        """Return how many times its clock has from `since` on, before `until`."""
        found, day = -self._count_before(since), since
        while day.date() < until.date():
            found += self._count_of_day(day)
            day += timedelta(days=1)
        return found + self._count_before(until)

    def _count_of_day(self, day: datetime) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds) if self._has_day(day) else 0

    def _count_before(self, moment: datetime) -> int:
        """Return how many times of its day are before a moment."""
        if not self._has_day(moment):
            return 0
        seconds = bisect_left(self.seconds, moment.second + (moment.microsecond > 0))
        minutes = bisect_left(self.minutes, moment.minute) * len(self.seconds)
        hours = bisect_left(self.hours, moment.hour) * len(self.minutes) * len(self.seconds)
        if moment.hour not in self.hours:
            return hours
        return hours + minutes + (seconds if moment.minute in self.minutes else 0)

    def _has_day(self, day: datetime) -> bool:
        is_month = day.year in self.years and day.month in self.months
        return is_month and day.day in self._days(day.year, day.month)

    def _days(self, year: int, month: int) -> list[int]:
        days, weekdays = self.days.of(year, month), self.weekdays.of(year, month)
        # crontab(5): a day matches by either field if both are restricted, which one that begins with `*` isn't.
        is_either = not self.days.numbers.is_star and not self.weekdays.numbers.is_star
        return sorted(days | weekdays if is_either else days & weekdays)

    def _times_of_day(self, after: datetime, year: int, month: int, day: int) -> Iterator[datetime]:
        today = (after.year, after.month, after.day)
        if (year, month, day) < today:
            return
        since = (after.hour, after.minute, after.second) if (year, month, day) == today else (-1, 0, 0)
        for hour in self.hours:
            if hour < since[0]:
                continue
            for minute in self.minutes:
                if (hour, minute) < since[:2]:
                    continue
                for second in self.seconds:
                    if (hour, minute, second) > since:
                        yield datetime(year, month, day, hour, minute, second, tzinfo=after.tzinfo)


@lru_cache(maxsize=256)  # a calendar asks for each day of each schedule
def parse(text: str, *, quartz_only: bool = False) -> Cron:
    """Return the expression that a text means. `quartz_only` refuses five fields, as manifests do.

    Raises ValueError with a sentence that shows the text, the field and what it may be.
    """
    try:
        return _parse(text, quartz_only=quartz_only)
    except ValueError as error:
        raise ValueError(f"Invalid schedule {text!r}: {error}") from None


def _parse(text: str, *, quartz_only: bool) -> Cron:
    fields = _fields(text, quartz_only=quartz_only)
    dialect: Dialect = "unix" if len(fields) == 5 else "quartz"
    if dialect == "unix":
        fields = ["0", *fields]
    if len(fields) == 6:
        fields = [*fields, "*"]
    second, minute, hour, day, month, weekday, year = fields
    days, weekdays = _parse_days(day), _parse_weekdays(weekday, dialect)
    seconds, minutes, hours, months, years = (
        _numbers(text, field)
        for text, field in ((second, _SECOND), (minute, _MINUTE), (hour, _HOUR), (month, _MONTH), (year, _YEAR))
    )
    cron = Cron(
        seconds=_sorted(seconds),
        minutes=_sorted(minutes),
        hours=_sorted(hours),
        months=_sorted(months),
        years=_sorted(years),
        days=days,
        weekdays=weekdays,
        is_every_hour=hours.is_star or len(hours.values) == 24,
        warnings=tuple(_warnings(fields, (seconds, minutes, hours, months), days, weekdays)),
    )
    # 2024 is a leap year.
    if weekdays.numbers.is_star and not any(days.of(2024, each) for each in cron.months):
        raise ValueError(
            f"There is no day {day!r} in {' or '.join(calendar.month_name[each] for each in cron.months)}."
        )
    return cron


def _sorted(numbers: _Numbers) -> tuple[int, ...]:
    return tuple(sorted(numbers.values))


def _fields(text: str, *, quartz_only: bool) -> list[str]:
    macro = text.strip().lower()
    if macro.startswith("@") and not quartz_only:
        if macro not in _MACROS:
            raise ValueError(f"Unknown macro {macro!r}. Use {', '.join(_MACROS)}, or an expression.")
        return _MACROS[macro].split()
    fields = text.upper().split()
    if quartz_only and len(fields) not in {6, 7}:
        raise ValueError(
            f"expected 6 or 7 fields, found {len(fields)}: second, minute, hour, day of month, month, day of week, and "
            "perhaps the year."
        )
    if len(fields) not in {5, 6, 7}:
        raise ValueError(
            f"expected 5 fields, found {len(fields)}: minute, hour, day of month, month and day of week, such as "
            "'30 7 * * MON-FRI'. Six or seven fields begin with the seconds."
        )
    return fields


def _numbers(text: str, field: _Field) -> _Numbers:
    """Return the numbers of a field, or of its parts that aren't special days."""
    values: set[int] = set()
    beyond: list[int] = []
    for part in text.split(","):
        found, step = _part(part, text, field)
        values |= found
        if step > field.high - field.low:
            beyond.append(step)
    return _Numbers(frozenset(values), text[0] in "*?", tuple(beyond))


def _part(part: str, text: str, field: _Field) -> tuple[set[int], int]:
    """Return the numbers of one part, and its step (1 without one)."""
    base, slash, step_text = part.partition("/")
    step = _number(step_text, text, field) if slash else 1
    if step < 1:
        raise _bad(text, field)
    size = field.high - field.low + 1
    if base in {"*", ""} or (base == "?" and field.name.startswith("day")):
        if not base and not slash:
            raise _bad(text, field)
        first, last = field.low, field.high
    else:
        start, dash, end = base.partition("-")
        first = _value(start, text, field)
        last = _value(end, text, field) if dash else (field.high if slash else first)
        if last < first:
            if first == field.also:
                first = field.low
            elif not field.wraps:
                raise _bad(text, field)
            if last < first:
                last += size
    return {field.low + (each - field.low) % size for each in range(first, last + 1, step)}, step


def _value(text: str, whole: str, field: _Field) -> int:
    number = field.names.get(text)
    if number is None:
        number = _number(text, whole, field)
    if not (field.low <= number <= field.high or number == field.also):
        raise _bad(whole, field)
    return number


def _number(text: str, whole: str, field: _Field) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 4):
        raise _bad(whole, field)
    return int(text)


def _bad(text: str, field: _Field) -> ValueError:
    return ValueError(f"Bad {field.name} {text[:80]!r}. Use {field.takes}, or {_FORMS}.")


def _parse_days(text: str) -> _Days:
    before_last, nearest, others = set(), set(), []
    for part in text.split(","):
        if found := _LAST_DAY.fullmatch(part):
            back = int(found[1] or 0)
            if back > 30:
                raise _bad(text, _DAY)
            before_last.add((back, bool(found[2])))
        elif found := _NEAREST_WEEKDAY.fullmatch(part):
            nearest.add(_value(found[1], text, _DAY))
        else:
            others.append(part)
    return _Days(_others(others, text, _DAY), frozenset(before_last), frozenset(nearest))


def _parse_weekdays(text: str, dialect: Dialect) -> _Weekdays:
    field = _WEEKDAY[dialect]

    def sunday_first(number: int) -> int:
        return (number - field.low) % 7

    last, nth, others = set(), set(), []
    for part in text.split(","):
        weekday, hash_sign, count = part.partition("#")
        if hash_sign:
            if count not in {"1", "2", "3", "4", "5"}:
                raise _bad(text, field)
            nth.add((sunday_first(_value(weekday, text, field)), int(count)))
        elif part == "L":
            others.append("SAT")
        elif part.endswith("L"):
            last.add(sunday_first(_value(part[:-1], text, field)))
        else:
            others.append(part)
    numbers = _others(others, text, field)
    values = frozenset(sunday_first(number) for number in numbers.values)
    return _Weekdays(_Numbers(values, numbers.is_star, numbers.beyond), frozenset(last), frozenset(nth))


def _others(parts: Sequence[str], text: str, field: _Field) -> _Numbers:
    try:
        return _numbers(",".join(parts), field) if parts else _Numbers(frozenset())
    except ValueError:
        raise _bad(text, field) from None


def _nearest_weekday(year: int, month: int, day: int) -> int:
    """Return the weekday nearest to a day, without leaving its month."""
    weekday, last = calendar.weekday(year, month, day), calendar.monthrange(year, month)[1]
    if weekday == calendar.SATURDAY:
        return day - 1 if day > 1 else day + 2
    if weekday == calendar.SUNDAY:
        return day + 1 if day < last else day - 2
    return day


def _warnings(fields: Sequence[str], plain: Sequence[_Numbers], days: _Days, weekdays: _Weekdays) -> Iterator[str]:
    """Yield a sentence for each thing that people often mean differently."""
    names = ("second", "minute", "hour", "month")
    texts = (*fields[:3], fields[4])
    for name, text, numbers in zip(names, texts, plain, strict=True):
        for step in numbers.beyond:
            yield (
                f"The step {step} in {text} is longer than the field. The {name} is always "
                f"{', '.join(str(each) for each in sorted(numbers.values))}."
            )
    day, weekday = fields[3], fields[5]
    if day in {"*", "?"} or weekday in {"*", "?"}:
        return
    if days.numbers.is_star or weekdays.numbers.is_star:
        yield f"Day of month {day} and day of week {weekday}: it fires on days that match both, as one begins with *."
    else:
        yield f"Day of month {day} and day of week {weekday}: it fires on days that match either of them."
