"""When nothing changes: windows on the clock of a zone, and the switch."""

import time
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest

from launchbay.errors import BadRequest
from launchbay.model.freezes import MOST_WINDOWS, Freeze, Freezes, FreezeWindow, check_windows
from launchbay.model.schedule import zoned_due_times
from launchbay.model.windows import Span

BERLIN = ZoneInfo("Europe/Berlin")
NIGHTS = FreezeWindow(reason="Nights", begins_at="20:00", ends_at="06:00", zone="Europe/Berlin")
HOLIDAYS = FreezeWindow(reason="Holidays", first_day="2026-12-20", last_day="2027-01-04", zone="Europe/Berlin")


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0, second: int = 0) -> datetime:
    """Return a time of Berlin."""
    return datetime(year, month, day, hour, minute, second, tzinfo=BERLIN).astimezone(UTC)


def of(*windows: FreezeWindow) -> Freezes:
    return Freezes(environment_windows=windows)


def test_days_begin_and_end_at_midnight_of_their_zone_and_both_are_included() -> None:
    freezes = of(HOLIDAYS)
    assert freezes.now(at(2026, 12, 19, 23, 59, 59)) is None
    state = freezes.now(at(2026, 12, 20))
    assert state is not None
    assert (state.reason, state.until, state.begins_at) == ("Holidays", at(2027, 1, 5), None)
    assert freezes.now(at(2027, 1, 4, 23, 59, 59)) is not None
    assert freezes.now(at(2027, 1, 5)) is None
    assert freezes.next(at(2027, 1, 5)) is None


def test_what_begins_next_is_known_with_its_end() -> None:
    state = of(HOLIDAYS).next(at(2026, 12, 1))
    assert state is not None
    assert (state.begins_at, state.until) == (at(2026, 12, 20), at(2027, 1, 5))


def test_only_a_freeze_that_begins_soon_is_shown_before() -> None:
    freezes = of(HOLIDAYS)
    assert freezes.shown(at(2026, 12, 18, 23)) is None
    shown = freezes.shown(at(2026, 12, 19, 1))
    assert shown is not None
    assert shown.begins_at == at(2026, 12, 20)


def test_a_freeze_lasts_until_no_window_holds_and_names_the_reasons_of_the_moment() -> None:
    freezes = of(NIGHTS, HOLIDAYS)
    # The night of the 19th reaches into the holidays, and their end lies in a night.
    state = freezes.now(at(2026, 12, 19, 21))
    assert state is not None
    assert (state.reason, state.until) == ("Nights", at(2027, 1, 5, 6))
    both = freezes.now(at(2026, 12, 24, 23))
    assert both is not None
    assert both.reason == "Nights · Holidays"


def test_windows_that_follow_each_other_without_a_gap_are_one_freeze() -> None:
    morning = FreezeWindow(reason="Morning", begins_at="06:00", ends_at="09:00", zone="Europe/Berlin")
    state = of(NIGHTS, morning).now(at(2026, 6, 1, 22))
    assert state is not None
    assert state.until == at(2026, 6, 2, 9)


def test_windows_without_any_gap_have_no_end() -> None:
    day = FreezeWindow(reason="Day", begins_at="06:00", ends_at="20:00", zone="Europe/Berlin")
    freezes = of(NIGHTS, day)
    state = freezes.now(at(2026, 6, 1, 22))
    assert state is not None
    assert state.until is None
    assert freezes.next(at(2026, 6, 1, 22)) is None


def test_an_end_in_each_minute_hides_no_begin_that_is_hours_away() -> None:
    state = of(FreezeWindow(reason="x", begins_at="0 0 * * *", ends_at="1-59 * * * *")).next(
        datetime(2026, 6, 1, 1, tzinfo=UTC)
    )
    assert state is not None
    assert (state.begins_at, state.until) == (datetime(2026, 6, 2, tzinfo=UTC), datetime(2026, 6, 2, 0, 1, tzinfo=UTC))


def test_windows_that_alternate_for_ever_are_answered_without_looking_at_each() -> None:
    # In one process with all requests, which took a minute.
    alternating = [
        FreezeWindow(reason="x", begins_at=f"{minute}-59/5 * * * *", ends_at=f"{minute - 1}-59/5 * * * *")
        for minute in (1, 3)
    ]
    check_windows(alternating, at(2026, 6, 1))
    begun_s = time.process_time()
    state = of(*alternating).now(at(2026, 6, 1, 12, 3))
    assert state is not None
    assert state.until is None
    assert time.process_time() - begun_s < 5


