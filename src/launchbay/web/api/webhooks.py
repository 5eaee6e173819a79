"""Webhooks of an organization (api-decisions, "Beyond the reference")."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.limits import LIST_LIMIT_MAX
from launchbay.store.webhooks import DeliveryRow, WebhookRow
from launchbay.usecases import webhooks
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import Paging, Response, list_response, page
from launchbay.web.routing import Returns, Routes

routes = Routes("Webhooks")

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


@routes.get(
    "/organizations/{orgId}/webhooks",
    permission=_PERMISSION,
    returns=Returns("The webhooks, the oldest first.", type=list[Webhook]),
    statuses=(403,),
    extension=True,
)
async def list_webhooks(request: Request[None, Paging]) -> Response:
    """Lists the webhooks of the organization."""
    rows = await webhooks.list_webhooks(request.ctx, request.path["orgId"])
    return list_response(request, [_webhook(row) for row in rows])


@routes.post(
    "/organizations/{orgId}/webhooks",
    permission=_PERMISSION,
    body=JsonBody(example={"url": "https://build.example.org/hooks", "events": ["status", "job"]}),
    returns=Returns("The id, and the secret where none was given.", {"id": _ID, "secret": "2k…"}),
    statuses=(403,),
    extension=True,
    idempotency_key=True,
)
async def create_webhook(request: Request[WebhookBody, None]) -> CreatedWebhook:
    """Creates a webhook: a URL that is told, signed, what happens to the organization's instances."""
    body = request.body
    webhook_id, secret = await webhooks.create_webhook(
        request.ctx, request.path["orgId"], body.url, body.events, body.secret
    )
    return CreatedWebhook(webhook_id, secret)


@routes.put(
    "/webhooks/{webhookId}",
    permission=_PERMISSION,
    body=JsonBody(example={"events": ["signal"], "enabled": True}),
    statuses=(403,),
    extension=True,
)
async def update_webhook(request: Request[WebhookChange, None]) -> None:
    """Changes what is given of the webhook, or switches it off or on."""
    body = request.body
    await webhooks.update_webhook(
        request.ctx,
        request.path["webhookId"],
        url=body.url,
        events=body.events,
        secret=body.secret,
        enabled=body.enabled,
    )


@routes.delete(
    "/webhooks/{webhookId}",
    permission=_PERMISSION,
    statuses=(403,),
    extension=True,
)
async def delete_webhook(request: Request[None, None]) -> None:
    """Deletes the webhook with its deliveries."""
    await webhooks.delete_webhook(request.ctx, request.path["webhookId"])


@routes.get(
    "/webhooks/{webhookId}/deliveries",
    permission=_PERMISSION,
    returns=Returns("The deliveries of the last days, the newest first.", type=list[Delivery]),
    statuses=(403,),
    extension=True,
)
async def list_deliveries(request: Request[None, Paging]) -> Response:
    """Lists what was sent to the webhook and what is on its way."""
    query = request.query
    limit = LIST_LIMIT_MAX if query.limit is None else query.limit
    rows = await webhooks.list_deliveries(request.ctx, request.path["webhookId"], after=query.after, count=limit + 1)
    return page(request, [msgspec.to_builtins(_delivery(row)) for row in rows], limit)


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
