"""Versions of secrets: that of a step, and the newest (decision 0228)."""

from datetime import datetime

import msgspec

from launchbay.auth.secret_key import SecretKey
from launchbay.features.secret_providers import rows as store
from launchbay.model.secret_reference import SecretReference
from launchbay.service_types.contract import ProvidedSecret
from launchbay.store.database import Connection


async def note_version(
    connection: Connection,
    key: SecretKey,
    service_id: str,
    reference: SecretReference,
    secret: ProvidedSecret,
    asked_at: datetime,
) -> str | None:
    """Note what version a secret has, and return it; None for what has none.

    Without a version of the provider, it is a fingerprint under the key of the server.
    """
    if secret.version is None or not secret.lasts or "?" in reference.path:
        return None  # it is made at each read
    version = secret.version
    if not version:
        content, purpose = msgspec.json.encode([secret.values, secret.whole]), f"secret of {service_id}"
        known = await store.get_version(connection, service_id=service_id, path=reference.path)
        if known is not None and key.is_fingerprint(known, content, purpose):
            version = known  # maybe of a former key
        else:
            version = key.fingerprint(content, purpose)
    await store.note_version(connection, service_id=service_id, path=reference.path, version=version, seen_at=asked_at)
    return version
