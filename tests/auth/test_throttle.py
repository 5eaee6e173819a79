"""Token buckets never give more than their rate and burst, and never less to who keeps to them."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.throttle import RateLimits, TokenBuckets, address_block
from launchbay.errors import TooManyRequests
from launchbay.fairness.shared_counts import SharedCounts
from tests.support.clock import HandClock


@pytest.mark.parametrize(
    ("address", "block"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
        ("unix", "unix"),
    ],
)
def test_the_addresses_that_one_host_may_choose_from_count_as_one(address: str, block: str) -> None:
    assert address_block(address) == block


@given(
    st.integers(1, 50),
    st.integers(1, 30),
    st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=120),
)
def test_in_no_span_of_time_is_more_given_than_rate_and_burst(per_s: int, burst: int, pauses: list[float]) -> None:
    clock = HandClock()
    buckets = TokenBuckets(per_s, burst, clock, SharedCounts())
    given_at = []
    for pause in pauses:
        clock.advance(pause)
        if buckets.take("k") == 0:
            given_at.append(clock.monotonic_s())
    for first, begin in enumerate(given_at):
        for last in range(first, len(given_at)):
            assert last - first + 1 <= burst + (given_at[last] - begin) * per_s + 1e-6


@given(st.integers(1, 50), st.integers(1, 30), st.integers(1, 100))
def test_who_keeps_to_the_rate_is_never_refused(per_s: int, burst: int, count: int) -> None:
    clock = HandClock()
    buckets = TokenBuckets(per_s, burst, clock, SharedCounts())
    for _ in range(count):
        assert buckets.take("k") == 0
        clock.advance(1 / per_s + 1e-9)


@given(st.integers(1, 50), st.integers(1, 30))
def test_the_wait_that_is_told_is_enough_and_not_too_long(per_s: int, burst: int) -> None:
    clock = HandClock()
    buckets = TokenBuckets(per_s, burst, clock, SharedCounts())
    for _ in range(burst):
        assert buckets.take("k") == 0
    wait_s = buckets.take("k")
    assert 0 < wait_s <= 1 / per_s + 1e-9
    clock.advance(wait_s + 1e-6)
    assert buckets.take("k") == 0


def test_keys_have_nothing_to_do_with_each_other() -> None:
    buckets = TokenBuckets(1, 1, HandClock(), SharedCounts())
    assert buckets.take("a") == 0
    assert buckets.take("b") == 0
    assert buckets.take("a") > 0


def test_thousands_of_busy_keys_take_nothing_from_others() -> None:
    buckets = TokenBuckets(1, 1, HandClock(), SharedCounts())
    refused = sum(buckets.take(str(number)) > 0 for number in range(5000))
    assert refused <= 5
    assert all(buckets.take(str(number)) > 0 for number in range(5000))


def test_zero_is_no_limit() -> None:
    buckets = TokenBuckets(0, 0, HandClock(), SharedCounts())
    assert all(buckets.take("k") == 0 for _ in range(1000))


def test_processes_that_share_counts_share_buckets() -> None:
    clock = HandClock()
    memory, descriptor = SharedCounts.make(2)
    processes = [TokenBuckets(1, 4, clock, SharedCounts(2, number, descriptor)) for number in (1, 2)]
    assert [processes[each % 2].take("k") for each in range(4)] == [0, 0, 0, 0]
    assert processes[0].take("k") > 0
    assert processes[1].take("k") > 0
    assert TokenBuckets(1, 4, clock, memory, "other").take("k") == 0
    os.close(descriptor)


def test_addresses_of_one_ipv6_network_are_one() -> None:
    limits = RateLimits(HandClock(), SharedCounts(), address_per_s=1, user_per_s=0, burst_s=1)
    limits.count_address("2001:db8:1:2::1")
    limits.count_address("192.0.2.1")
    with pytest.raises(TooManyRequests) as refusal:
        limits.count_address("2001:db8:1:2::ffff")
    assert refusal.value.retry_after_s == 1
