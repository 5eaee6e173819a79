"""Webhooks, their deliveries, and the signature of a delivery."""

import hashlib
import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from launchbay.store.keys import AddressRow, sealed_column
from launchbay.store.statements import load

_sql = load("features.webhooks")


class WebhookRow(NamedTuple):
    """A webhook without its secret. `url` shows only the host."""

    id: str
    organization_id: str
    url: str
    sealed_url: bytes
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    failing_since: datetime | None
    created_at: datetime
    format: str


class DeliveryRow(NamedTuple):
    """A delivery in the log.

    `next_at` is set while it is pending, and the instance if the event has one. `joined_to` is the delivery whose
    message counts this one.
    """

    id: str
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None
    joined_to: str | None
    instance_id: str | None
    instance_name: str | None


class DeliveryDetail(NamedTuple):
    """A delivery with its body, a JSON document that may contain secrets."""

    id: str
    event: str
    status: str
    attempts: int
    created_at: datetime
    next_at: datetime | None
    finished_at: datetime | None
    last_status: int | None
    last_error: str | None
    joined_to: str | None
    body: str


class DeliveryCounts(NamedTuple):
    """The newest deliveries of a webhook, by status.

    `newest` are their statuses, the newest first.
    """

    id: str
    failed: int
    delivered: int
    pending: int
    newest: list[str]


class ClaimedRow(NamedTuple):
    """A delivery claimed for an attempt. `attempts` identifies the claim.

    `failure` is set once it was compared with others, `joined_to` if the message that counts it was given up.
    `application` and `environment` are the names of the event's.
    """

    id: str
    webhook_id: str
    event: str
    body: str
    attempts: int
    created_at: datetime
    sealed_url: bytes
    secret: bytes
    format: str
    failure: str | None
    joined_to: str | None
    application: str | None
    environment: str | None


class EqualFailuresRow(NamedTuple):
    """Equal failures of a webhook.

    `must_wait`: the last message was sent lately, so that the next one follows at `next_message_at`.
    `follow_up_id` is its delivery.
    """

    next_message_at: datetime
    must_wait: bool
    follow_up_id: str | None


class DisabledRow(NamedTuple):
    """A webhook that was disabled."""

    id: str
    organization_id: str


class SecretsRow(NamedTuple):
    """The inputs of an instance, which may contain secrets."""

    id: str
    parameters: str
    environment_view: str


list_by_organization = _sql.rows("list_by_organization", WebhookRow)
get = _sql.row("get", WebhookRow)
list_unsealed = _sql.rows("list_unsealed", AddressRow)
seal = _sql.change("seal")
insert = _sql.change("insert")
update = _sql.change("update")
delete = _sql.change("delete")
delete_pending = _sql.change("delete_pending")
separate = _sql.change("separate")
list_deliveries = _sql.rows("list_deliveries", DeliveryRow)
get_delivery = _sql.row("get_delivery", DeliveryDetail)
insert_test = _sql.change("insert_test")
retry = _sql.value("retry", int)
count_deliveries = _sql.rows("count_deliveries", DeliveryCounts)
insert_notifications = _sql.value("insert_notifications", int)
list_due = _sql.column("list_due", str)
claim = _sql.rows("claim", ClaimedRow)
lock_failure = _sql.row("lock_failure", EqualFailuresRow)
begin_message = _sql.change("begin_message")
hold = _sql.change("hold")
list_joined = _sql.column("list_joined", str)
delete_old_failures = _sql.change("delete_old_failures")
mark_delivered = _sql.change("mark_delivered")
list_secrets_by_organization = _sql.rows("list_secrets_by_organization", SecretsRow)
delete_excess = _sql.change("delete_excess")
mark_failed = _sql.value("mark_failed", float)
disable = _sql.row("disable", DisabledRow)
delete_old_deliveries = _sql.change("delete_old_deliveries")

EVENTS = ("status", "job", "signal", "approval", "notification", "changeSet", "rollout", "expiry", "override", "drift")
FORMATS = ("json", "slack", "teams")


def validate_events(events: Iterable[str]) -> list[str]:
    """Return the events in their fixed order, without duplicates.

    Raises ValueError for an unknown one.
    """
    wanted = set(events)
    for unknown in sorted(wanted - set(EVENTS)):
        raise ValueError(f"unknown event {unknown[:40]!r}; valid events: {', '.join(EVENTS)}")
    if not wanted:
        raise ValueError(f"a webhook needs at least one of {', '.join(EVENTS)}")
    return [event for event in EVENTS if event in wanted]


def secret_purpose(webhook_id: str) -> str:
    return f"webhook {webhook_id}"


def url_purpose(webhook_id: str) -> str:
    return f"webhook {webhook_id} url"


def signature(secret: bytes, timestamp_s: int, body: bytes) -> str:
    """Return the value of the header `Launchbay-Signature`.

    `t` is the time of the attempt in seconds since 1970, `v1` the HMAC-SHA-256 of `t.body` in hex. A receiver computes
    it from the header's time and the raw body, compares in constant time, and refuses times that are minutes off.
    """
    digest = hmac.new(secret, b"%d.%b" % (timestamp_s, body), hashlib.sha256).hexdigest()
    return f"t={timestamp_s},v1={digest}"


lock_webhook = _sql.value("lock_webhook", str)
sealed_secrets = sealed_column(_sql, "webhook_secrets", "list_sealed_secrets", "put_sealed_secret")
sealed_urls = sealed_column(_sql, "webhook_urls", "list_sealed_urls", "put_sealed_url")
