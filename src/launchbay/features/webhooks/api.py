"""Webhooks of an organization (conformance.md, "Beyond the reference")."""

from typing import Annotated, Any, Literal

import msgspec

from launchbay.clock import to_ms
from launchbay.features.webhooks import usecases as webhooks
from launchbay.features.webhooks.rows import DeliveryDetail, DeliveryRow, WebhookRow
from launchbay.web.requests import JsonBody, Request
from launchbay.web.responses import LongPages, Paging, Response, list_response, optional_ms, page
from launchbay.web.routing import EXAMPLE_ID, Returns, Routes

routes = Routes("Webhooks", extension=True)

_PERMISSION = "ManageUsers for all users of the organization"
_READS = f"{_PERMISSION}, and Read for all instances"
_EVENTS = Annotated[
    list[str],
    msgspec.Meta(
        description="Any of status, job, signal, approval, notification, changeSet, rollout, expiry, override, drift."
    ),
]


_FORMAT = Annotated[
    Literal["json", "slack", "teams"], msgspec.Meta(description="The form of requests: json, slack or teams.")
]


class WebhookBody(msgspec.Struct):
    """A new webhook. Default of `secret`: generated."""

    url: str
    events: _EVENTS
    secret: Annotated[str | None, msgspec.Meta(description="Key of the signatures. Default: generated.")] = None
    format: _FORMAT = "json"


class WebhookChange(msgspec.Struct):
    """Changes of a webhook. Omitted fields stay unchanged."""

    url: str | None = None
    events: _EVENTS | None = None
    secret: Annotated[str | None, msgspec.Meta(description="New key of the signatures.")] = None
    format: _FORMAT | None = None
    enabled: Annotated[bool | None, msgspec.Meta(description="Whether the webhook sends events.")] = None


class CreatedWebhook(msgspec.Struct, omit_defaults=True):
    """The ID of a new webhook, and its secret if generated, shown once."""

    id: str
    secret: str | None = None


class Webhook(msgspec.Struct):
    """A webhook.

    `url` shows only the host; times are in milliseconds since the Unix epoch.
    """

    id: str
    url: str
    events: list[str]
    enabled: bool
    disabledReason: str | None
    failingSince: int | None
    createdAt: int
    format: str


class SentTest(msgspec.Struct):
    """The delivery of a test."""

    delivery: str


class RetryQuery(msgspec.Struct, frozen=True):
    """Which deliveries to send again."""

    delivery: Annotated[str | None, msgspec.Meta(description="One failed delivery. Default: all.")] = None


class Retried(msgspec.Struct):
    """How many deliveries are sent again."""

    deliveries: int


class Delivery(msgspec.Struct):
    """A delivery; `nextAt` is set while it is pending, `lastStatus` after the receiver responded.

    `joinedTo` is the delivery of a chat's message that counts this equal failure.
    """

    id: str
    event: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    createdAt: int
    nextAt: int | None
    finishedAt: int | None
    lastStatus: int | None
    lastError: str | None
    joinedTo: str | None


class SentDelivery(Delivery):
    """A delivery with the event that is sent, secrets masked."""

    body: dict[str, Any]


@routes.get(
    "/organizations/{orgId}/webhooks",
    permission=_PERMISSION,
    returns=Returns("The webhooks, oldest first.", type=list[Webhook]),
)
async def list_webhooks(request: Request[None, Paging]) -> Response:
    """List the webhooks of an organization."""
    rows = await webhooks.list_webhooks(request.ctx, request.path["orgId"])
    return list_response(request, [_webhook(row) for row in rows])


@routes.post(
    "/organizations/{orgId}/webhooks",
    permission=_READS,
    body=JsonBody(example={"url": "https://build.example.org/hooks", "events": ["status", "job"]}),
    returns=Returns("The ID, and the secret if generated.", {"id": EXAMPLE_ID, "secret": "2k…"}),
    idempotency_key=True,
)
async def create_webhook(request: Request[WebhookBody, None]) -> CreatedWebhook:
    """Create a webhook: a URL that receives signed events of the organization's instances."""
    body = request.body
    webhook_id, secret = await webhooks.create_webhook(
        request.ctx, request.path["orgId"], body.url, body.events, body.secret, form=body.format
    )
    return CreatedWebhook(webhook_id, secret)


