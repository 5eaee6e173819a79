"""Webhooks and what is on its way to them (`queries/webhooks.sql`)."""

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from launchbay.store.statements import AddressRow, load


class WebhookRow(NamedTuple):
    """A webhook without its secret; `url` is what may be shown of its URL."""

    id: str
    organization_id: str
    url: str
    sealed_url: bytes
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    created_at: datetime


class DeliveryRow(NamedTuple):
    """A delivery as the log shows it; `next_at` is there while it is pending."""

    id: str
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None


class ClaimedRow(NamedTuple):
    """A delivery to be made now; `attempts` names the claim."""

    id: str
    webhook_id: str
    event: str
    body: str
    attempts: int
    created_at: datetime
    sealed_url: bytes
    secret: bytes


class DisabledRow(NamedTuple):
    """A webhook that was switched off."""

    id: str
    organization_id: str


class SecretsRow(NamedTuple):
    """What an instance was given."""

    id: str
    parameters: str
    environment_view: str


_sql = load("webhooks")
list_by_organization = _sql.rows("of_organization", WebhookRow)
get = _sql.row("one", WebhookRow)
list_unsealed = _sql.rows("unsealed", AddressRow)
seal = _sql.change("seal")
lock_organization = _sql.value("lock_organization", str)
insert = _sql.value("insert", str)
update = _sql.change("update")
delete = _sql.change("delete")
delete_pending = _sql.change("drop_pending")
list_deliveries = _sql.rows("log", DeliveryRow)
insert_notifications = _sql.value("notify", int)
claim = _sql.rows("claim", ClaimedRow)
mark_delivered = _sql.change("delivered")
list_secrets_by_organization = _sql.rows("secrets_of", SecretsRow)
delete_excess = _sql.change("drop_excess")
mark_failed = _sql.value("failed", float)
disable = _sql.row("disable", DisabledRow)
delete_old_deliveries = _sql.change("forget_deliveries")

EVENTS = ("status", "job", "signal", "approval", "notification")


def validate_events(events: Iterable[str]) -> list[str]:
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
