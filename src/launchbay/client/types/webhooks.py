"""Types of the API: webhooks. Times are milliseconds since the Unix epoch.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from typing import Any

import msgspec


class Webhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A webhook. Of the URL no more is shown than its host; times are milliseconds since the Unix epoch."""

    id: str
    url: str
    events: list[str]
    enabled: bool
    disabled_reason: str | None
    failing_since: int | None
    created_at: int


class CreatedWebhook(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A new webhook's id, and its secret where none was given: it is shown this once."""

    id: str
    secret: str | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A delivery; `nextAt` is there while it is pending, `lastStatus` when the receiver has answered."""

    id: str
    event: str
    status: Any
    attempts: int
    created_at: int
    next_at: int | None
    finished_at: int | None
    last_status: int | None
    last_error: str | None
