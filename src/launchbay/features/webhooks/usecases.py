"""Webhooks of an organization (conformance.md, "Beyond the reference")."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx
import msgspec

from launchbay import limits
from launchbay.auth import permissions
from launchbay.auth.permissions import Permission, Resource
from launchbay.auth.secret_key import SecretKey, UnsealFailed
from launchbay.clock import to_ms
from launchbay.concurrency import computed
from launchbay.errors import AddressRefused, BadRequest, Conflict, EgressFailed, NotAllowed, NotFound
from launchbay.features.directories.objects import LeftOut, Listing, Names
from launchbay.features.webhooks import rows as store
from launchbay.features.webhooks.rows import (
    DeliveryCounts,
    DeliveryDetail,
    DeliveryRow,
    SecretsRow,
    WebhookRow,
    secret_purpose,
    url_purpose,
    validate_events,
)
from launchbay.ids import new_id
from launchbay.model.redaction import Redactor
from launchbay.quotas.bounds import Quota
from launchbay.store.database import Database
from launchbay.usecases.context import AppContext, Context, Work
from launchbay.usecases.permissions import Permitted, reads_every_instance

_SHOWN = 24  # statuses of the newest deliveries
_DISABLED_BY_USER = "The webhook was switched off."


async def list_webhooks(ctx: Context, organization_id: str) -> list[WebhookRow]:
    """Return the webhooks of an organization, the oldest first."""
    async with ctx.read() as work:
        await work.lookup.organization(organization_id, *_everything())
        return await store.list_by_organization(work.connection, organization_id=organization_id)


async def create_webhook(
    ctx: Context, organization_id: str, url: str, events: Sequence[str], secret: str | None, *, form: str = "json"
) -> tuple[str, str | None]:
    """Create a webhook; return its id and its generated secret.

    Whoever makes it reads what it delivers, so it also needs Read for every instance.
    Raises BadRequest for a URL that cannot be called, unknown events, a bad secret, and one webhook too many.
    Raises AddressRefused for a forbidden address.
    """
    async with ctx.begin() as work:
        await work.lookup.organization(organization_id, *_everything())
        _require_read(work, organization_id)
        url, wanted = _validate_url(ctx.app, organization_id, url), _wanted(events)
        made = None if secret is not None else secrets.token_urlsafe(32)
        webhook_id = new_id()
        await work.admit(organization_id, {Quota.WEBHOOKS: 1})
        await store.insert(
            work.connection,
            webhook_id=webhook_id,
            organization_id=organization_id,
            url=redact_url(url),
            sealed_url=seal_url(ctx.app.secret_key, webhook_id, url),
            events=wanted,
            secret=_sealed(ctx.app, webhook_id, secret or made or ""),
            format=form,
        )
        after = {**_shown_of_url(ctx.app, url), "events": wanted, "format": form}
        await work.audit("create_webhook", organization_id, after=after, at=f"/webhooks/{webhook_id}")
    return webhook_id, made


async def read_webhook(ctx: Context, webhook_id: str) -> WebhookRow:
    """Return a webhook."""
    async with ctx.read() as work:
        return await _found(work, webhook_id)


async def update_webhook(
    ctx: Context,
    webhook_id: str,
    *,
    url: str | None,
    events: Sequence[str] | None,
    secret: str | None,
    enabled: bool | None,
    form: str | None = None,
) -> None:
    """Change what is given of a webhook.

    Switched off, it drops what is on its way. Another address, other events, and switching it on need what the creation
    needs. Raises as the creation does.
    """
    async with ctx.begin() as work:
        row = await _found(work, webhook_id)
        if url is not None or events is not None or enabled:
            _require_read(work, row.organization_id)
        new_url = None if url is None else _validate_url(ctx.app, row.organization_id, url)
        wanted = None if events is None else _wanted(events)
        await store.update(
            work.connection,
            webhook_id=row.id,
            url=None if new_url is None else redact_url(new_url),
            sealed_url=None if new_url is None else seal_url(ctx.app.secret_key, row.id, new_url),
            events=wanted,
            secret=None if secret is None else _sealed(ctx.app, row.id, secret),
            enabled=enabled,
            format=form,
        )
        if enabled is False:
            await store.delete_pending(work.connection, webhook_id=row.id, reason=_DISABLED_BY_USER)
        if form == "json" and row.format != "json":
            await store.separate(work.connection, webhook_id=row.id)
        after: dict[str, Any] = {} if new_url is None else _shown_of_url(ctx.app, new_url)
        changed = {"events": wanted, "enabled": enabled, "format": form, "secret": secret and work.fingerprint(secret)}
        after.update({name: value for name, value in changed.items() if value is not None})
        before = {**_shown_of_row(ctx.app, row), "events": row.events, "enabled": row.enabled, "format": row.format}
        await work.audit("update_webhook", row.organization_id, before, after, at=f"/webhooks/{row.id}")


async def delete_webhook(ctx: Context, webhook_id: str) -> None:
    """Delete a webhook with its deliveries."""
    async with ctx.begin() as work:
        row = await _found(work, webhook_id)
        await store.delete(work.connection, webhook_id=row.id)
        before = {**_shown_of_row(ctx.app, row), "events": row.events}
        await work.audit("delete_webhook", row.organization_id, before, at=f"/webhooks/{row.id}")


async def list_deliveries(ctx: Context, webhook_id: str, *, after: str | None, count: int) -> list[DeliveryRow]:
    """Return the deliveries of a webhook, sent and pending, the newest first."""
    async with ctx.read() as work:
        row = await _found(work, webhook_id)
        _require_read(work, row.organization_id)
        return await store.list_deliveries(work.connection, webhook_id=row.id, after=after, count=count)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery, and what is sent with secrets masked."""

    row: DeliveryDetail
    body: dict[str, Any]


