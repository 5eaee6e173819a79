import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay import limits
from launchbay.model.durations import parse_duration_s


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (0, 0), (90, 90), (1.5, 1.5), ("90", 90), (" 1.5 ", 1.5), ("2 minutes", 120), ("20 minute", 1200),
        ("20\nminute", 1200), ("5m", 300), ("5 MIN", 300), ("1 hour 30 minutes", 5400), ("1h30m", 5400),
        ("1 hour, 30 minutes", 5400), ("1 hour and 30 minutes", 5400), ("500 ms", 0.5), ("250 milliseconds", 0.25),
        ("0.5 hours", 1800), ("1 day", 86400), ("10 secs", 10), ("3s", 3), ("2 hrs", 7200), ("0 seconds", 0),
    ],
)  # fmt: skip
def test_what_people_write_is_read(value: Any, seconds: float) -> None:
    assert parse_duration_s(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    [
        None, True, "", " ", "soon", "5 apples", "minutes", "1 hour,", "1 hour and", "1,5 hours", "1e3", "٣", "5 ſ",
        "--1", "- 1", "1 2", "inf", "nan", math.inf, math.nan, [], {}, ["5"], "9" * 200, "1 " * 200,
    ],
)  # fmt: skip
def test_what_is_no_duration_is_refused_with_an_example(value: Any) -> None:
    with pytest.raises(ValueError, match=r"not a duration\. Expected .*2 minutes"):
        parse_duration_s(value)


@pytest.mark.parametrize("value", [-1, -0.5, "-1", "-3.5"])
def test_a_negative_duration_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        parse_duration_s(value)


@pytest.mark.parametrize("value", ["8 days", 10**40, 1e300, "9" * 90, limits.WAIT_LONGEST_S + 1])
def test_a_duration_beyond_the_bound_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="longer than the maximum of 604800 seconds"):
        parse_duration_s(value)


def test_the_bound_may_be_another() -> None:
    assert parse_duration_s(10, longest_s=10) == 10
    with pytest.raises(ValueError, match="longer than the maximum of 10 seconds"):
        parse_duration_s("11", longest_s=10)


@given(st.integers(0, 99), st.integers(0, 59), st.integers(0, 59), st.sampled_from(["", " ", ", ", " and "]))
def test_parts_add_up(hours: int, minutes: int, seconds: int, between: str) -> None:
    text = between.join([f"{hours} hours", f"{minutes} minutes", f"{seconds}s"])

    assert parse_duration_s(text) == hours * 3600 + minutes * 60 + seconds


@given(st.one_of(st.text(), st.integers(), st.floats(), st.lists(st.text())))
def test_anything_is_a_bounded_duration_or_a_value_error(value: Any) -> None:
    try:
        seconds = parse_duration_s(value)
    except ValueError:
        return
    assert 0 <= seconds <= limits.WAIT_LONGEST_S
