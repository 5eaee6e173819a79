"""Quartz schedules are due when Quartz says so."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.schedule import (
    count_due_times,
    daily_due_times,
    due_times,
    next_due,
    schedule_warnings,
    zone_of,
    zoned_due_times,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = zone_of("Europe/Berlin")


def first(text: str, count: int = 3, after: datetime = START) -> list[str]:
    times = due_times(text, after)
    return [next(times).strftime("%Y-%m-%d %H:%M:%S") for _ in range(count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 30 4 * * ?", ["2026-01-01 04:30:00", "2026-01-02 04:30:00", "2026-01-03 04:30:00"]),
        ("*/20 * * * * ?", ["2026-01-01 00:00:20", "2026-01-01 00:00:40", "2026-01-01 00:01:00"]),
        ("0 0 12 ? * 2", ["2026-01-05 12:00:00", "2026-01-12 12:00:00", "2026-01-19 12:00:00"]),
        ("0 0 12 ? * MON-FRI", ["2026-01-01 12:00:00", "2026-01-02 12:00:00", "2026-01-05 12:00:00"]),
        ("0 0 12 ? * 2-6", ["2026-01-01 12:00:00", "2026-01-02 12:00:00", "2026-01-05 12:00:00"]),
        ("0 0 12 ? * 6#2", ["2026-01-09 12:00:00", "2026-02-13 12:00:00", "2026-03-13 12:00:00"]),
        ("0 0 12 ? * 6L", ["2026-01-30 12:00:00", "2026-02-27 12:00:00", "2026-03-27 12:00:00"]),
        ("0 0 12 L * ?", ["2026-01-31 12:00:00", "2026-02-28 12:00:00", "2026-03-31 12:00:00"]),
        ("0 0 12 L-2 * ?", ["2026-01-29 12:00:00", "2026-02-26 12:00:00", "2026-03-29 12:00:00"]),
        ("0 0 12 LW * ?", ["2026-01-30 12:00:00", "2026-02-27 12:00:00", "2026-03-31 12:00:00"]),
        ("0 0 12 1W * ?", ["2026-01-01 12:00:00", "2026-02-02 12:00:00", "2026-03-02 12:00:00"]),
        ("0 0 12 1 JAN ? 2027-2030/2", ["2027-01-01 12:00:00", "2029-01-01 12:00:00"]),
    ],
)
def test_the_next_times_are_those_of_quartz(text: str, expected: list[str]) -> None:
    assert first(text, len(expected)) == expected


def test_an_expression_whose_years_are_over_is_never_due() -> None:
    assert next_due("0 0 12 * * ? 2020", START) is None


@pytest.mark.parametrize(
    "text", ["", "* * * * *", "0 0 12 * * ? 2020 9", "x 0 12 * * ?", "0 0 12 * * ? twenty", "0 0 12 30 FEB ?"]
)
def test_what_is_no_schedule_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"schedule"):
        next_due(text, START)


@given(st.integers(0, 315_000_000), st.integers(0, 59), st.integers(0, 23))
def test_a_daily_schedule_is_always_due_within_a_day(moment_s: int, minute: int, hour: int) -> None:
    after = datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=moment_s)
    due = next_due(f"0 {minute} {hour} * * ?", after)
    assert due is not None
    assert after < due <= after + timedelta(days=1)
    assert (due.hour, due.minute, due.second) == (hour, minute, 0)


def berlin(text: str, after: str, count: int = 4) -> list[str]:
    start = datetime.fromisoformat(after).replace(tzinfo=BERLIN)
    times = islice(zoned_due_times(text, BERLIN, start), count)
    return [each.astimezone(BERLIN).isoformat()[5:] for each in times]


def test_a_fixed_hour_follows_the_clock_of_the_zone() -> None:
    assert berlin("0 7 * * *", "2026-03-28T12:00", 2) == ["03-29T07:00:00+02:00", "03-30T07:00:00+02:00"]
    assert berlin("0 7 * * *", "2026-10-24T12:00", 2) == ["10-25T07:00:00+01:00", "10-26T07:00:00+01:00"]


def test_a_time_that_does_not_exist_is_later_and_one_that_comes_twice_fires_once() -> None:
    assert berlin("30 2 * * *", "2026-03-28T12:00", 2) == ["03-29T03:30:00+02:00", "03-30T02:30:00+02:00"]
    assert berlin("30 2 * * *", "2026-03-29T03:10", 1) == ["03-29T03:30:00+02:00"]
    assert berlin("30 2 * * *", "2026-10-24T12:00", 2) == ["10-25T02:30:00+02:00", "10-26T02:30:00+01:00"]


def test_every_half_hour_goes_on_through_changes_of_the_clock() -> None:
    assert berlin("0/30 * * * *", "2026-03-29T01:00") == [
        "03-29T01:30:00+01:00",
        "03-29T03:00:00+02:00",
        "03-29T03:30:00+02:00",
        "03-29T04:00:00+02:00",
    ]
    assert berlin("0/30 * * * *", "2026-10-25T01:45", 6) == [
        "10-25T02:00:00+02:00",
        "10-25T02:30:00+02:00",
        "10-25T02:00:00+01:00",
        "10-25T02:30:00+01:00",
        "10-25T03:00:00+01:00",
        "10-25T03:30:00+01:00",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "UTC"]
)
def test_the_times_of_an_hourly_expression_are_an_hour_apart_but_for_odd_changes(zone: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    times = list(islice(zoned_due_times("0 * * * *", zone_of(zone), start), 24 * 366))
    apart = Counter((later - earlier).total_seconds() / 60 for earlier, later in pairwise(times))
    assert set(apart) <= ({60.0} if zone != "Australia/Lord_Howe" else {30.0, 60.0, 90.0})
    assert all(each.astimezone(zone_of(zone)).minute == 0 for each in times)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@given(
    text=st.sampled_from(
        [
            "* * * * *",
            "*/7 * * * *",
            "30 2 * * *",
            "0 */5 * * SUN",
            "15,45 1-3 29 3 *",
            "20/30 10 * ? * *",
            "5 2,3 L * *",
        ]
    ),
    start=st.integers(0, 366 * 86_400),
    length=st.integers(0, 3 * 86_400),
)
def test_counting_the_times_of_days_is_as_taking_each(zone: str, text: str, start: int, length: int) -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=start)
    until = since + timedelta(seconds=length)
    each = zoned_due_times(text, zone_of(zone), since - timedelta(microseconds=1))
    taken = list(takewhile(lambda at: at < until, each))
    assert count_due_times(text, zone_of(zone), since, until) == len(taken)
    days = Counter(at.date() for at in taken)
    found = list(daily_due_times(text, zone_of(zone), since - timedelta(microseconds=1), until))
    assert [(at.date(), count) for at, count in found] == sorted(days.items())
    assert {at for at, _ in found} <= set(taken)


NOW = datetime(2026, 11, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "zone", "warnings"),
    [
        ("0 7 * * MON-FRI", "Europe/Berlin", []),
        ("*/15 * * * *", "Europe/Berlin", []),
        (
            "30 2 * * *",
            "Europe/Berlin",
            [
                "On 28 March 2027, the clock of Europe/Berlin skips 02:30: it fires at 03:30.",
                "On 31 October 2027, the clock of Europe/Berlin shows 02:30 twice: it fires the first time only.",
            ],
        ),
        (
            "0 */2 * * *",
            "Europe/Berlin",
            [
                "On 28 March 2027, the clock of Europe/Berlin skips 02:00: it doesn't fire then.",
                "On 31 October 2027, the clock of Europe/Berlin shows 02:00 twice: it fires both times.",
            ],
        ),
        ("30 2 * * *", "UTC", []),
        (
            "0 0 * * *",
            "America/Santiago",
            ["On 5 September 2027, the clock of America/Santiago skips 00:00: it fires at 01:00."],
        ),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            ["On 3 October 2027, the clock of Australia/Lord_Howe skips 02:15: it fires at 02:45."],
        ),
        ("0 9 13 * FRI", "UTC", ["Day of month 13 and day of week FRI: it fires on days that match either of them."]),
        ("0 0 0 1 1 ? 2020", "UTC", ["It doesn't fire within 10 years."]),
        ("0 0 0 29 2 ? 2099", "UTC", ["It doesn't fire within 10 years."]),
    ],
)
def test_what_an_author_may_not_expect_has_a_sentence(text: str, zone: str, warnings: list[str]) -> None:
    assert schedule_warnings(text, zone_of(zone), NOW) == warnings


def test_what_the_warnings_say_of_a_change_is_what_happens() -> None:
    """The sentence and the times come from different code."""
    assert berlin("30 2 * * *", "2027-03-28T00:00", 1) == ["03-28T03:30:00+02:00"]
    assert berlin("0 */2 * * *", "2027-03-28T01:00", 1) == ["03-28T04:00:00+02:00"]
    assert berlin("30 2 * * *", "2027-10-31T00:00", 2) == ["10-31T02:30:00+02:00", "11-01T02:30:00+01:00"]
    assert berlin("0 */2 * * *", "2027-10-31T01:00", 2) == ["10-31T02:00:00+02:00", "10-31T02:00:00+01:00"]


def test_an_unknown_zone_is_named() -> None:
    unknown = ("Europe/Nowhere", "../etc/passwd", "", "a" * 5_000, "localtime", "posixrules", "right/UTC", "Factory")
    for name in unknown:
        with pytest.raises(ValueError, match="Unknown time zone"):
            zone_of(name)
