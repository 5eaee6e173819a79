"""What counts as flat in a soak (benchmarks/soak/flat.py)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.soak.flat import Allowed, judge, slope

AT = [5.0 * number for number in range(60)]


def noisy(rise: float, noise: float = 1.0) -> list[float]:
    """A series around 100 that rises by so much from its first to its last sample."""
    chance = random.Random(7)
    return [100 + rise * at / AT[-1] + chance.uniform(-noise, noise) for at in AT]


def is_flat(values: list[float], allowed: Allowed) -> bool:
    return judge("x", "", AT, values, allowed).is_flat


def test_noise_is_flat_and_a_rise_above_what_is_allowed_is_not() -> None:
    assert is_flat(noisy(0), Allowed(2))
    assert is_flat(noisy(1), Allowed(2))
    assert not is_flat(noisy(4), Allowed(2))


def test_a_share_of_the_median_may_be_allowed() -> None:
    assert is_flat(noisy(4), Allowed(2, 0.1))
    assert not is_flat(noisy(20), Allowed(2, 0.1))


def test_a_peak_in_the_middle_and_a_fall_are_no_leak() -> None:
    peak = [*noisy(0)[:25], *[900.0] * 10, *noisy(0)[35:]]
    assert is_flat(peak, Allowed(2))
    assert is_flat(noisy(-50), Allowed(2))


def test_one_more_every_minute_is_noticed_though_most_samples_are_like_their_neighbours() -> None:
    steps = [30.0 + at // 60 for at in AT]
    assert judge("descriptors", "", AT, steps, Allowed(3)).risen == pytest.approx(4.7, abs=0.3)
    assert not is_flat(steps, Allowed(3))


def test_what_was_found_is_told_with_medians_and_the_most() -> None:
    found = judge("x", "MB", AT, [*noisy(0)[:-1], 140.0], Allowed(2)).row()
    assert (found["name"], found["unit"], found["most"], found["flat"]) == ("x", "MB", 140.0, True)
    assert found["at_first"] == pytest.approx(100, abs=1)


@given(st.floats(-1e3, 1e3), st.floats(-1e6, 1e6))
def test_the_slope_of_a_line_is_its_own(rise: float, begin: float) -> None:
    assert slope(AT, [begin + rise * at for at in AT]) == pytest.approx(rise, abs=1e-6)


def test_a_single_sample_has_no_slope() -> None:
    assert slope([1.0], [5.0]) == 0
