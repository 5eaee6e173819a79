"""Operations of the API: webhooks.

Made from the endpoint table by `python -m generators`; a test holds that it is up to date.
"""

from collections.abc import Sequence
from types import NoneType

from launchbay.client.call import Call, Row, given
from launchbay.client.operation import list_operation, operation
from launchbay.client.types import CreatedWebhook, Delivery, Webhook


@list_operation(
    Row(
        id="list_webhooks",
        method="GET",
        path="/api/1/organizations/{orgId}/webhooks",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_webhooks(organization_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Webhook]]:
    """Lists the webhooks of the organization.

    Needs: ManageUsers for all users of the organization.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Webhook], (organization_id,), query={"limit": limit, "after": after})


@operation(
    Row(
        id="create_webhook",
        method="POST",
        path="/api/1/organizations/{orgId}/webhooks",
        media_type="application/json",
        keyed=True,
        about={"events": "Of status, job, signal, approval and notification."},
    )
)
def create_webhook(
    organization_id: str,
    *,
    url: str,
    events: Sequence[str],
    secret: str | None = None,
    idempotency_key: str | None = None,
) -> Call[CreatedWebhook]:
    """Creates a webhook: a URL that is told, signed, what happens to the organization's instances.

    Needs: ManageUsers for all users of the organization.

    `events`: Of status, job, signal, approval and notification.
    """
    return Call(
        CreatedWebhook,
        (organization_id,),
        body=given({"url": url, "events": events, "secret": secret}),
        idempotency_key=idempotency_key,
    )


@operation(
    Row(
        id="update_webhook",
        method="PUT",
        path="/api/1/webhooks/{webhookId}",
        media_type="application/json",
        about={"events": "Of status, job, signal, approval and notification."},
    )
)
def update_webhook(
    webhook_id: str,
    *,
    url: str | None = None,
    events: Sequence[str] | None = None,
    secret: str | None = None,
    enabled: bool | None = None,
) -> Call[None]:
    """Changes what is given of the webhook, or switches it off or on.

    Needs: ManageUsers for all users of the organization.

    `events`: Of status, job, signal, approval and notification.
    """
    return Call(
        NoneType, (webhook_id,), body=given({"url": url, "events": events, "secret": secret, "enabled": enabled})
    )


@operation(Row(id="delete_webhook", method="DELETE", path="/api/1/webhooks/{webhookId}"))
def delete_webhook(webhook_id: str) -> Call[None]:
    """Deletes the webhook with its deliveries.

    Needs: ManageUsers for all users of the organization.
    """
    return Call(NoneType, (webhook_id,))


@list_operation(
    Row(
        id="list_deliveries",
        method="GET",
        path="/api/1/webhooks/{webhookId}/deliveries",
        about={
            "limit": "At most so many items; without it, all of them.",
            "after": "Only items after the one with this id.",
        },
    )
)
def list_deliveries(webhook_id: str, *, limit: int | None = None, after: str | None = None) -> Call[list[Delivery]]:
    """Lists what was sent to the webhook and what is on its way.

    Needs: ManageUsers for all users of the organization.

    `limit`: At most so many items; without it, all of them.

    `after`: Only items after the one with this id.
    """
    return Call(list[Delivery], (webhook_id,), query={"limit": limit, "after": after})
