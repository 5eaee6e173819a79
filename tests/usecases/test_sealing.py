"""Addresses that an earlier version kept in the clear are sealed by the next start."""

import secrets

from launchbay.auth.secret_key import KEY_BYTES, SecretKey
from launchbay.features.webhooks.usecases import open_url, seal_urls
from launchbay.ids import new_id
from launchbay.store.database import Database
from launchbay.usecases.sealing import open_source_url, seal_sources

URL = "https://hooks.example/services/T0/canary?token=canary"


async def test_an_address_in_the_clear_is_sealed_once_and_only_its_shown_form_stays(database: Database) -> None:
    organization, webhook, sourced, uploaded = (new_id() for _ in range(4))
    key = SecretKey(secrets.token_bytes(KEY_BYTES))
    async with database.transaction() as connection:
        await connection.execute("INSERT INTO organizations (id, name) VALUES (%s, 'Acme')", [organization])
        await connection.execute(
            "INSERT INTO webhooks (id, organization_id, url, events, secret) VALUES (%s, %s, %s, '{job}', '')",
            [webhook, organization, URL],
        )
        for application, url in ((sourced, URL), (uploaded, None)):
            await connection.execute(
                "INSERT INTO applications (id, organization_id, name, latest_version, source_url) "
                "VALUES (%s, %s, %s, 1, %s)",
                [application, organization, application, url],
            )
    await seal_sources(database, key)
    await seal_urls(database, key)
    once = await kept(database)
    await seal_sources(database, key)
    await seal_urls(database, key)
    assert await kept(database) == once
    assert {place: shown for place, shown, _ in once} == {
        webhook: "https://hooks.example/…",
        sourced: "https://hooks.example/services/T0/canary",
        uploaded: None,
    }
    sealed = {place: bytes(data) for place, _, data in once if data is not None}
    assert open_url(key, webhook, sealed.pop(webhook)) == URL
    assert open_source_url(key, sourced, sealed.pop(sourced)) == URL
    assert not sealed


async def kept(database: Database) -> list[tuple[str, str | None, bytes | None]]:
    async with database.connection() as connection:
        rows = await connection.execute(
            "SELECT id, url, sealed_url FROM webhooks UNION ALL SELECT id, source_url, sealed_source FROM applications"
        )
        return [(row[0], row[1], row[2]) for row in await rows.fetchall()]
