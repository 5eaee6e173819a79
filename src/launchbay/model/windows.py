"""Times that return, such as the nights of working days. Pure.

Times follow the clock of a zone, as those of recurring schedules do (`model/schedule.py`): a begin or end that doesn't
exist, because the clock is set forth, is as much later as it was set; one that comes twice counts the first time.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, pairwise, takewhile
from typing import NamedTuple

from launchbay.model.schedule import zone_of, zoned_due_times

DAYS = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")
_TIME = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)")
_SHORTEST = timedelta(minutes=5)  # between two begins
_FEW = 4
_LOOKED_BACK = (timedelta(minutes=15), *(timedelta(days=days) for days in (1, 8, 35, 370)))


class Span(NamedTuple):
    """A time that returns, from `begins_at` to `ends_at`.

    Each is a time such as 20:00, or a cron expression. `days` are those on which a time begins, all by default; an end
    that isn't later in the day is on the next one.
    """

    begins_at: str
    ends_at: str
    days: tuple[str, ...]
    zone: str

    def check(self, now: datetime, begin_field: str, end_field: str) -> None:
        """Raise ValueError for a span that can't be.

        The fields are as its reader knows them.
        """
        for name, text in ((begin_field, self.begins_at), (end_field, self.ends_at)):
            if ":" in text and not _TIME.fullmatch(text):  # no cron expression has a colon
                raise ValueError(
                    f"{name}: {text[:40]!r} isn't a time of day. Use 00:00 to 23:59, or a cron expression."
                )
        unknown = [day for day in self.days if day not in DAYS]
        if unknown:
            raise ValueError(f"Unknown day {unknown[0]!r}. Valid days: {', '.join(DAYS)}.")
        if len(self.days) > len(set(self.days)):
            raise ValueError("days: name each day once.")
        if self.days and not _TIME.fullmatch(self.begins_at):
            raise ValueError("days are for times such as 20:00; name the days in the cron expression.")
        begins, ends = (list(islice(self._times(each, now), 3)) for each in self._crons())
        if not begins or not ends:
            raise ValueError("The window has no begin or no end in the future.")
        if begins == ends:
            raise ValueError(f"{begin_field} and {end_field} are the same time.")
        if any(later - earlier < _SHORTEST for earlier, later in pairwise(begins)):
            raise ValueError("The window begins more often than every 5 minutes.")

    def contains(self, now: datetime) -> bool:
        """Return whether the last begin is later than the last end."""
        begin, end = self._last(self._crons()[0], now), self.last_end(now)
        return begin is not None and (end is None or begin > end)

    def last_end(self, now: datetime) -> datetime | None:
        """Return the last end until a time, of about a year."""
        return self._last(self._crons()[1], now)

    def next_begin(self, now: datetime) -> datetime | None:
        """Return the first begin after a time."""
        return next(self._times(self._crons()[0], now), None)

    def next_end(self, now: datetime) -> datetime | None:
        """Return the first end after a time."""
        return next(self._times(self._crons()[1], now), None)

    def next_bound(self, now: datetime) -> datetime | None:
        """Return the next begin or end."""
        return min((each for each in (self.next_begin(now), self.next_end(now)) if each is not None), default=None)

    def _crons(self) -> tuple[str, str]:
        begin, end = _TIME.fullmatch(self.begins_at), _TIME.fullmatch(self.ends_at)
        days = [day for day in DAYS if day in self.days]
        if begin is not None and end is not None and (int(end[1]), end[2]) <= (int(begin[1]), begin[2]):
            following = [DAYS[(DAYS.index(day) + 1) % 7] for day in days]
        else:
            following = days
        return (
            self.begins_at if begin is None else _daily(begin, days),
            self.ends_at if end is None else _daily(end, following),
        )

    def _times(self, cron: str, after: datetime) -> Iterator[datetime]:
        return zoned_due_times(cron, zone_of(self.zone), after)

    def _last(self, cron: str, now: datetime) -> datetime | None:
        for back in _LOOKED_BACK:
            found = list(takewhile(lambda each: each <= now, islice(self._times(cron, now - back), _FEW)))
            if found:
                return found[-1] if len(found) < _FEW else self._last_from(found[-1], cron, now)
        return None

    def _last_from(self, last: datetime, cron: str, now: datetime) -> datetime:
        """Search by halves: there may be one each minute of a day."""
        none_after = now
        while none_after - last >= timedelta(seconds=1):
            middle = last + (none_after - last) / 2
            found = next(self._times(cron, middle), None)
            if found is None or found > now:
                none_after = middle
            else:
                last = found
        return last


def _daily(time: re.Match[str], days: list[str]) -> str:
    return f"{int(time[2])} {int(time[1])} * * {','.join(days) or '*'}"
