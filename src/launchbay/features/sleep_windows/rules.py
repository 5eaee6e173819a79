"""Sleep windows: the times in which instances are stopped. Pure.

Times follow the clock of a zone, as those of recurring schedules do (`model/schedule.py`): a begin or end that doesn't
exist, because the clock is set forth, is as much later as it was set; one that comes twice counts the first time.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import Literal

import msgspec

from launchbay.errors import BadRequest
from launchbay.model.schedule import zone_of, zoned_due_times

DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
MOST_WINDOWS = 20
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_SHORTEST = timedelta(minutes=5)  # between two begins
_LOOKED_BACK = tuple(timedelta(days=days) for days in (1, 8, 35, 370))
_CHANGES_SEARCHED = 1_000


class SleepWindow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time that returns, from `sleep_at` to `wake_at`.

    Each is a time such as 20:00, or a cron expression. `days` are those on which a time begins, all by default; an end
    that isn't later in the day is on the next one.
    """

    sleep_at: str
    wake_at: str
    days: tuple[str, ...] = ()
    zone: str = "UTC"

    def check(self, now: datetime) -> None:
        """Raise BadRequest for a window that can't be."""
        for name, text in (("sleepAt", self.sleep_at), ("wakeAt", self.wake_at)):
            if ":" in text and not _TIME.fullmatch(text):  # no cron expression has a colon
                raise _wrong(f"{name}: {text[:40]!r} isn't a time of day. Use 00:00 to 23:59, or a cron expression.")
        unknown = [day for day in self.days if day not in DAYS]
        if unknown:
            raise _wrong(f"Unknown day {unknown[0]!r}. Valid days: {', '.join(DAYS)}.")
        if self.days and not _TIME.fullmatch(self.sleep_at):
            raise _wrong("days are for times such as 20:00; name the days in the cron expression.")
        try:
            begins, ends = (list(islice(self._times(each, now), 3)) for each in self._crons())
        except ValueError as error:
            raise _wrong(f"{error}") from error
        if not begins or not ends:
            raise _wrong("The window has no begin or no end in the future.")
        if begins == ends:
            raise _wrong("sleepAt and wakeAt are the same time.")
        if any(later - earlier < _SHORTEST for earlier, later in pairwise(begins)):
            raise _wrong("The window begins more often than every 5 minutes.")

    def contains(self, now: datetime) -> bool:
        """Return whether the last begin is later than the last end."""
        begin, end = (self._last(each, now) for each in self._crons())
        return begin is not None and (end is None or begin > end)

    def next_bound(self, now: datetime) -> datetime | None:
        """Return the next begin or end."""
        found = [next(self._times(each, now), None) for each in self._crons()]
        return min((each for each in found if each is not None), default=None)

    def _crons(self) -> tuple[str, str]:
        begin, end = _TIME.fullmatch(self.sleep_at), _TIME.fullmatch(self.wake_at)
        days = [day for day in DAYS if day in self.days]
        if begin is not None and end is not None and (int(end[1]), end[2]) <= (int(begin[1]), begin[2]):
            following = [DAYS[(DAYS.index(day) + 1) % 7] for day in days]
        else:
            following = days
        return (
            self.sleep_at if begin is None else _daily(begin, days),
            self.wake_at if end is None else _daily(end, following),
        )

    def _times(self, cron: str, after: datetime) -> Iterator[datetime]:
        return zoned_due_times(cron, zone_of(self.zone), after)

    def _last(self, cron: str, now: datetime) -> datetime | None:
        for back in _LOOKED_BACK:
            found = list(takewhile(lambda each: each <= now, self._times(cron, now - back)))
            if found:
                return found[-1]
        return None


class SleepRules(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When instances sleep, and the workflows at the bounds of windows.

    Without names, these are the commands `stop` and `start`. An application without windows doesn't sleep with its
    environment.
    """

    windows: tuple[SleepWindow, ...] = ()
    stop: str = ""
    start: str = ""
    when_busy: Literal["queue", "skip"] = "queue"

    def check_count(self) -> None:
        """Raise BadRequest for more windows than rules may have."""
        if len(self.windows) > MOST_WINDOWS:
            raise _wrong(f"There are {len(self.windows)} windows; give {MOST_WINDOWS} at most.")

    def check(self, now: datetime) -> None:
        """Raise BadRequest for rules that no instance can follow."""
        self.check_count()
        if (self.stop == "") != (self.start == "") or (self.stop and self.stop == self.start):
            raise _wrong("Name both workflows, stop and start, or none of them.")
        if {"launch", "destroy"} & {self.stop, self.start}:
            raise _wrong("The workflows launch and destroy don't stop or start an instance.")
        for window in self.windows:
            window.check(now)

    def is_asleep(self, now: datetime) -> bool:
        """Return whether an instance sleeps that nobody keeps awake."""
        return any(window.contains(now) for window in self.windows)

    def next_bound(self, now: datetime) -> datetime | None:
        """Return the next time at which a window begins or ends."""
        found = [window.next_bound(now) for window in self.windows]
        return min((each for each in found if each is not None), default=None)

    def next_change(self, now: datetime, *, to_sleep: bool) -> datetime | None:
        """Return when an instance sleeps or wakes next; windows may overlap."""
        at: datetime | None = now
        for _ in range(_CHANGES_SEARCHED):
            at = self.next_bound(at) if at is not None else None
            if at is None or self.is_asleep(at) == to_sleep:
                return at
        return None


def _daily(time: re.Match[str], days: list[str]) -> str:
    return f"{int(time[2])} {int(time[1])} * * {','.join(days) or '*'}"


def _wrong(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidSleepWindow")
