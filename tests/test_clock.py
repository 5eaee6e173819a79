from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from launchbay.clock import Backoff


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
