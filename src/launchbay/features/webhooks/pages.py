"""Webhooks of an organization, and their deliveries."""

from typing import Any

from starlette.responses import Response

from launchbay.console.request import HOME, PageRequest, Routes
from launchbay.errors import BadRequest, Conflict, LaunchbayError, NotFound
from launchbay.features.webhooks import usecases as webhooks
from launchbay.features.webhooks.rows import EVENTS, FORMATS, WebhookRow
from launchbay.limits import CONSOLE_PAGE_ROWS, WEBHOOK_DISABLED_AFTER_S

routes = Routes()


@routes.get("/console/organizations/{id}/webhooks")
async def list_all(request: PageRequest, problem: LaunchbayError | None = None, *, secret: str = "") -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    failed = problem is not None
    return await request.page(
        "webhooks/templates/webhooks.html",
        section="webhooks",
        organization_id=organization_id,
        problem=problem,
        rows=request.ask(webhooks.list_webhooks(request.ctx, organization_id)),
        counts=request.ask(webhooks.count_deliveries(request.ctx, organization_id)),
        disabled_after_s=WEBHOOK_DISABLED_AFTER_S,
        events=EVENTS,
        formats=FORMATS,
        url=request.form.text("url") if failed else "",
        selected_format=request.form.text("format") if failed else FORMATS[0],
        selected=request.form.all("event") if failed else list(EVENTS[:2]),
        secret=secret,
    )


@routes.post("/console/organizations/{id}/webhooks", again=list_all)
async def create(request: PageRequest) -> Response:
    """Create a webhook.

    A generated secret is shown only once, so the response is the page itself.
    """
    form = request.form
    _, secret = await webhooks.create_webhook(
        request.ctx,
        request.path("id"),
        form.text("url"),
        form.all("event"),
        form.raw("secret") or None,
        form=_format(request) or FORMATS[0],
    )
    if secret is None:
        return request.redirect(f"{HOME}/organizations/{request.path('id')}/webhooks", "Webhook created.")
    return await list_all(request, None, secret=secret)


@routes.get("/console/organizations/{id}/webhooks/{webhook}", query=("after", "delivery"))
async def show(request: PageRequest, problem: LaunchbayError | None = None) -> Response:
    organization_id = request.path("id")
    request.ask_frame(organization_id)
    row = await _find(request, organization_id)
    after, chosen = request.query("after"), request.query("delivery")
    counts = (await webhooks.count_deliveries(request.ctx, organization_id)).get(row.id)
    may_read = (await request.permissions(organization_id)).read_every_instance()
    count = CONSOLE_PAGE_ROWS + 1
    deliveries = await webhooks.list_deliveries(request.ctx, row.id, after=after, count=count) if may_read else []
    shown = deliveries[:CONSOLE_PAGE_ROWS]
    form = request.form
    # Only the form of the settings has a format.
    is_sent = problem is not None and form.has("format")
    return await request.page(
        "webhooks/templates/webhook.html",
        section="webhooks",
        organization_id=organization_id,
        problem=problem,
        row=row,
        seen=request.seen(f"/{row.id}", _stored(row)),
        events=EVENTS,
        formats=FORMATS,
        url=form.text("url"),
        enabled=form.has("enabled") if is_sent else row.enabled,
        selected=form.all("event") if is_sent else row.events,
        selected_format=form.text("format") if is_sent else row.format,
        deliveries=shown,
        counts=counts,
        delivery=await webhooks.read_delivery(request.ctx, row.id, chosen) if chosen else None,
        next_after=shown[-1].id if len(deliveries) > CONSOLE_PAGE_ROWS else None,
    )


@routes.post("/console/organizations/{id}/webhooks/{webhook}", again=show)
async def update(request: PageRequest) -> Response:
    form = request.form

    async def read() -> dict[str, Any]:
        return _stored(await _find(request, request.path("id")))

    async with request.unless_changed("webhooks", request.path("webhook"), read):
        await webhooks.update_webhook(
            request.ctx,
            request.path("webhook"),
            url=form.text("url") or None,
            events=form.all("event"),
            secret=form.raw("secret") or None,
            enabled=form.has("enabled"),
            form=_format(request),
        )
    return request.redirect(_path(request), "Webhook saved.")


@routes.post("/console/organizations/{id}/webhooks/{webhook}/test", again=show, refusals=(Conflict,))
async def send_test(request: PageRequest) -> Response:
    delivery = await webhooks.send_test(request.ctx, request.path("webhook"))
    return request.redirect(f"{_path(request)}?delivery={delivery}", "Test sent.")


@routes.post("/console/organizations/{id}/webhooks/{webhook}/retry", again=show, refusals=(Conflict,))
async def retry(request: PageRequest) -> Response:
    """Send one failed delivery again, or all of them."""
    chosen = request.form.text("delivery") or None
    count = await webhooks.retry_deliveries(request.ctx, request.path("webhook"), chosen)
    query = "" if chosen is None else f"?delivery={chosen}"
    words = "Delivery is sent again." if count == 1 else f"{count} deliveries are sent again."
    return request.redirect(f"{_path(request)}{query}", words if count else "No delivery has failed.")


@routes.post("/console/organizations/{id}/webhooks/{webhook}/enabled")
async def set_enabled(request: PageRequest) -> Response:
    """Pause a webhook, or let it continue."""
    enabled = request.form.text("do") == "resume"
    await webhooks.update_webhook(
        request.ctx, request.path("webhook"), url=None, events=None, secret=None, enabled=enabled
    )
    return request.redirect(_path(request), "Webhook resumed." if enabled else "Webhook paused.")


@routes.post("/console/organizations/{id}/webhooks/{webhook}/delete")
async def delete(request: PageRequest) -> Response:
    await webhooks.delete_webhook(request.ctx, request.path("webhook"))
    return request.redirect(f"{HOME}/organizations/{request.path('id')}/webhooks", "Webhook deleted.")


def _stored(row: WebhookRow) -> dict[str, Any]:
    return {"url": row.url, "event": sorted(row.events), "format": row.format, "enabled": row.enabled}


def _path(request: PageRequest) -> str:
    return f"{HOME}/organizations/{request.path('id')}/webhooks/{request.path('webhook')}"


def _format(request: PageRequest) -> str | None:
    """Return the format of a form; None if it has none.

    Raises BadRequest for an unknown one.
    """
    chosen = request.form.text("format")
    if chosen and chosen not in FORMATS:
        raise BadRequest(f"Unknown format '{chosen}'. Use {', '.join(FORMATS)}.", code="WrongField", field="format")
    return chosen or None


async def _find(request: PageRequest, organization_id: str) -> WebhookRow:
    wanted = request.path("webhook")
    for row in await webhooks.list_webhooks(request.ctx, organization_id):
        if row.id == wanted:
            return row
    raise NotFound("Webhook not found.", "Check the organization's webhooks.")
