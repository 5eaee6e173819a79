"""What webhooks may ask for, how they are signed, and how long they wait."""

import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launchbay.features.webhooks.rows import EVENTS, signature, validate_events


@given(st.lists(st.sampled_from(EVENTS), min_size=1))
def test_events_come_in_their_order_each_once(events: list[str]) -> None:
    found = validate_events(events)
    assert set(found) == set(events)
    assert found == [event for event in EVENTS if event in found]


@pytest.mark.parametrize("events", [[], ["deleted"], ["status", "Status"]])
def test_unknown_events_and_none_are_refused(events: list[str]) -> None:
    with pytest.raises(ValueError, match="status, job, signal"):
        validate_events(events)


@given(st.binary(min_size=1), st.integers(0, 2**33), st.binary())
def test_a_receiver_can_compute_the_signature_from_time_and_body(secret: bytes, time_s: int, body: bytes) -> None:
    parts = dict(part.split("=", 1) for part in signature(secret, time_s, body).split(","))
    assert parts["t"] == str(time_s)
    assert parts["v1"] == hmac.new(secret, parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()


def test_the_signature_changes_with_secret_time_and_body() -> None:
    signatures = {
        signature(b"s", 1, b"b"),
        signature(b"x", 1, b"b"),
        signature(b"s", 2, b"b"),
        signature(b"s", 1, b"y"),
    }
    assert len(signatures) == 4