@pytest.mark.parametrize("minute", [0, 7, 59])
@pytest.mark.parametrize("ends", ["*/5 0-22 * * *", "* * * * *", "0-58 0-11 * * *", "06:00", "0 0 1 * *"])
def test_the_last_end_is_the_last_of_all(ends: str, minute: int) -> None:
    now = at(2026, 6, 2, 23, minute, 30)
    span = Span("0 0 1 1 *", ends, (), "Europe/Berlin")
    cron = "0 6 * * *" if ends == "06:00" else ends
    since = now - timedelta(days=40 if ends.endswith("1 * *") else 1)
    every = list(takewhile(lambda each: each <= now, zoned_due_times(cron, BERLIN, since)))
    assert span.last_end(now) == every[-1]


@pytest.mark.parametrize(
    ("begins", "expected"),
    [
        # The clock is set from 2:00 to 3:00: the begin is as much later.
        ("02:30", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("03:00", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
    ],
)
def test_a_begin_that_the_clock_skips_is_as_much_later(begins: str, expected: datetime) -> None:
    window = FreezeWindow(reason="x", begins_at=begins, ends_at="05:00", zone="Europe/Berlin")
    state = of(window).next(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert state is not None
    assert state.begins_at == expected
    assert state.until == at(2026, 3, 29, 5)


def test_a_night_in_which_the_clock_is_set_back_is_an_hour_longer() -> None:
    state = of(NIGHTS).now(at(2026, 10, 24, 23))
    assert state is not None
    assert state.until == at(2026, 10, 25, 6)
    begin = of(NIGHTS).next(at(2026, 10, 24, 12))
    assert begin is not None
    assert begin.begins_at is not None
    assert state.until - begin.begins_at == timedelta(hours=11)


def test_the_switch_counts_before_windows_and_the_longest_freeze_is_said() -> None:
    switch = Freeze(reason="Incident", by_id="a" * 24, at_ms=1_000)
    now = at(2026, 12, 24)
    state = Freezes(switch, (HOLIDAYS,)).now(now)
    assert state is not None
    assert (state.kind, state.reason, state.until, state.by_id) == ("environment", "Incident", None, "a" * 24)
    both = Freezes(environment_windows=(NIGHTS,), application=switch).now(at(2026, 12, 24, 23))
    assert both is not None
    assert both.kind == "application"


def test_a_window_in_the_past_may_stay() -> None:
    check_windows([HOLIDAYS], at(2030, 1, 1))
    assert of(HOLIDAYS).shown(at(2030, 1, 1)) is None


@pytest.mark.parametrize(
    ("window", "said"),
    [
        (FreezeWindow(reason=" ", first_day="2026-12-20", last_day="2026-12-21"), "reason: give 1 to"),
        (FreezeWindow(reason="x"), "either beginsAt and endsAt, or firstDay and lastDay"),
        (FreezeWindow(reason="x", begins_at="20:00", ends_at="06:00", first_day="2026-12-20"), "either"),
        (FreezeWindow(reason="x", begins_at="20:00"), "endsAt: give a time"),
        (FreezeWindow(reason="x", days=("MON",)), "beginsAt: give a time"),
        (FreezeWindow(reason="x", begins_at="25:00", ends_at="06:00"), "beginsAt: '25:00' isn't a time of day"),
        (FreezeWindow(reason="x", begins_at="20:00", ends_at="20:00"), "beginsAt and endsAt are the same time"),
        (FreezeWindow(reason="x", begins_at="* * * * *", ends_at="06:00"), "more often than every 5 minutes"),
        (FreezeWindow(reason="x", begins_at="nonsense", ends_at="06:00"), "nonsense"),
        (FreezeWindow(reason="x", begins_at="20:00", ends_at="06:00", days=("FRI", "FRI")), "each day once"),
        (FreezeWindow(reason="x", first_day="2026-12-20"), "lastDay: '' isn't a day"),
        (FreezeWindow(reason="x", first_day="2026-02-30", last_day="2026-03-01"), "firstDay: '2026-02-30'"),
        (FreezeWindow(reason="x", first_day="20261220", last_day="2026-12-21"), "firstDay: '20261220'"),
        (FreezeWindow(reason="x", first_day="2026-12-20", last_day="2026-12-19"), "lastDay: it is before firstDay"),
        (FreezeWindow(reason="x", first_day="2026-12-20", last_day="2026-12-21", zone="Mars/One"), "Mars/One"),
        (FreezeWindow(reason="x", first_day="9999-12-30", last_day="9999-12-31"), "lastDay"),
        (FreezeWindow(reason="x", first_day="0001-01-01", last_day="2026-12-31", zone="Asia/Tokyo"), "firstDay"),
    ],
)
def test_a_window_that_cannot_be_is_refused_with_its_field(window: FreezeWindow, said: str) -> None:
    with pytest.raises(BadRequest) as raised:
        check_windows([window], at(2026, 12, 1))
    assert (raised.value.code, said in str(raised.value)) == ("InvalidFreeze", True), raised.value


def test_there_are_not_too_many_windows() -> None:
    with pytest.raises(BadRequest, match="21 windows"):
        check_windows([HOLIDAYS] * (MOST_WINDOWS + 1), at(2026, 12, 1))
