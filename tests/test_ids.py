"""Object ids (conformance.md, "Wire" 10)."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.ids import is_id, new_id

DIGITS = "0123456789abcdef"


def test_a_new_id_has_24_digits_the_first_8_of_which_are_the_second() -> None:
    before = int(time.time())
    made = new_id()
    assert is_id(made)
    assert before <= int(made[:8], 16) <= int(time.time())


def test_ids_differ_in_all_44_random_bits() -> None:
    tails = [int(new_id()[13:], 16) for _ in range(1_000)]
    assert len(set(tails)) == len(tails)
    ever_set, always_set = 0, (1 << 44) - 1
    for tail in tails:
        ever_set |= tail
        always_set &= tail
    assert (ever_set, always_set) == ((1 << 44) - 1, 0), "each bit is sometimes set, and sometimes not"


def test_ids_sort_in_the_order_of_their_making_even_by_threads_and_with_a_clock_that_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [new_id() for _ in range(10_000)]
    assert made == sorted(made)
    monkeypatch.setattr(time, "time_ns", lambda: 1_000_000_000)
    made += [new_id() for _ in range(10)]
    assert made == sorted(made)
    with ThreadPoolExecutor(4) as pool:
        parts = list(pool.map(lambda _: [new_id() for _ in range(2_000)], range(4)))
    assert all(part == sorted(part) for part in parts)
    assert len({each[:13] for part in parts for each in part}) == 8_000, "no two have the same time"


@pytest.mark.parametrize(
    "text", ["", "5f" * 11, "5f" * 13, "5F" * 12, "g" + "0" * 23, " " + "0" * 23, "0" * 24 + "\n", "٠" * 24]
)
def test_another_form_is_no_id(text: str) -> None:
    assert not is_id(text)


@given(st.text(DIGITS, min_size=24, max_size=24))
def test_any_24_digits_may_be_an_id(text: str) -> None:
    assert is_id(text)
