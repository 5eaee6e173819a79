from datetime import UTC, datetime, timedelta
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from launchbay.clock import Backoff, from_ms, to_ms


def test_delays_double_up_to_the_longest_and_never_overflow() -> None:
    backoff = Backoff(1.0, 30.0)
    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 5, 6, 10_000)] == [1, 2, 4, 16, 30, 30]


@given(st.integers(1, 10_000))
def test_delays_never_fall(failures: int) -> None:
    backoff = Backoff(5, 3600)
    assert 5 <= backoff.delay_s(failures) <= backoff.delay_s(failures + 1) <= 3600


def test_each_series_of_delays_starts_at_the_first_one() -> None:
    backoff = Backoff(0.5, 2.0)
    assert list(islice(backoff.delays(), 4)) == [0.5, 1.0, 2.0, 2.0]
    assert next(backoff.delays()) == 0.5


@given(st.integers(0, 4_102_444_800_000), st.integers(0, 999))
def test_milliseconds_are_whole_ones_as_queries_count_them(milliseconds: int, microseconds: int) -> None:
    assert to_ms(from_ms(milliseconds) + timedelta(microseconds=microseconds)) == milliseconds


def test_the_last_microsecond_of_a_second_is_still_in_it() -> None:
    assert to_ms(datetime(1970, 1, 1, 0, 0, 0, 999_999, tzinfo=UTC)) == 999
