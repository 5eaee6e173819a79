"""Webhooks and what is on its way to them (`queries/webhooks.sql`)."""

from datetime import datetime
from typing import NamedTuple

from launchbay.store.rows import AddressRow
from launchbay.store.statements import load


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
of_organization = _sql.rows("of_organization", WebhookRow)
one = _sql.row("one", WebhookRow)
unsealed = _sql.rows("unsealed", AddressRow)
seal = _sql.change("seal")
lock_organization = _sql.value("lock_organization", str)
insert = _sql.value("insert", str)
update = _sql.change("update")
delete = _sql.change("delete")
drop_pending = _sql.change("drop_pending")
log = _sql.rows("log", DeliveryRow)
notify = _sql.value("notify", int)
claim = _sql.rows("claim", ClaimedRow)
delivered = _sql.change("delivered")
secrets_of = _sql.rows("secrets_of", SecretsRow)
drop_excess = _sql.change("drop_excess")
failed = _sql.value("failed", float)
disable = _sql.row("disable", DisabledRow)
forget_deliveries = _sql.change("forget_deliveries")
