"""When nothing changes in an environment or of an application: a switch, and windows. Pure.

Both are columns of environments and applications. Statements give them together, as the JSON that `read_freezes`
reads, so that every list and page says the same.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from typing import NamedTuple

import msgspec

from launchbay import limits
from launchbay.errors import BadRequest
from launchbay.model.changes import FrozenKind
from launchbay.model.schedule import zone_of
from launchbay.model.windows import Span

MOST_WINDOWS = 20
SOON = timedelta(hours=24)  # a freeze that begins within is shown before
FROZEN = ("EnvironmentFrozen", "ApplicationFrozen")  # the codes of refusals
CODES: Mapping[FrozenKind, str] = dict(zip(("environment", "application"), FROZEN, strict=True))
_MOST_JUMPS = 25  # from one window to the next: each costs milliseconds in which nobody else is served
_YEARS = range(1970, 2200)  # as of cron expressions
_FOREVER = datetime.max.replace(tzinfo=UTC)


class Freeze(msgspec.Struct, frozen=True, kw_only=True):
    """The switch: why nothing changes, who said so, and since when."""

    reason: str
    by_id: str
    at_ms: int


class FreezeWindow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A time in which nothing changes, and why.

    It either returns, from `begins_at` to `ends_at` as sleep windows do, or lasts from `first_day` to `last_day`, such
    as 2026-12-20, both included. Days begin and end on the clock of the zone.
    """

    reason: str
    begins_at: str = ""
    ends_at: str = ""
    days: tuple[str, ...] = ()
    first_day: str = ""
    last_day: str = ""
    zone: str = "UTC"

    def check(self, now: datetime) -> None:
        """Raise BadRequest for a window that can't be. One in the past may stay."""
        check_reason(self.reason)
        is_dated, returns = bool(self.first_day or self.last_day), bool(self.begins_at or self.ends_at or self.days)
        if is_dated == returns:
            raise _wrong("A window has either beginsAt and endsAt, or firstDay and lastDay.")
        for name, text in (("beginsAt", self.begins_at), ("endsAt", self.ends_at)):
            if returns and not text:
                raise _wrong(f"{name}: give a time such as 20:00, or a cron expression.")
        try:
            if returns:
                self._span.check(now, "beginsAt", "endsAt")
                return
            zone_of(self.zone)
        except ValueError as error:
            raise _wrong(str(error)) from error
        if _day("lastDay", self.last_day) < _day("firstDay", self.first_day):
            raise _wrong("lastDay: it is before firstDay.")

    def contains(self, now: datetime) -> bool:
        """Return whether nothing changes at a time."""
        if not self.first_day:
            return self._span.contains(now)
        begin, end = self._dated
        return begin <= now < end

    def next_begin(self, now: datetime) -> datetime | None:
        """Return the first begin after a time."""
        if not self.first_day:
            return self._span.next_begin(now)
        begin, _ = self._dated
        return begin if begin > now else None

    def next_end(self, now: datetime) -> datetime | None:
        """Return the first end after a time."""
        if not self.first_day:
            return self._span.next_end(now)
        _, end = self._dated
        return end if end > now else None

    @property
    def _span(self) -> Span:
        return Span(self.begins_at, self.ends_at, self.days, self.zone)

    @property
    def _dated(self) -> tuple[datetime, datetime]:
        """The midnights, as `Span` has those that the clock skips or shows twice."""
        days = date.fromisoformat(self.first_day), date.fromisoformat(self.last_day) + timedelta(days=1)
        begin, end = (datetime.combine(each, time(), zone_of(self.zone)) for each in days)
        return begin.astimezone(UTC), end.astimezone(UTC)


class FreezeState(NamedTuple):
    """A freeze that is, or that begins.

    `begins_at` is None for one that is. `until` is None for the switch, which `by_id` set at `since_ms`, and for
    windows that follow each other without end.
    """

    kind: FrozenKind
    reason: str
    until: datetime | None = None
    begins_at: datetime | None = None
    by_id: str | None = None
    since_ms: int | None = None


class Freezes(msgspec.Struct, frozen=True, array_like=True):
    """The switches and windows of an environment and an application."""

    environment: Freeze | None = None
    environment_windows: tuple[FreezeWindow, ...] | None = None
    application: Freeze | None = None
    application_windows: tuple[FreezeWindow, ...] | None = None

    def now(self, now: datetime) -> FreezeState | None:
        """Return the freeze at a time; None if changes are allowed."""
        found = [state for kind, freeze, windows in self._each() if (state := _state(kind, freeze, windows, now))]
        return max(found, key=lambda each: each.until or _FOREVER, default=None)  # which somebody waits for

    def next(self, now: datetime) -> FreezeState | None:
        """Return the window that begins next, of what isn't frozen."""
        found = [
            state
            for kind, freeze, windows in self._each()
            if freeze is None and (state := _next(kind, windows, now)) is not None
        ]
        return min(found, key=lambda each: each.begins_at or now, default=None)

    def _each(self) -> Iterator[tuple[FrozenKind, Freeze | None, Sequence[FreezeWindow]]]:
        yield "environment", self.environment, self.environment_windows or ()
        yield "application", self.application, self.application_windows or ()

    def shown(self, now: datetime) -> FreezeState | None:
        """Return what lists say: the freeze that is, or one that begins soon."""
        state = self.now(now) or self.next(now)
        return None if state is None or (state.begins_at or now) > now + SOON else state


