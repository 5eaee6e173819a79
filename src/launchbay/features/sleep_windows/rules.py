"""Sleep windows: the times in which instances are stopped. Pure."""

from datetime import datetime
from typing import Literal

import msgspec

from launchbay.errors import BadRequest
from launchbay.model.windows import Span

MOST_WINDOWS = 20
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
        try:
            self._span.check(now, "sleepAt", "wakeAt")
        except ValueError as error:
            raise _wrong(str(error)) from error

    def contains(self, now: datetime) -> bool:
        """Return whether the last begin is later than the last end."""
        return self._span.contains(now)

    def next_bound(self, now: datetime) -> datetime | None:
        """Return the next begin or end."""
        return self._span.next_bound(now)

    @property
    def _span(self) -> Span:
        return Span(self.sleep_at, self.wake_at, self.days, self.zone)


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


def _wrong(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidSleepWindow")
