"""When schedules are due, in UTC or on the clock of a time zone. Pure.

Schedules of manifests are Quartz expressions in UTC (manifest-language §5, `configuration.schedule`). Recurring
schedules and sleep windows follow the clock of an IANA zone, and take the five fields of Unix too. The grammar is in
`cron`.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, time, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from launchbay.model.cron import Cron, parse

_MOST_SET = timedelta(hours=3)  # that a clock is set by
_NEVER = timedelta(days=3_653)
_CHANGES_LOOKED_AT = timedelta(days=400)
_BETWEEN_CHANGES = timedelta(days=7)  # no zone sets its clock twice within
# Names in the database that depend on the machine, or are no place.
_NO_ZONES = frozenset({"localtime", "posixrules", "Factory"})


def due_times(text: str, after: datetime) -> Iterator[datetime]:
    """Yield the times in UTC of a Quartz expression after `after`, soonest first.

    Raises ValueError at the call if the text isn't a Quartz cron expression.
    """
    return parse(text, quartz_only=True).times(after.astimezone(UTC))


def next_due(text: str, after: datetime) -> datetime | None:
    """Return the first time after `after`, or None. Raises ValueError."""
    return next(due_times(text, after), None)


def zone_of(name: str) -> ZoneInfo:
    """Return an IANA time zone, such as Europe/Berlin. Raises ValueError."""
    if name not in _NO_ZONES and not name.startswith(("posix/", "right/")):
        with suppress(ZoneInfoNotFoundError, ValueError, OSError):
            return ZoneInfo(name)
    raise ValueError(f"Unknown time zone {name[:80]!r}: expected a name such as Europe/Berlin or UTC.")


def zoned_due_times(text: str, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yield the times after `after` of an expression on the clock of a zone, soonest first, in UTC.

    Where the clock is set forth, a time that doesn't exist is as much later as the clock was set. Where it is set back,
    a fixed hour fires once, the first time; an expression for every hour continues as elapsed time does. Raises
    ValueError at the call if the text isn't an expression.
    """
    cron = parse(text)
    return (_continuous if cron.is_every_hour else _fixed)(cron, zone, after.astimezone(UTC))


def count_due_times(text: str, zone: ZoneInfo, since: datetime, until: datetime) -> int:
    """Return how many of `zoned_due_times` are from `since` on, before `until`.

    The two are a few days apart at most. Raises ValueError if the text isn't an expression.
    """
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    ahead = {_clock(each, zone) - each for each in (since - _MOST_SET, since, until)}
    if len(ahead) == 1:
        return parse(text).count(_clock(since, zone), _clock(until, zone))
    times = zoned_due_times(text, zone, since - timedelta.resolution)
    return sum(1 for _ in takewhile(lambda each: each < until, times))


def daily_due_times(text: str, zone: ZoneInfo, after: datetime, until: datetime) -> Iterator[tuple[datetime, int]]:
    """Yield the first time of each day in UTC, and their number.

    They are `zoned_due_times`, after `after` and before `until`. Raises ValueError if the text isn't an expression.
    """
    while (first := next(zoned_due_times(text, zone, after), None)) is not None and first < until:
        midnight = datetime.combine(first.date(), time(), UTC) + timedelta(days=1)
        yield first, count_due_times(text, zone, first, min(midnight, until))
        after = midnight - timedelta.resolution


def local_time(at: datetime, zone: ZoneInfo) -> str:
    """Return a time of a zone, such as `Mon 5 Jan 2026, 06:30:00 CET`."""
    return at.astimezone(zone).strftime("%a %-d %b %Y, %H:%M:%S %Z")


def schedule_warnings(text: str, zone: ZoneInfo, after: datetime) -> list[str]:
    """Return sentences about what the author of an expression may not expect.

    These are: days that match by either of two fields, steps beyond a field, no time within 10 years, and what happens
    when the clock of the zone is set next. Raises ValueError if the text isn't an expression.
    """
    cron = parse(text)
    found = list(cron.warnings)
    first = next(zoned_due_times(text, zone, after), None)
    if first is None or first > after + _NEVER:
        return [*found, "It doesn't fire within 10 years."]
    return found + list(_clock_changes(cron, zone, after.astimezone(UTC)))


def _fixed(cron: Cron, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    last, since = after, after - _MOST_SET
    if _clock(since, zone) - since == _clock(after, zone) - after:
        since = after
    # Otherwise the clock may have been set forth since a time that is still due.
    for local in cron.times(_clock(since, zone)):
        found = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
        if found > last:
            last = found
            yield found


def _continuous(cron: Cron, zone: ZoneInfo, after: datetime) -> Iterator[datetime]:
    while True:
        clock = _clock(after, zone)
        ahead = clock - after
        local = next(cron.times(clock), None)
        if local is None:
            return
        found = local - ahead
        if _clock(found, zone) != local:
            # The clock is set in between: look again from there, with what it shows then.
            after = _change(zone, after, found) - timedelta(seconds=1)
            clock = _clock(after + timedelta(seconds=1), zone)
            local = next(cron.times(clock - timedelta(seconds=1)), None)
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


def _clock_changes(cron: Cron, zone: ZoneInfo, after: datetime) -> Iterator[str]:
    """Yield sentences about the next gap and overlap of the clock that it meets."""
    if cron.is_every_hour and len(cron.hours) == 24:
        return
    is_gap_told = is_overlap_told = False
    start = after.replace(microsecond=0)
    for number in range(_CHANGES_LOOKED_AT // _BETWEEN_CHANGES):
        before, end = start + number * _BETWEEN_CHANGES, start + (number + 1) * _BETWEEN_CHANGES
        if _clock(before, zone) - before == _clock(end, zone) - end:
            continue
        change = _change(zone, before, end)
        old = _clock(change - timedelta(seconds=1), zone) + timedelta(seconds=1)  # what the clock would show
        new = _clock(change, zone)
        met = next(cron.times(min(old, new) - timedelta(seconds=1)), None)
        if met is None or met >= max(old, new):
            continue
        date, time = f"{met.day} {met:%B %Y}", f"{met:%H:%M}"
        if new > old and not is_gap_told:
            is_gap_told = True
            effect = "it doesn't fire then" if cron.is_every_hour else f"it fires at {met + (new - old):%H:%M}"
            yield f"On {date}, the clock of {zone.key} skips {time}: {effect}."
        elif new < old and not is_overlap_told:
            is_overlap_told = True
            effect = "it fires both times" if cron.is_every_hour else "it fires the first time only"
            yield f"On {date}, the clock of {zone.key} shows {time} twice: {effect}."