NO_FREEZES = Freezes()
_decode = msgspec.json.Decoder(Freezes).decode
read_freeze = msgspec.json.Decoder(Freeze).decode
read_windows = msgspec.json.Decoder(tuple[FreezeWindow, ...]).decode


def read_freezes(text: str | None) -> Freezes:
    """Return the freezes of a statement's column, which is None for most objects."""
    return NO_FREEZES if text is None else _decode(text)


@lru_cache(maxsize=256)  # the rows of a list have the same few, at the same time
def shown_freeze(text: str | None, now: datetime) -> FreezeState | None:
    """Return `Freezes.shown` of a statement's column."""
    return read_freezes(text).shown(now)


def words(state: FreezeState) -> str:
    """Return what a freeze is, such as `frozen until 2027-01-05T00:00:00Z: holidays`."""
    until = "" if state.until is None else state.until.strftime(" until %Y-%m-%dT%H:%M:%SZ")
    return f"frozen{until}: {state.reason}"


def check_windows(windows: Sequence[FreezeWindow], now: datetime) -> None:
    """Raise BadRequest for windows that can't be."""
    if len(windows) > MOST_WINDOWS:
        raise _wrong(f"There are {len(windows)} windows; give {MOST_WINDOWS} at most.")
    for window in windows:
        window.check(now)


def check_reason(reason: str) -> str:
    """Return the reason without surrounding whitespace. Raises BadRequest."""
    reason = reason.strip()
    if not reason or len(reason) > limits.CHANGE_SET_COMMENT_CHARS:
        raise _wrong(
            f"reason: give 1 to {limits.CHANGE_SET_COMMENT_CHARS} characters. Everyone who is refused sees them."
        )
    return reason


def override_reason(text: str) -> str:
    """Return why somebody changes what is frozen. Raises BadRequest."""
    text = text.strip()
    if "\0" in text:
        raise BadRequest("The reason of an override contains a NUL character; remove it.", code="InvalidOverride")
    if not text or len(text) > limits.CHANGE_SET_COMMENT_CHARS:
        raise BadRequest(
            f"Give 1 to {limits.CHANGE_SET_COMMENT_CHARS} characters as the reason of an override.",
            code="InvalidOverride",
        )
    return text


def windows_state(kind: FrozenKind, windows: Sequence[FreezeWindow], now: datetime) -> FreezeState | None:
    """Return the freeze by windows at a time.

    It lasts until no window holds any more: they may overlap.
    """
    reasons = dict.fromkeys(window.reason for window in windows if window.contains(now))
    return FreezeState(kind, " · ".join(reasons), _free_from(windows, now)) if reasons else None


def _state(
    kind: FrozenKind, freeze: Freeze | None, windows: Sequence[FreezeWindow], now: datetime
) -> FreezeState | None:
    if freeze is not None:
        return FreezeState(kind, freeze.reason, by_id=freeze.by_id, since_ms=freeze.at_ms)
    return windows_state(kind, windows, now)


def _next(kind: FrozenKind, windows: Sequence[FreezeWindow], now: datetime) -> FreezeState | None:
    at = _free_from(windows, now)
    for _ in range(_MOST_JUMPS):
        begins = [] if at is None else [each for window in windows if (each := window.next_begin(at)) is not None]
        if not begins:
            break
        at = min(begins)
        if (state := windows_state(kind, windows, at)) is not None:  # else it ends in the same moment
            return state._replace(begins_at=at)
    return None


def _free_from(windows: Sequence[FreezeWindow], now: datetime) -> datetime | None:
    """Return the first time from `now` on in which no window holds.

    None: they follow each other without end, or for very long.
    """
    at = now
    for _ in range(_MOST_JUMPS):
        ends = [window.next_end(at) for window in windows if window.contains(at)]
        known = [each for each in ends if each is not None]
        if not ends:
            return at
        if len(known) < len(ends):
            return None
        at = max(known)
    return None


def _day(field: str, text: str) -> date:
    try:
        if len(text) == len("2026-12-20") and (found := date.fromisoformat(text)).year in _YEARS:
            return found
    except ValueError:
        pass
    raise _wrong(f"{field}: {text[:40]!r} isn't a day from 1970 to 2199. Use the form 2026-12-20.")


def _wrong(message: str) -> BadRequest:
    return BadRequest(message, code="InvalidFreeze")
