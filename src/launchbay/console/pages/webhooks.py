"""Webhooks of an organization, and what was delivered to them."""

from starlette.responses import Response

from launchbay.console.request import HOME, Page, Visit
from launchbay.errors import BadRequest, LaunchbayError, NotFound
from launchbay.limits import CONSOLE_PAGE_ROWS
from launchbay.store.webhooks import EVENTS, WebhookRow
from launchbay.usecases import webhooks


async def list_all(visit: Visit) -> Response:
    """Show the webhooks."""
    return await _list(visit, None)


async def create(visit: Visit) -> Response:
    """Create a webhook. A secret that was made is shown this once, so the answer is the page itself."""
    form = visit.form
    try:
        _, secret = await webhooks.create_webhook(
            visit.ctx, visit.path("id"), form.text("url"), form.all("event"), form.raw("secret") or None
        )
    except BadRequest as error:
        return await _list(visit, error)
    if secret is None:
        return visit.go(f"{HOME}/organizations/{visit.path('id')}/webhooks", "The webhook is there.")
    return await _list(visit, None, secret=secret)


async def show(visit: Visit) -> Response:
    """Show a webhook with its delivery log."""
    return await _show(visit, None)


async def update(visit: Visit) -> Response:
    """Change the events of a webhook, its address or secret, or switch it off and on."""
    form = visit.form
    try:
        await webhooks.update_webhook(
            visit.ctx,
            visit.path("webhook"),
            url=form.text("url") or None,
            events=form.all("event"),
            secret=form.raw("secret") or None,
            enabled=form.has("enabled"),
        )
    except BadRequest as error:
        return await _show(visit, error)
    return visit.go(f"{HOME}/organizations/{visit.path('id')}/webhooks/{visit.path('webhook')}", "Changed.")


async def delete(visit: Visit) -> Response:
    """Delete a webhook."""
    await webhooks.delete_webhook(visit.ctx, visit.path("webhook"))
    return visit.go(f"{HOME}/organizations/{visit.path('id')}/webhooks", "The webhook is deleted.")


async def _list(visit: Visit, problem: LaunchbayError | None, *, secret: str = "") -> Response:
    organization_id = visit.path("id")
    is_refused = problem is not None
    return await visit.page(
        "webhooks.html",
        section="webhooks",
        organization_id=organization_id,
        problem=problem,
        rows=await webhooks.list_webhooks(visit.ctx, organization_id),
        events=EVENTS,
        url=visit.form.text("url") if is_refused else "",
        ticked=visit.form.all("event") if is_refused else list(EVENTS[:2]),
        secret=secret,
    )


async def _show(visit: Visit, problem: LaunchbayError | None) -> Response:
    organization_id = visit.path("id")
    row = await _found(visit, organization_id)
    after = visit.query("after")
    deliveries = await webhooks.list_deliveries(visit.ctx, row.id, after=after, count=CONSOLE_PAGE_ROWS + 1)
    shown = deliveries[:CONSOLE_PAGE_ROWS]
    return await visit.page(
        "webhook.html",
        section="webhooks",
        organization_id=organization_id,
        problem=problem,
        row=row,
        events=EVENTS,
        deliveries=shown,
        next_after=shown[-1].id if len(deliveries) > CONSOLE_PAGE_ROWS else None,
    )


async def _found(visit: Visit, organization_id: str) -> WebhookRow:
    wanted = visit.path("webhook")
    for row in await webhooks.list_webhooks(visit.ctx, organization_id):
        if row.id == wanted:
            return row
    raise NotFound("There is no such webhook.", "Look it up in the list of the organization.")


PAGES = (
    Page("GET", "/console/organizations/{id}/webhooks", list_all),
    Page("POST", "/console/organizations/{id}/webhooks", create),
    Page("GET", "/console/organizations/{id}/webhooks/{webhook}", show),
    Page("POST", "/console/organizations/{id}/webhooks/{webhook}", update),
    Page("POST", "/console/organizations/{id}/webhooks/{webhook}/delete", delete),
)