@routes.get("/webhooks/{webhookId}", permission=_PERMISSION)
async def read_webhook(request: Request[None, None]) -> Webhook:
    """Show a webhook."""
    return _webhook(await webhooks.read_webhook(request.ctx, request.path["webhookId"]))


@routes.put("/webhooks/{webhookId}", permission=_READS, body=JsonBody(example={"events": ["signal"], "enabled": True}))
async def update_webhook(request: Request[WebhookChange, None]) -> None:
    """Change a webhook, or disable or enable it."""
    body = request.body
    await webhooks.update_webhook(
        request.ctx,
        request.path["webhookId"],
        url=body.url,
        events=body.events,
        secret=body.secret,
        enabled=body.enabled,
        form=body.format,
    )


@routes.delete("/webhooks/{webhookId}", permission=_PERMISSION)
async def delete_webhook(request: Request[None, None]) -> None:
    """Delete a webhook with its deliveries."""
    await webhooks.delete_webhook(request.ctx, request.path["webhookId"])


@routes.get(
    "/webhooks/{webhookId}/deliveries",
    command="webhook deliveries",
    permission=_READS,
    returns=Returns("The deliveries of the last days, newest first.", type=list[Delivery]),
)
async def list_deliveries(request: Request[None, LongPages]) -> Response:
    """List the deliveries of a webhook, sent and pending."""
    limit, after = request.query.limit, request.query.after
    rows = await webhooks.list_deliveries(request.ctx, request.path["webhookId"], after=after, count=limit + 1)
    return page(request, [_delivery(row) for row in rows], limit)


@routes.get(
    "/webhooks/{webhookId}/deliveries/{deliveryId}",
    command="webhook delivery",
    permission=_READS,
    returns=Returns("The delivery."),
)
async def read_delivery(request: Request[None, None]) -> SentDelivery:
    """Show a delivery with what is sent, secrets masked."""
    found = await webhooks.read_delivery(request.ctx, request.path["webhookId"], request.path["deliveryId"])
    return SentDelivery(**_fields(found.row), body=found.body)


@routes.post(
    "/webhooks/{webhookId}/test",
    permission=_PERMISSION,
    returns=Returns("The delivery of the test.", {"delivery": EXAMPLE_ID}),
    statuses=(409,),
)
async def test_webhook(request: Request[None, None]) -> SentTest:
    """Send the event `test` to a webhook, whichever events it asks for."""
    return SentTest(await webhooks.send_test(request.ctx, request.path["webhookId"]))


@routes.post(
    "/webhooks/{webhookId}/retry",
    command="webhook retry",
    permission=_PERMISSION,
    returns=Returns("How many are sent again.", {"deliveries": 14}),
    statuses=(409,),
)
async def retry_deliveries(request: Request[None, RetryQuery]) -> Retried:
    """Send failed deliveries of a webhook again."""
    return Retried(await webhooks.retry_deliveries(request.ctx, request.path["webhookId"], request.query.delivery))


def _webhook(row: WebhookRow) -> Webhook:
    return Webhook(
        row.id,
        row.url,
        row.events,
        row.enabled,
        row.disabled_reason,
        optional_ms(row.failing_since),
        to_ms(row.created_at),
        row.format,
    )


def _delivery(row: DeliveryRow) -> Delivery:
    return Delivery(**_fields(row))


def _fields(row: DeliveryRow | DeliveryDetail) -> dict[str, Any]:
    """Return the fields of a delivery by name."""
    return {
        "id": row.id,
        "event": row.event,
        "status": row.status,
        "attempts": row.attempts,
        "createdAt": to_ms(row.created_at),
        "nextAt": optional_ms(row.next_at),
        "finishedAt": optional_ms(row.finished_at),
        "lastStatus": row.last_status,
        "lastError": row.last_error,
        "joinedTo": row.joined_to,
    }