async def read_delivery(ctx: Context, webhook_id: str, delivery_id: str) -> Delivery:
    """Return a delivery of a webhook with what is sent."""
    async with ctx.read() as work:
        webhook = await _found(work, webhook_id)
        _require_read(work, webhook.organization_id)
        row = await store.get_delivery(work.connection, webhook_id=webhook.id, delivery_id=delivery_id)
        if row is None:
            raise NotFound(f"There is no delivery {delivery_id!r}.", "List the deliveries of the webhook.")
        body: dict[str, Any] = msgspec.json.decode(row.body)
        known: list[SecretsRow] = []
        if body.get("instance") is not None:
            known = await store.list_secrets_by_organization(work.connection, instance_ids=[body["instance"]])
    documents = [text for each in known for text in (each.parameters, each.environment_view)]

    def shown() -> Any:
        return Redactor(map(msgspec.json.decode, documents)).value({"id": row.id, **body})

    return Delivery(row, await computed(sum(map(len, documents)), shown))


async def send_test(ctx: Context, webhook_id: str) -> str:
    """Send the event `test` to a webhook, and return the delivery's ID.

    Raises Conflict for a disabled webhook.
    """
    async with ctx.begin() as work:
        row = await _enabled(work, webhook_id)
        delivery_id = new_id()
        body = {
            "event": "test",
            "at": to_ms(ctx.app.clock.now()),
            "organization": row.organization_id,
            "application": None,
            "environment": None,
            "instance": None,
            "instanceName": None,
            "test": {"by": work.actor.email},
        }
        await store.insert_test(
            work.connection, delivery_id=delivery_id, webhook_id=row.id, body=msgspec.json.encode(body).decode()
        )
        at = f"/webhooks/{row.id}"
        await work.audit("test_webhook", row.organization_id, after={"delivery": delivery_id}, at=at)
    return delivery_id


async def retry_deliveries(ctx: Context, webhook_id: str, delivery_id: str | None) -> int:
    """Send a failed delivery again, or all of them; return how many.

    Raises Conflict for a disabled webhook.
    """
    async with ctx.begin() as work:
        row = await _enabled(work, webhook_id)
        if delivery_id is not None:
            found = await store.get_delivery(work.connection, webhook_id=row.id, delivery_id=delivery_id)
            if found is None:
                raise NotFound(f"There is no delivery {delivery_id!r}.", "List the deliveries of the webhook.")
        count = await store.retry(work.connection, webhook_id=row.id, delivery_id=delivery_id) or 0
        if count:
            after = {"deliveries": count, **({} if delivery_id is None else {"delivery": delivery_id})}
            await work.audit("retry_deliveries", row.organization_id, after=after, at=f"/webhooks/{row.id}")
    return count


async def count_deliveries(ctx: Context, organization_id: str) -> dict[str, DeliveryCounts]:
    """Return the newest deliveries of the last day of each webhook, by ID."""
    async with ctx.read() as work:
        await work.lookup.organization(organization_id, *_everything())
        rows = await store.count_deliveries(
            work.connection,
            organization_id=organization_id,
            since=ctx.app.clock.now() - timedelta(days=1),
            most=limits.WEBHOOK_DELIVERIES_COUNTED,
            shown=_SHOWN,
        )
    return {row.id: row for row in rows}


async def _enabled(work: Work, webhook_id: str) -> WebhookRow:
    row = await _found(work, webhook_id)
    if not row.enabled:
        raise Conflict("The webhook is disabled, so nothing is sent.", "Enable it first.")
    return row


def _everything() -> tuple[Permission, Resource]:
    """Return the required permission: ManageUsers for all users."""
    return Permission.MANAGE_USERS, permissions.user(permissions.EVERY)


