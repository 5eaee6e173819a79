"""Quartz schedules are due when Quartz says so."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.model.schedule import due_times, next_due

START = datetime(2026, 1, 1, tzinfo=UTC)


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
