"""Addresses that people give, of webhooks and of manifests: what stands behind the host is often a secret (promise 10).

The whole address is sealed in the database; beside it stands what of it is shown.
"""

import httpx

from launchbay.auth.secret_key import SecretKey
from launchbay.egress.http import shown_url
from launchbay.store import applications, webhooks
from launchbay.store.database import Database
from launchbay.store.webhooks import url_purpose


def shown_webhook(url: str) -> str:
    """Return a webhook's URL as it may be shown: its host."""
    parsed = httpx.URL(url)
    origin = str(parsed.copy_with(userinfo=b"", raw_path=b"/", fragment=None))
    return origin if parsed.raw_path in (b"", b"/") else f"{origin}…"


def shown_source(url: str) -> str:
    """Return where a manifest comes from, without the query, which may hold a token."""
    return shown_url(httpx.URL(url))


def sealed_source(key: SecretKey, application_id: str, url: str) -> bytes:
    """Return the sealed form of the URL of an application's manifest."""
    return key.seal(url.encode(), source_purpose(application_id))


def opened_source(key: SecretKey, application_id: str, sealed: bytes) -> str:
    """Return the URL of an application's manifest. Raises SealBroken with another key than it had."""
    return key.open(sealed, source_purpose(application_id)).decode()


def sealed_webhook(key: SecretKey, webhook_id: str, url: str) -> bytes:
    """Return the sealed form of a webhook's URL."""
    return key.seal(url.encode(), url_purpose(webhook_id))


def opened_webhook(key: SecretKey, webhook_id: str, sealed: bytes) -> str:
    """Return a webhook's URL. Raises SealBroken with another key than it had."""
    return key.open(sealed, url_purpose(webhook_id)).decode()


async def seal_addresses(database: Database, key: SecretKey) -> None:
    """Seal the addresses that a version before migration 0013 left in the clear; each start may find some."""
    async with database.transaction() as connection:
        for row in await webhooks.unsealed(connection):
            sealed = sealed_webhook(key, row.id, row.url)
            await webhooks.seal(connection, webhook_id=row.id, url=shown_webhook(row.url), sealed_url=sealed)
        for source in await applications.unsealed(connection):
            sealed = sealed_source(key, source.id, source.url)
            shown = shown_source(source.url)
            await applications.set_source(connection, application_id=source.id, source_url=shown, sealed_source=sealed)


def source_purpose(application_id: str) -> str:
    """Return what the URL of an application's manifest is sealed for."""
    return f"application {application_id} source"