def _require_read(work: Work, organization_id: str) -> None:
    """Raise NotAllowed for who may not read every instance, which webhooks report on."""
    if not reads_every_instance(Permitted(work.lookup, organization_id)):
        raise NotAllowed(
            "A webhook delivers what happens to every instance, so you need the permission Read for all of them too.",
            "Ask an administrator of the organization for a role that has it.",
        )


async def _found(work: Work, webhook_id: str) -> WebhookRow:
    row = await store.get(work.connection, webhook_id=webhook_id)
    if row is None:
        await work.lookup.caller(by_token=True)  # whose account has ended must hear that first
        raise NotFound(f"There is no webhook {webhook_id!r}.", "List the webhooks of the organization to find the ID.")
    await work.lookup.organization(row.organization_id, *_everything())
    return row


def _validate_url(app: AppContext, organization_id: str, text: str) -> str:
    """Return a URL that can be called.

    The addresses of a name are checked at each delivery. Raises BadRequest, and AddressRefused for an address that the
    rules of outgoing connections forbid.
    """
    text = text.strip()
    try:
        url = httpx.URL(text)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if len(text) > limits.WEBHOOK_URL_CHARS or url.scheme not in ("http", "https") or not url.host:
        raise BadRequest(
            f"The URL must be http:// or https:// with a host, in at most {limits.WEBHOOK_URL_CHARS} characters.",
            code="InvalidUrl",
            field="url",
        )
    if url.userinfo or url.fragment:
        raise BadRequest(
            "The URL must have no credentials and no fragment. Requests are signed instead.",
            code="InvalidUrl",
            field="url",
        )
    try:
        egress = app.egress.for_environment(organization_id)
        egress.validate_stored_url(text)
        egress.require_private(text, "What is signed with the webhook's secret")
    except AddressRefused:
        raise
    except EgressFailed as error:
        raise BadRequest(f"url: {error}", code="InvalidUrl") from error
    return text


def _wanted(events: Sequence[str]) -> list[str]:
    try:
        return validate_events(events)
    except ValueError as error:
        raise BadRequest(f"events: {error}.", code="UnknownEvent") from None


def _sealed(app: AppContext, webhook_id: str, secret: str) -> bytes:
    data = secret.encode("utf-8", "surrogatepass")
    if not limits.WEBHOOK_SECRET_MIN_BYTES <= len(data) <= limits.WEBHOOK_SECRET_BYTES:
        raise BadRequest(
            f"secret must have {limits.WEBHOOK_SECRET_MIN_BYTES} to {limits.WEBHOOK_SECRET_BYTES} bytes; left out, "
            "one is made and returned.",
            code="InvalidSecret",
            field="secret",
        )
    return app.secret_key.seal(data, secret_purpose(webhook_id))


def _shown_of_url(app: AppContext, url: str) -> dict[str, Any]:
    """Return what the audit log keeps of a URL."""
    return {"url": redact_url(url), "fingerprint": app.audit.fingerprint(url)}


def _shown_of_row(app: AppContext, row: WebhookRow) -> dict[str, Any]:
    try:
        return _shown_of_url(app, open_url(app.secret_key, row.id, row.sealed_url))
    except UnsealFailed:  # with the key it is lost, and can still be replaced or deleted
        return {"url": row.url}


# What follows the host is often a secret (promise 10). The database has the whole address sealed, and in the clear the
# part that may be shown.


def redact_url(url: str) -> str:
    """Return a webhook's URL as it may be shown: its host."""
    parsed = httpx.URL(url)
    origin = str(parsed.copy_with(userinfo=b"", raw_path=b"/", fragment=None))
    return origin if parsed.raw_path in (b"", b"/") else f"{origin}…"


def seal_url(key: SecretKey, webhook_id: str, url: str) -> bytes:
    return key.seal(url.encode(), url_purpose(webhook_id))


def open_url(key: SecretKey, webhook_id: str, sealed: bytes) -> str:
    """Return a webhook's URL. Raises UnsealFailed with another key than it had."""
    return key.open(sealed, url_purpose(webhook_id)).decode()


async def seal_urls(database: Database, key: SecretKey) -> None:
    """Seal URLs that a version before migration 0013 left in the clear.

    Each start may find some.
    """
    async with database.transaction() as connection:
        for row in await store.list_unsealed(connection):
            sealed = seal_url(key, row.id, row.url)
            await store.seal(connection, webhook_id=row.id, url=redact_url(row.url), sealed_url=sealed)


async def _leave_out(names: Names, found: Listing) -> None:
    """Name the webhooks: without address and secret, which are secrets, they are nothing."""
    try:
        rows = await list_webhooks(names.ctx, names.organization_id)
    except NotAllowed:
        return
    found.omitted.extend(
        f"webhook to {row.url} for {', '.join(row.events)}: all of it, since address and secret are secrets"
        for row in rows
    )


LEFT_OUT = LeftOut(_leave_out)
