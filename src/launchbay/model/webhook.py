"""Webhooks: what they may ask for, and how a request of theirs is signed. Pure."""

import hashlib
import hmac
from collections.abc import Iterable

EVENTS = ("status", "job", "signal", "approval", "notification")


def checked_events(events: Iterable[str]) -> list[str]:
    """Return the kinds of events in their order, each once. Raises ValueError naming one that there is not."""
    wanted = set(events)
    for unknown in sorted(wanted - set(EVENTS)):
        raise ValueError(f"there is no event {unknown[:40]!r}; there are {', '.join(EVENTS)}")
    if not wanted:
        raise ValueError(f"a webhook needs at least one of {', '.join(EVENTS)}")
    return [event for event in EVENTS if event in wanted]


def secret_purpose(webhook_id: str) -> str:
    """Return what a webhook's secret is sealed for."""
    return f"webhook {webhook_id}"


def url_purpose(webhook_id: str) -> str:
    """Return what a webhook's URL is sealed for."""
    return f"webhook {webhook_id} url"


def signature(secret: bytes, timestamp_s: int, body: bytes) -> str:
    """Return the value of the header `Launchbay-Signature`.

    `t` is the time of the attempt in seconds since 1970, `v1` the HMAC-SHA-256 of `t.body` in hex. A receiver computes
    it from the header's time and the raw body, compares in constant time, and refuses times that are minutes away.
    """
    digest = hmac.new(secret, b"%d.%b" % (timestamp_s, body), hashlib.sha256).hexdigest()
    return f"t={timestamp_s},v1={digest}"


def pause_s(attempt: int, first_s: float, longest_s: float) -> float:
    """Return the pause after so many failed attempts (1 or more), in seconds: each twice as long as the one before."""
    return min(longest_s, first_s * 2.0 ** min(attempt - 1, 32))
