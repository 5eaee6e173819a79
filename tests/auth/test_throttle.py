"""Token buckets never give more than their rate and burst, and never less to who keeps to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.auth.throttle import (
    PER_ACCOUNT_AND_ADDRESS,
    PER_ADDRESS,
    RateLimits,
    SignInThrottle,
    Throttle,
    TokenBuckets,
    address_block,
)
from launchbay.errors import TooManyRequests
from tests.support.clock import HandClock

ANN = "ann@example.org"
ATTACKER = "203.0.113.9"
HOME = "198.51.100.7"


def attempts_until_refused(throttle: SignInThrottle, account: str, address: str, most: int = 1000) -> int:
    for done in range(most):
        try:
            throttle.begin(account, address)
        except TooManyRequests:
            return done
    return most


def test_the_first_wrong_attempts_are_free_then_each_waits_twice_as_long_up_to_a_quarter_of_an_hour() -> None:
    clock = HandClock()
    throttle = SignInThrottle(clock)
    assert attempts_until_refused(throttle, ANN, ATTACKER) == PER_ACCOUNT_AND_ADDRESS.free_attempts
    waits = []
    for _ in range(13):
        with pytest.raises(TooManyRequests) as caught:
            throttle.begin(ANN, ATTACKER)
        waits.append(caught.value.retry_after_s)
        clock.advance(caught.value.retry_after_s)
        throttle.begin(ANN, ATTACKER)
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]


def test_retry_after_is_never_too_short() -> None:
    clock = HandClock()
    throttle = SignInThrottle(clock)
    attempts_until_refused(throttle, ANN, ATTACKER)
    clock.advance(0.4)
    with pytest.raises(TooManyRequests, match=r"Try again in 1 s\.") as caught:
        throttle.begin(ANN, ATTACKER)
    clock.advance(caught.value.retry_after_s)
    throttle.begin(ANN, ATTACKER)


def test_waiting_a_block_out_earns_one_attempt_not_five() -> None:
    clock = HandClock()
    throttle = SignInThrottle(clock)
    for _ in range(20):
        clock.advance(900)
        throttle.begin(ANN, ATTACKER)
    clock.advance(900)
    assert attempts_until_refused(throttle, ANN, ATTACKER) == 1


def test_an_hour_of_silence_starts_afresh() -> None:
    clock = HandClock()
    throttle = SignInThrottle(clock)
    attempts_until_refused(throttle, ANN, ATTACKER)
    clock.advance(3601)
    assert attempts_until_refused(throttle, ANN, ATTACKER) == PER_ACCOUNT_AND_ADDRESS.free_attempts


def test_an_attacker_elsewhere_does_not_lock_the_owner_out() -> None:
    throttle = SignInThrottle(HandClock())
    attempts_until_refused(throttle, ANN, ATTACKER)
    throttle.begin(ANN, HOME)


def test_success_ends_the_count_of_its_own_account_and_address_only() -> None:
    throttle = SignInThrottle(HandClock())
    for _ in range(4):
        throttle.begin(ANN, HOME)
    attempts_until_refused(throttle, ANN, ATTACKER)
    throttle.succeeded(ANN, HOME)
    assert attempts_until_refused(throttle, ANN, HOME) == PER_ACCOUNT_AND_ADDRESS.free_attempts
    with pytest.raises(TooManyRequests):
        throttle.begin(ANN, ATTACKER)


def test_one_machine_that_tries_many_accounts_is_slowed_and_its_own_success_does_not_help_it() -> None:
    throttle = SignInThrottle(HandClock())
    for number in range(PER_ADDRESS.free_attempts - 1):
        throttle.begin(f"user{number}@example.org", ATTACKER)
    throttle.begin("attacker@example.org", ATTACKER)
    throttle.succeeded("attacker@example.org", ATTACKER)
    throttle.begin("one-more@example.org", ATTACKER)
    with pytest.raises(TooManyRequests):
        throttle.begin("another@example.org", ATTACKER)


def test_attempts_at_the_same_moment_count_before_they_are_known_to_be_wrong() -> None:
    throttle = SignInThrottle(HandClock())
    assert attempts_until_refused(throttle, ANN, ATTACKER) == 5


def test_what_could_not_be_decided_does_not_count() -> None:
    throttle = SignInThrottle(HandClock())
    for _ in range(500):
        throttle.begin(ANN, HOME)
        throttle.undecided(ANN, HOME)
    assert attempts_until_refused(throttle, ANN, HOME) == PER_ACCOUNT_AND_ADDRESS.free_attempts


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


@given(st.lists(st.binary(min_size=1, max_size=2), max_size=200))
def test_memory_is_bounded_whatever_is_tried(keys: list[bytes]) -> None:
    throttle = Throttle(PER_ACCOUNT_AND_ADDRESS, HandClock(), capacity=10)
    for key in keys:
        throttle.begin(key)
    assert len(throttle) <= 10


@given(st.integers(0, 12), st.integers(0, 12))
def test_attempts_taken_back_leave_the_wait_of_those_that_remain(begun: int, withdrawn: int) -> None:
    throttle = Throttle(PER_ACCOUNT_AND_ADDRESS, HandClock())
    for _ in range(begun):
        throttle.begin(b"k")
    for _ in range(withdrawn):
        throttle.withdraw(b"k")
    assert throttle.resets_in_s(b"k") == PER_ACCOUNT_AND_ADDRESS.wait_s(max(0, begun - withdrawn))


@given(
    st.integers(1, 50),
    st.integers(1, 30),
    st.lists(st.floats(0, 3, allow_nan=False), min_size=1, max_size=120),
)
def test_in_no_span_of_time_is_more_given_than_rate_and_burst(per_s: int, burst: int, pauses: list[float]) -> None:
    clock = HandClock()
    buckets = TokenBuckets(per_s, burst, clock)
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
    buckets = TokenBuckets(per_s, burst, clock)
    for _ in range(count):
        assert buckets.take("k") == 0
        clock.advance(1 / per_s + 1e-9)


@given(st.integers(1, 50), st.integers(1, 30))
def test_the_wait_that_is_told_is_enough_and_not_too_long(per_s: int, burst: int) -> None:
    clock = HandClock()
    buckets = TokenBuckets(per_s, burst, clock)
    for _ in range(burst):
        assert buckets.take("k") == 0
    wait_s = buckets.take("k")
    assert 0 < wait_s <= 1 / per_s + 1e-9
    clock.advance(wait_s + 1e-6)
    assert buckets.take("k") == 0


def test_keys_have_nothing_to_do_with_each_other() -> None:
    buckets = TokenBuckets(1, 1, HandClock())
    assert buckets.take("a") == 0
    assert buckets.take("b") == 0
    assert buckets.take("a") > 0


def test_memory_is_bounded_and_keeps_those_that_were_used_last() -> None:
    buckets = TokenBuckets(1, 1, HandClock(), capacity=10)
    for number in range(1000):
        buckets.take(str(number))
    assert len(buckets) == 10
    assert buckets.take("999") > 0
    assert buckets.take("0") == 0


def test_zero_is_no_limit_and_remembers_nobody() -> None:
    buckets = TokenBuckets(0, 0, HandClock())
    assert all(buckets.take("k") == 0 for _ in range(1000))
    assert len(buckets) == 0


def test_addresses_of_one_ipv6_network_are_one() -> None:
    limits = RateLimits(HandClock(), address_per_s=1, user_per_s=0, burst_s=1)
    limits.count_address("2001:db8:1:2::1")
    limits.count_address("192.0.2.1")
    with pytest.raises(TooManyRequests) as refusal:
        limits.count_address("2001:db8:1:2::ffff")
    assert refusal.value.retry_after_s == 1
