"""Webhooks of an organization (api-decisions, "Beyond the reference")."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.store.webhooks import DeliveryRow, WebhookRow
from launchbay.usecases import webhooks
from launchbay.web.requests import Call, JsonBody
from launchbay.web.responses import Answer, Empty, Json, Paging, listed, page
from launchbay.web.routing import Endpoint, Returns

_TAGS = ("Webhooks",)
_ID = "5f" * 12
_PERMISSION = "ManageUsers for all users of the organization"
_EVENTS = Annotated[list[str], msgspec.Meta(description="Of status, job, signal, approval and notification.")]


class WebhookBody(msgspec.Struct):
    """A new webhook. Without a secret one is made."""

    url: str
    events: _EVENTS
    secret: str | None = None


class WebhookChange(msgspec.Struct):
    """What to change of a webhook; the rest stays."""

    url: str | None = None
    events: _EVENTS | None = None
    secret: str | None = None
    enabled: bool | None = None


class CreatedWebhook(msgspec.Struct, omit_defaults=True):
    """A new webhook's id, and its secret where none was given: it is shown this once."""

    id: str
    secret: str | None = None


class Webhook(msgspec.Struct):
    """A webhook. Of the URL no more is shown than its host; times are milliseconds since the Unix epoch."""

    id: str
    url: str
    events: list[str]
    enabled: bool
    disabledReason: str | None
    failingSince: int | None
    createdAt: int


class Delivery(msgspec.Struct):
    """A delivery; `nextAt` is there while it is pending, `lastStatus` when the receiver has answered."""

    id: str
    event: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    createdAt: int
    nextAt: int | None
    finishedAt: int | None
    lastStatus: int | None
    lastError: str | None


async def list_webhooks(call: Call[None, Paging]) -> Answer:
    """List webhooks."""
    rows = await webhooks.list_webhooks(call.services.desk, call.actor, call.path["orgId"])
    return listed(call, [_webhook(row) for row in rows])


async def create_webhook(call: Call[WebhookBody, None]) -> Answer:
    """Create a webhook."""
    body = call.body
    webhook_id, secret = await webhooks.create_webhook(
        call.services.desk, call.actor, call.path["orgId"], body.url, body.events, body.secret
    )
    return Json(CreatedWebhook(webhook_id, secret))


async def update_webhook(call: Call[WebhookChange, None]) -> Answer:
    """Change a webhook."""
    body = call.body
    await webhooks.update_webhook(
        call.services.desk,
        call.actor,
        call.path["webhookId"],
        url=body.url,
        events=body.events,
        secret=body.secret,
        enabled=body.enabled,
    )
    return Empty()


async def delete_webhook(call: Call[None, None]) -> Answer:
    """Delete a webhook."""
    await webhooks.delete_webhook(call.services.desk, call.actor, call.path["webhookId"])
    return Empty()


async def list_deliveries(call: Call[None, Paging]) -> Answer:
    """List deliveries."""
    query = call.query
    limit = LIST_LIMIT_MAX if query.limit is None else query.limit
    rows = await webhooks.list_deliveries(
        call.services.desk, call.actor, call.path["webhookId"], after=query.after, count=limit + 1
    )
    return page(call, [msgspec.to_builtins(_delivery(row)) for row in rows], limit)


def _webhook(row: WebhookRow) -> Webhook:
    return Webhook(
        row.id,
        row.url,
        row.events,
        row.enabled,
        row.disabled_reason,
        _ms(row.failing_since),
        to_ms(row.created_at),
    )


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(
        row.id,
        row.event,
        row.status,  # type: ignore[arg-type] # the table has these three
        row.attempts,
        to_ms(row.created_at),
        _ms(row.next_at),
        _ms(row.finished_at),
        row.last_status,
        row.last_error,
    )


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else to_ms(moment)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/1/organizations/{orgId}/webhooks",
        operation_id="list_webhooks",
        handler=list_webhooks,
        summary="Lists the webhooks of the organization.",
        tags=_TAGS,
        permission=_PERMISSION,
        query=Paging,
        returns=Returns(list[Webhook], "The webhooks, the oldest first."),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="POST",
        path="/api/1/organizations/{orgId}/webhooks",
        operation_id="create_webhook",
        handler=create_webhook,
        summary="Creates a webhook: a URL that is told, signed, what happens to the organization's instances.",
        tags=_TAGS,
        permission=_PERMISSION,
        body=JsonBody(WebhookBody, example={"url": "https://build.example.org/hooks", "events": ["status", "job"]}),
        returns=Returns(CreatedWebhook, "The id, and the secret where none was given.", {"id": _ID, "secret": "2k…"}),
        statuses=(403,),
        addition=True,
        idempotency_key=True,
    ),
    Endpoint(
        method="PUT",
        path="/api/1/webhooks/{webhookId}",
        operation_id="update_webhook",
        handler=update_webhook,
        summary="Changes what is given of the webhook, or switches it off or on.",
        tags=_TAGS,
        permission=_PERMISSION,
        body=JsonBody(WebhookChange, example={"events": ["signal"], "enabled": True}),
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="DELETE",
        path="/api/1/webhooks/{webhookId}",
        operation_id="delete_webhook",
        handler=delete_webhook,
        summary="Deletes the webhook with its deliveries.",
        tags=_TAGS,
        permission=_PERMISSION,
        statuses=(403,),
        addition=True,
    ),
    Endpoint(
        method="GET",
        path="/api/1/webhooks/{webhookId}/deliveries",
        operation_id="list_deliveries",
        handler=list_deliveries,
        summary="Lists what was sent to the webhook and what is on its way.",
        tags=_TAGS,
        permission=_PERMISSION,
        query=Paging,
        returns=Returns(list[Delivery], "The deliveries of the last days, the newest first."),
        statuses=(403,),
        addition=True,
    ),
)
